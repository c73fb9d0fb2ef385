"""Who starts a stay at a door: whichever of its keys comes first ends the last guest's, and no later one ends another of the stay."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.conf import settings

from credentials import artifacts
from credentials import house as houses
from credentials.models import CredentialDoor, KeyCredential, KeyPolicyRow
from devices import selectors
from devices.models import LockDevice
from lockservice.core.tenancy import tenant
from sagas import acts
from sagas.models import Saga
from tests.doors.conftest import CLERK, House, Salto, SaltoPms, Visionline
from tests.doors.test_phones import PhoneHouse, phones  # noqa: F401 - a fixture
from tests.flows.conftest import make_hotel
from tests.flows.test_fall_back import open_breaker
from tests.support.mock_locks import MockLocks
from vendors.port.ids import new_id
from vendors.port.simulated import Effect
from vendors.port.types import CredentialKind, RevokeReason, Window

Build = Callable[[type[House]], House]
KINDS = pytest.mark.parametrize("kind", [Salto, SaltoPms, Visionline], ids=["salto", "salto pms", "visionline"])


def left(house: House, room: str = "101") -> str:
    """A guest who was here before and has left; returns her card, which the lock still takes."""
    stay, card = house.check_in(room)
    assert house.tries(card, room)
    house.tell("booking.early_checkout", stay, 2, [room], status="checked_out")
    assert house.tries(card, room)
    return card


@KINDS
def test_a_companion_who_comes_to_the_desk_first_starts_the_stay_and_the_guest_joins_it(
    kind: type[House], build: Build
) -> None:
    house = build(kind)
    before = left(house)
    stay = house.book()
    companions = house.encode(house.companion(stay))
    first, second = house.keys(stay)
    assert (first.state, first.waiting_for, second.state, second.intent) == ("requested", "desk", "active", "new")
    assert house.tries(companions, "101")
    assert not house.tries(before, "101"), "the last guest is out once the stay has begun"
    guests = house.encode(first)
    for shown in (guests, companions, guests, companions):
        assert house.tries(shown, "101")
    assert not house.tries(before, "101")
    assert [(key.state, key.intent) for key in house.keys(stay)] == [("active", "additional"), ("active", "new")]


@KINDS
def test_a_companion_who_is_given_a_card_after_the_only_other_one_was_taken_back_starts_the_stay_anew(
    kind: type[House], build: Build
) -> None:
    house = build(kind)
    stay, card = house.check_in()
    assert house.tries(card, "101")
    second = house.companion(stay)
    acts.revoke(house.hotel.tenant_id, house.keys(stay)[0].id, RevokeReason.LOST, CLERK, "lost", reissue=False)
    house.work()
    shown = house.encode(second)
    assert house.tries(shown, "101")
    assert not house.tries(card, "101")


def test_a_guest_of_two_rooms_who_starts_one_of_them_over_her_companion_has_the_companions_card_made_again(
    build: Build,
) -> None:
    house = build(Visionline)
    before = left(house, "102")
    stay = new_id("rsv")
    house.tell("booking.confirmed", stay, 1, ["101", "102"])
    companions = house.encode(house.companion(stay))
    assert house.opens(companions) == ["101"]
    guests = house.encode(house.keys(stay)[0])
    assert house.opens(guests) == ["101", "102"]
    assert not house.tries(before, "102")
    assert not house.tries(companions, "101")
    (again,) = [key for key in house.keys(stay) if key.ordinal and key.state == "requested"]
    assert (again.waiting_for, again.intent, [w["code"] for w in again.warnings]) == ("desk", "additional", ["CARD_KILLED"])
    fresh = house.encode(again)
    for shown in (fresh, guests, fresh):
        assert house.tries(shown, "101")


def _phone(phones: PhoneHouse, stay: str) -> KeyCredential:  # noqa: F811 - the fixture's value
    """The desk asks for a companion's phone key."""
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    command = acts.IssueCommand(
        phones.hotel.property_id, (phones.hotel.rooms["101"],), Window(now - timedelta(hours=1), now + timedelta(days=1)),
        f"gst_{stay[-8:]}", stay, preferred_kinds=(CredentialKind.MOBILE_APP,),
    )  # fmt: skip
    made = acts.issue(phones.hotel.tenant_id, command, CLERK, secrets.token_hex(4))
    with tenant(phones.hotel.tenant_id):
        return KeyCredential.objects.get(tenant_id=phones.hotel.tenant_id, id=made.credential_id)


def _keys(phones: PhoneHouse, stay: str) -> list[KeyCredential]:  # noqa: F811 - the fixture's value
    with tenant(phones.hotel.tenant_id):
        return list(KeyCredential.objects.filter(tenant_id=phones.hotel.tenant_id, reservation_id=stay).order_by("ordinal"))


def test_a_companions_phone_waits_while_the_vendor_puts_the_first_one_off(
    phones: PhoneHouse,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settings, "RETRY_SCALE", 3600)  # what was put off comes due when the test says so
    stay = new_id("rsv")
    phones.trouble.break_calls(Effect.THROTTLED, 1)
    phones.tell("booking.confirmed", stay, 1, ["101"])
    phones.work(at_once=False)
    companion = _phone(phones, stay)
    phones.work(at_once=False)
    assert [key.state for key in _keys(phones, stay)] == ["pending", "requested"]
    assert phones.held() == []
    with tenant(phones.hotel.tenant_id):
        asked = CredentialDoor.objects.exclude(verb="", attempts=0).filter(tenant_id=phones.hotel.tenant_id)
        assert not asked.filter(credential_id=companion.id).exists()
    phones.work()
    phones.work()
    first, second = _keys(phones, stay)
    assert [(key.state, key.intent) for key in (first, second)] == [("active", "new"), ("active", "additional")]
    assert second.id == companion.id
    assert [phones.opens(key) for key in (first, second, first)] == [["101"]] * 3


def test_a_companions_phone_does_not_wait_for_a_first_key_that_nobody_works_on(
    phones: PhoneHouse,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settings, "RETRY_SCALE", 3600)
    stay = new_id("rsv")
    phones.trouble.break_calls(Effect.THROTTLED, 1)
    phones.tell("booking.confirmed", stay, 1, ["101"])
    phones.work(at_once=False)
    with tenant(phones.hotel.tenant_id):
        dead = Saga.objects.get(tenant_id=phones.hotel.tenant_id, reservation_id=stay)
        dead.status, dead.due_at = "dead", None
        dead.save()
    _phone(phones, stay)
    phones.work()
    first, second = _keys(phones, stay)
    assert (first.state, second.state, second.intent, phones.opens(second)) == ("pending", "active", "new", ["101"])
    acts.retry_saga(phones.hotel.tenant_id, dead.id)
    phones.work()
    first, second = _keys(phones, stay)
    assert (first.state, first.intent) == ("active", "additional")
    assert [phones.opens(key) for key in (second, first, second)] == [["101"]] * 3


@pytest.fixture(scope="module")
def away() -> Iterator[MockLocks]:
    """Give the process of a lock system that will be away."""
    mock = MockLocks()
    yield mock
    mock.stop()


@KINDS
def test_a_room_whose_vendor_is_away_gets_one_more_card_of_the_spare_system_which_puts_the_last_guest_out(
    kind: type[House], build: Build, away: MockLocks
) -> None:
    house = build(kind)
    hotel, spare = house.hotel, house.hotel.installation_id
    before = left(house, "101")
    make_hotel(away, rooms={"front": new_id("lck")}, shared={}, into=hotel)
    with tenant(hotel.tenant_id):
        LockDevice.objects.filter(tenant_id=hotel.tenant_id, id=hotel.devices["front"]).update(rooms=[hotel.rooms["101"]])
        values = {"kinds": ["pin_code", "rfid_card"], "default_areas": [], "fallback_installation_id": spare}
        KeyPolicyRow.objects.filter(tenant_id=hotel.tenant_id).update(values=values | {"outage_patience_minutes": 600})
    selectors.forget()
    houses.forget()
    open_breaker(hotel)
    stay = new_id("rsv")
    house.tell("booking.confirmed", stay, 1, ["101", "102"])
    (own,) = [key for key in house.keys(stay) if key.installation_id == spare]
    card = house.encode(own)
    assert house.opens(card) == ["102"]
    with tenant(hotel.tenant_id):
        KeyPolicyRow.objects.filter(tenant_id=hotel.tenant_id).update(values=values | {"outage_patience_minutes": 0})
    houses.forget()
    house.work()
    house.work()
    (failed,) = [key for key in house.keys(stay) if key.state == "failed"]
    further = house.key(str(failed.replaced_by))
    assert (further.ordinal, further.rooms, further.waiting_for) == (1, [hotel.rooms["101"]], "desk")
    assert (further.replaces, [w["code"] for w in further.warnings]) == (failed.id, ["LOCK_SYSTEM_CHANGED"])
    second = house.encode(further)
    assert house.tries(second, "101")
    assert not house.tries(before, "101")
    assert [house.tries(card, room) for room in ("102", "101")] == [True, False]
    house.tell("booking.dates_changed", stay, 2, ["101", "102"], end=house.end + timedelta(days=1))
    live = [key for key in house.keys(stay) if key.state == "active"]
    assert sorted((key.ordinal, hotel.rooms["101"] in key.rooms) for key in live) == [(0, False), (1, True)]
    with tenant(hotel.tenant_id):
        assert artifacts.current(hotel.tenant_id, [failed.id]) == {}
