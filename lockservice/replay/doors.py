"""Holds the ledger against the doors: every key we believe is there must be there and open, and nothing else.

| looked at | how |
|---|---|
| what the doors hold | side by side with our rows: kind, window, and the digits of a PIN |
| every key of the ledger | typed, shown or tapped at its door: it opens inside its window and not outside |
| every key that was shown at the last look and has left the ledger since | the same: it must not open |

One rule: the doors are asked at the simulators, at a moment when nothing is under way; trying leaves no trace there.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import F

from credentials import artifacts
from credentials.models import CredentialDoor, DoorState
from devices.models import LockDevice
from lockservice.core.tenancy import tenant
from vendors.port.secrets import Token
from vendors.port.simulated import DoorAttempt, HeldKey, SimulatorControl
from vendors.port.types import CredentialKind

KeyAtDoor = tuple[str, str, str, datetime, datetime]
"""External id of the lock, kind, what opens, from, until."""

VALUED = frozenset({CredentialKind.PIN_CODE})
"""Kinds of which we know what the door knows them by."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A door where ledger and lock disagree. `what` names no secret."""

    door: str
    what: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was compared: doors that were looked at, keys found equal, keys tried by kind, and the differences."""

    doors_count: int
    keys_count: int
    tried: Mapping[str, int]
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class _Shown:
    """A key as somebody in the corridor presents it."""

    door: str
    kind: CredentialKind
    value: str = field(repr=False)


class DoorCheck:
    """Looks at all doors of a property, again and again. `controls` are the simulators by vendor."""

    def __init__(self, tenant_id: str, property_id: str, controls: Mapping[str, SimulatorControl]) -> None:
        self._tenant_id = tenant_id
        self._property_id = property_id
        self._controls = controls
        self._shown: dict[str, set[_Shown]] = {vendor: set() for vendor in controls}

    def look(self, now: datetime) -> dict[str, Comparison]:
        """Compares at the hotel's present instant, vendor by vendor. Opens a tenant block.

        Raises vendors.port.simulated.SimulatorUnreachable.
        """
        ledger = _read(self._tenant_id, self._property_id)
        return {vendor: self._look_at(vendor, ledger, now) for vendor in self._controls}

    def _look_at(self, vendor: str, ledger: _Ledger, now: datetime) -> Comparison:
        control = self._controls[vendor]
        locks = ledger.locks[vendor]
        labels = {lock.external_id: lock.label for lock in locks.values()}
        rows = [row for row in ledger.rows if row.device_id in locks]
        held = list(control.held(labels))
        present = [row for row in rows if row.state == DoorState.PRESENT]
        resting = [row for row in rows if row.state == DoorState.SUSPENDED]
        expected = Counter(_expected(row, locks, ledger) for row in present)
        found = Counter(_found(key) for key in held if not key.is_resting)
        differences = [*_differences(expected, found, labels), *_resting(resting, held, locks, ledger, labels)]
        in_hand = _in_hand(present, held, locks, ledger)
        differences += _tried(control, in_hand, self._shown[vendor], now, labels)
        self._shown[vendor] = {shown for shown, _ in in_hand}
        tried = Counter(shown.kind.value for shown, _ in in_hand)
        return Comparison(len(locks), sum((expected & found).values()), tried, tuple(differences))


@dataclass(frozen=True, slots=True)
class _Ledger:
    """Our side: locks by vendor and id, rows of keys that are at a door, what holders were given, by credential, and keys that
    ended with their window (external id, kind, from, until): nobody need take them back."""

    locks: Mapping[str, Mapping[str, LockDevice]]
    rows: Sequence[CredentialDoor]
    given: Mapping[str, Token]
    ran_out: Collection[tuple[str, str, datetime, datetime]]

    def digits(self, row: CredentialDoor) -> str:
        """Returns the digits of a PIN; of other kinds nothing."""
        token = self.given.get(row.credential_id) if row.credential.kind in VALUED else None
        return token.reveal() if token else ""


def _read(tenant_id: str, property_id: str) -> _Ledger:
    with tenant(tenant_id):
        locks: dict[str, dict[str, LockDevice]] = defaultdict(dict)
        devices = LockDevice.objects.filter(tenant_id=tenant_id, property_id=property_id).select_related("installation")
        for lock in devices:
            locks[lock.installation.vendor][lock.id] = lock
        ids = [lock.id for lock in devices]
        states = (DoorState.PRESENT, DoorState.SUSPENDED)
        rows = list(
            CredentialDoor.objects.filter(tenant_id=tenant_id, device_id__in=ids, state__in=states).select_related("credential")
        )
        kept = artifacts.current(tenant_id, {row.credential_id for row in rows})
        given = {key_id: artifacts.reveal(row) for key_id, row in kept.items() if row.value_sealed is not None}
        over = CredentialDoor.objects.filter(
            tenant_id=tenant_id, device_id__in=ids, credential__ended_at__gte=F("credential__valid_until")
        ).select_related("credential")
        names = {lock.id: lock.external_id for lock in devices}
        ran_out = {
            (names[row.device_id], row.credential.kind, row.credential.valid_from, row.credential.valid_until) for row in over
        }  # fmt: skip
    return _Ledger(locks, rows, given, ran_out)


def _expected(row: CredentialDoor, locks: Mapping[str, LockDevice], ledger: _Ledger) -> KeyAtDoor:
    start, end = _window(row)
    return (locks[row.device_id].external_id, row.credential.kind, ledger.digits(row), start, end)


def _window(row: CredentialDoor) -> tuple[datetime, datetime]:
    if row.carried_from is None or row.carried_until is None:
        raise ValueError(f"{row.credential_id} is at a door without a window")
    return row.carried_from, row.carried_until


def _found(key: HeldKey) -> KeyAtDoor:
    return (key.door, key.kind.value, key.value if key.kind in VALUED else "", key.opens_from, key.opens_until)


def _differences(expected: Counter[KeyAtDoor], found: Counter[KeyAtDoor], labels: Mapping[str, str]) -> Iterator[Difference]:
    for door, kind, _, start, end in (expected - found).elements():
        yield Difference(labels[door], f"a {kind} of the ledger ({start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}) is not there")
    for door, kind, _, start, end in (found - expected).elements():
        yield Difference(
            labels[door], f"holds a {kind} ({start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}) the ledger does not know"
        )


def _resting(
    rows: Sequence[CredentialDoor],
    held: Sequence[HeldKey],
    locks: Mapping[str, LockDevice],
    ledger: _Ledger,
    labels: Mapping[str, str],
) -> Iterator[Difference]:
    """A suspended key may lie at the door resting, or be gone; what rests there must be one, or one that ran out resting
    (which a clock that was put back shows again)."""
    known = {(locks[row.device_id].external_id, row.credential.kind, ledger.digits(row)) for row in rows}
    for key in held:
        ran_out = (key.door, key.kind.value, key.opens_from, key.opens_until) in ledger.ran_out
        is_known = (key.door, key.kind.value, key.value if key.kind in VALUED else "") in known
        if key.is_resting and not is_known and not ran_out:
            yield Difference(labels[key.door], f"holds a resting {key.kind} that the ledger does not know")


def _in_hand(
    rows: Sequence[CredentialDoor], held: Sequence[HeldKey], locks: Mapping[str, LockDevice], ledger: _Ledger
) -> list[tuple[_Shown, CredentialDoor]]:
    """What holders carry: the PIN or phone's key we gave them; a card is in a pocket, and only the lock knows its number."""
    cards = {_found(key): key.value for key in held if key.kind is CredentialKind.RFID_CARD}
    found = []
    for row in rows:
        kind = CredentialKind(row.credential.kind)
        given = ledger.given.get(row.credential_id)
        value = given.reveal() if given is not None and kind is not CredentialKind.RFID_CARD else None
        value = value or cards.get(_expected(row, locks, ledger))
        if value:
            found.append((_Shown(locks[row.device_id].external_id, kind, value), row))
    return found


def _tried(
    control: SimulatorControl,
    in_hand: Sequence[tuple[_Shown, CredentialDoor]],
    before: set[_Shown],
    now: datetime,
    labels: Mapping[str, str],
) -> Iterator[Difference]:
    gone = sorted(before - {shown for shown, _ in in_hand}, key=lambda shown: (shown.door, shown.value))
    attempts = [DoorAttempt(shown.door, shown.kind, shown.value) for shown in (*(shown for shown, _ in in_hand), *gone)]
    answers = control.try_doors(attempts, now) if attempts else ()
    for (shown, row), answer in zip(in_hand, answers[: len(in_hand)], strict=True):
        start, end = _window(row)
        if answer.is_open != (start <= now < end):
            verb = "opens outside its window" if answer.is_open else "does not open inside its window"
            yield Difference(labels[shown.door], f"a {shown.kind} of the ledger {verb} ({answer.why})")
    for shown, answer in zip(gone, answers[len(in_hand) :], strict=True):
        if answer.is_open:
            yield Difference(labels[shown.door], f"a {shown.kind} that has left the ledger still opens")
