"""Phones' keys at doors on the network: a move that was put off is made whole, and no key is made before its stay begins where a
later stay's would put it out."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest

from credentials import artifacts
from credentials.models import CredentialDoor, KeyCredential
from devices import adapters, simulated
from devices.simulated import SimulatorPlace
from lockservice.core.tenancy import tenant
from sagas.models import Lane, Saga
from sagas.runner import Runner
from tests.support.hotel import Hotel, build_hotel
from tests.support.rate_pause import waited_for_limit
from tests.vendors.site import Simulator
from vendors.port.ids import new_id
from vendors.port.simulated import Breakable, Effect, HeldKey, SimulatorControl, WantedDoor, WantedHouse
from vendors.port.types import CredentialKind

ROOMS = ("101", "102")
PHONE = CredentialKind.MOBILE_APP
ONLINE = {"mobile_key": True, "card_encoding": True, "remote_issue": True, "remote_revoke": True}
OUTRANKING = sorted(code for code, manifest in adapters.manifests().items() if manifest.outranking_kinds)


@dataclass
class PhoneHouse:
    """A house of one vendor whose doors are on the network, and whose guests have phones."""

    control: SimulatorControl
    trouble: Breakable
    hotel: Hotel

    def work(self, *, at_once: bool = True) -> None:
        """Runs what is due; `at_once` also what was put off."""
        self._round(at_once=at_once)
        while at_once and waited_for_limit(self.hotel.tenant_id):
            self._round(at_once=True)

    def _round(self, *, at_once: bool) -> None:
        with tenant(self.hotel.tenant_id):
            mine = {"tenant_id": self.hotel.tenant_id}
            if at_once:
                CredentialDoor.objects.filter(**mine).update(due_at=None)
                Saga.objects.filter(**mine, status="retry").update(status="due", due_at=None)
            lanes = list(Lane.objects.filter(**mine).values_list("key", flat=True))
        Runner(only=lanes).run(until=lambda: False, drain=True, max_s=30)

    def tell(self, subject: str, stay: str, version: int, rooms: Sequence[str], **extra: Any) -> None:
        guest = {"id": f"gst_{stay[-8:]}", "displayName": "Ana Falk", "contact": {"phoneE164": f"+93700{version:06d}"}}
        self.hotel.tell(subject, self.hotel.booking(stay, version, rooms, guest=guest, **extra))

    def key(self, stay: str) -> KeyCredential:
        with tenant(self.hotel.tenant_id):
            return KeyCredential.objects.get(tenant_id=self.hotel.tenant_id, reservation_id=stay)

    def held(self) -> list[HeldKey]:
        return list(self.control.held([self.hotel.doors[room] for room in ROOMS]))

    def opens(self, key: KeyCredential) -> list[str]:
        """The rooms that the guest's phone opens."""
        with tenant(self.hotel.tenant_id):
            token = artifacts.reveal(artifacts.current(self.hotel.tenant_id, [key.id])[key.id]).reveal()
        return [room for room in ROOMS if self.control.try_door(self.hotel.doors[room], PHONE, token).is_open]


@pytest.fixture(params=OUTRANKING)
def phones(request: pytest.FixtureRequest, database: str, simulators: dict[str, Simulator]) -> PhoneHouse:
    vendor = request.param
    simulator = simulators[vendor]
    place = SimulatorPlace(urlsplit(simulator.url).netloc, simulator.control)
    control = simulated.control_of(vendor, place)
    assert isinstance(control, Breakable)
    doors = [WantedDoor(int(room), room) for room in ROOMS]
    house = WantedHouse(f"phones-{secrets.token_hex(4)}", 1 + secrets.randbelow(190_000), doors, 0, secrets.token_hex(8), True)
    built = control.build(house)
    hotel = build_hotel(
        vendor=vendor, settings=built.settings, secrets=built.secrets,
        rooms={room: built.doors[int(room)] for room in ROOMS}, capabilities=ONLINE, time_zone="UTC",
        policy={"kinds": ["mobile_app"], "default_areas": []},
    )  # fmt: skip
    hotel.opened_at = hotel.opened_at.replace(second=0)
    return PhoneHouse(control, control, hotel)


def test_a_move_that_the_vendor_put_off_is_made_whole_though_its_doors_come_due_one_by_one(phones: PhoneHouse) -> None:
    stay = new_id("rsv")
    phones.tell("booking.confirmed", stay, 1, ["101"])
    phones.work()
    assert (phones.key(stay).state, phones.opens(phones.key(stay))) == ("active", ["101"])

    phones.trouble.break_calls(Effect.THROTTLED, 1)
    phones.tell("booking.dates_changed", stay, 2, ["102"])
    phones.work()
    with tenant(phones.hotel.tenant_id):
        rows = CredentialDoor.objects.filter(tenant_id=phones.hotel.tenant_id, credential_id=phones.key(stay).id)
        assert rows.filter(due_at__isnull=False).count() == 2, "the vendor was to put the change off"
        rows.filter(dropped=False).update(due_at=None)  # the new room may be asked for, the old one not yet
        Saga.objects.filter(tenant_id=phones.hotel.tenant_id, status="retry").update(status="due", due_at=None)
    phones.work(at_once=False)
    assert phones.opens(phones.key(stay)) == ["101"], "the guest has a room at every moment"
    phones.work()
    assert phones.opens(phones.key(stay)) == ["102"]
    assert [key.door for key in phones.held()] == [phones.hotel.doors["102"]]
    with tenant(phones.hotel.tenant_id):
        assert not Saga.objects.filter(tenant_id=phones.hotel.tenant_id).exclude(status="done").exists()


def test_a_key_booked_ahead_is_made_when_its_stay_begins_and_puts_out_nobody_before(phones: PhoneHouse) -> None:
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    later, walk_in = new_id("rsv"), new_id("rsv")
    phones.tell("booking.confirmed", later, 1, ["101"], start=now + timedelta(days=2), end=now + timedelta(days=3))
    phones.work()
    phones.tell("booking.confirmed", walk_in, 1, ["101"], start=now - timedelta(hours=1), end=now + timedelta(days=1))
    phones.work()
    assert phones.opens(phones.key(walk_in)) == ["101"]
    ahead = phones.key(later)
    with tenant(phones.hotel.tenant_id):
        saga = Saga.objects.get(tenant_id=phones.hotel.tenant_id, credential_id=ahead.id)
    assert (ahead.state, saga.status, saga.hotel_due_at) == ("requested", "timer", ahead.valid_from)
    assert len(phones.held()) == 1
