"""The mark we leave on a key at the vendor, so that a lost answer can be resolved by looking.

One rule: a mark says nothing of the guest, and can be computed again from the idempotency key and the credential's id alone.
"""

from __future__ import annotations

import hashlib
import re

_SHA256_HEX = re.compile(r"[0-9a-f]{64}")
_MARK = re.compile(r"gk-[0-9a-f]{16}")
_TAG = re.compile(r"c-[0-9a-f]{16}")


def mark_of(idempotency_key: str) -> str:
    """Returns `gk-` and 16 hex digits: the head of the key where it is a SHA-256 in hex, else the head of its SHA-256.

    The same over all retries of one intended effect.
    """
    if _SHA256_HEX.fullmatch(idempotency_key):
        return f"gk-{idempotency_key[:16]}"
    return f"gk-{hashlib.sha256(idempotency_key.encode()).hexdigest()[:16]}"


def tag_of(credential_id: str) -> str:
    """Returns `c-` and 16 hex digits of the credential, the same for every key ever made for it."""
    return f"c-{hashlib.sha256(credential_id.encode()).hexdigest()[:16]}"


def key_name(idempotency_key: str, credential_id: str) -> str:
    """Returns the name a key gets at the vendor, 38 ASCII characters: mark, blank, tag."""
    return f"{mark_of(idempotency_key)} {tag_of(credential_id)}"


def is_mark(text: str) -> bool:
    """Says whether a text is a mark of ours and nothing else."""
    return _MARK.fullmatch(text) is not None


def mark_in(name: str | None) -> str | None:
    """Finds our mark in a name read at the vendor; None on a stranger's key."""
    found = _MARK.search(name or "")
    return found.group() if found else None


def tag_in(name: str | None) -> str | None:
    """Finds the credential's tag in a name read at the vendor; None on a stranger's key."""
    found = _TAG.search(name or "")
    return found.group() if found else None
