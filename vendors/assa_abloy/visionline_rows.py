"""Reads what a Visionline server tells of its doors, and whether a card is live, in both shapes that are known.

| | as the public clients show it (high) | as assumed from the manual's contents (low) |
|---|---|---|
| card | booleans `overridden` and `overwritten`; `cancelled` and `discarded` where they are told (low) | `status`, a word |
| card's id | an integer | a text |
| door | `doorID` an integer; calls name it by `doorName` (`"10358Z"`) | `doorID` a text, by which calls name it |
| door's type | an integer; what it means is not public | a word of Seam's guide |

One rule: nothing is guessed. A card whose parts contradict each other is no answer; a door of unknown type is no door of ours.
Source: README, Sources C1, C2, S1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from vendors.port.types import LockDevice

from .keys import capabilities_of, external_id, is_typed, refused_device
from .reading import RowWrong

VALID: Final = "valid"
ENDED: Final = ("overridden", "overwritten", "cancelled", "discarded", "expired")
FLAGS: Final = ENDED[:4]
REQUIRED: Final = ENDED[:2]
DOOR_KINDS: Final = {
    "guest": "guest",
    "guest entrance": "entrance",
    "guest common": "common",
    "common": "common",
    "common (pms)": "common",
    "elevator": "elevator",
    "elevator reader": "elevator",
    "elevator reader relay": "elevator",
}
"""The types a person chooses from in Visionline's own program, and what each is to us."""

MAX_NUMBER: Final = 2**63 - 1
MAX_NAME: Final = 50
"""Leaves room for `entrance:` in the 64 characters of a lock's id with us."""


def status_of(row: Mapping[str, Any], *, is_new: bool = False) -> str:
    """Returns VALID, or the word that says how a card ended. A card just made may come without either shape.

    Raises RowWrong for half of a shape, for parts that contradict each other, and for an unknown word.
    """
    word = row.get("status")
    flags = {name: row[name] for name in FLAGS if name in row}
    if any(not isinstance(value, bool) for value in flags.values()):
        raise RowWrong("a card whose overridden or overwritten is no boolean")
    ended = [name for name, value in flags.items() if value]
    if word is None:
        if not flags and is_new:
            return VALID
        if missing := [name for name in REQUIRED if name not in flags]:
            raise RowWrong(f"a card without status and without {' and '.join(missing)}")
        return ended[0] if ended else VALID
    if not isinstance(word, str) or word not in (VALID, *ENDED):
        raise RowWrong("a card of unknown status")
    if (word == VALID and ended) or flags.get(word) is False:
        raise RowWrong(f"a card with status {word} and {', '.join(ended) or 'no flag set'}")
    return word


def number_or_text(row: Mapping[str, Any], name: str) -> str | int:
    """Returns an id as it came: a positive integer or a text of up to 200 characters. Raises KeyError or RowWrong."""
    value = row[name]
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_NUMBER:
        return value
    if isinstance(value, str) and 0 < len(value) <= 200:
        return value
    raise RowWrong(f"{name} is no id")


def kind_in(value: object, types: Mapping[int, str]) -> str | None:
    """Returns what a door's type is to us, by word or by the installation's `door_types`; None for an unknown one."""
    if isinstance(value, int) and not isinstance(value, bool):
        return types.get(value)
    if isinstance(value, str):
        if value.isascii() and value.isdigit() and len(value) < 10:
            return types.get(int(value))
        return DOOR_KINDS.get(value.strip().lower())
    return None


def devices_in(rows: Sequence[Mapping[str, Any]], types: Mapping[int, str], utc_offset_s: int | None) -> list[LockDevice]:
    """Returns the locks of a door list. One that cannot be addressed or is of unknown type comes with why it is refused: a
    single bad row does not hide the house's other doors."""
    doors = [(row, *_address_of(row)) for row in rows]
    addresses = Counter(address for _, _, address in doors)
    return [_device(row, door_id, address, addresses, types, utc_offset_s) for row, door_id, address in doors]


def _address_of(row: Mapping[str, Any]) -> tuple[str | int, str]:
    """Returns a door's id, empty where it has none, and what calls name it by."""
    try:
        door_id = number_or_text(row, "doorID")
    except (KeyError, RowWrong):
        return "", ""
    name = row.get("doorName")
    return door_id, (name if isinstance(name, str) else "") if isinstance(door_id, int) else door_id


def _device(
    row: Mapping[str, Any], door_id: str | int, address: str, addresses: Mapping[str, int], types: Mapping[int, str],
    utc_offset_s: int | None,
) -> LockDevice:  # fmt: skip
    given = row.get("doorName")
    name = given if isinstance(given, str) else ""
    if door_id == "":
        return refused_device(name, "", "a door without an id")
    if not address or len(address) > MAX_NAME or not address.isprintable() or is_typed(address):
        return refused_device(name, str(door_id), f"door {door_id} has no name that a key can list")
    if addresses[address] > 1:
        return refused_device(name, address, f"door {door_id}: several doors have this name")
    kind = kind_in(row.get("doorType"), types)
    if kind is None:
        return refused_device(name, address, f"unknown door type {row.get('doorType')!r:.40}: see setting door_types")
    is_online = row.get("online") is True
    return LockDevice(
        external_id=external_id(kind, address),
        label=name,
        online=is_reachable(row),
        capabilities=capabilities_of(is_online=is_online),
        has_remote=is_online,
        utc_offset_s=utc_offset_s,
    )


def is_reachable(row: Mapping[str, Any]) -> bool:
    """Says whether a networked door answers; a door off the network has nothing that could be away."""
    return bool(row.get("reachable", True)) if row.get("online") else True
