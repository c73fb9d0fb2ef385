"""What the server can honestly say about when a door will follow.

One rule: a bound is never earlier than the truth; where only a card's own expiry is certain, that is the bound.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from .model import Key, Property
from .space import door_for


def effects_of_issue(prop: Property, key: Key, superseded: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The new key opens as soon as it is written; earlier guests' keys die on its first use at a stand-alone door."""
    contested = {name for row in superseded for name in row["rooms"]}
    return [
        _row(place, "on_first_use" if place in contested and not is_online(prop, place) else "now") for place in places_of(key)
    ]


def effects_of_taking(
    prop: Property, key: Key, places: list[str], carried_until: datetime | None, *, has_followed: bool
) -> list[dict[str, Any]]:
    """Something was taken away: certain at once at on-line doors and where the carrier has followed, else when the card says
    so. `carried_until` is the expiry written on the card that is out there."""
    until = prop.instant(carried_until or key.ends)
    settled = key.is_carried and (has_followed or until <= prop.now())
    return [
        _row(place, "now")
        if settled or is_online(prop, place) or _is_dead(prop, key, place)
        else _row(place, "propagating", until)
        for place in places
    ]


def has_followed(prop: Property, key: Key) -> bool:
    """Says whether the carrier is known to hold the present record: it was written or synchronised since it last changed."""
    return key.carrier in prop.carriers and key.carried_version == key.version


def is_off_its_carrier(prop: Property, key: Key) -> bool:
    """Says whether the key is on no carrier any more: never written, wiped from the phone, or the card was written anew."""
    carrier = prop.carriers.get(key.carrier)
    return carrier is None or carrier.image is None or carrier.image.ref != key.ref


def effects_of_giving(prop: Property, key: Key, places: list[str]) -> list[dict[str, Any]]:
    """Something was given: a card must pass an updater or the encoder first; nobody knows when."""
    settled = key.carried_version == key.version
    return [_row(place, "now" if settled or is_online(prop, place) else "propagating") for place in places]


def places_of(key: Key) -> list[str]:
    """Names the doors as callers do: rooms by name, shared ones as `auth:<n>`."""
    return [*key.rooms, *(f"auth:{number}" for number in sorted(key.grants))]


def is_online(prop: Property, place: str) -> bool:
    """Says whether a place's door follows the server by itself."""
    door = door_for(prop, place)
    return door is not None and door.is_online and not door.is_dead


def _is_dead(prop: Property, key: Key, place: str) -> bool:
    """The server has heard from the door that a newer guest's key was used there."""
    mine = key.rooms.get(place, 0)
    return any(row["door"] == place and row["learnt"] > mine > 0 for row in prop.events)


def _row(place: str, effective: str, until: datetime | None = None) -> dict[str, Any]:
    return {"room": place, "effective": effective, "effectiveNotAfter": until.isoformat() if until else None}
