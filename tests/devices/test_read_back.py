"""What a push does not prove is asked back at the vendor: a forgery changes nothing, a truth counts once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest

from credentials.models import KeyCredential
from devices import call_counts, health_poll, read_back
from devices.models import AccessAttempt, CallCount, DeviceReading, HealthPoll, LockDevice, WebhookReplay
from lockservice.core.tenancy import queues, tenant
from sagas.flows import take_webhook
from sagas.flows.call_keys import issue_call_key
from sagas.models import OutboxEvent
from tests.api.conftest import web
from tests.flows.conftest import alerts, keys, make_hotel
from tests.support.mock_locks import MockLocks
from tests.support.push_site import Site, own_secrets
from tests.support.sweep_ttlock import TtlockCloud, TtlockHotel
from tests.support.web_server import WebServer
from vendors.port.ids import new_id
from vendors.port.secrets import Token
from vendors.support.marks import mark_of
from vendors.support.signatures import sign

__all__ = ["web"]
Settle = Callable[..., int]
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def cloud() -> Iterator[TtlockCloud]:
    running = TtlockCloud()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def doors() -> Iterator[MockLocks]:
    """Give a mock vendor whose doors are put up by the test, apart from the session's."""
    mock = MockLocks()
    yield mock
    mock.stop()


@pytest.fixture
def site(database: str, doors: MockLocks, web: WebServer) -> Site:
    place = Site(web, make_hotel(doors, secrets=own_secrets()))
    _set(doors, place)
    return place


def _set(doors: MockLocks, site: Site, label: str | None = None, **condition: Any) -> None:
    for name, external in site.hotel.doors.items():
        if label in (None, name):
            doors.ask("/seed", {"additive": True, "doors": [{"externalId": external, "label": name, **condition}]})


def _push_states(site: Site, *states: dict[str, Any]) -> None:
    body = json.dumps({"records": [], "devices": list(states)}).encode()
    assert site.send(body, sign(Token(site.secret), body, datetime.now(UTC))).status_code == 200


def _outcomes(site: Site) -> list[tuple[str, str, str]]:
    return [(row.type, row.status, row.outcome) for row in site.webhooks()]


def _told(site: Site, label: str) -> list[str]:
    return [item["subject"] for item in site.told(site.hotel.devices[label])]


def _standing(site: Site, label: str) -> dict[str, Any]:
    with tenant(site.hotel.tenant_id):
        return LockDevice.objects.get(tenant_id=site.hotel.tenant_id, id=site.hotel.devices[label]).standing


def _taken_back(site: Site, settle: Settle) -> KeyCredential:
    """A key of room 101 that was given, and taken back when its booking was cancelled."""
    stay = new_id("rsv")
    site.hotel.tell("booking.confirmed", site.hotel.booking(stay, 1, ["101"]))
    settle(site.hotel)
    (key,) = keys(site.hotel, stay)
    site.hotel.tell("booking.cancelled", site.hotel.booking(stay, 2, ["101"], status="cancelled"))
    settle(site.hotel)
    return key


def _polled_before(site: Site) -> None:
    """The installation was polled a while ago, and is not due for long."""
    health_poll.poll(site.hotel.tenant_id, site.hotel.installation_id, checks=0)
    with queues():
        HealthPoll.objects.filter(installation_id=site.hotel.installation_id).update(
            due_at=datetime.now(UTC) + timedelta(hours=6), polled_at=datetime.now(UTC) - timedelta(hours=1)
        )


# --- Attempts ---------------------------------------------------------------------------------


def test_a_forged_but_well_signed_opening_for_a_dead_key_changes_nothing(site: Site, settle: Settle) -> None:
    key = _taken_back(site, settle)
    forged = site.record("101", mark=mark_of(issue_call_key(key, 0)), at=datetime.now(UTC) + timedelta(seconds=2))
    site.push(forged)
    assert site.work() == 1
    assert _outcomes(site) == [("access.granted", "held", "")]
    for _ in range(read_back.LOOKS - 1):
        assert site.read("101").new == 0
        assert _outcomes(site) == [("access.granted", "held", "")]  # its log may lag behind
    site.read("101")
    assert _outcomes(site) == [("access.granted", "done", "ignored")]
    assert site.attempts() == []
    assert _told(site, "101") == []
    assert alerts(site.hotel) == [("PUSH_NOT_CONFIRMED", "warning")]
    site.push(forged)  # and again: it is known
    site.work()
    assert [row.outcome for row in site.webhooks()] == ["ignored", "duplicate"]


def test_only_the_lock_a_push_waits_for_is_read_and_at_once(site: Site, doors: MockLocks, settle: Settle) -> None:
    key = _taken_back(site, settle)
    assert site.read_due() == []
    site.push(site.open_anyway(doors, "101", mark_of(issue_call_key(key, 0))))
    site.work()
    assert [(r.device_id, r.outcome, r.new) for r in site.read_due()] == [(site.hotel.devices["101"], "read", 1)]
    assert site.read_due() == []
    assert [attempt.credential_state for attempt in site.attempts()] == ["revoked"]
    assert alerts(site.hotel) == [("REVOKED_KEY_OPENED", "critical")]
    assert _outcomes(site) == [("access.granted", "done", "applied")]


def test_a_push_that_could_not_be_asked_back_for_a_week_is_let_go(site: Site, settle: Settle) -> None:
    key = _taken_back(site, settle)
    site.push(site.record("101", mark=mark_of(issue_call_key(key, 0)), at=datetime.now(UTC) + timedelta(seconds=2)))
    site.work()
    assert site.work() == 0
    (row,) = site.webhooks()
    assert row.due_at - datetime.now(UTC) > timedelta(days=6)
    with tenant(site.hotel.tenant_id):
        type(row).objects.filter(id=row.id).update(due_at=datetime.now(UTC))
    assert site.work() == 1
    assert [(row.outcome, row.detail) for row in site.webhooks()] == [("ignored", "the vendor could not be asked")]
    assert site.attempts() == []
    assert alerts(site.hotel) == [("PUSH_NOT_CONFIRMED", "critical")]


def test_while_the_vendor_cannot_be_asked_about_a_dead_keys_opening_somebody_is_told(
    site: Site, doors: MockLocks, settle: Settle
) -> None:
    key = _taken_back(site, settle)
    site.push(site.open_anyway(doors, "101", mark_of(issue_call_key(key, 0))))
    site.work()
    doors.ask("/faults", {"profile": "fail=records&pct=100"})
    try:
        assert [report.outcome for report in site.read_due()] == ["unreachable"]
    finally:
        doors.ask("/faults", {})
    assert alerts(site.hotel) == [("PUSH_NOT_CONFIRMED", "critical")]
    assert site.read("101").new == 1
    assert alerts(site.hotel)[-1] == ("REVOKED_KEY_OPENED", "critical")


def test_a_dead_keys_opening_is_asked_back_though_the_months_calls_are_ahead(
    database: str, doors: MockLocks, web: WebServer, settle: Settle
) -> None:
    site = Site(web, make_hotel(doors, secrets=own_secrets(), calls_per_month=1_000_000))
    _set(doors, site)
    key = _taken_back(site, settle)
    with tenant(site.hotel.tenant_id):  # almost all of the month's calls are made
        CallCount.objects.filter(tenant_id=site.hotel.tenant_id).update(calls=999_990)
    call_counts._kept.clear()
    site.push(site.open_anyway(doors, "101", mark_of(issue_call_key(key, 0))))
    site.work()
    assert [report.outcome for report in site.read_due()] == ["read"]
    assert alerts(site.hotel) == [("REVOKED_KEY_OPENED", "critical")]


@pytest.mark.parametrize("days", [-200, 2], ids=["older than any log", "from the future"])
def test_an_unproven_push_of_an_impossible_time_is_not_even_asked_back(
    database: str, cloud: TtlockCloud, web: WebServer, days: int
) -> None:
    place = TtlockHotel(cloud)
    site = Site(web, place.hotel, "ttlock")
    at = datetime.now(UTC) + timedelta(days=days)
    assert site.send(_form(place, at=at), None, **FORM).status_code == 200
    site.work()
    assert _outcomes(site) == [("access.granted", "done", "ignored")]
    assert site.read_due() == []
    assert place.calls("lockRecord/list") == 0


def test_ttlock_signs_nothing_so_its_forged_push_never_counts(database: str, cloud: TtlockCloud, web: WebServer) -> None:
    place = TtlockHotel(cloud)
    site = Site(web, place.hotel, "ttlock")
    assert site.send(_form(place), None, **FORM).status_code == 200
    site.work()
    for _ in range(read_back.LOOKS):
        assert site.read("101").outcome == "read"
    assert _outcomes(site) == [("access.granted", "done", "ignored")]
    with tenant(place.hotel.tenant_id):
        assert not AccessAttempt.objects.filter(tenant_id=place.hotel.tenant_id).exists()
        subjects = set(OutboxEvent.objects.filter(tenant_id=place.hotel.tenant_id).values_list("subject", flat=True))
    assert {subject.rpartition("lock.")[2] for subject in subjects} == {
        "vendor_webhook.received.v1", "vendor_webhook.processed.v1",
    }  # fmt: skip
    assert alerts(place.hotel) == [("PUSH_NOT_CONFIRMED", "warning")]


def _form(place: TtlockHotel, at: datetime | None = None, **changes: Any) -> bytes:
    moment = int((at or datetime.now(UTC)).timestamp()) * 1000
    record = {
        "lockId": place.locks["101"], "recordTypeFromLock": 4, "recordType": 4, "success": 1, "keyboardPwd": "482915",
        "username": "", "lockDate": moment, "serverDate": moment, **changes,
    }  # fmt: skip
    return urlencode({"lockId": place.locks["101"], "notifyType": 1, "admin": "x", "records": json.dumps([record])}).encode()


def test_two_servers_that_both_count_from_one_are_not_taken_for_one_another(
    database: str, doors: MockLocks, web: WebServer
) -> None:
    first = Site(web, make_hotel(doors, secrets=own_secrets()))
    record = {**first.record("101"), "id": "rec_1", "door": "room_1"}
    hotel = first.hotel
    before = hotel.installation_id
    make_hotel(doors, secrets=own_secrets(), into=hotel, rooms={"201": "room_1"}, shared={})
    second_id, hotel.installation_id = hotel.installation_id, before
    with tenant(hotel.tenant_id):
        LockDevice.objects.filter(tenant_id=hotel.tenant_id, id=hotel.devices["101"]).update(external_id="room_1")
    assert first.push(record).status_code == 200
    hotel.installation_id = second_id
    second = Site(web, hotel)
    assert second.push(record).status_code == 200
    assert [row.outcome for row in first.webhooks()] == ["", ""]
    take_webhook.take_due(only=[before, second_id])
    assert [attempt.device_id for attempt in second.attempts()] == [hotel.devices["101"], hotel.devices["201"]]


# --- How locks stand --------------------------------------------------------------------------


def test_a_gateway_that_lost_its_network_makes_the_locks_behind_it_offline_at_once(
    database: str, cloud: TtlockCloud, web: WebServer
) -> None:
    place = TtlockHotel(cloud)
    site = Site(web, place.hotel, "ttlock")
    _polled_before(site)
    cloud.ask("/webhook", {"clientId": place.client_id, "url": site.url(), "retries": 0})
    place.gateway_online(False)
    cloud.ask("/webhook/flush", {})
    site.work()
    assert _outcomes(site) == [("device.offline", "held", "")]
    assert _told(site, "101") == []
    assert [report.outcome for report in site.poll_due()] == ["polled"]
    assert _outcomes(site) == [("device.offline", "done", "applied")]
    assert (_told(site, "101"), _told(site, "201")) == (["device.offline.v1", "device.health_alert.v1"], [])
    assert alerts(place.hotel) == [("DEVICE_OFFLINE", "warning")]
    _polled_before(site)
    place.gateway_online(True)
    cloud.ask("/webhook/flush", {})
    site.work()
    site.poll_due()
    assert [row.outcome for row in site.webhooks()][-1] == "applied"
    assert _told(site, "101")[-1] == "device.online.v1"
    assert _standing(site, "101") == {}


def test_the_next_outage_of_a_gateway_is_no_repetition_of_the_last(database: str, cloud: TtlockCloud, web: WebServer) -> None:
    place = TtlockHotel(cloud)
    site = Site(web, place.hotel, "ttlock")
    body = urlencode({"notifyType": 2, "gatewayId": place.gateways[0], "isOnline": 0}).encode()
    site.send(body, None, **FORM)
    with tenant(place.hotel.tenant_id):  # as if the first had come long ago, in another minute
        WebhookReplay.objects.filter(tenant_id=place.hotel.tenant_id).update(external_event_id="push:of another minute")
    site.send(body, None, **FORM)
    assert [row.outcome for row in site.webhooks()] == ["", ""]


def test_a_forged_outage_makes_no_lock_offline(database: str, cloud: TtlockCloud, web: WebServer) -> None:
    place = TtlockHotel(cloud)
    site = Site(web, place.hotel, "ttlock")
    _polled_before(site)
    site.send(urlencode({"notifyType": 2, "gatewayId": place.gateways[0], "isOnline": 0}).encode(), None, **FORM)
    site.work()
    for _ in range(read_back.LOOKS):
        assert health_poll.poll(place.hotel.tenant_id, place.hotel.installation_id, checks=0).outcome == "polled"
    assert _outcomes(site) == [("device.offline", "done", "ignored")]
    assert (_told(site, "101"), _standing(site, "101")) == ([], {})
    assert alerts(place.hotel) == [("PUSH_NOT_CONFIRMED", "warning")]
    with tenant(place.hotel.tenant_id):
        assert not DeviceReading.objects.filter(tenant_id=place.hotel.tenant_id, online=False).exists()


def test_a_weak_battery_that_is_pushed_is_told_once_the_vendor_says_so_too(site: Site, doors: MockLocks) -> None:
    _polled_before(site)
    _push_states(site, {"id": site.hotel.doors["102"], "eventId": "b1", "batteryPercent": 12})
    site.work()
    assert _outcomes(site) == [("device.battery", "held", "")]
    health_poll.poll(site.hotel.tenant_id, site.hotel.installation_id, checks=0)
    assert _told(site, "102") == []  # the vendor says 90 %
    _set(doors, site, "102", batteryPercent=12)
    health_poll.poll(site.hotel.tenant_id, site.hotel.installation_id, checks=0)
    assert _outcomes(site) == [("device.battery", "done", "applied")]
    assert _told(site, "102") == ["device.battery_low.v1", "device.health_alert.v1"]
    assert alerts(site.hotel) == [("DEVICE_BATTERY_LOW", "warning")]


def test_a_wrong_clock_that_is_pushed_is_looked_at_live(site: Site, doors: MockLocks) -> None:
    _polled_before(site)
    _set(doors, site, "103", clockSkewS=1800)
    _push_states(site, {"id": site.hotel.doors["103"], "eventId": "c1", "clockSkewMs": 1_800_000})
    site.work()
    (report,) = site.poll_due()
    assert (report.outcome, report.crossed) == ("polled", 1)
    assert _outcomes(site) == [("device.clock", "done", "applied")]
    assert alerts(site.hotel) == [("DEVICE_CLOCK_SKEW", "critical")]


def test_a_connection_that_broke_is_every_networked_lock_of_the_installation(site: Site, doors: MockLocks) -> None:
    _polled_before(site)
    _set(doors, site, online=False)
    _push_states(site, {"reach": "installation", "eventId": "o1", "online": False})
    site.work()
    site.poll_due()
    assert _outcomes(site) == [("device.offline", "done", "applied")]
    for label in site.hotel.devices:
        assert _told(site, label)[:1] == ["device.offline.v1"]


def test_a_push_that_says_what_is_known_asks_nobody(site: Site, doors: MockLocks) -> None:
    _polled_before(site)
    before = doors.calls(*site.hotel.doors.values())
    _push_states(site, {"id": site.hotel.doors["101"], "eventId": "s1", "online": True, "batteryPercent": None})
    _push_states(site, {"id": site.hotel.doors["101"], "eventId": "s2", "batteryPercent": 88})
    _push_states(site, {"id": "somebody_elses", "eventId": "s3", "online": False})
    site.work()
    assert [row.outcome for row in site.webhooks()] == ["ignored"] * 3
    assert site.poll_due() == []
    assert doors.calls(*site.hotel.doors.values()) == before
