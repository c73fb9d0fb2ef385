"""Update: window, rooms and areas of a key change together; doors are given the key before others lose it.

One rule: a suspended key may be updated and stays suspended; a key whose new window is over is refused.
"""

from __future__ import annotations

from typing import Any

from credentials.house import House
from credentials.lifecycle import TERMINAL, State
from credentials.models import CredentialDoor, KeyCredential
from credentials.services import KeyBatch
from credentials.targets import KEPT, RELEASED
from devices import selectors
from devices.selectors import DeviceFacts
from sagas.events.instants import format_instant
from sagas.flows import issue_key, old_rooms, wake_sagas
from sagas.intake import PRIORITY_ISSUE, PRIORITY_SECURITY, Start
from sagas.models import Saga
from sagas.outbox import Cause
from vendors.port.types import Window

FLOW = "update"
TAKE_FIRST = "takeFirst"
"""The saga's argument that says: the doors the key leaves are other rooms' now, so they lose it before others get it."""


class WindowOver(Exception):
    """The new window has ended already: CREDENTIAL_EXPIRED. Not retriable."""


def begin(
    batch: KeyBatch,
    place: House,
    key: KeyCredential,
    saga_key: str,
    cause: Cause,
    *,
    window: Window | None = None,
    rooms: tuple[str, ...] | None = None,
    areas: tuple[str, ...] | None = None,
    areas_only: bool = False,
    grace_included: bool = False,
    take_first: bool = False,
) -> bool:
    """Changes what a locked live key shall be, and starts the work at the doors. False when nothing differs or it is over.

    `window` is the stay's, to which grace is added unless `grace_included`. `areas_only` leaves a key without rooms its shared
    doors. `take_first` makes it security work that takes before it gives. Inside the tenant's block.
    Raises WindowOver, issue_key.NoDoors.
    """
    if key.state in TERMINAL:
        return False
    changes = _change_window(batch, place, key, window, grace_included=grace_included) | _change_rooms(
        batch, place, key, rooms, areas, areas_only=areas_only, take_first=take_first
    )
    if not changes:
        return False
    batch.retarget(key)
    if key.state == State.REQUESTED:
        _carry_on_unissued(batch, place, key, cause)
        return True
    batch.start(
        Start(
            flow=FLOW,
            key=saga_key,
            lane=issue_key.first_lane(batch, key),
            lane_width=issue_key.lane_width(batch, key),
            installation_id=key.installation_id,
            credential_id=key.id,
            reservation_id=key.reservation_id,
            priority=PRIORITY_SECURITY if take_first else PRIORITY_ISSUE,
            args={"changes": changes, **({TAKE_FIRST: True} if take_first else {})},
        ),
        cause,
    )
    if not take_first or any(door.old_room == KEPT for door in batch.doors_at(key)):
        old_rooms.watch(batch, key, cause)
    return True


def _change_window(
    batch: KeyBatch, place: House, key: KeyCredential, window: Window | None, *, grace_included: bool
) -> dict[str, Any]:
    if window is None:
        return {}
    wide = window if grace_included else place.policy.widen(window)
    changes = {}
    if wide.valid_from != key.valid_from:
        changes["validFrom"] = {"from": format_instant(key.valid_from), "to": format_instant(wide.valid_from)}
    if wide.valid_until != key.valid_until:
        changes["validUntil"] = {"from": format_instant(key.valid_until), "to": format_instant(wide.valid_until)}
    if changes and wide.valid_until <= batch.now:
        raise WindowOver(key.id)
    key.valid_from, key.valid_until, key.ends_at = wide.valid_from, wide.valid_until, wide.valid_until
    return changes


def _change_rooms(
    batch: KeyBatch,
    place: House,
    key: KeyCredential,
    rooms: tuple[str, ...] | None,
    areas: tuple[str, ...] | None,
    *,
    areas_only: bool,
    take_first: bool,
) -> dict[str, Any]:
    if rooms is None and areas is None:
        return {}
    new_rooms = list(rooms) if rooms is not None else list(key.rooms)
    facts = issue_key.doors_for(
        batch.tenant_id, place, selectors.installation(batch.tenant_id, key.installation_id), new_rooms,
        areas if areas is not None else key.areas, areas_only=areas_only or _has_areas_only(key),
    )  # fmt: skip
    wanted = {device.id: device for device in facts}
    standing = {door.device_id: door for door in batch.doors_at(key)}
    if sorted(new_rooms) == sorted(key.rooms) and set(wanted) == {d for d, door in standing.items() if not door.dropped}:
        installation = selectors.installation(batch.tenant_id, key.installation_id)
        for device_id, device in wanted.items():  # locks of her own rooms may have changed places
            _name_room(batch, standing[device_id], issue_key.new_door(key, device, installation).room_id)
        return {}
    old_rooms = list(key.rooms)
    changes: dict[str, Any] = {}
    if sorted(new_rooms) != sorted(old_rooms):
        changes["rooms"] = {"from": old_rooms, "to": new_rooms}
    new_areas = issue_key.areas_of(facts)
    if new_areas != sorted(key.areas):
        changes["scope"] = {"from": {"areas": sorted(key.areas)}, "to": {"areas": new_areas}}
    key.rooms, key.areas = new_rooms, new_areas
    _regroup_doors(batch, key, standing, wanted, take_first=take_first)
    KeyCredential.objects.filter(tenant_id=key.tenant_id, id=key.id).update(rooms=key.rooms, areas=key.areas)
    return changes or {"rooms": {"from": old_rooms, "to": new_rooms}}


def _has_areas_only(key: KeyCredential) -> bool:
    return not key.rooms and key.waiting_for != issue_key.ROOM


def _regroup_doors(
    batch: KeyBatch,
    key: KeyCredential,
    standing: dict[str, CredentialDoor],
    wanted: dict[str, DeviceFacts],
    *,
    take_first: bool,
) -> None:
    installation = selectors.installation(batch.tenant_id, key.installation_id)
    is_left_whole = old_rooms.is_left_as_a_whole(standing.values())
    gains_rooms = any(
        not device.shared and (device.id not in standing or standing[device.id].dropped) for device in wanted.values()
    )
    for device_id, door in standing.items():
        fresh = issue_key.new_door(key, wanted[device_id], installation) if device_id in wanted else None
        if fresh is not None:
            door.old_room = KEPT if is_left_whole and fresh.room_id else ""
        elif not door.dropped and take_first:
            door.old_room = RELEASED if door.old_room else ""
        elif not door.dropped:
            door.old_room = old_rooms.fate(key, door, gains_rooms=gains_rooms)
        door.dropped = fresh is None
        if fresh is not None:
            _name_room(batch, door, fresh.room_id)
        batch.touch_door(door)
    for device_id, device in wanted.items():
        if device_id not in standing:
            door = issue_key.new_door(key, device, installation)
            door.old_room = KEPT if is_left_whole and door.room_id else ""
            batch.add_door(key, door)


def _name_room(batch: KeyBatch, door: CredentialDoor, room_id: str) -> None:
    """Note which room a lock is the door of."""
    if door.room_id == room_id:
        return
    door.room_id = room_id
    CredentialDoor.objects.filter(tenant_id=door.tenant_id, pk=door.pk).update(room_id=room_id)
    batch.touch_door(door)


def _carry_on_unissued(batch: KeyBatch, place: House, key: KeyCredential, cause: Cause) -> None:
    """A key not handed over yet just becomes what it shall be; if it waited for its room it goes on, and its lead is reset."""
    if key.waiting_for == issue_key.ROOM and key.rooms:
        issue_key.go_on(batch, place, key, cause)
        return
    lead = issue_key.vendor_is_called_at(place, key)
    rows = Saga.objects.filter(tenant_id=key.tenant_id, credential_id=key.id, flow=issue_key.FLOW)
    wake_sagas.put_off(rows, lead if lead is not None and lead > batch.now else None)
