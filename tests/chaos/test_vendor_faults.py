"""A vendor that errs, lies, forgets to answer or answers in HTML: the right state, few calls, no orphan at the door.

Rule: times are scaled by RETRY_SCALE and by the adapter's `timeout_s`; the real values stand beside the scaled ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from pytest_django.fixtures import Settings

from credentials.models import CredentialDoor, KeyCredential
from devices.models import LockDevice
from lockservice.core.tenancy import tenant
from sagas.intake import internal_lane
from sagas.models import Alert, OutboxEvent, Saga
from sagas.runner import Runner
from sagas.steps import BUDGET
from tests.support.checkers import check
from tests.support.hotel import Hotel
from tests.support.sweep_ttlock import TtlockCloud, TtlockHotel
from vendors.port.ids import new_id

SCALE = 0.01
"""Retries after 20, 80, 300, 1200 ms in place of 2, 8, 30, 120 s."""
SLOW_S = 1.6
"""Beyond the scaled timeout of 1 s, as the vendor's 60 s and more are beyond patience."""


@pytest.fixture(scope="session")
def cloud() -> Iterator[TtlockCloud]:
    running = TtlockCloud()
    yield running
    running.stop()


@pytest.fixture
def site(database: str, cloud: TtlockCloud, settings: Settings) -> TtlockHotel:
    settings.RETRY_SCALE = SCALE
    return TtlockHotel(cloud)


def _open_sagas(hotel: Hotel) -> list[tuple[str, str]]:
    with tenant(hotel.tenant_id):
        rows = Saga.objects.filter(tenant_id=hotel.tenant_id).exclude(status__in=("done", "dead"))
        return list(rows.values_list("flow", "status"))


def _work(hotel: Hotel, within_s: float = 20.0, until: Callable[[], bool] | None = None) -> None:
    """Runs the hotel's sagas until all are final, or until the condition holds."""
    with tenant(hotel.tenant_id):
        devices = LockDevice.objects.filter(tenant_id=hotel.tenant_id)
        lanes = [f"{row.installation_id}:{row.gateway}" for row in devices] + [internal_lane(hotel.tenant_id)]
    ends = time.monotonic() + within_s
    over = until or (lambda: not _open_sagas(hotel))
    Runner(only=lanes).run(until=lambda: over() or time.monotonic() > ends)
    assert over(), f"not within {within_s} s: {_open_sagas(hotel)}"


def _key(hotel: Hotel) -> KeyCredential:
    with tenant(hotel.tenant_id):
        return KeyCredential.objects.get(tenant_id=hotel.tenant_id)


def _issued(site: TtlockHotel, room: str = "101") -> str:
    stay = new_id("rsv")
    site.hotel.tell("booking.confirmed", site.hotel.booking(stay, 1, [room]))
    _work(site.hotel)
    assert _states(site.hotel) == {stay: "active"}
    return stay


def _states(hotel: Hotel) -> dict[str, str]:
    with tenant(hotel.tenant_id):
        return dict(KeyCredential.objects.filter(tenant_id=hotel.tenant_id).values_list("reservation_id", "state"))


def _events(hotel: Hotel) -> list[str]:
    with tenant(hotel.tenant_id):
        rows = OutboxEvent.objects.filter(tenant_id=hotel.tenant_id).order_by("ordering_key", "sequence")
        return [row.subject.removeprefix("melmastoon.lock.").removesuffix(".v1") for row in rows]


def _alerts(hotel: Hotel) -> list[tuple[str, str, str]]:
    with tenant(hotel.tenant_id):
        return list(Alert.objects.filter(tenant_id=hotel.tenant_id).values_list("code", "severity", "runbook"))


def _sound(site: TtlockHotel, *, dead_sagas: bool = False) -> None:
    check(site.hotel, site.doors, published=False, dead_sagas=dead_sagas)


ONE_CODE_ISSUED = ["credential.requested", "credential.pending", "credential.issued"]

PASSING = {
    "error 1 inside HTTP 200": {"errcode": 1, "times": 3},
    "server error 90000 inside HTTP 200": {"errcode": 90000, "times": 3},
    "HTML before the work": {"effect": "html", "times": 3},
    "HTML after the work": {"effect": "apply_then_html", "times": 3},
    "status 500 after the work": {"effect": "apply_then_http500", "times": 3},
    "an empty body": {"effect": "empty", "times": 3},
    "half an answer": {"effect": "cut", "times": 3},
    "error 1 after the work": {"effect": "apply_then_errcode1", "times": 3},
    "a closed connection": {"effect": "drop_before", "times": 3},
    "slow beyond patience": {"effect": "slow", "seconds": SLOW_S, "times": 2},
    "the gateway busy": {"errcode": -3003, "times": 3},
}


@pytest.mark.parametrize("fault", PASSING)
def test_a_fault_that_passes_delays_the_key_and_leaves_one_code(site: TtlockHotel, fault: str) -> None:
    site.fault(path="keyboardPwd/add", **PASSING[fault])
    _issued(site)
    assert _events(site.hotel) == ONE_CODE_ISSUED
    # A try costs at most a look, the call, a look after an unclear answer and a correction.
    assert site.calls() <= 4 * (1 + PASSING[fault]["times"])
    _sound(site)


@pytest.mark.parametrize("answers", ["of the call", "of every request"])
@pytest.mark.parametrize("times", range(1, 6))
def test_lost_answers_leave_one_code_or_none_but_never_two(site: TtlockHotel, times: int, answers: str) -> None:
    neighbour = _issued(site, "201")  # signed in: it is the calls that matter, not the token
    before = site.calls()
    site.fault(path="keyboardPwd/add" if answers == "of the call" else "*", effect="apply_then_drop", times=times)
    stay = new_id("rsv")
    site.hotel.tell("booking.confirmed", site.hotel.booking(stay, 1, ["101"]))
    _work(site.hotel)
    assert _states(site.hotel) == {neighbour: "active", stay: "active"}
    assert site.done("keyboardPwd/add") == 2 + site.done("keyboardPwd/delete")
    assert site.calls() - before <= 4 * BUDGET
    _sound(site)


@pytest.mark.parametrize("times", range(1, 6))
def test_a_checkout_whose_answers_are_lost_empties_the_door(site: TtlockHotel, times: int) -> None:
    stay = _issued(site)
    site.fault(path="*", effect="apply_then_drop", times=times)
    site.hotel.tell("booking.checked_out", site.hotel.booking(stay, 2, ["101"], status="checked_out"))
    _work(site.hotel)
    assert _key(site.hotel).state == "revoked"
    assert site.doors.held() == []
    assert site.done("keyboardPwd/delete") == site.done("keyboardPwd/add")  # what was put there to prove it empty is taken too
    _sound(site)


def test_a_final_refusal_fails_the_key_at_once(site: TtlockHotel) -> None:
    site.fault(path="keyboardPwd/add", errcode=-1003, times=None)
    site.hotel.tell("booking.confirmed", site.hotel.booking(new_id("rsv"), 1, ["101"]))
    _work(site.hotel)
    assert _key(site.hotel).state == "failed"
    assert site.calls("keyboardPwd/add") == 1
    assert _events(site.hotel) == ["credential.requested", "credential.pending", "credential.failed", "vendor.error"]
    assert ("KEY_ISSUE_FAILED", "critical", "lock/key-issue") in _alerts(site.hotel)
    _sound(site, dead_sagas=True)


def test_a_gateway_that_stays_away_spends_the_budget_and_not_one_call_more(site: TtlockHotel) -> None:
    site.gateway_online(online=False)
    site.hotel.tell("booking.confirmed", site.hotel.booking(new_id("rsv"), 1, ["101"]))
    _work(site.hotel)
    with tenant(site.hotel.tenant_id):
        digits, phone = KeyCredential.objects.filter(tenant_id=site.hotel.tenant_id).order_by("id")
    assert (digits.state, digits.kind) == ("failed", "pin_code")
    assert (phone.state, phone.kind, phone.replaces) == ("active", "mobile_app", digits.id)  # an eKey needs no gateway
    assert site.calls("keyboardPwd/add") == BUDGET
    with tenant(site.hotel.tenant_id):
        rows = OutboxEvent.objects.filter(tenant_id=site.hotel.tenant_id, ordering_key=digits.id).order_by("sequence")
        told = [row.subject.removeprefix("melmastoon.lock.").removesuffix(".v1") for row in rows]
    assert told[-2:] == ["credential.failed", "vendor.error"]
    assert ("KEY_ISSUE_FAILED", "warning", "lock/key-issue") in _alerts(site.hotel)
    assert site.doors.held() == []  # no digits in any lock: the phone asks the vendor
    assert site.calls("key/send") == 1


@pytest.mark.parametrize(("errcode", "at_least_s"), [(30007, 600.0), (30006, 60.0)], ids=["quota spent", "too fast"])
def test_over_its_limits_the_vendor_is_left_alone(
    site: TtlockHotel, settings: Settings, errcode: int, at_least_s: float
) -> None:
    settings.RETRY_SCALE = 1.0  # the vendor's own wait is not scaled here: nothing may be sent before it is over
    site.fault(path="keyboardPwd/add", errcode=errcode, times=None)
    site.hotel.tell("booking.confirmed", site.hotel.booking(new_id("rsv"), 1, ["101"]))
    _work(site.hotel, until=lambda: site.calls() > 0 and [s for _, s in _open_sagas(site.hotel)] == ["retry"])
    calls = site.calls()
    assert calls == 1
    with tenant(site.hotel.tenant_id):
        (door,) = CredentialDoor.objects.filter(tenant_id=site.hotel.tenant_id)
        saga = Saga.objects.get(tenant_id=site.hotel.tenant_id)
    assert saga.due_at is not None
    assert saga.due_at.timestamp() - time.time() > at_least_s - 5
    assert door.attempts <= 1
    began = time.monotonic()
    _work(site.hotel, until=lambda: time.monotonic() - began > 1.0)
    assert site.calls() == calls
    site.heal()
    with tenant(site.hotel.tenant_id):
        Saga.objects.filter(tenant_id=site.hotel.tenant_id).update(due_at=saga.created_at)
        CredentialDoor.objects.filter(tenant_id=site.hotel.tenant_id).update(due_at=saga.created_at)
    _work(site.hotel)
    assert _key(site.hotel).state == "active"
    _sound(site)


def test_the_first_failed_revoke_alarms_and_is_tried_until_the_door_is_empty(site: TtlockHotel, settings: Settings) -> None:
    stay = _issued(site)
    settings.RETRY_SCALE = 1.0  # two seconds to look at the first failure
    site.gateway_online(online=False)
    site.hotel.tell("booking.cancelled", site.hotel.booking(stay, 2, ["101"], status="cancelled"))
    before = site.calls("keyboardPwd/delete")
    _work(site.hotel, until=lambda: bool(_alerts(site.hotel)))
    settings.RETRY_SCALE = SCALE
    assert site.calls("keyboardPwd/delete") == before + 1
    assert _alerts(site.hotel) == [("KEY_REVOKE_FAILED", "critical", "lock/key-revoke")]
    key = _key(site.hotel)
    assert (key.state, key.open_work) == ("revoked", True)
    # More often than giving a key would be tried: a revoke has no budget.
    _work(site.hotel, until=lambda: site.calls("keyboardPwd/delete") > before + 4, within_s=30)
    site.gateway_online(online=True)
    _work(site.hotel, within_s=30)
    assert site.doors.held() == []
    assert _key(site.hotel).open_work is False
    assert len(_alerts(site.hotel)) == 1
    assert _events(site.hotel) == [*ONE_CODE_ISSUED, "credential.revoked"]
    _sound(site)


def test_a_key_over_two_gateways_waits_for_the_second_and_opens_the_first(site: TtlockHotel) -> None:
    site.gateway_online(online=False, number=1)
    site.hotel.tell("booking.confirmed", site.hotel.booking(new_id("rsv"), 1, ["101", "201"]))
    _work(site.hotel, until=lambda: _key(site.hotel).state == "active")
    assert [key.door for key in site.doors.held()] == [str(site.locks["101"])]
    assert [row["code"] for row in _key(site.hotel).warnings] == ["DOORS_PENDING"]
    site.gateway_online(online=True, number=1)
    _work(site.hotel)
    assert sorted(key.door for key in site.doors.held()) == sorted(str(lock) for lock in site.locks.values())
    assert _key(site.hotel).warnings == []
    _sound(site)
