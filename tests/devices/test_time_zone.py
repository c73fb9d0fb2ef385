"""What an adapter is told of its property's clock."""

from __future__ import annotations

import pytest

from devices import adapters, selectors
from lockservice.core.places import Property
from lockservice.core.tenancy import tenant
from tests.support.hotel import Hotel
from vendors import registry
from vendors.port.manifest import AdapterContext
from vendors.port.protocol import LockPort


def test_an_adapter_is_told_its_propertys_time_zone_and_a_change_of_it(hotel: Hotel, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    def build(vendor: str, context: AdapterContext) -> LockPort:
        told.append(context.time_zone)
        return real(vendor, context)

    real = registry.build
    monkeypatch.setattr(registry, "build", build)
    for zone in ("Asia/Kabul", "Asia/Kolkata", "Asia/Kolkata"):
        with tenant(hotel.tenant_id):
            Property.objects.filter(tenant_id=hotel.tenant_id, property_id=hotel.property_id).update(time_zone=zone)
            selectors.forget()
            port = adapters.port_of(hotel.tenant_id, selectors.installation(hotel.tenant_id, hotel.installation_id))
        assert port.describe_adapter().vendor == "mock"
    assert told == ["Asia/Kabul", "Asia/Kolkata"]
