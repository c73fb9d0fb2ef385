"""A vendor's own limit in the middle of a verb: the saga knows that the verb had begun, and the door shows one effect."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from credentials import artifacts
from credentials.models import KeyCredential
from lockservice.core.tenancy import tenant
from sagas import acts
from sagas.acts import Actor
from tests.flows.conftest import doors, keys, pin_of
from tests.support.hotel import Hotel
from tests.support.sweep_ttlock import TtlockCloud, TtlockHotel
from vendors.port.ids import new_id
from vendors.port.types import SuspendReason

Settle = Callable[..., int]
TOO_FAST = 30006
CLERK = Actor("usr_clerk")


@pytest.fixture(scope="module")
def cloud() -> Iterator[TtlockCloud]:
    running = TtlockCloud()
    yield running
    running.stop()


def _phone_of(hotel: Hotel, key: KeyCredential) -> str:
    with tenant(hotel.tenant_id):
        row = artifacts.current(hotel.tenant_id, [key.id])[key.id]
        return str(json.loads(artifacts.reveal(row).reveal())["username"])


def test_a_key_thawed_before_the_limit_is_in_doubt_and_is_taken_away_when_it_is_called_off(
    database: str, cloud: TtlockCloud, settle: Settle
) -> None:
    place = TtlockHotel(cloud, policy={"kinds": ["mobile_app"]})
    hotel, door = place.hotel, place.hotel.doors["101"]
    hotel.tell("booking.confirmed", hotel.booking(new_id("rsv"), 1, ["101"]))
    settle(hotel)
    (key,) = keys(hotel)
    phone = _phone_of(hotel, key)
    acts.suspend(hotel.tenant_id, key.id, SuspendReason.MANUAL, CLERK, "a")
    settle(hotel)
    assert not place.doors.opens(door, "mobile_app", phone)
    place.fault(path="key/changePeriod", errcode=TOO_FAST, times=1)
    acts.unsuspend(hotel.tenant_id, key.id, CLERK, "b")
    settle(hotel)
    assert place.doors.opens(door, "mobile_app", phone)  # thawed; its period could not be set
    half = doors(hotel, key)["101"]
    assert (half.state, half.verb, half.attempts) == ("suspended", "unsuspend", 1)
    hotel.tell("booking.cancelled", hotel.booking(key.reservation_id, 2, ["101"], status="cancelled"))
    settle(hotel, now=True, rounds=3)
    assert not place.doors.opens(door, "mobile_app", phone)
    assert (keys(hotel)[0].state, doors(hotel, key)["101"].state, keys(hotel)[0].open_work) == ("revoked", "absent", False)


def test_a_code_deleted_before_the_limit_stays_in_doubt_until_the_door_was_looked_at(
    database: str, cloud: TtlockCloud, settle: Settle
) -> None:
    place = TtlockHotel(cloud)
    hotel, stay = place.hotel, new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel)
    (key,) = keys(hotel)
    pin = pin_of(hotel, key)
    place.fault(path="lock/listKeyboardPwd", errcode=TOO_FAST, times=1)
    hotel.tell("booking.cancelled", hotel.booking(stay, 2, ["101"], status="cancelled"))
    settle(hotel)
    half = doors(hotel, key)["101"]
    assert (half.state, half.verb, half.attempts) == ("present", "revoke", 1)
    settle(hotel, now=True, rounds=3)
    done = doors(hotel, key)["101"]
    assert (done.state, done.verb) == ("absent", "")
    assert not place.doors.opens(hotel.doors["101"], "pin_code", pin)
    assert place.done("keyboardPwd/delete") == place.done("keyboardPwd/add")


def test_a_limit_before_anything_was_changed_is_no_attempt(database: str, cloud: TtlockCloud, settle: Settle) -> None:
    place = TtlockHotel(cloud)
    hotel = place.hotel
    place.fault(path="keyboardPwd/add", errcode=TOO_FAST, times=1)
    hotel.tell("booking.confirmed", hotel.booking(new_id("rsv"), 1, ["101"]))
    settle(hotel)
    (key,) = keys(hotel)
    waiting = doors(hotel, key)["101"]
    assert (waiting.state, waiting.verb, waiting.attempts) == ("none", "", 0)
    settle(hotel, now=True, rounds=3)
    assert place.doors.opens(hotel.doors["101"], "pin_code", pin_of(hotel, key))
    assert (place.done("keyboardPwd/add"), place.calls("lock/listKeyboardPwd")) == (1, 0)
