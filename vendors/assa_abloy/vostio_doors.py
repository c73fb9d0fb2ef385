"""Reads the rows of Vostio's door list.

One rule: what a row does not say is not known: only a networked door tells whether it answers.
Contract: not public, assumed (low confidence), `batteryPercent` included.
"""

from __future__ import annotations

from collections.abc import Mapping

from vendors.port.types import LockDevice

from .keys import capabilities_of, external_id, refused_device

DOOR_KINDS = {"GuestDoor": "guest", "CommonDoor": "common", "EntranceDoor": "entrance", "Elevator": "elevator"}


def device_in(row: Mapping[str, object]) -> LockDevice:
    """Returns the lock of a row; one of unknown type comes with why it is refused."""
    is_online = bool(row.get("online"))
    vendor_id, label = str(row.get("pmsId") or row.get("doorNumber") or ""), str(row.get("doorName") or "")
    kind = DOOR_KINDS.get(str(row.get("type")))
    if kind is None:
        return refused_device(label, vendor_id, f"unknown door type {row.get('type')!r:.40}")
    return LockDevice(
        external_id=external_id(kind, vendor_id),
        label=label,
        online=is_reachable(row) if is_online else True,
        capabilities=capabilities_of(is_online=is_online),
        has_remote=is_online,
        battery_percent=battery_in(row),
    )


def is_reachable(row: Mapping[str, object]) -> bool:
    """Says whether a networked door answers."""
    return bool(row.get("reachable", True))


def battery_in(row: Mapping[str, object]) -> int | None:
    """Returns the battery in percent; None where the row gives none between 0 and 100."""
    percent = row.get("batteryPercent")
    return percent if isinstance(percent, int) and 0 <= percent <= 100 else None
