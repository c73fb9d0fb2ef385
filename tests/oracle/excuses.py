"""When a door that is not as the rules say is excused, and by what.

One rule: a fault must be there, or have been since the door was last right; and what is told must be about this key or stay, and
about now:

- the API claims no certainty of this key at this door: the key is under way, the door is not confirmed, or the key carries a
  warning that says how doors may differ from the books;
- or an alert names the key, or the stay, and was raised since its lock system was last without trouble for it;
- or the lock's clock is off, and an alert names the lock;
- or the stay's newest key there failed for good while there was trouble, and an alert named it.

Another alert of a lock, and one of a lock system or the house, says nothing of one key, and excuses no door.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

SETTLED = ("active", "suspended", "revoked")
EXPLAIN = frozenset({
    "CARD_KILLED", "CARD_IN_USE", "CARD_MUST_BE_UPDATED", "CARD_OVERWRITTEN", "CLOCK_SKEW", "OLD_ROOM_KEPT", "PHONE_UNUSABLE",
    "TZ_OFFSET_MISMATCH",
})  # fmt: skip
"""Warnings of a key that say how its doors, or what its holder has, differ from the books."""
BESIDE_THE_POINT = frozenset({"STAYS_OVERLAP"})
"""Alerts that name a key and say nothing of what it opens."""

CLOCK_IS_OFF = "DEVICE_CLOCK_SKEW"

Place = tuple[str, str]
"""A stay and a lock system."""


def warned(body: dict[str, Any] | None) -> frozenset[str]:
    """Return the codes that a key carries."""
    return frozenset(warning["code"] for warning in (body or {"warnings": []})["warnings"])


def is_sure(body: dict[str, Any], door: str = "") -> bool:
    """Whether the API claims to know what a door of a key does; without a door, or one that the key has not, all of them."""
    rows = [row for row in body["doors"] if row["label"] == door] or body["doors"]
    is_settled = body["state"] in SETTLED and not EXPLAIN & warned(body)
    every = body["propagation"] == "confirmed" or any(row["label"] == door for row in body["doors"])
    return is_settled and every and all(row["isConfirmed"] for row in rows)


@dataclass
class Alerts:
    """What was raised, as one look at the doors finds it, and what was known of each place before its trouble."""

    now: list[dict[str, str]] = field(default_factory=list)
    before: dict[Place, frozenset[str]] = field(default_factory=dict)

    def looked(self, found: list[dict[str, str]]) -> None:
        """Take what was raised so far."""
        self.now = [alert for alert in found if alert["code"] not in BESIDE_THE_POINT]

    def quiet(self, place: Place) -> None:
        """Note that a place is without trouble: what was raised until now excuses nothing there later."""
        self.before[place] = frozenset(alert["id"] for alert in self.now)

    def name(self, place: Place, keys: Iterable[str]) -> bool:
        """Whether one raised since the place was without trouble names its stay, or one of the keys."""
        stay, names = place[0], frozenset(keys)
        known = self.before.get(place, frozenset())
        return any(
            alert["id"] not in known and (alert["key"] in names or (not alert["key"] and alert["stay"] == stay))
            for alert in self.now
        )

    def name_clock(self, door: str) -> bool:
        """Whether one was raised of the clock of this door's lock."""
        return any(alert["code"] == CLOCK_IS_OFF and f"the clock of {door} " in alert["detail"] for alert in self.now)

    def named(self, key: str) -> bool:
        """Whether one was ever raised of this key."""
        return any(alert["key"] == key for alert in self.now)
