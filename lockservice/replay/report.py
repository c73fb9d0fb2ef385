"""The closing report of a replay: what was told, what became of it, and whether everything agrees.

One rule: every number is counted from rows, doors or the bus, none from what the replay meant to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from credentials.lifecycle import LIVE
from credentials.models import KeyCredential, Reservation
from lockservice.core.tenancy import tenant
from lockservice.replay.doors import Comparison
from lockservice.replay.stays import Step
from lockservice.replay.timeline import Ending
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
    vendor_calls_before: int
    vendor_calls_after: int
    comparisons_count: int = 0
    keys_compared_count: int = 0
    doors_count: int = 0
    differences_count: int = 0
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
        return self.vendor_calls_after - self.vendor_calls_before

    def add_comparison(self, found: Comparison, when: str) -> None:
        """Takes in one look at all doors."""
        self.comparisons_count += 1
        self.keys_compared_count += found.keys_count
        self.doors_count = found.doors_count
        self.differences_count += len(found.differences)
        self.add_faults("door", [f"{when}: {item.door} {item.what}" for item in found.differences])

    def add_faults(self, what: str, texts: Sequence[str]) -> None:
        """Takes in faults of one sort; of many, the first few and their number."""
        self.faults.extend(f"{what}: {text}" for text in texts[:SHOWN])
        if len(texts) > SHOWN:
            self.faults.append(f"{what}: {len(texts) - SHOWN} more")

    def as_json(self) -> dict[str, Any]:
        """Returns all of it as plain data."""
        extra = {"new_events_count": self.new_events_count, "new_calls_count": self.new_calls_count, "agrees": not self.faults}
        return {**asdict(self), **extra}

    def lines(self) -> list[str]:
        """Returns it for a person."""
        told = ", ".join(f"{self.after.events.get(name, 0)} {name}" for name in TOLD)
        abandoned = self.after.failure_codes.get("ABANDONED", 0)
        parts = {
            "bookings": f"{self.bookings_count} in {self.told_count} events, {self.steps_count} steps, {self.seconds:.0f} s",
            "keys": f"{told} ({abandoned} of these were called off before they existed)",
            "vendor": f"{self.new_calls_count} requests in this run",
            "events": f"{self.new_events_count} new, {self.after.events_count} in all",
            "on the bus": f"{self.events_seen_count} events by schema and place, {self.events_repeated_count} repeated",
            "ledger against doors": f"{self.doors_count} doors, {self.comparisons_count} looks, "
            f"{self.keys_compared_count} keys equal, {self.differences_count} differences",
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
