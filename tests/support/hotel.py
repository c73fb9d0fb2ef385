"""Builds a hotel of its own for a test: tenant, property, installation, devices, and a vendor to ask at the door.

One rule: every test makes its own tenant and cleans nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from credentials.models import KeyPolicyRow
from devices import adapters, selectors
from devices.models import LockDevice, VendorInstallation
from lockservice.core.places import Property, Room, Tenant
from lockservice.core.tenancy import tenant
from sagas.consumer import handle_body
from sagas.events import envelope
from sagas.events.registry import spec
from sagas.outbox import new_event_id
from vendors.port.ids import new_id

DAY = timedelta(days=1)
TIME_ZONE = "Asia/Kabul"
ALL_KINDS = {
    "mobile_key": True, "card_encoding": True, "pin": True, "qr": True, "nfc": True, "remote_revoke": True, "remote_issue": True,
}  # fmt: skip


@dataclass
class Hotel:
    """A hotel under test. `rooms` maps label → room id; `doors` maps room id or area → external id of its lock."""

    tenant_id: str
    property_id: str
    installation_id: str
    rooms: dict[str, str] = field(default_factory=dict)
    doors: dict[str, str] = field(default_factory=dict)
    devices: dict[str, str] = field(default_factory=dict)
    opened_at: datetime = field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0) - DAY)

    def booking(self, reservation_id: str, version: int, rooms: Sequence[str], **extra: Any) -> dict[str, Any]:
        """Returns the data of a booking event for rooms given by label; from yesterday for three days unless said otherwise."""
        start = extra.pop("start", self.opened_at)
        end = extra.pop("end", start + 3 * DAY)
        return {
            "reservationId": reservation_id,
            "propertyId": self.property_id,
            "version": version,
            "status": "confirmed",
            "rooms": [self.rooms[label] for label in rooms],
            "validFrom": start.isoformat(),
            "validUntil": end.isoformat(),
            "guest": {"id": f"gst_{reservation_id[-8:]}", "displayName": "زهرا احمدی", "contact": {}, "locale": "prs"},
            "paymentStatus": "captured",
            **extra,
        }

    def event(self, subject: str, data: Mapping[str, Any], event_id: str | None = None) -> bytes:
        """Returns an encoded event of this tenant. Short subjects such as `booking.confirmed` are completed."""
        return envelope.encode(
            envelope.Envelope(
                id=event_id or new_event_id(),
                subject=full_subject(subject),
                source="/services/reservation-service",
                time=datetime.now(UTC),
                tenant_id=self.tenant_id,
                data=dict(data),
            )
        )

    def tell(self, subject: str, data: Mapping[str, Any], event_id: str | None = None) -> str:
        """Hands an event to the consumer's handler, as a delivery would, and returns what came of it."""
        body = self.event(subject, data, event_id)
        return handle_body(spec(full_subject(subject)).topic or "", str(data.get("reservationId", "")), body)


def full_subject(short: str) -> str:
    """Completes `booking.confirmed` to the subject of its service."""
    if short.startswith("melmastoon."):
        return short
    service = "reservation." if short.startswith("booking.") else ""
    return f"melmastoon.{service}{short}.v1"


def point(hotel: Hotel, url: str, installation_id: str = "") -> None:
    """Gives an installation on the mock another address, with which other failures come, from now on."""
    with tenant(hotel.tenant_id):
        row = VendorInstallation.objects.get(tenant_id=hotel.tenant_id, id=installation_id or hotel.installation_id)
    adapters.seal_installation(row, {"url": url}, {})
    selectors.forget()


def build_hotel(
    *,
    vendor: str,
    settings: Mapping[str, object],
    secrets: Mapping[str, str] | None = None,
    rooms: Mapping[str, str],
    shared: Mapping[str, str] | None = None,
    gateways: Mapping[str, str] | None = None,
    time_zone: str = TIME_ZONE,
    policy: Mapping[str, Any] | None = None,
    capabilities: Mapping[str, bool] | None = None,
    has_remote: bool = True,
    into: Hotel | None = None,
    **installation: Any,
) -> Hotel:
    """Makes tenant, property and an installation with one device per room (label → external id) and shared area.

    `gateways` maps external ids to gateways. `into` adds the installation to a hotel that exists.
    """
    tenant_id = into.tenant_id if into else new_id("tnt")
    property_id = into.property_id if into else new_id("ppt")
    hotel = into or Hotel(tenant_id, property_id, "")
    with tenant(tenant_id):
        if into is None:
            Tenant.objects.create(tenant_id=tenant_id, name="Test hotels")
            Property.objects.create(tenant_id=tenant_id, property_id=property_id, name="Test house", time_zone=time_zone)
            if policy:
                KeyPolicyRow.objects.create(tenant_id=tenant_id, property_id=property_id, values=dict(policy))
    row = VendorInstallation(
        id=new_id("vad"),
        tenant_id=tenant_id,
        property_id=property_id,
        vendor=vendor,
        label=f"{vendor} locks",
        **installation,
    )
    adapters.seal_installation(row, dict(settings), dict(secrets or {}))
    hotel.installation_id = row.id
    with tenant(tenant_id):
        _add_doors(hotel, row, rooms, shared or {}, gateways or {}, dict(capabilities or ALL_KINDS), has_remote)
    return hotel


def _add_doors(
    hotel: Hotel,
    row: VendorInstallation,
    rooms: Mapping[str, str],
    shared: Mapping[str, str],
    gateways: Mapping[str, str],
    capabilities: dict[str, bool],
    has_remote: bool,
) -> None:
    for label, external in rooms.items():
        room_id = new_id("rmu")
        hotel.rooms[label] = room_id
        hotel.doors[label] = external
        Room.objects.create(tenant_id=row.tenant_id, property_id=row.property_id, room_id=room_id, label=label, floor=label[:1])
        _device(hotel, row, label, external, gateways, capabilities, has_remote, rooms=[room_id])
    for area, external in shared.items():
        hotel.doors[area] = external
        _device(hotel, row, area, external, gateways, capabilities, has_remote, areas=[area], shared=True)


def _device(
    hotel: Hotel, row: VendorInstallation, label: str, external: str, gateways: Mapping[str, str], capabilities: dict[str, bool],
    has_remote: bool, **place: Any,
) -> None:  # fmt: skip
    device_id = new_id("lck")
    hotel.devices[label] = device_id
    LockDevice.objects.create(
        id=device_id, tenant_id=row.tenant_id, property_id=row.property_id, installation=row, external_id=external,
        label=label, gateway=gateways.get(external, ""), has_remote=has_remote, capabilities=capabilities, **place,
    )  # fmt: skip


def pretty(value: Any) -> str:
    """Returns JSON for an assertion's message."""
    return json.dumps(value, indent=1, default=str, sort_keys=True)
