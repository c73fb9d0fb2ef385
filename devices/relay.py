"""The relay as adapters get it: rows in PostgreSQL, and a wake-up for the gateway.

One rule: it opens its own short blocks and lets its connection go, since a vendor call holds none; what the database cannot
answer now is a retriable error, never a guess.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TypeVar

import redis
import structlog
from django.db import Error, connection

from devices import relay_jobs
from devices.relay_jobs import NoDesk, Site
from lockservice.core import clock, tenancy, wake
from lockservice.core.outage import is_outage
from vendors.port.errors import Reason, VendorUnreachable
from vendors.port.relay import JobStanding, RelayJob, no_desk

log = structlog.get_logger(__name__)
CHANNEL = "melmastoon:relay"
LOOK_S = (0.05, 0.5)
"""How often a job is looked at while a call stays with it: at first, and later."""
SILENCE_S = 5.0
T = TypeVar("T")


class RowRelay:
    """Implements vendors.port.relay.Relay for one installation."""

    def __init__(self, site: Site, sleep: Callable[[float], None] = time.sleep) -> None:
        self._site = site
        self._sleep = sleep

    def submit(self, job: RelayJob) -> JobStanding:
        """See Relay. One job's row is made at most once, whoever asks and however often."""
        try:
            standing = self._do(lambda: relay_jobs.submit(self._site, job, clock.now()))
        except NoDesk:
            raise no_desk(self._site.vendor) from None
        nudge(self._site.tenant_id, self._site.property_id)
        return standing

    def await_end(self, job_id: str, wait_s: float) -> JobStanding:
        """See Relay."""
        ends, pause = time.monotonic() + wait_s, LOOK_S[0]
        while True:
            standing = self._do(lambda: relay_jobs.look(self._site.tenant_id, job_id))
            left_s = ends - time.monotonic()
            if not standing.is_underway or left_s <= 0:
                return standing
            self._sleep(min(pause, left_s))
            pause = min(LOOK_S[1], pause * 1.3)

    def cancel(self, job_id: str) -> JobStanding:
        """See Relay."""
        standing = self._do(lambda: relay_jobs.call_off(self._site.tenant_id, job_id))
        if standing.is_open:
            nudge(self._site.tenant_id, self._site.property_id)
        return standing

    def of_credential(self, credential_id: str) -> tuple[JobStanding, ...]:
        """See Relay."""
        site = self._site
        return self._do(lambda: relay_jobs.of_credential(site.tenant_id, site.installation_id, credential_id))

    def _do(self, act: Callable[[], T]) -> T:
        try:
            with tenancy.tenant(self._site.tenant_id):
                return act()
        except Error as error:
            if not is_outage(error):
                raise
            log.warning("relay.database", error=type(error).__name__)
            raise VendorUnreachable(
                self._site.vendor, "the relay's rows cannot be reached", reason=Reason.BUSY, retry_after_s=2.0
            ) from None
        finally:
            if not connection.in_atomic_block:
                connection.close()


_silent_until = 0.0


def nudge(tenant_id: str, property_id: str) -> None:
    """Wakes the gateways for a property's desks. A lost wake-up costs a second: they look by themselves."""
    global _silent_until  # noqa: PLW0603 - one small pause per process, on purpose
    if time.monotonic() < _silent_until:
        return
    try:
        wake.client().publish(CHANNEL, json.dumps([tenant_id, property_id]))
    except redis.RedisError as error:
        _silent_until = time.monotonic() + SILENCE_S
        log.warning("relay.wake_lost", error=type(error).__name__)
