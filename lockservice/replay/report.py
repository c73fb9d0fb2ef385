"""The closing report of a replay: what was told, what became of it, and whether everything agrees.

One rule: every number is counted from rows, doors or the bus, none from what the replay meant to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from credentials.lifecycle import LIVE, WAITING
from credentials.models import KeyCredential, Reservation
from lockservice.core.tenancy import tenant
from lockservice.replay.doors import Comparison
from lockservice.replay.stays import Step
from lockservice.replay.timeline import Ending
from sagas.flows.issue_key import DESK
from sagas.models import DeadLetter, OutboxEvent, Saga, SagaStatus, SagaStep

FINAL_STATUS = {Step.CANCELLED: "cancelled", Step.NO_SHOW: "no_show", Step.CHECKED_OUT: "checked_out"}
TOLD = ("issued", "updated", "suspended", "unsuspended", "revoked", "failed")
SHOWN = 10


@dataclass(frozen=True, slots=True)
class Counts:
    """What a tenant holds: events by the last part of their subject, steps of sagas that called the vendor, keys by state."""

    events: Mapping[str, int]
    vendor_steps_count: int
    keys: Mapping[str, int]
    failure_codes: Mapping[str, int]

    @property
    def events_count(self) -> int:
        """All events ever promised."""
        return sum(self.events.values())


@dataclass
class VendorShare:
    """What one vendor had of it. `keys` counts them by kind and then by how they ended; `waiting_most` is the most keys that
    were seen waiting for the desk at once, `tried` the keys that were presented at its doors, by kind."""

    new_calls_count: int = 0
    doors_count: int = 0
    keys_compared_count: int = 0
    differences_count: int = 0
    waiting_most: int = 0
    tried: dict[str, int] = field(default_factory=dict)
    keys: dict[str, dict[str, int]] = field(default_factory=dict)

    def line(self) -> str:
        """Returns it for a person."""
        keys = "; ".join(
            f"{kind}: {', '.join(f'{number} {state}' for state, number in sorted(states.items()))}"
            for kind, states in sorted(self.keys.items())
        )
        waited = f", up to {self.waiting_most} waited for the desk" if self.waiting_most else ""
        tried = f", {sum(self.tried.values())} tried" if self.tried else ""
        return (
            f"{self.new_calls_count} requests; {self.doors_count} doors, {self.keys_compared_count} keys equal{tried}, "
            f"{self.differences_count} differences; {keys}{waited}"
        )


@dataclass
class Report:
    """The whole outcome. `faults` says in words what does not agree; empty means that everything does."""

    property_name: str
    vendor: str
    bookings_count: int
    told_count: int
    steps_count: int
    seconds: float
    before: Counts
    after: Counts
    vendors: dict[str, VendorShare]
    comparisons_count: int = 0
    events_seen_count: int = 0
    events_repeated_count: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def new_events_count(self) -> int:
        """Events this run brought."""
        return self.after.events_count - self.before.events_count

    @property
    def new_calls_count(self) -> int:
        """Requests this run made at the vendor."""
        return sum(share.new_calls_count for share in self.vendors.values())

    @property
    def keys_compared_count(self) -> int:
        """Keys found equal, over all looks."""
        return sum(share.keys_compared_count for share in self.vendors.values())

    @property
    def differences_count(self) -> int:
        """Differences, over all looks."""
        return sum(share.differences_count for share in self.vendors.values())

    def add_comparisons(self, looks: Mapping[str, Comparison], when: str) -> None:
        """Takes in one look at all doors."""
        self.comparisons_count += 1
        for vendor, found in looks.items():
            share = self.vendors[vendor]
            share.keys_compared_count += found.keys_count
            share.doors_count = found.doors_count
            share.differences_count += len(found.differences)
            share.tried = dict(Counter(share.tried) + Counter(found.tried))
            self.add_faults("door", [f"{when}: {vendor} {item.door} {item.what}" for item in found.differences])

    def add_waiting(self, waiting: Mapping[str, int]) -> None:
        """Takes in how many keys wait for the desk now, by vendor."""
        for vendor, number in waiting.items():
            self.vendors[vendor].waiting_most = max(self.vendors[vendor].waiting_most, number)

    def add_faults(self, what: str, texts: Sequence[str]) -> None:
        """Takes in faults of one sort; of many, the first few and their number."""
        self.faults.extend(f"{what}: {text}" for text in texts[:SHOWN])
        if len(texts) > SHOWN:
            self.faults.append(f"{what}: {len(texts) - SHOWN} more")

    def as_json(self) -> dict[str, Any]:
        """Returns all of it as plain data."""
        extra = {
            "new_events_count": self.new_events_count,
            "new_calls_count": self.new_calls_count,
            "keys_compared_count": self.keys_compared_count,
            "differences_count": self.differences_count,
            "agrees": not self.faults,
        }
        return {**asdict(self), **extra}

    def lines(self) -> list[str]:
        """Returns it for a person."""
        told = ", ".join(f"{self.after.events.get(name, 0)} {name}" for name in TOLD)
        abandoned = self.after.failure_codes.get("ABANDONED", 0)
        parts = {
            "bookings": f"{self.bookings_count} in {self.told_count} events, {self.steps_count} steps, {self.seconds:.0f} s",
            "keys": f"{told} ({abandoned} of these were called off before they existed)",
            "events": f"{self.new_events_count} new, {self.after.events_count} in all",
            "on the bus": f"{self.events_seen_count} events by schema and place, {self.events_repeated_count} repeated",
            "ledger against doors": f"{self.comparisons_count} looks, {self.keys_compared_count} keys equal, "
            f"{self.differences_count} differences",
            **{vendor: share.line() for vendor, share in self.vendors.items()},
        }
        verdict = "NOT everything agrees:" if self.faults else "everything agrees"
        facts = [f"  {name}: {text}" for name, text in parts.items()]
        return [f"{self.property_name} on {self.vendor}", *facts, f"  {verdict}", *(f"    {fault}" for fault in self.faults)]


def count(tenant_id: str) -> Counts:
    """Counts what the tenant holds. Opens a tenant block."""
    with tenant(tenant_id):
        subjects = OutboxEvent.objects.filter(tenant_id=tenant_id).values_list("subject", flat=True)
        keys = list(KeyCredential.objects.filter(tenant_id=tenant_id).values_list("state", "failure_code"))
        steps_count = SagaStep.objects.filter(tenant_id=tenant_id).count()
        return Counts(
            events=dict(Counter(subject.split(".")[-2] for subject in subjects.iterator())),
            vendor_steps_count=steps_count,
            keys=dict(Counter(state for state, _ in keys)),
            failure_codes=dict(Counter(code for _, code in keys if code)),
        )


def keys_of(tenant_id: str, vendor: str) -> dict[str, dict[str, int]]:
    """Counts a vendor's keys by kind and state. Opens a tenant block."""
    found: dict[str, dict[str, int]] = {}
    with tenant(tenant_id):
        rows = KeyCredential.objects.filter(tenant_id=tenant_id, vendor=vendor).values_list("kind", "state")
        for (kind, state), number in Counter(rows).items():
            found.setdefault(kind, {})[state] = number
    return found


def waiting(tenant_id: str) -> dict[str, int]:
    """Counts the keys that wait for the desk, by vendor. Opens a tenant block."""
    with tenant(tenant_id):
        rows = KeyCredential.objects.filter(tenant_id=tenant_id, state__in=sorted(WAITING), waiting_for=DESK)
        return dict(Counter(rows.values_list("vendor", flat=True)))


def last_places(tenant_id: str) -> dict[str, int]:
    """Returns the last place each ordering key has taken. Opens a tenant block."""
    places: dict[str, int] = {}
    with tenant(tenant_id):
        rows = OutboxEvent.objects.filter(tenant_id=tenant_id).values_list("ordering_key", "sequence")
        for key, place in rows.iterator():
            places[key] = max(place, places.get(key, 0))
    return places


def unfinished(tenant_id: str, endings: Mapping[str, Ending]) -> list[str]:
    """Returns what is not final: bookings that stand elsewhere than their last event, keys still live, work open or dead."""
    with tenant(tenant_id):
        rows = {row.reservation_id: row for row in Reservation.objects.filter(tenant_id=tenant_id)}
        keys = list(KeyCredential.objects.filter(tenant_id=tenant_id).values_list("reservation_id", "state"))
        sagas = Counter(
            Saga.objects.filter(tenant_id=tenant_id).exclude(status=SagaStatus.DONE).values_list("status", flat=True)
        )
        letters = Counter(DeadLetter.objects.filter(tenant_id=tenant_id).values_list("code", flat=True))
    with_key = {reservation_id for reservation_id, _ in keys}
    wrong = []
    for reservation_id, ending in endings.items():
        row = rows.get(reservation_id)
        if row is None:
            wrong.append(f"booking {reservation_id} was never taken")
        elif (row.version, row.status) != (ending.version, FINAL_STATUS[ending.step]):
            wrong.append(f"booking {reservation_id} stands at {row.status} v{row.version}, not {ending.step} v{ending.version}")
        elif reservation_id not in with_key:
            wrong.append(f"booking {reservation_id} never had a key")
    wrong += [f"a key of {reservation_id} is still {state}" for reservation_id, state in keys if state in LIVE]
    wrong += [f"{number} sagas are {status}" for status, number in sagas.items()]
    wrong += [f"{number} dead letters: {code}" for code, number in letters.items()]
    return wrong
