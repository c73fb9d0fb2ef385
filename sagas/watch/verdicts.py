"""Looks again at what the watch suspects, under the locks, and says whether the invariant holds and how it is repaired.

| check | what always holds | repair |
|---|---|---|
| open_work | a door that does not carry what it shall is worked on, or its tries are spent and that was told | it is started |
| live_key | a live key that counts as settled is at its doors as it shall be | its work is started |
| ended_key | a key that is over and counts as settled is at no door | its work is started, before all other |
| stay_without_key | a confirmed stay that has begun has a key, or somebody knows why it has none | it is followed anew |
| key_without_stay | a guest's live key has a stay that stands | the key of a stay that ended is taken back; else none |
| lane | due work of a lane is done | none: processes and vendor are for people |

One rule: a repair starts work through the same doors as an event does; nothing is called and no door's row is changed here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Final

from credentials import locks, stay_notices
from credentials.house import house
from credentials.lifecycle import LIVE, TERMINAL, WAITING, State
from credentials.models import CredentialDoor, KeyCredential, Reservation
from credentials.reservations import CANCELLED, CONFIRMED, ENDED
from credentials.services import KeyBatch
from credentials.targets import Verb, is_left, next_verb
from lockservice.core import clock
from sagas.flows import follow_booking, issue_key, revoke_key
from sagas.intake import PRIORITY_ISSUE, PRIORITY_SECURITY, Start, own_key
from sagas.models import OPEN_STATUSES, Alert, Lane, Saga, SagaStatus
from sagas.outbox import Cause
from sagas.steps import is_spent
from sagas.watch.pages import STUCK_S
from vendors.port.types import RevokeReason

FLOW: Final = "watch"
_EXPLAINS: Final = frozenset({stay_notices.ROOM_WITHOUT_LOCK, stay_notices.NO_KIND_FITS, stay_notices.HELD_SHUT})
"""Warnings of a stay that say why it has no key."""
_TAKING: Final = frozenset({Verb.REVOKE, Verb.SUSPEND})

Repair = Callable[[str], None]
"""Starts the work, given the name of this finding and try. Under the verdict's locks; may raise, then nothing is committed."""


class Standing(StrEnum):
    """HOLDS: all is well. UNDER_WAY: not yet, but somebody works on it or was told. BROKEN: neither."""

    HOLDS = "holds"
    UNDER_WAY = "under_way"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was seen. `detail` is for people, without names; `repair` is there where a rule knows what to do."""

    standing: Standing
    detail: str = ""
    severity: str = "critical"
    property_id: str = ""
    credential_id: str = ""
    reservation_id: str = ""
    repair: Repair | None = field(default=None, compare=False)


HOLDS: Final = Verdict(Standing.HOLDS)
UNDER_WAY: Final = Verdict(Standing.UNDER_WAY)


def open_work(tenant_id: str, credential_id: str) -> Verdict:
    """A key with doors that do not carry what they shall: somebody works on them, or their tries are spent."""
    found = _locked(tenant_id, credential_id)
    if found is None:
        return HOLDS
    batch, key = found
    wanting = _wanting(batch, key)
    if not wanting:
        return HOLDS
    waits = key.state in WAITING and bool(key.waiting_for)
    if waits or _is_worked_on(key) or all(is_spent(key, door, verb) for door, verb in wanting):
        return UNDER_WAY
    what = _doors(len(wanting), "nobody works on")
    return _about(key, what, "critical" if _must_shut(wanting) else "warning", _work_on(batch, key))


def live_key(tenant_id: str, credential_id: str) -> Verdict:
    """A live key that counts as settled: its doors' rows say the same."""
    found = _locked(tenant_id, credential_id)
    if found is None or found[1].state not in LIVE:
        return HOLDS
    batch, key = found
    doors = batch.doors_at(key)
    if key.state in (State.REQUESTED, State.PENDING):
        return UNDER_WAY
    if not doors:
        return _about(key, "a live key has no door at all", "critical")
    wanting = _wanting(batch, key)
    if not wanting:
        return HOLDS
    if key.open_work:
        return UNDER_WAY
    severity = "critical" if _must_shut(wanting) else "warning"
    return _about(key, _doors(len(wanting), "the key counts as settled, and differs at"), severity, _work_on(batch, key))


def ended_key(tenant_id: str, credential_id: str) -> Verdict:
    """A key that is over and counts as settled: no door may hold it."""
    found = _locked(tenant_id, credential_id)
    if found is None or found[1].state not in TERMINAL:
        return HOLDS
    batch, key = found
    wanting = _wanting(batch, key)
    if not wanting:
        return HOLDS
    if key.open_work and _is_worked_on(key):
        return UNDER_WAY
    return _about(key, _doors(len(wanting), f"the key is {key.state}, and may still open"), "critical", _work_on(batch, key))


def stay_without_key(tenant_id: str, reservation_id: str) -> Verdict:
    """A confirmed stay that has begun: it has a key, or a reason that somebody knows."""
    row = locks.lock_reservation(tenant_id, reservation_id)
    now = clock.now()
    if row is None or row.status != CONFIRMED or not row.valid_from <= now < row.valid_until:
        return HOLDS
    batch = KeyBatch.load_stays(tenant_id, [reservation_id], now)
    keys = [key for key in batch.of_stay(reservation_id) if key.incarnation == row.incarnation]
    live = [key for key in keys if key.state in LIVE]
    if live:
        return HOLDS if any(key.state in (State.ACTIVE, State.SUSPENDED) for key in live) else UNDER_WAY
    is_open = bool(locks.open_properties(tenant_id, [row.property_id]))
    is_explained = any(warning["code"] in _EXPLAINS for warning in row.warnings)
    if not is_open or is_explained or _is_held_shut(keys) or _failure_was_told(keys):
        return UNDER_WAY

    def repair(name: str) -> None:
        cause = Cause(correlation_id=reservation_id, actor=FLOW)
        follow_booking.follow(batch, row, row.status, name, cause, is_open=is_open)
        batch.flush()

    detail = "a stay has begun and has no key, nor one on its way; the guest needs an escort until she has one"
    return Verdict(
        Standing.BROKEN, detail, "critical", row.property_id, reservation_id=reservation_id, repair=repair,
    )  # fmt: skip


def key_without_stay(tenant_id: str, credential_id: str) -> Verdict:
    """A guest's live key: a stay of hers stands."""
    found = _locked(tenant_id, credential_id)
    if found is None or found[1].state not in LIVE or found[1].holder_kind != "guest":
        return HOLDS
    batch, key = found
    row = Reservation.objects.filter(tenant_id=tenant_id, reservation_id=key.reservation_id).first()
    if row is None:
        if _was_told(tenant_id, f"unbooked:{key.reservation_id}"):
            return UNDER_WAY
        return _about(key, "no booking ever told of the stay that this key is for", "warning")
    has_ended = row.status in ENDED or row.incarnation != key.incarnation
    if not has_ended:
        return HOLDS
    is_cancelled = row.status == CANCELLED or row.incarnation != key.incarnation
    reason = RevokeReason.CANCELLATION if is_cancelled else RevokeReason.CHECKOUT

    def repair(name: str) -> None:
        cause = Cause(correlation_id=row.reservation_id, actor=FLOW)
        revoke_key.begin(batch, key, reason, own_key(FLOW, name), cause, trigger="stay_ended")
        batch.flush()

    return _about(key, f"the stay is {row.status}, and its key is still {key.state}", "critical", repair)


def lane(tenant_id: str, key: str) -> Verdict:
    """A lane with due work: something came of it lately."""
    now = clock.real_now()
    row = Lane.objects.filter(tenant_id=tenant_id, key=key).first()
    due = Saga.objects.filter(lane=key, status=SagaStatus.DUE.value, tenant_id=tenant_id)
    first = due.order_by("priority", "position").first()
    if row is None or first is None or row.due_since is None:
        return HOLDS
    since = max(filter(None, (row.due_since, row.progressed_at)))
    if now - since < timedelta(seconds=STUCK_S):
        return HOLDS
    held = row.lease_until is not None and row.lease_until > now
    minutes = int((now - since).total_seconds() // 60)
    who = "a process holds it" if held else "no process holds it"
    detail = f"work is due and nothing came of it for {minutes} minutes; {who}; first: {first.flow}"
    property_id = KeyCredential.objects.filter(tenant_id=tenant_id, id=first.credential_id).values_list(
        "property_id", flat=True
    )
    return Verdict(
        Standing.BROKEN, detail, "critical", property_id.first() or "", first.credential_id or "", first.reservation_id or ""
    )


EXAMINE: Final[Mapping[str, Callable[[str, str], Verdict]]] = {
    "open_work": open_work,
    "live_key": live_key,
    "ended_key": ended_key,
    "stay_without_key": stay_without_key,
    "key_without_stay": key_without_stay,
    "lane": lane,
}


def _locked(tenant_id: str, credential_id: str) -> tuple[KeyBatch, KeyCredential] | None:
    """Locks the stay and then the key, and reads its doors; None where the key is gone."""
    plain = KeyCredential.objects.filter(tenant_id=tenant_id, id=credential_id).values_list("reservation_id").first()
    if plain is None:
        return None
    if plain[0]:
        locks.lock_reservation(tenant_id, plain[0])
    batch = KeyBatch.load(tenant_id, [credential_id], clock.now())
    return (batch, batch.keys[credential_id]) if credential_id in batch.keys else None


def _wanting(batch: KeyBatch, key: KeyCredential) -> list[tuple[CredentialDoor, Verb]]:
    return [(door, verb) for door in batch.doors_at(key) if (verb := next_verb(key, door)) is not None]


def _must_shut(wanting: list[tuple[CredentialDoor, Verb]]) -> bool:
    """Says whether somebody may get in who must not."""
    return any(verb in _TAKING and (is_left(door) or door.state == "present" or bool(door.verb)) for door, verb in wanting)


def _is_worked_on(key: KeyCredential) -> bool:
    rows = Saga.objects.filter(tenant_id=key.tenant_id, credential_id=key.id, status__in=OPEN_STATUSES)
    return rows.exists()


def _is_held_shut(keys: list[KeyCredential]) -> bool:
    """Says whether a person took the stay's key back."""
    by_hand = (RevokeReason.SECURITY, RevokeReason.LOST)
    return any(not key.replaced_by and (key.ended_by or key.revoke_reason in by_hand) for key in keys)


def _failure_was_told(keys: list[KeyCredential]) -> bool:
    """Says whether the newest of the keys failed aloud: that is open to people already."""
    newest = max(keys, key=lambda key: (key.requested_at, key.id), default=None)
    return newest is not None and newest.state == State.FAILED and _was_told(newest.tenant_id, f"issue:{newest.id}")


def _was_told(tenant_id: str, cause: str) -> bool:
    return Alert.objects.filter(tenant_id=tenant_id, key=cause).exists()


def _work_on(batch: KeyBatch, key: KeyCredential) -> Repair:
    """Returns the repair that starts a saga on the key's doors, with its tries anew."""

    def repair(name: str) -> None:
        wanting = _wanting(batch, key)
        for door, _ in wanting:
            door.due_at, door.final, door.attempts = None, False, 0
            batch.touch_door(door)
        batch.retarget(key)
        taking = next((door for door, verb in wanting if verb in _TAKING), None)
        lead = issue_key.vendor_is_called_at(house(key.tenant_id, key.property_id), key)
        waits = key.state == State.REQUESTED and lead is not None and lead > batch.now
        batch.start(
            Start(
                flow=FLOW,
                key=own_key(FLOW, name),
                lane=taking.lane if taking is not None else issue_key.first_lane(batch, key),
                lane_width=issue_key.lane_width(batch, key),
                installation_id=key.installation_id,
                credential_id=key.id,
                reservation_id=key.reservation_id,
                priority=PRIORITY_SECURITY if taking is not None else PRIORITY_ISSUE,
                timer=lead if waits else None,
            ),
            Cause(correlation_id=key.reservation_id or key.id, actor=FLOW),
        )
        batch.flush()

    return repair


def _doors(count: int, what: str) -> str:
    return f"{what} {count} of its doors"


def _about(key: KeyCredential, detail: str, severity: str, repair: Repair | None = None) -> Verdict:
    return Verdict(Standing.BROKEN, detail, severity, key.property_id, key.id, key.reservation_id or "", repair)
