"""Decides whether a key that is made for a stay rests, because what it follows rests.

| the key made | follows |
|---|---|
| takes the place of one that was there | that one alone: what was done to it stands, and what was done to others is theirs |
| takes the place of one that never was there | what that one was to do, and the stay's first keys |
| takes nobody's place, as at another lock system | the first keys that the stay had until now, and those it had here |
| as before, and the stay had none until now | the first keys that it ever had |

Where a person ended the first key and gave the guest another beside it, that one counts as the first.

One rule: a suspension is said by one key at a time (`rest_key.why`). A key that is over says it until another has followed it;
from then on a resumption of that one is a resumption of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from credentials import arrival_signs
from credentials.house import House, house
from credentials.lifecycle import LIVE, TERMINAL
from credentials.models import KeyCredential, Reservation
from credentials.reservations import FRAUD, NO_SHOW
from credentials.services import KeyBatch
from sagas.flows import rest_key
from sagas.intake import own_key
from sagas.outbox import Cause
from vendors.port.types import SuspendReason


def keep_all(
    batch: KeyBatch, row: Reservation, known: list[KeyCredential], moved: Mapping[str, KeyCredential], cause: Cause
) -> None:
    """Lets those keys rest that a version of a stay made and that follow one which rests.

    `known` are the keys that were live when it came, the ones it ended included; `moved` names those that a further key was
    made for without succeeding it. The projection and the stay's keys are locked.
    """
    earlier = {key.id for key in known}
    stay = [key for key in batch.of_stay(row.reservation_id) if key.incarnation == row.incarnation]
    made = [key for key in stay if key.state in LIVE and key.id not in earlier]
    followed = [(key, _followed(stay, known, key, moved.get(key.id), made)) for key in made]
    for key, others in followed:
        _keep(batch, row, key, others, cause)
    for key, others in followed:
        _pass_on(batch, key, others)


def keep(batch: KeyBatch, row: Reservation | None, made: KeyCredential, failed: KeyCredential, cause: Cause) -> None:
    """Lets a key in place of a failed one rest where what it follows rests. All keys of the stay are in the batch."""
    stay = [key for key in batch.of_stay(str(made.reservation_id)) if key.incarnation == made.incarnation]
    known = [key for key in stay if key.state in LIVE and key is not made]
    followed = _followed(stay, known, made, failed)
    _keep(batch, row, made, followed, cause)
    _pass_on(batch, made, followed)


def no_show_due(place: House, row: Reservation) -> datetime:
    """Returns when the keys of a guest who does not come are suspended."""
    return row.updated_at + timedelta(hours=place.policy.no_show_suspend_after_hours)


def _followed(
    stay: list[KeyCredential],
    known: list[KeyCredential],
    made: KeyCredential,
    origin: KeyCredential | None,
    made_now: Iterable[KeyCredential] = (),
) -> list[KeyCredential]:
    """Returns the keys that a made one follows. What another of `made_now` takes the place of still speaks for the guest."""
    before = [key for key in stay if key.replaced_by == made.id and key is not origin]
    before += [origin] if origin is not None else []
    if any(key.issued_at is not None for key in before):
        return before
    first = [key for key in known if not key.ordinal] or [key for key in known if key.holder_id == made.holder_id]
    places = {None, "", *(key.id for key in made_now)}
    over = [key for key in stay if key.state in TERMINAL and not key.ordinal and key.replaced_by in places]
    here = [key for key in over if key.installation_id == made.installation_id]
    return [*before, *first, *(here if first else over)]


def _keep(
    batch: KeyBatch, row: Reservation | None, made: KeyCredential, followed: Iterable[KeyCredential], cause: Cause
) -> None:
    reason = next((reason for key in followed if (reason := _lasting(row, key))), None) or _of_booking(batch, row)
    if reason is not None:
        rest_key.suspend_soon(batch, made, reason, own_key("follows-resting", made.id), cause)


def _lasting(row: Reservation | None, key: KeyCredential) -> SuspendReason | None:
    """Returns why the key rests, but for a no-show that the booking takes back, or of a guest who came first."""
    reason = rest_key.why(key)
    if reason is not SuspendReason.NO_SHOW:
        return reason
    is_so = row is not None and row.status == NO_SHOW
    return reason if is_so and (key.issued_at is not None or rest_key.is_to_rest(key)) else None


def _of_booking(batch: KeyBatch, row: Reservation | None) -> SuspendReason | None:
    """Returns why every key of the stay rests now: the guest has not come, or the stay is under review."""
    if row is not None and row.status == FRAUD:
        return SuspendReason.FRAUD_REVIEW
    if row is None or row.status != NO_SHOW or no_show_due(house(batch.tenant_id, row.property_id), row) > batch.now:
        return None
    has_come = arrival_signs.has_come(batch.tenant_id, row.reservation_id, row.incarnation)
    return None if has_come else SuspendReason.NO_SHOW


def _pass_on(batch: KeyBatch, made: KeyCredential, followed: Iterable[KeyCredential]) -> None:
    """Lets keys that are over say no more why they rested, now that another does; a companion does not speak for a guest."""
    for key in followed:
        if key.state in TERMINAL and key.suspend_reason and (key.ordinal or not made.ordinal):
            key.suspend_reason = ""
            batch.touch(key)
