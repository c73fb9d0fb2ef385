"""Brings an installation's locks into our books: which doors they are on, what they can do.

The vendor's list is mapped to rooms by an explicit table where there is one, else by the label: a lock whose label holds the
label of exactly one room as a word ("Room 204 main door") is on that room. What cannot be mapped is listed and left out: a lock
on the wrong door is worse than none.

One rule: a lock is registered once, with one `device.registered.v1`; later imports refresh what the vendor tells (capabilities,
gateway, firmware) and change its doors only where the table says so. Live keys follow a lock to its door.
"""

from __future__ import annotations

import csv
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from devices import adapters, health, selectors
from devices.health_rules import Reading, Source, Zone, utc_text
from devices.models import LockDevice as DeviceRow
from lockservice.core import clock, tenancy
from lockservice.core.places import Room
from sagas import intake, outbox
from sagas.events.instants import format_instant
from sagas.events.subjects import Subject
from sagas.intake import Start
from sagas.outbox import Cause
from vendors.port.ids import new_id
from vendors.port.types import Area, LockCapabilities, LockDevice

DOORS_CHANGED: Final = "doors_changed"
"""The saga's flow that brings live keys to the doors their rooms have now; sagas.flows.doors_changed."""
STAYS_AGAIN: Final = "follow_stays"
"""The saga's flow that follows stays once more that could not be given something; sagas.flows.follow_stays."""
COLUMNS: Final = ("external_id", "label", "rooms", "areas", "shared")
_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_TRUTH = {"": False, "no": False, "yes": True}


class TableWrong(ValueError):
    """The table of doors cannot be used as it stands; the message names line and column."""


class Action(StrEnum):
    """What an import does with one lock."""

    NEW = "new"  # will be registered
    CHANGED = "changed"  # known, and what the vendor or the table tells differs
    SAME = "same"
    UNMAPPED = "unmapped"  # on no door we can tell
    MISSING = "missing"  # in our books, not in the vendor's list
    REFUSED = "refused"  # in the vendor's list, and no lock as we know them


@dataclass(frozen=True, slots=True)
class Placing:
    """Where a lock is: the label people know, rooms by id, areas. A shared door opens for stays with one of its areas."""

    label: str
    rooms: tuple[str, ...]
    areas: tuple[str, ...] = ()
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """One lock of an import. `found` is what the vendor lists, None where it does not; `notes` say what is wrong with it."""

    action: Action
    external_id: str
    label: str
    placing: Placing | None
    found: LockDevice | None
    device_id: str | None
    changes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def survey(tenant_id: str, installation_id: str, table: Mapping[str, Placing] | None = None) -> list[Line]:
    """Asks the vendor and says what an import would do; writes nothing. No transaction may be open.

    Raises UnknownDevice, vendors.port.errors.LockError, ValueError for settings that are wrong.
    """
    with tenancy.tenant(tenant_id):
        adapters.vendor_clock().observe(clock.now())
        facts = selectors.installation(tenant_id, installation_id)
        port = adapters.port_of(tenant_id, facts)
        rooms = room_ids(tenant_id, facts.property_id)
    listed = port.list_devices(facts.property_id)
    with tenancy.tenant(tenant_id):
        known = list(DeviceRow.objects.filter(tenant_id=tenant_id, installation_id=installation_id).order_by("id"))
        zone = Zone(facts.time_zone, clock.now())
    return [_noted(line, zone) for line in compare(listed, known, rooms, table or {})]


def _refused(found: LockDevice, row: DeviceRow | None) -> Line:
    """Says why a door of the vendor's list is not imported, and that we hold a lock of this id where we do."""
    notes = (found.refused,) if row is None else (found.refused, "registered before: take it out, or say what it is")
    return Line(Action.REFUSED, found.external_id, found.label, None, found, row.id if row else None, notes=notes)


def _noted(line: Line, zone: Zone) -> Line:
    """Says of a lock that the vendor reckons its time otherwise than the property does."""
    offset_s = line.found.utc_offset_s if line.found is not None else None
    shift_s = zone.shift_s(offset_s)
    if not shift_s or offset_s is None:
        return line
    note = f"set to {utc_text(offset_s)}, the house keeps {utc_text(offset_s + shift_s)}"
    return replace(line, notes=(*line.notes, note))


def compare(
    listed: Sequence[LockDevice], known: Sequence[DeviceRow], rooms: Mapping[str, str], table: Mapping[str, Placing]
) -> list[Line]:
    """Compares the vendor's list with our rows. `rooms` is label → room id; `table` external id → placing."""
    by_external = {row.external_id: row for row in known}
    lines = []
    for found in sorted(listed, key=lambda device: device.external_id):
        row = by_external.pop(found.external_id, None)
        if found.refused:
            lines.append(_refused(found, row))
            continue
        placing = table.get(found.external_id) or (placing_of(row) if row else by_label(found.label, rooms))
        if placing is None:
            lines.append(Line(Action.UNMAPPED, found.external_id, found.label, None, found, None))
        elif row is None:
            lines.append(Line(Action.NEW, found.external_id, placing.label, placing, found, None))
        else:
            changes = _changes(row, found, placing)
            action = Action.CHANGED if changes else Action.SAME
            lines.append(Line(action, found.external_id, placing.label, placing, found, row.id, changes))
    lines += [
        Line(Action.MISSING, row.external_id, row.label, placing_of(row), None, row.id)
        for row in by_external.values()
        if row.active
    ]
    return lines


def apply(tenant_id: str, installation_id: str, lines: Iterable[Line]) -> int:
    """Writes the new and the changed locks of a survey in one transaction; returns how many were written.

    Where a lock is new or hangs elsewhere than we knew, live keys follow by a saga. Repeating it changes nothing: a lock
    registered meanwhile is left as it is.
    """
    written, moved, seen = 0, _Moved(), _Seen()
    with tenancy.tenant(tenant_id):
        now = clock.now()
        facts = selectors.installation(tenant_id, installation_id)
        for line in lines:
            if line.placing is None or line.found is None:
                continue
            if line.action is Action.NEW:
                row = _register(tenant_id, facts, line.placing, line.found, now)
                if row is not None:
                    written += 1
                    moved.note(row.id, line.placing)
                    seen.note(row.id, line.found)
            elif line.action is Action.CHANGED:
                row = DeviceRow.objects.select_for_update().get(tenant_id=tenant_id, id=line.device_id)
                before = placing_of(row)
                for name, value in _fields(line.found, line.placing).items():
                    setattr(row, name, value)
                row.save()
                written += 1
                if _where(before) != _where(line.placing):
                    moved.note(row.id, before, line.placing)
            if line.device_id is not None:
                seen.note(line.device_id, line.found)
        health.observe(tenant_id, seen.readings, now)
        _let_keys_follow(tenant_id, facts.property_id, installation_id, moved, now)
    selectors.forget()
    return written


@dataclass(slots=True)
class _Moved:
    """Locks that are new or hang elsewhere, the rooms they are or were on, and whether one is or was a shared door."""

    device_ids: set[str] = field(default_factory=set)
    rooms: set[str] = field(default_factory=set)
    shared: bool = False

    def note(self, device_id: str, *placings: Placing) -> None:
        """Adds a lock with where it was and where it is."""
        self.device_ids.add(device_id)
        for placing in placings:
            self.rooms |= set(placing.rooms)
            self.shared = self.shared or placing.shared


@dataclass(slots=True)
class _Seen:
    """What an import reads of locks beside what it writes: how far from UTC the vendor takes their clocks to be."""

    readings: dict[str, Reading] = field(default_factory=dict)

    def note(self, device_id: str, found: LockDevice) -> None:
        """Adds a lock whose vendor says so."""
        if found.utc_offset_s is not None:
            self.readings[device_id] = Reading(Source.LIST, utc_offset_s=found.utc_offset_s)


def _where(placing: Placing) -> tuple[frozenset[str], frozenset[str], bool]:
    return frozenset(placing.rooms), frozenset(placing.areas), placing.shared


def _let_keys_follow(tenant_id: str, property_id: str, installation_id: str, moved: _Moved, now: datetime) -> None:
    """Starts the sagas that bring live keys to their rooms' doors, and give keys to stays that had no lock. In the transaction
    that moved the locks: a lock on another room with the last guest's key in it would let a stranger in."""
    if not moved.device_ids:
        return
    act = outbox.new_event_id()
    start = Start(
        flow=DOORS_CHANGED,
        key=intake.own_key("doors-changed", installation_id, act),
        lane=intake.internal_lane(tenant_id),
        installation_id=installation_id,
        priority=intake.PRIORITY_SECURITY,
        args={
            "installation": installation_id, "deviceIds": sorted(moved.device_ids), "rooms": sorted(moved.rooms),
            "shared": moved.shared,
        },
    )  # fmt: skip
    again = Start(
        flow=STAYS_AGAIN,
        key=intake.own_key("stays-again", property_id, act),
        lane=intake.internal_lane(tenant_id),
        priority=intake.PRIORITY_ISSUE,
        args={"property": property_id},
    )
    intake.start(tenant_id, [(item, Cause(correlation_id=installation_id)) for item in (start, again)], now)


def by_label(label: str, rooms: Mapping[str, str]) -> Placing | None:
    """Returns the one room whose label stands in the lock's label as a word, upper or lower case; None for none or several."""
    words = {word.casefold() for word in _WORD.findall(label)}
    hits = [room_id for room, room_id in rooms.items() if room.casefold() in words or room.casefold() == label.casefold()]
    return Placing(label, (hits[0],)) if len(hits) == 1 else None


def read_table(lines: Iterable[str], rooms: Mapping[str, str]) -> dict[str, Placing]:
    """Reads a CSV table of doors: external_id, label, rooms (labels, separated by `;`), areas (likewise), shared (yes or no).

    Raises TableWrong.
    """
    reader = csv.DictReader(lines)
    table: dict[str, Placing] = {}
    try:
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise TableWrong(f"the first line must be {','.join(COLUMNS)}")
        for row in reader:
            number = reader.line_num
            _check_text(number, row)
            external_id = (row["external_id"] or "").strip()
            if not external_id or len(external_id) > 64 or external_id in table:
                raise TableWrong(f"line {number}, external_id: empty, too long or given twice")
            table[external_id] = _placing(number, row, rooms)
    except csv.Error as error:
        raise TableWrong(f"line {reader.line_num + 1}: {error}") from error
    except UnicodeDecodeError as error:
        raise TableWrong(f"after line {reader.line_num}: not UTF-8") from error
    return table


def _check_text(number: int, row: Mapping[str | None, Any]) -> None:
    """Refuses what no table of a person holds; cells beyond the last column come under None."""
    if None in row:
        raise TableWrong(f"line {number}: more than {len(COLUMNS)} cells")
    for name, value in row.items():
        if value and any(unicodedata.category(letter) == "Cc" for letter in value):
            raise TableWrong(f"line {number}, {name}: a control character")


def room_ids(tenant_id: str, property_id: str) -> dict[str, str]:
    """Returns the property's rooms, label → id. Inside the tenant's block."""
    return dict(Room.objects.filter(tenant_id=tenant_id, property_id=property_id).values_list("label", "room_id"))


def placing_of(row: DeviceRow) -> Placing:
    """Returns where a registered lock is."""
    return Placing(row.label, tuple(row.rooms), tuple(row.areas), row.shared)


def _placing(number: int, row: Mapping[str, Any], rooms: Mapping[str, str]) -> Placing:
    label = (row["label"] or "").strip()
    named, areas = _split(row["rooms"]), _split(row["areas"])
    shared = _TRUTH.get((row["shared"] or "").strip().lower())
    if not 0 < len(label) <= 120:
        raise TableWrong(f"line {number}, label: 1 to 120 characters")
    if unknown := [name for name in named if name not in rooms]:
        raise TableWrong(f"line {number}, rooms: {unknown[0]!r} is no room of this property")
    if unknown := [name for name in areas if name not in list(Area)]:
        raise TableWrong(f"line {number}, areas: {unknown[0]!r} is none of {', '.join(Area)}")
    if shared is None:
        raise TableWrong(f"line {number}, shared: yes or no")
    if len(set(named)) < len(named) or len(set(areas)) < len(areas):
        raise TableWrong(f"line {number}: a room or an area is named twice")
    if not named and not areas:
        raise TableWrong(f"line {number}: a lock needs a room or an area")
    return Placing(label, tuple(rooms[name] for name in named), tuple(areas), shared)


def _split(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(";") if part.strip()]


def _fields(found: LockDevice, placing: Placing) -> dict[str, Any]:
    """What the vendor's list and the table say of a lock; what the list leaves out stays as it was."""
    fields: dict[str, Any] = {
        "label": placing.label[:120],
        "rooms": list(placing.rooms),
        "areas": list(placing.areas),
        "shared": placing.shared,
        "gateway": found.gateway,
        "has_remote": found.has_remote,
        "capabilities": asdict(found.capabilities),
    }
    if found.firmware:
        fields["firmware"] = found.firmware[:60]
    if found.battery_percent is not None:
        fields["battery_percent"] = found.battery_percent
    return fields


def _changes(row: DeviceRow, found: LockDevice, placing: Placing) -> tuple[str, ...]:
    """Names what differs; a battery that runs down is no change of the installation."""
    wanted = _fields(found, placing)
    wanted.pop("battery_percent", None)
    return tuple(name for name, value in wanted.items() if getattr(row, name) != value)


def _register(
    tenant_id: str, facts: selectors.InstallationFacts, placing: Placing, found: LockDevice, now: datetime
) -> DeviceRow | None:
    """Writes a new lock with its event; None where it is registered already."""
    row, made = DeviceRow.objects.get_or_create(
        tenant_id=tenant_id,
        installation_id=facts.id,
        external_id=found.external_id,
        defaults={"id": new_id("lck"), "property_id": facts.property_id, "online": found.online, **_fields(found, placing)},
    )
    if not made:
        return None
    data: dict[str, Any] = {
        "deviceId": row.id,
        "propertyId": row.property_id,
        "vendor": facts.vendor,
        "label": row.label,
        "rooms": list(row.rooms),
        "capabilities": _camel(found.capabilities),
        "registeredAt": format_instant(now),
    }
    if row.firmware:
        data["firmware"] = row.firmware
    event = health.emission(row, Subject.DEVICE_REGISTERED, data)
    row.save(update_fields=["event_sequence"])
    outbox.write(tenant_id, [event], now)
    return row


def _camel(capabilities: LockCapabilities) -> dict[str, bool]:
    plain = asdict(capabilities)
    return {re.sub(r"_(\w)", lambda part: part[1].upper(), name): value for name, value in plain.items()}
