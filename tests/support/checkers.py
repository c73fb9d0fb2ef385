"""What must hold after any run, whatever was duplicated, reordered, killed or refused.

Rule: the doors are asked, not believed: what a lock holds and whether it opens comes from the simulator's control port. Every
finding is a sentence; an empty list means that all is well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from credentials import artifacts
from credentials.lifecycle import BY_NAME, LIVE, State
from credentials.models import CredentialDoor, KeyCredential, Transition
from devices.models import LockDevice
from lockservice.core.tenancy import tenant
from sagas.events import envelope, registry, validate
from sagas.models import OutboxEvent, Saga
from tests.support.hotel import Hotel
from vendors.support.marks import tag_in, tag_of

FINAL = frozenset({"done", "dead"})


@dataclass(frozen=True)
class KeyAtDoor:
    """One key in one lock's memory. `tag` names the credential; empty for a key that nobody here put there."""

    door: str
    tag: str
    kind: str
    value: str
    valid_from: datetime
    valid_until: datetime
    suspended: bool


class Doors(Protocol):
    """A vendor's simulator as checkers ask it, see `MockDoors`."""

    def held(self) -> list[KeyAtDoor]: ...

    def opens(self, door: str, kind: str, value: str, at: datetime | None = None) -> bool: ...


class MockDoors:
    """The mock's control port: `ask(path, body or None)` returns the answer's JSON. `doors` are the ones to look at."""

    def __init__(self, ask: Callable[[str, dict[str, Any] | None], Any], doors: Iterable[str]) -> None:
        self._ask = ask
        self._doors = list(doors)

    def held(self) -> list[KeyAtDoor]:
        return [
            KeyAtDoor(
                door["device"], tag_in(key["name"]) or "", key["kind"], key["value"], datetime.fromisoformat(key["validFrom"]),
                datetime.fromisoformat(key["validUntil"]), key["suspended"],
            )
            for door in self._ask(f"/dump?device={','.join(self._doors)}", None)["doors"]
            for key in door["keys"]
        ]  # fmt: skip

    def opens(self, door: str, kind: str, value: str, at: datetime | None = None) -> bool:
        body: dict[str, Any] = {"device": door, "kind": kind, "value": value, "dry": True}
        return bool(self._ask("/try", body | ({"at": at.isoformat()} if at else {}))["open"])


def check(hotel: Hotel, doors: Doors, *, published: bool = True, dead_sagas: bool = False) -> None:
    """Raises AssertionError with every finding. See `findings`."""
    found = findings(hotel, doors, published=published, dead_sagas=dead_sagas)
    assert not found, "\n".join(["the books and the doors disagree:", *found])


def findings(hotel: Hotel, doors: Doors, *, published: bool = True, dead_sagas: bool = False) -> list[str]:
    """Everything that is wrong in one hotel. `published` asks that no event waits; `dead_sagas` allows sagas to have given up."""
    with tenant(hotel.tenant_id):
        return [
            *_at_the_doors(hotel, doors),
            *_stories(hotel.tenant_id),
            *_events(hotel.tenant_id, published=published),
            *_sagas(hotel.tenant_id, allow_dead=dead_sagas),
        ]


def _at_the_doors(hotel: Hotel, doors: Doors) -> Iterator[str]:
    devices = {row.id: row for row in LockDevice.objects.filter(tenant_id=hotel.tenant_id)}
    ours = {row.external_id for row in devices.values()}
    held: dict[tuple[str, str], list[KeyAtDoor]] = defaultdict(list)
    for key in doors.held():
        if key.door in ours:
            held[key.door, key.tag].append(key)
    credentials = {row.id: row for row in KeyCredential.objects.filter(tenant_id=hotel.tenant_id)}
    current = artifacts.current(hotel.tenant_id, credentials)
    for row in CredentialDoor.objects.filter(tenant_id=hotel.tenant_id).order_by("id"):
        credential, door = credentials[row.credential_id], devices[row.device_id].external_id
        there = held.pop((door, tag_of(credential.id)), [])
        pin = artifacts.open_pin(current[credential.id]) if credential.id in current else None
        yield from _one_door(f"{credential.id} ({credential.state}) at {row.device_id}", credential, row, there)
        if pin is not None:
            yield from _asked(credential, row, door, pin.reveal(), doors)
    for (door, tag), there in held.items():
        yield f"orphan: {len(there)} keys tagged {tag or 'by a stranger'} at {door}"


def _one_door(what: str, credential: KeyCredential, row: CredentialDoor, there: list[KeyAtDoor]) -> Iterator[str]:
    carries = credential.state in (State.ACTIVE, State.SUSPENDED) and not row.dropped
    if row.verb:
        yield f"{what}: the last call's effect is still open ({row.verb})"
    if not carries:
        if there:
            yield f"{what}: the lock still holds {len(there)} keys"
        return
    rests_without_key = credential.state == State.SUSPENDED and row.state in ("none", "absent")
    if len(there) != 1:
        if there or not rests_without_key:
            yield f"{what}: {len(there)} keys in the lock, 1 intended"
        return
    (key,) = there
    window = (credential.valid_from, credential.valid_until)
    if not key.suspended and (key.valid_from, key.valid_until) != window:
        yield f"{what}: the lock carries {key.valid_from} to {key.valid_until}, the book says {window[0]} to {window[1]}"
    if key.suspended != (credential.state == State.SUSPENDED):
        yield f"{what}: suspended is {key.suspended} in the lock"


def _asked(credential: KeyCredential, row: CredentialDoor, door: str, pin: str, doors: Doors) -> Iterator[str]:
    at = credential.valid_from + (credential.valid_until - credential.valid_from) / 2
    opens = doors.opens(door, "pin_code", pin, at)
    shall = credential.state == State.ACTIVE and not row.dropped
    if opens != shall:
        yield f"{credential.id} ({credential.state}) at {row.device_id}: the PIN {'opens' if opens else 'does not open'}"


def _stories(tenant_id: str) -> Iterator[str]:
    """Only the moves of the lifecycle table, each with its one event."""
    events = {row.id: row for row in OutboxEvent.objects.filter(tenant_id=tenant_id)}
    lines: dict[str, list[Transition]] = defaultdict(list)
    for row in Transition.objects.filter(tenant_id=tenant_id).order_by("credential_id", "sequence"):
        lines[row.credential_id].append(row)
    for credential in KeyCredential.objects.filter(tenant_id=tenant_id):
        story = lines.pop(credential.id, [])
        yield from _story(credential, story)
        for line in story:
            event = events.pop(line.event_id, None)
            if event is None:
                yield f"{credential.id}: {line.move} has no event"
            elif (event.subject, event.ordering_key, event.sequence) != (line.subject, credential.id, line.sequence):
                yield f"{credential.id}: {line.move} tells {line.subject}, its event is {event.subject} {event.sequence}"
    yield from (f"a story without its credential: {key}" for key in lines)
    yield from (f"{row.ordering_key}: {row.subject} belongs to no move" for row in events.values())


def _story(credential: KeyCredential, story: list[Transition]) -> Iterator[str]:
    state = ""
    if [line.sequence for line in story] != list(range(1, credential.event_sequence + 1)):
        yield f"{credential.id}: sequences {[line.sequence for line in story]}, {credential.event_sequence} told"
    for line in story:
        if line.source != state:
            yield f"{credential.id}: {line.move} starts from {line.source!r}, it was {state!r}"
        state = line.target
        if line.move in ("request", "note"):
            continue
        move = BY_NAME[line.move]
        if line.source not in move.sources or line.target != move.target:
            yield f"{credential.id}: {line.move} from {line.source} to {line.target} is no legal move"
        if line.subject != f"melmastoon.lock.credential.{move.event}.v1":
            yield f"{credential.id}: {line.move} emitted {line.subject}"
    if state != credential.state:
        yield f"{credential.id}: the story ends {state}, the row says {credential.state}"
    if [line.move for line in story[:1]] != ["request"]:
        yield f"{credential.id}: the story does not begin with the request"


def _events(tenant_id: str, *, published: bool) -> Iterator[str]:
    sequences: dict[str, list[int]] = defaultdict(list)
    for row in OutboxEvent.objects.filter(tenant_id=tenant_id).order_by("ordering_key", "sequence"):
        sequences[row.ordering_key].append(row.sequence)
        body = envelope.decode(bytes(row.body))
        validate.validate(body.subject, body.data)
        told = (body.tenant_id, body.subject, body.ordering_key, body.sequence, body.id)
        if told != (tenant_id, row.subject, row.ordering_key, row.sequence, row.id):
            yield f"event {row.id}: its body says {told}"
        if row.topic != registry.spec(row.subject).topic:
            yield f"event {row.id}: topic {row.topic}"
        if published and row.published_at is None:
            yield f"event {row.id} ({row.subject}) was never published"
    for key, given in sequences.items():
        if given != list(range(1, len(given) + 1)):
            yield f"{key}: sequences {given}"


def _sagas(tenant_id: str, *, allow_dead: bool) -> Iterator[str]:
    for row in Saga.objects.filter(tenant_id=tenant_id):
        if row.status not in FINAL or (row.status == "dead" and not allow_dead):
            yield f"saga {row.id} ({row.flow}) is {row.status}: {row.error_code} {row.error_detail}"
    live: dict[tuple[Any, ...], int] = defaultdict(int)
    for key in KeyCredential.objects.filter(tenant_id=tenant_id, reservation_id__isnull=False, state__in=sorted(LIVE)):
        live[key.reservation_id, key.incarnation, key.installation_id, key.ordinal] += 1
    yield from (f"{count} live credentials for {intended}" for intended, count in live.items() if count > 1)


class TtlockDoors:
    """The TTLock simulator's control port. A resting key is one whose period has ended before the simulator's present.

    Raises AssertionError where the vendor's cloud and the door itself disagree.
    """

    def __init__(self, ask: Callable[[str, dict[str, Any] | None], Any], locks: Iterable[str]) -> None:
        self._ask = ask
        self._locks = list(locks)

    def held(self) -> list[KeyAtDoor]:
        dumps = [self._ask(f"/dump?lockId={lock}", None) for lock in self._locks]
        return [key for dump in dumps for lock in dump["locks"] for key in self._lock(lock, int(dump["now"]))]

    def opens(self, door: str, kind: str, value: str, at: datetime | None = None) -> bool:
        body: dict[str, Any] = {"device": int(door), "kind": kind, "value": value, "dry": True}
        return bool(self._ask("/try", body | ({"at": at.isoformat()} if at else {}))["open"])

    def _lock(self, lock: dict[str, Any], now_ms: int) -> Iterator[KeyAtDoor]:
        listed = {row["keyboardPwd"]: row for row in lock["cloud"]["passcodes"]}
        at_door = {row["value"] for row in lock["door"]["passcodes"]}
        assert set(listed) <= at_door, f"lock {lock['lockId']}: the cloud lists codes the lock does not hold"
        for value in sorted(at_door):
            row = listed.get(value)
            if row is None:
                instant = datetime.fromtimestamp(now_ms / 1000, UTC)
                yield KeyAtDoor(str(lock["lockId"]), "", "pin_code", value, instant, instant, suspended=False)
                continue
            start, end = (datetime.fromtimestamp(row[name] / 1000, UTC) for name in ("startDate", "endDate"))
            resting = row["endDate"] <= now_ms
            yield KeyAtDoor(str(lock["lockId"]), tag_in(row["name"]) or "", "pin_code", value, start, end, suspended=resting)
