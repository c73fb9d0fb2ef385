"""What a property decides for its keys: time zone, hours, KeyKindPolicy. Read only.

One rule: kept for two seconds per process and dropped when the tenant's configuration was updated.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import date, datetime

from credentials import phones
from credentials.models import KeyPolicyRow
from credentials.policy import KeyKindPolicy
from lockservice.core.places import Property

KEEP_S = 2.0


@dataclass(frozen=True, slots=True)
class House:
    """A property as flows need it."""

    property_id: str
    time_zone: str
    active: bool
    policy: KeyKindPolicy
    place: Property

    @property
    def country(self) -> str:
        """The country whose telephone numbers are written without a code here: as the policy names it, else by the time zone;
        empty where neither tells."""
        return self.policy.phone_country or phones.country_of(self.time_zone)

    def arrival(self, day: date) -> datetime:
        """Returns the instant the house's check-in time falls on that local day, in UTC."""
        return self.place.arrival(day)

    def departure(self, day: date) -> datetime:
        """Returns the instant the house's check-out time falls on that local day, in UTC."""
        return self.place.departure(day)

    def day_use(self, day: date) -> tuple[datetime, datetime]:
        """Returns the window of a stay within one local day: from the check-in time to the check-out time, or to the day's end
        where the check-out time is earlier. In UTC."""
        start, end = self.arrival(day), self.departure(day)
        return start, end if end > start else self.place.day_end(day)


_kept: dict[tuple[str, str], tuple[float, House]] = {}


def forget() -> None:
    """Drops what is kept."""
    _kept.clear()


def house(tenant_id: str, property_id: str) -> House:
    """Returns a property's rules. Raises Property.DoesNotExist. Inside the tenant's block."""
    held = _kept.get((tenant_id, property_id))
    now = time.monotonic()
    if held is not None and now - held[0] < KEEP_S:
        return held[1]
    place = Property.objects.get(tenant_id=tenant_id, property_id=property_id)
    row = KeyPolicyRow.objects.filter(tenant_id=tenant_id, property_id=property_id).first()
    policy = KeyKindPolicy.from_values(row.values if row else {})
    value = House(property_id, place.time_zone, place.active, policy, place)
    if len(_kept) > 10_000:
        _kept.clear()
    _kept[(tenant_id, property_id)] = (now, value)
    return value
