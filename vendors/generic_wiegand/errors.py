"""Turns a desk's refusals, and a controller's words, into the port's errors: two tables.

One rule: the code decides, the desk's prose never; and what nobody can tell is UNKNOWN, not an error.
Source: fact sheet §4 (the mapping is a proposal).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from vendors.port.errors import (
    CardEncoderOffline,
    CardKey,
    DeviceNotPaired,
    KeyIssueFailed,
    KeyRevokeFailed,
    LockError,
    Reason,
    VendorUnreachable,
)
from vendors.port.relay import JobStanding, JobState, Refusal
from vendors.support.card_check import IN_USE, in_use
from vendors.support.scrub import scrub

from .manifest_code import CODE


@dataclass(frozen=True, slots=True)
class Row:
    """What a code means to us."""

    kind: type[LockError]
    meaning: str
    retriable: bool
    reason: Reason = Reason.OTHER


REFUSALS: Mapping[Refusal, Row] = {
    Refusal.ENCODER_OFFLINE: Row(CardEncoderOffline, "the desk cannot reach its encoder", True, Reason.DOOR_OFFLINE),
    Refusal.ENCODER_BUSY: Row(CardEncoderOffline, "another program holds the encoder", True, Reason.BUSY),
    Refusal.CARD_UNUSABLE: Row(KeyIssueFailed, "the card cannot be written: use another", True),
    Refusal.CARD_SWAPPED: Row(KeyIssueFailed, "the card was changed for another one: start again, with a fresh card", True),
    Refusal.CARD_IN_USE: Row(KeyIssueFailed, IN_USE, False, Reason.CARD_IN_USE),
    Refusal.VERIFY_FAILED: Row(KeyIssueFailed, "what was written does not read back: discard the card", True),
    Refusal.DOES_NOT_FIT: Row(KeyIssueFailed, "the card number does not fit the format of the readers", False, Reason.SETTINGS),
    Refusal.NOT_SUPPORTED: Row(KeyIssueFailed, "the desk's encoder cannot do this", False, Reason.KIND_UNSUPPORTED),
    Refusal.NOT_DONE: Row(KeyIssueFailed, "the desk was cut off before anything was done", True),
    Refusal.FAILED: Row(KeyIssueFailed, "the desk could not do it", False),
}

WORDS: Mapping[str, Row] = {
    "door_unknown": Row(DeviceNotPaired, "the controller has no such door", False),
    "door_offline": Row(VendorUnreachable, "the controller does not reach the door", True, Reason.DOOR_OFFLINE),
    "list_full": Row(KeyIssueFailed, "the controller's list is full", False, Reason.DOOR_FULL),
    "number_taken": Row(KeyIssueFailed, "the card is another guest's at this door: use another", False),
    "entry_missing": Row(KeyIssueFailed, "the key is no longer in the controller's list", False),
    "held_back": Row(KeyIssueFailed, "kept while the new door is not reached", True),
    "not_done": Row(KeyIssueFailed, "the desk was cut off before this door", True),
}


def of_standing(standing: JobStanding, *, revoking: bool = False) -> LockError:
    """Returns the error of a job that ended without effect."""
    if standing.state is JobState.EXPIRED:
        text = "nobody laid a card on the encoder in time" if standing.stage else "the desk did not take it up in time"
        return KeyIssueFailed(CODE, text, retriable=False, reason=Reason.NO_CARD)
    if standing.state is JobState.CANCELLED:
        return KeyIssueFailed(CODE, "called off before the card was written", retriable=False)
    if standing.refusal is Refusal.CARD_IN_USE:
        held = keys_in(standing, "held")
        return in_use(CODE, held[0] if held else None)
    row = REFUSALS[standing.refusal or Refusal.FAILED]
    return _made(row, standing.detail, revoking=revoking)


def keys_in(standing: JobStanding, name: str) -> tuple[CardKey, ...]:
    """Reads the keys on the card that a desk tells of: `held` are in the way, `overwritten` were. A row that makes no sense is
    left out."""
    rows = standing.result.get(name)
    return tuple(_key_in(row) for row in rows if isinstance(row, dict) and row.get("name")) if isinstance(rows, list) else ()


def _key_in(row: Mapping[str, object]) -> CardKey:
    try:
        until = datetime.fromisoformat(str(row.get("until")))
    except ValueError:
        until = None
    return CardKey(str(row["name"]), tag=str(row["tag"]) if row.get("tag") else None, valid_until=until)


def of_word(word: str, device_id: str, *, revoking: bool = False) -> LockError:
    """Returns the error of one door."""
    row = WORDS.get(word) or Row(KeyIssueFailed, "the controller refused", False)
    error = _made(row, "", revoking=revoking)
    error.device_id = device_id
    return error


def unanswered(text: str = "the desk that began it has not said what came of it") -> LockError:
    """Returns what explains an unknown outcome. No VendorUnreachable: the relay works, a desk is away."""
    return CardEncoderOffline(CODE, text, retriable=True, reason=Reason.TIMEOUT)


def _made(row: Row, detail: str, *, revoking: bool) -> LockError:
    kind = KeyRevokeFailed if revoking and row.kind is KeyIssueFailed else row.kind
    text = f"{row.meaning} ({scrub(detail)})" if detail else row.meaning
    return kind(CODE, text, retriable=row.retriable, reason=row.reason)
