"""Bookings that cannot be followed as told: a status nobody knows, one version with two contents, an event nobody can read.

One rule: such an event changes no key; the hotel is told which stay it is about, by what can be read of it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from credentials import stay_notices
from credentials.models import Reservation
from credentials.reservations import ENDED, Applied, content_of
from credentials.stay_notices import StayName
from lockservice.core import clock, tenancy
from lockservice.core.places import Tenant
from sagas.alerts import NewAlert, raise_alerts
from sagas.events import registry
from sagas.events.event_spec import Ordering
from sagas.events.inbound import PersonalText, ReservationEvent
from sagas.events.refusals import EventRefused
from vendors.port.ids import canonical_property_id

NAME_MAX: Final = 200
ROOMS_MAX: Final = 50
_ID: Final = re.compile(r"[!-~]{1,64}")
_ENDINGS: Final = ("cancelled", "checked_out", "early_checkout", "no_show", "fraud_flagged")


def tell(event: ReservationEvent, applied: Applied) -> NewAlert:
    """Makes the alert about an event that was understood and not followed; a stay that is known keeps it as a warning."""
    row = applied.row
    guest = event.guest.display_name if event.guest is not None and row is None else None
    rooms = event.rooms or (tuple(row.rooms) if row is not None else ())
    name = stay_notices.name_stay(event.tenant_id, event.reservation_id, event.property_id, rooms, guest)
    if applied.odd == stay_notices.CONFLICT:
        what = f"version {event.version} of the booking came twice with different content; the first one is followed"
        _keep(row, stay_notices.CONFLICT, what)
        cause = f"{event.version}:{content_of(event)[-16:]}"
        return stay_notices.stay_alert(name, stay_notices.CONFLICT, "warning", f"{what}: ask which is true", cause)
    what = f"version {event.version} of the booking says a status that is not known; nothing was changed"
    _keep(row, stay_notices.STATUS_UNKNOWN, what)
    severity = "warning" if row is not None and row.status in ENDED else "critical"
    what = f"{what}: see what it means for the guest, and have it sent again"
    return stay_notices.stay_alert(name, stay_notices.STATUS_UNKNOWN, severity, what, str(event.version))


def _keep(row: Reservation | None, code: str, what: str) -> None:
    if row is not None and stay_notices.warn(row, code, what):
        stay_notices.save(row)


def tell_unread(tenant_id: str, topic: str, body: bytes, code: str, detail: str) -> None:
    """Raises the alert about a message that went to the dead letters, where it was about a stay. Opens its own transaction."""
    subject = _subject_of_stay(topic)
    if subject is None:
        return
    document = _read(body)
    if tenant_id == tenancy.UNATTRIBUTED and code != "UNKNOWN_TENANT":
        tenant_id = _tenant_named(document)
    is_ours = tenant_id != tenancy.UNATTRIBUTED
    ends = any(f".{word}." in subject for word in _ENDINGS)
    moves_keys = ".booking." in subject
    effect = "what it should end stays as it is" if ends else "her keys do not follow it"
    what = f"an event about the booking could not be read ({code}: {detail[:80]}); {effect}: act by hand, have it sent again"
    with tenancy.tenant(tenant_id):
        name = _name(tenant_id, document, with_guest=is_ours)
        cause = hashlib.sha256(body).hexdigest()[:24]
        severity = "critical" if moves_keys else "warning"
        alert = stay_notices.stay_alert(name, stay_notices.NOT_READ, severity, what, cause)
        raise_alerts(tenant_id, [alert], clock.now())


def _subject_of_stay(topic: str) -> str | None:
    try:
        spec = registry.spec(topic)
    except EventRefused:
        return None
    return spec.subject if spec.ordering is Ordering.RESERVATION else None


def _read(body: bytes) -> Mapping[str, Any]:
    """Reads what can be read of a message; whatever it is, the result is a mapping."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _tenant_named(document: Mapping[str, Any]) -> str:
    """Returns the tenant that a message without a good envelope names, if it is one of ours."""
    named = _id(document.get("tenantId"))
    if not named:
        return tenancy.UNATTRIBUTED
    with tenancy.tenant(named):
        known = Tenant.objects.filter(tenant_id=named, active=True).exists()
    return named if known else tenancy.UNATTRIBUTED


def _name(tenant_id: str, document: Mapping[str, Any], *, with_guest: bool) -> StayName:
    found = document.get("data")
    data = found if isinstance(found, dict) else {}
    reservation_id, property_id = _id(data.get("reservationId")), _id(data.get("propertyId"))
    rooms = data.get("rooms")
    written = [_printable(room)[:64] for room in rooms[:ROOMS_MAX] if isinstance(room, str)] if isinstance(rooms, list) else []
    known = Reservation.objects.filter(tenant_id=tenant_id, reservation_id=reservation_id).first()
    is_known = known is not None and known.guest_sealed is not None
    guest = _guest(data) if with_guest and not is_known else None
    if known is not None:
        property_id, written = property_id or known.property_id, written or list(known.rooms)
    return stay_notices.name_stay(tenant_id, reservation_id, canonical_property_id(property_id), written, guest)


def _guest(data: Mapping[str, Any]) -> PersonalText | None:
    guest = data.get("guest")
    name = guest.get("displayName") if isinstance(guest, dict) else None
    shown = _printable(name)[:NAME_MAX] if isinstance(name, str) else ""
    return PersonalText(shown) if shown else None


def _printable(text: str) -> str:
    return "".join(letter for letter in text if letter.isprintable())


def _id(value: object) -> str:
    return value if isinstance(value, str) and _ID.fullmatch(value) else ""
