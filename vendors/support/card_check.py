"""Whether the card on an encoder may be written: the one place that every adapter asks, whichever way it read the card.

One rule: a live key of another credential is never overwritten unless a person has confirmed that very key, or it is over.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable

from vendors.port.errors import CardKey, KeyIssueFailed, Reason
from vendors.port.types import IssueInput

from .marks import mark_of, tag_of

IN_USE = "the card still holds a valid key of somebody: lay another card, or confirm that it may be lost"
ANOTHER_CARD = "another card lies on the encoder than the one this key is on: lay the guest's own"


def name_of(reference: str) -> str:
    """Returns the name of a key on a card: 16 hex digits that are equal for equal references and give none away."""
    return hashlib.sha256(f"key-on-card\x1f{reference}".encode()).hexdigest()[:16]


def require_writable(vendor: str, found: Iterable[CardKey], request: IssueInput) -> tuple[CardKey, ...]:
    """Returns the live keys of others that writing the card for this request overwrites, all of them confirmed.

    Raises KeyIssueFailed, reason CARD_IN_USE, for the first that is not: nothing may be written then.
    """
    others = tuple(key for key in found if not is_own(key, request))
    for key in others:
        if key.name not in request.overwrites:
            raise in_use(vendor, key)
    return others


def is_own(key: CardKey, request: IssueInput) -> bool:
    """Says whether the key is the credential's own, made by an earlier attempt."""
    own_tag = tag_of(request.credential_id)
    return key.tag == own_tag or (key.nonce is not None and key.nonce == mark_of(request.meta.idempotency_key))


def in_use(vendor: str, key: CardKey | None) -> KeyIssueFailed:
    """Builds the error for a card that carries another live key. Nothing was written."""
    return KeyIssueFailed(vendor, IN_USE, retriable=False, reason=Reason.CARD_IN_USE, on_card=key or CardKey(""))


def another_card(vendor: str, key: CardKey | None = None) -> KeyIssueFailed:
    """Builds the error for a change that found another card on the encoder than its own. Nothing was written."""
    reason = Reason.CARD_IN_USE if key is not None else Reason.OTHER
    return KeyIssueFailed(vendor, ANOTHER_CARD, retriable=False, reason=reason, on_card=key)


def carries_one_of(found: Iterable[CardKey], names: Collection[str]) -> bool:
    """Says whether one of the keys on the card has one of these marks, tags or names."""
    return any({key.name, key.nonce, key.tag} & set(names) for key in found)
