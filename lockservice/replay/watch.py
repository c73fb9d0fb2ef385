"""Watches the bus as another service would, and checks every event of the replay's tenant.

One rule: an event is checked as it travelled: its bytes, its schema, its place in the order of its credential.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from dataclasses import dataclass, field

from sagas.bus.port import Delivery, EventBus
from sagas.events import envelope, registry
from sagas.events.refusals import EventRefused
from sagas.events.validate import validate

GROUP = "replay-watch"
BATCH = 500
FAULTS_KEPT = 20


@dataclass
class Seen:
    """What has been seen: events, repeated deliveries of the same event, faults, and the places taken per ordering key."""

    events_count: int = 0
    repeated_count: int = 0
    faults: list[str] = field(default_factory=list)
    faults_count: int = 0
    places: dict[str, dict[int, str]] = field(default_factory=lambda: defaultdict(dict))

    def fault(self, text: str) -> None:
        """Notes a fault; the first few are kept in words."""
        self.faults_count += 1
        if len(self.faults) < FAULTS_KEPT:
            self.faults.append(text)


class Watch:
    """One watching consumer. Leaves nothing behind at the broker when closed."""

    def __init__(self, bus: EventBus, tenant_id: str) -> None:
        """Subscribes from now on; what was published before is passed over."""
        self._bus = bus
        self._tenant_id = tenant_id
        self._name = uuid.uuid4().hex
        self._topics = sorted({spec.topic for spec in registry.produced() if spec.topic and _is_ours(spec.subject)})
        self._latest: dict[tuple[str, str], int] = {}
        self.seen = Seen()
        bus.subscribe(self._topics, GROUP)
        self._pass_over()

    def look(self) -> int:
        """Takes what has come; returns how many messages."""
        count = 0
        while deliveries := self._bus.receive(self._topics, GROUP, self._name, BATCH, 0.0):
            for delivery in deliveries:
                self._check(delivery)
            self._bus.acknowledge(GROUP, deliveries)
            count += len(deliveries)
        return count

    def gaps(self, already: dict[str, int]) -> list[str]:
        """Returns keys whose places have gaps, given the last place each had before the replay."""
        wrong = []
        for key, places in self.seen.places.items():
            first = already.get(key, 0) + 1
            if sorted(places) != list(range(first, first + len(places))):
                wrong.append(f"{key}: places {sorted(places)[:5]}… after {first - 1}")
        return wrong

    def close(self) -> None:
        """Ends the subscription, so that the broker keeps nothing for it."""
        forget = getattr(self._bus, "unsubscribe", None)
        if forget is not None:
            forget(self._topics, GROUP)
        self._bus.close()

    def _pass_over(self) -> None:
        while deliveries := self._bus.receive(self._topics, GROUP, self._name, BATCH, 0.0):
            self._bus.acknowledge(GROUP, deliveries)

    def _check(self, delivery: Delivery) -> None:
        if delivery.message.attributes.get("tenantId") != self._tenant_id:
            return
        try:
            event = envelope.decode(delivery.message.body)
            validate(event.subject, event.data)
        except EventRefused as refused:
            self.seen.fault(f"{delivery.message.topic}: {refused.code} {refused.detail}")
            return
        self.seen.events_count += 1
        key, place = event.ordering_key, event.sequence
        if event.tenant_id != self._tenant_id:
            self.seen.fault(f"{event.id}: of another tenant than its message says")
        elif key is None or place is None:
            self.seen.fault(f"{event.id}: no place in an order")
        else:
            self._take_place(delivery.message.topic, event.id, key, place)

    def _take_place(self, topic: str, event_id: str, key: str, place: int) -> None:
        before = self.seen.places[key].get(place)
        if before == event_id:
            self.seen.repeated_count += 1
            return
        if before is not None:
            self.seen.fault(f"{event_id}: place {place} of {key} was taken by {before}")
        self.seen.places[key][place] = event_id
        if place < self._latest.get((topic, key), 0):
            self.seen.fault(f"{event_id}: place {place} of {key} came after a later one")
        self._latest[(topic, key)] = place


def _is_ours(subject: str) -> bool:
    return subject.startswith("melmastoon.lock.")
