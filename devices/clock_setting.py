"""Sets a lock's clock from afar, where its vendor can: to true time, counted as the property's clocks count it now.

One rule: it is counted as a person's question is, and nothing is asked while the breaker is not closed or the month's calls are
used up. What was set is read back, and all that hangs on it follows from that reading.
"""

from __future__ import annotations

from zoneinfo import ZoneInfo

from devices import health_check
from devices.health_check import CheckRefused
from devices.health_rules import Reading
from vendors.port.ids import new_id
from vendors.port.protocol import ClockSetting
from vendors.port.types import CallMeta


def set_clock(tenant_id: str, device_id: str) -> None:
    """Sets the lock's clock and reads it. No transaction may be open.

    Raises UnknownDevice, CheckRefused where the vendor may not be asked or cannot do it, and LockError where it gave no answer.
    """
    asked = health_check.prepared(tenant_id, device_id)
    if not asked.device.has_remote or not isinstance(asked.port, ClockSetting):
        raise CheckRefused("TRANSITION_REFUSED", "this lock's clock can only be set at the door", retriable=False)
    offset = asked.now.astimezone(ZoneInfo(asked.facts.time_zone or "UTC")).utcoffset()
    offset_s = int(offset.total_seconds()) if offset is not None else 0
    port, meta = asked.port, CallMeta(new_id("evt"), priority=1)

    def question() -> dict[str, Reading]:
        port.set_clock(asked.device.door(), offset_s, meta)
        return {}

    health_check.ask(tenant_id, asked, question)
    health_check.check(tenant_id, device_id)
