"""An exception that no adapter foresaw: told at once, tried again like any failure, and no guest waits for a programmer."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lockservice.core.tenancy import tenant
from sagas.models import Alert, OutboxEvent, Saga
from tests.flows.conftest import alerts, events, keys, pin_of
from tests.support.added_vendor import added_vendor
from tests.support.hotel import Hotel, build_hotel
from tests.support.mock_locks import MockLocks
from vendors.port.ids import new_id

Settle = Callable[..., int]

MANIFEST = """
from dataclasses import replace
from vendors.mock.manifest import MANIFEST as MOCK
MANIFEST = replace(MOCK, code="sloppy", display_name="Sloppy locks", adapter="vendors.sloppy.adapter:build",
                   setting_names=(*MOCK.setting_names, "verb", "times"))
"""
ADAPTER = """
from dataclasses import replace
from vendors.mock.adapter import build as build_mock
MADE = {}
class Sloppy:
    def __init__(self, context):
        self._verb, self._times = context.settings["verb"], int(context.settings["times"])
        own = {name: value for name, value in context.settings.items() if name not in ("verb", "times")}
        self._mock = build_mock(replace(context, settings=own))
        self._url = own["url"]
    def __getattr__(self, name):
        real = getattr(self._mock, name)
        if name != self._verb:
            return real
        def then_fail(*given):
            answer = real(*given)
            MADE[self] = MADE.get(self, 0) + 1
            if MADE[self] <= self._times:
                raise KeyError("a part that was not there")
            return answer
        return then_fail
def build(context): return Sloppy(context)
"""


@pytest.fixture(scope="module")
def sloppy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Adds a vendor whose adapter does its work and stumbles over the answer."""
    with added_vendor(tmp_path_factory.mktemp("sloppy_vendors"), "sloppy", MANIFEST, ADAPTER):
        yield


def _hotel(locks: MockLocks, verb: str, times: int) -> Hotel:
    return build_hotel(
        vendor="sloppy", settings={"url": locks.setting, "verb": verb, "times": str(times)},
        rooms={"101": new_id("lck")}, shared={}, policy={"kinds": ["pin_code"]},
    )  # fmt: skip


def _book(hotel: Hotel, settle: Settle, rounds: int = 3) -> str:
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel, now=True, rounds=rounds)
    return stay


def test_a_guest_gets_her_key_though_we_stumbled_over_the_first_answer(
    database: str, locks: MockLocks, settle: Settle, sloppy: None
) -> None:
    hotel = _hotel(locks, "issue_credential", times=1)
    stay = _book(hotel, settle)
    (key,) = keys(hotel, stay)
    assert key.state == "active"
    assert locks.opens(hotel.doors["101"], pin_of(hotel, key))
    assert (len(locks.keys_at(hotel.doors["101"])), locks.created_at(hotel.doors["101"])) == (1, 1)
    assert alerts(hotel) == [("INTERNAL_ERROR", "critical")]


def test_a_key_that_we_always_stumble_over_fails_in_the_end_and_leaves_nothing_at_the_door(
    database: str, locks: MockLocks, settle: Settle, sloppy: None
) -> None:
    hotel = _hotel(locks, "issue_credential", times=99)
    stay = _book(hotel, settle, rounds=10)
    (key,) = keys(hotel, stay)
    assert (key.state, key.failure_code) == ("failed", "KEY_ISSUE_FAILED")
    assert events(hotel, key)[-1] in ("credential.failed", "vendor.error")
    assert locks.keys_at(hotel.doors["101"]) == []
    with tenant(hotel.tenant_id):
        assert "INTERNAL_ERROR" in set(Alert.objects.filter(tenant_id=hotel.tenant_id).values_list("code", flat=True))
        bodies = OutboxEvent.objects.filter(tenant_id=hotel.tenant_id).values_list("body", flat=True)
        assert not [body for body in bodies if b"a part that was not there" in bytes(body)]


def test_a_key_that_must_go_is_taken_back_though_we_stumbled_twice(
    database: str, locks: MockLocks, settle: Settle, sloppy: None
) -> None:
    hotel = _hotel(locks, "revoke_credential", times=2)
    stay = _book(hotel, settle)
    hotel.tell("booking.cancelled", hotel.booking(stay, 2, ["101"], status="cancelled"))
    settle(hotel, now=True, rounds=5)
    (key,) = keys(hotel, stay)
    assert (key.state, key.open_work) == ("revoked", False)
    assert locks.keys_at(hotel.doors["101"]) == []
    with tenant(hotel.tenant_id):
        assert not Saga.objects.filter(tenant_id=hotel.tenant_id).exclude(status="done").exists()
