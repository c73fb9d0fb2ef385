"""Asks a vendor how one lock is, because a person wants to know now.

One rule: a person's question costs what any other does: it is counted, and none is asked while the breaker is not closed or the
month's calls are used up. Unlike a poll it takes no lane: who asks over HTTP works under a login that sees no queues.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from devices import adapters, breaker, breaker_rules, call_counts, health, selectors
from devices.breaker_rules import Heard
from devices.health_rules import Reading, Source
from devices.selectors import DeviceFacts, InstallationFacts, UnknownDevice
from lockservice.core import clock, tenancy
from vendors.port.errors import LockError
from vendors.port.protocol import LockPort
from vendors.port.types import DeviceHealth


class CheckRefused(Exception):
    """The vendor may not be asked now. `code` is the API's code without its prefix; `retriable` says if it may be later."""

    def __init__(self, code: str, detail: str, *, retriable: bool) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.retriable = retriable


@dataclass(frozen=True, slots=True)
class Asked:
    """A lock that may be asked about now, its installation, the way to it, and the hotel's present instant."""

    facts: InstallationFacts
    device: DeviceFacts
    port: LockPort
    now: datetime


def check(tenant_id: str, device_id: str) -> None:
    """Reads a lock live and notes what was read. No transaction may be open.

    Raises UnknownDevice, CheckRefused where the vendor may not be asked, and LockError where it gave no answer; only the call
    is noted then.
    """
    asked = prepared(tenant_id, device_id)
    ask(tenant_id, asked, lambda: {device_id: reading_of(asked.device, asked.port.health_check(asked.device.door()))})


def ask(tenant_id: str, asked: Asked, question: Callable[[], Mapping[str, Reading]]) -> None:
    """Puts a question, which returns what was read of locks, and notes calls, answer and readings.
    Raises what the question does."""
    heard: Heard | None = None
    refused: LockError | None = None
    readings: Mapping[str, Reading] = {}
    with adapters.tally() as tally:
        try:
            readings = question()
            heard = Heard(asked.facts.id, "", answered=True)
        except LockError as error:
            heard, refused = breaker_rules.heard(asked.facts.id, "", None, error), error
            raise
        finally:
            _note(tenant_id, asked.facts, readings, heard, tally.calls, refused)


def reading_of(device: DeviceFacts, found: DeviceHealth) -> Reading:
    """Returns what a live look says. A lock without a way to it from outside is never reached: that is how it was built, and no
    fault, so nothing is said of that."""
    online = found.online if device.has_remote else None
    return Reading(Source.CHECK, online, found.battery_percent, found.clock_skew_ms, found.firmware, found.utc_offset_s)


def prepared(tenant_id: str, device_id: str) -> Asked:
    """Returns the way to a lock. Raises UnknownDevice, and CheckRefused where the vendor may not be asked."""
    with tenancy.tenant(tenant_id):
        now = clock.now()
        device = selectors.devices(tenant_id, "", [device_id]).get(device_id)
        if device is None:
            raise UnknownDevice(device_id)
        facts = selectors.installation(tenant_id, device.installation_id)
        if not facts.active:
            raise CheckRefused("DEVICE_NOT_PAIRED", "the lock's system is out of service", retriable=False)
        if facts.id in breaker.standing(tenant_id):
            raise CheckRefused("VENDOR_UNREACHABLE", "the vendor has not answered for a while", retriable=True)
        limit = facts.calls_per_month or adapters.manifest(facts.vendor).calls_per_month
        if call_counts.is_spent(tenant_id, facts, limit, now):
            raise CheckRefused("VENDOR_UNREACHABLE", "the calls of this month are used up", retriable=False)
        adapters.vendor_clock().observe(now)
        return Asked(facts, device, adapters.port_of(tenant_id, facts), now)


def _note(
    tenant_id: str,
    facts: InstallationFacts,
    readings: Mapping[str, Reading],
    heard: Heard | None,
    calls: int,
    refused: LockError | None,
) -> None:
    with tenancy.tenant(tenant_id):
        now = clock.now()
        health.observe(tenant_id, readings, now)
        call_counts.add(tenant_id, {facts.id: call_counts.Counted(calls=calls)}, now)
        breaker.note(tenant_id, [heard] if heard else [], now, clock.real_now())
        if refused is not None:
            call_counts.note_refusal(tenant_id, facts, refused, now)
