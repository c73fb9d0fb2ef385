"""Says by whom a stay is held shut: a key that a person revoked, which no change of the booking brings back.

One rule: only a person's own revoke holds a stay shut (`lifecycle.COMES_BACK` has what does not); the stay names the person.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from credentials import stay_notices
from credentials.lifecycle import LIVE, TERMINAL
from credentials.models import KeyCredential, Reservation
from credentials.reservations import ENDED
from sagas.events.instants import format_instant


def is_held(key: KeyCredential) -> bool:
    """Says whether a person ended the key, so that no booking gives another in its place."""
    return key.state in TERMINAL and bool(key.revoke_reason) and not key.end_trigger


def warnings_of(
    row: Reservation, keys: Iterable[KeyCredential], now: datetime, names: Mapping[str, str] | None = None
) -> list[dict[str, str]]:
    """Returns the stay's warnings: those kept with it, and one for each lock system at which a person's revoke holds it shut.

    None is told of a lock system whose rooms the guest has left, where keys of others open all that are hers now. `names` are
    people's names by the id that records name them by; without it the id stands.
    """
    kept = list(row.warnings)
    if row.status in ENDED or row.valid_until <= now:
        return kept
    here: dict[str, list[KeyCredential]] = {}
    opened: set[str] = set()
    for key in sorted(keys, key=lambda key: key.id):
        if key.incarnation == row.incarnation:
            here.setdefault(key.installation_id, []).append(key)
            opened.update(key.rooms if key.state in LIVE else ())
    if row.rooms and opened.issuperset(row.rooms):
        return kept
    for stay in here.values():
        first = [key for key in stay if not key.ordinal and not key.replaced_by]
        if any(key.state in LIVE for key in stay) or not first or not is_held(first[-1]):
            continue
        kept.append({"code": stay_notices.HELD_SHUT, "detail": _in_words(first[-1], names or {})})
    return kept


def _in_words(key: KeyCredential, names: Mapping[str, str]) -> str:
    who = names.get(key.ended_by, key.ended_by) or "a person"
    at = format_instant(key.ended_at) if key.ended_at else "an unknown time"
    return (
        f"the key was revoked ({key.revoke_reason}) by {who} at {at}; no change of the booking brings it back, give one by hand"
    )
