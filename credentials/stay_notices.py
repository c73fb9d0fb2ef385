"""What the desk must know of a stay: warnings kept with it, and alerts that name it.

One rule: a stay is named as the desk knows it, by its property and its rooms; the guest's name is never part of a text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from credentials.models import Reservation
from lockservice.core.places import Property, Room
from sagas.alerts import NewAlert
from vendors.port.secrets import Secret

RUNBOOK: Final = "lock/booking-not-followed"

ROOM_WITHOUT_LOCK: Final = "ROOM_WITHOUT_LOCK"
NO_KIND_FITS: Final = "NO_KIND_FITS"
STATUS_UNKNOWN: Final = "BOOKING_STATUS_UNKNOWN"
CONFLICT: Final = "BOOKING_CONFLICT"
NOT_READ: Final = "BOOKING_NOT_READ"
NO_SHOW_CONTRADICTED: Final = "NO_SHOW_CONTRADICTED"
HELD_SHUT: Final = "KEY_REVOKED_BY_PERSON"

ROOMS_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class StayName:
    """A stay as an alert names it. `rooms` are labels, or ids as written where no such room is known."""

    reservation_id: str
    property_id: str
    house: str
    rooms: tuple[str, ...]
    guest: Secret | None = None

    @property
    def text(self) -> str:
        """Returns property and rooms in words."""
        shown = ", ".join(self.rooms[:ROOMS_SHOWN]) + (" …" if len(self.rooms) > ROOMS_SHOWN else "")
        house = self.house or self.property_id
        return f"{house}, room {shown}" if shown else f"{house}, no room yet"


def name_of(row: Reservation) -> StayName:
    """Returns how alerts name a stay of the projection. Inside the tenant's block."""
    return name_stay(row.tenant_id, row.reservation_id, row.property_id, row.rooms)


def name_stay(
    tenant_id: str, reservation_id: str, property_id: str, rooms: Sequence[str], guest: Secret | None = None
) -> StayName:
    """Returns how alerts name a stay that only an event tells of. Inside the tenant's block."""
    house = Property.objects.filter(tenant_id=tenant_id, property_id=property_id).values_list("name", flat=True).first()
    return StayName(reservation_id, property_id, house or "", tuple(room_names(tenant_id, rooms)), guest)


def room_names(tenant_id: str, rooms: Sequence[str]) -> list[str]:
    """Returns the rooms' labels; an id as written where no such room is known."""
    known = Room.objects.filter(tenant_id=tenant_id, room_id__in=list(rooms)).values_list("room_id", "label")
    labels = dict(known)
    return [labels.get(room, room) for room in rooms]


def stay_alert(name: StayName, code: str, severity: str, what: str, cause: str, *, credential_id: str = "") -> NewAlert:
    """Makes an alert about a stay. `cause` tells it apart from other alerts of the code about this stay."""
    return NewAlert(
        key=f"{code.lower()}:{name.reservation_id}:{cause}"[:120],
        code=code,
        severity=severity,
        detail=f"{name.text}: {what}",
        runbook=RUNBOOK,
        property_id=name.property_id,
        credential_id=credential_id,
        reservation_id=name.reservation_id,
        guest=name.guest,
    )


def warn(row: Reservation, code: str, detail: str) -> bool:
    """Adds a warning to a locked stay, one per code. False when it stood there word for word."""
    new = {"code": code, "detail": detail}
    if new in row.warnings:
        return False
    row.warnings = [*(item for item in row.warnings if item["code"] != code), new]
    return True


def clear(row: Reservation, codes: Iterable[str]) -> bool:
    """Takes warnings off a locked stay. False when none of them was there."""
    gone = set(codes)
    kept = [item for item in row.warnings if item["code"] not in gone]
    changed = len(kept) < len(row.warnings)
    row.warnings = kept
    return changed


def lacks_something(row: Reservation) -> bool:
    """Says whether a stay could not be given something that a lock or another policy would let it have."""
    return any(item["code"] in (ROOM_WITHOUT_LOCK, NO_KIND_FITS) for item in row.warnings)


def save(row: Reservation) -> None:
    """Writes a locked stay's warnings."""
    rows = Reservation.objects.filter(tenant_id=row.tenant_id, reservation_id=row.reservation_id)
    rows.update(warnings=row.warnings)
