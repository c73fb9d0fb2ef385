"""What a lock does when a card or phone is held to it.

| lock | decides by |
|---|---|
| off the network | the image on the card or phone, its own clock, and the newest stay it has seen |
| on the network | the vendor's word of this moment, then the same |
| cut off from the network | the vendor's last word of each key; of a key made since, as off the network |

A key of a newer stay takes the room over: from then on keys of earlier stays are refused (Seam's guide, high confidence). That
a joiner of a newer stay, used before its first key, takes over as well is assumed.

One rule: the time is the lock's own, clock error included.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from .model import House, Image, Lock
from .world import World, new_id

OFFLINE_KINDS = frozenset({"rfid_card", "nfc_tag"})


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether it opened, and the simulator's word for why; the key it was about, where one was recognised."""

    is_open: bool
    why: str
    key_id: str | None = None


def present(world: World, house: House, lock: Lock, images: list[Image], at: datetime, *, leaves_trace: bool) -> Verdict:
    """Holds a card's or phone's images to a lock. The first that opens does; otherwise the last refusal tells why."""
    verdict = Verdict(False, "unknown_credential")
    for image in images:
        verdict = _judge(house, lock, image, at)
        if verdict.is_open:
            if leaves_trace:
                _learn(house, lock, image)
            break
    return verdict


def write_down(world: World, house: House, lock: Lock, kind: str, verdict: Verdict, at: datetime) -> None:
    """Notes an attempt in the lock's log; a lock on the network tells the vendor as well."""
    key = house.keys.get(verdict.key_id or "")
    entry: dict[str, Any] = {
        "eventId": new_id("ev-"),
        "type": "access.granted" if verdict.is_open else "access.denied",
        "environmentId": house.code,
        "occurredAt": (at + timedelta(seconds=lock.clock_skew_s)).isoformat(),
        "data": {
            "doorId": lock.door_id,
            "doorKind": lock.kind,
            "kind": kind,
            "label": key.label if key else None,
            "reason": None if verdict.is_open else verdict.why,
        },
    }
    lock.log.append(entry)
    if lock.is_online and lock.is_reachable:
        house.events.append(entry)


def _judge(house: House, lock: Lock, image: Image, at: datetime) -> Verdict:
    told = _told(house, lock, image)
    if told is None:
        return Verdict(False, "unknown_credential")
    status, current = told
    if status != "active":
        return Verdict(False, status, image.key_id)
    if not _is_for(lock, current):
        return Verdict(False, "unknown_credential", current.key_id)
    wall = at + timedelta(seconds=lock.clock_skew_s)
    if not current.start <= wall < current.end:
        return Verdict(False, "outside_validity", current.key_id)
    if lock.kind == "guest" and current.stays[lock.door_id] < lock.stay:
        return Verdict(False, "overridden", current.key_id)
    return Verdict(True, "granted", current.key_id)


def last_word(house: House) -> dict[str, tuple[str, Image]]:
    """Returns what the vendor tells its locks on the network of each key: its status, and what it opens when."""
    return {key.id: (key.status, key.image()) for key in house.keys.values()}


def _told(house: House, lock: Lock, image: Image) -> tuple[str, Image] | None:
    """Returns what a lock knows of the key that an image is of; None of one that the vendor does not know."""
    if not lock.is_online:
        return "active", image
    if not lock.is_reachable:
        status, known = lock.told.get(image.key_id, ("active", image))
        return ("active", image) if image.version > known.version else (status, known)  # a change that the card or phone brings
    key = house.keys.get(image.key_id)
    return (key.status, key.image()) if key is not None else None


def _is_for(lock: Lock, image: Image) -> bool:
    if lock.kind == "guest":
        return lock.door_id in image.guest
    if lock.kind == "common":
        return lock.door_id in image.common
    return bool(image.guest)  # entrances and elevators follow from the room


def _learn(house: House, lock: Lock, image: Image) -> None:
    """The lock takes over a newer stay. Only a lock on the network tells the vendor that earlier keys are over."""
    online = lock.is_online and lock.is_reachable
    stays = house.keys[image.key_id].stays if online else image.stays
    number = stays.get(lock.door_id, 0)
    if lock.kind != "guest" or number <= lock.stay:
        return
    lock.stay = number
    if online:
        for key in house.keys.values():
            if key.status in {"active", "suspended"} and key.stays.get(lock.door_id, number) < number:
                key.status = "overridden"
                key.version += 1
