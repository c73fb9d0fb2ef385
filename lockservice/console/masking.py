"""Shows a message's body without its secrets and without its guest.

One rule: it errs on the side of hiding, and whatever the bytes are, the result is text of bounded size.
"""

from __future__ import annotations

import json
import re
from typing import Any

from lockservice.settings.scrubber import MASK, is_secret_name, scrub_text

SHOWN_BYTES = 64 * 1024
SHOWN_RAW_CHARS = 2_000
MAX_DEPTH = 12

# Compared as the scrubber does, without case, hyphens and underscores.
_GUEST_NAMES = frozenset({"displayname", "firstname", "lastname", "fullname", "guestname", "name", "documentnumber", "address"})
_EMAIL = re.compile(r"[^\s\"'<>@]+@[^\s\"'<>@]+\.[^\s\"'<>@]+")
_LONG_NUMBER = re.compile(r"\+?\d(?:[ -]?\d){3,}")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def readable(body: bytes, *, with_guest: bool = False) -> str:
    """Returns JSON indented and masked, or the first characters of what is no JSON with all numbers and addresses masked."""
    raw = bytes(body)
    if len(raw) <= SHOWN_BYTES:
        try:
            document = json.loads(raw.decode("utf-8"))
            return _printable(json.dumps(masked(document, with_guest=with_guest), ensure_ascii=False, indent=2))
        except (UnicodeDecodeError, ValueError, RecursionError):
            pass  # no JSON: shown as text below
    text = scrub_text(raw[: 4 * SHOWN_RAW_CHARS].decode("utf-8", errors="replace"))[:SHOWN_RAW_CHARS]
    text = _LONG_NUMBER.sub(MASK, _EMAIL.sub(MASK, text))
    return _printable(text)


def masked(value: Any, *, with_guest: bool = False, depth: int = 0) -> Any:
    """Returns a copy in which secrets, and unless `with_guest` names and contacts, are replaced by a fixed mark."""
    if depth >= MAX_DEPTH and isinstance(value, dict | list):
        return "[too deep]"
    if isinstance(value, dict):
        return {
            key: MASK if _hides(str(key), inner, with_guest) else masked(inner, with_guest=with_guest, depth=depth + 1)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [masked(inner, with_guest=with_guest, depth=depth + 1) for inner in value]
    if isinstance(value, str):
        return _EMAIL.sub(MASK, scrub_text(value))
    return value


def _hides(name: str, value: Any, with_guest: bool) -> bool:
    plain = name.replace("_", "").replace("-", "").lower()
    if plain == "artifact" and isinstance(value, dict):
        return False  # carries a reference under its own telling name
    return is_secret_name(name) or (not with_guest and plain in _GUEST_NAMES)


def _printable(text: str) -> str:
    """Makes control and direction characters visible, so that they cannot rearrange the page."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def readable_line(text: str) -> str:
    """Returns a short text of ours or a vendor's without secrets, addresses and direction marks."""
    return _printable(_EMAIL.sub(MASK, scrub_text(text)))
