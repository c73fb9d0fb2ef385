"""Pushes over HTTP: what is proven is kept and worked on, all else is refused with a constant text and changes nothing."""

from __future__ import annotations

import io
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
from django.core.management import call_command

from credentials.models import KeyCredential
from devices import selectors, webhooks_addresses
from devices.models import AccessAttempt, LockDevice, VendorWebhook, WebhookAddress, WebhookReplay
from lockservice.core.tenancy import tenant
from sagas.flows import take_webhook
from sagas.flows.call_keys import issue_call_key
from sagas.models import Alert, OutboxEvent
from tests.api.conftest import web
from tests.flows.conftest import alerts, keys, make_hotel, pin_of
from tests.support.mock_locks import MockLocks
from tests.support.push_site import STRANGER, Site, assert_refused, own_secrets
from tests.support.sweep_ttlock import TtlockCloud, TtlockHotel
from tests.support.web_server import WebServer
from vendors.port.ids import new_id
from vendors.port.secrets import Token
from vendors.support.marks import mark_of
from vendors.support.signatures import sign

__all__ = ["web"]
Settle = Callable[..., int]


@pytest.fixture(scope="module")
def cloud() -> Iterator[TtlockCloud]:
    running = TtlockCloud()
    yield running
    running.stop()


@pytest.fixture
def site(database: str, locks: MockLocks, web: WebServer) -> Site:
    return Site(web, make_hotel(locks, secrets=own_secrets()))


def _mark(key: KeyCredential) -> str:
    """What the vendor was told to write on the key."""
    return mark_of(issue_call_key(key, 0))


# --- Taken in ---------------------------------------------------------------------------------


def test_a_proven_push_is_kept_told_and_answered_before_it_is_worked_on(site: Site) -> None:
    record = site.record(outcome="denied", why="unknown_credential")
    answer = site.push(record)
    assert (answer.status_code, answer.text, answer.headers["Content-Type"]) == (200, "success", "text/plain; charset=utf-8")
    (row,) = site.webhooks()
    assert (row.status, row.outcome, row.type, row.vendor) == ("due", "", "access.denied", "mock")
    assert row.external_event_id == f"{record['door']}:{record['id']}"
    (received,) = site.told(row.id)
    assert received.pop("receivedAt")
    assert received == {
        "subject": "vendor_webhook.received.v1", "webhookId": row.id, "vendor": "mock", "type": "access.denied",
        "externalEventId": row.external_event_id, "signatureOk": True,
    }  # fmt: skip
    assert site.attempts() == []


def test_an_attempt_becomes_a_row_and_an_event_and_a_sign_of_life(site: Site, locks: MockLocks, settle: Settle) -> None:
    site.hotel.tell("booking.confirmed", site.hotel.booking(new_id("rsv"), 1, ["101"]))
    settle(site.hotel)
    (key,) = keys(site.hotel)
    assert site.push(site.record(mark=_mark(key))).status_code == 200
    assert site.work() == 1
    (row,) = site.webhooks()
    assert (row.status, row.outcome) == ("done", "applied")
    assert [item["subject"] for item in site.told(row.id)] == ["vendor_webhook.received.v1", "vendor_webhook.processed.v1"]
    (attempt,) = site.attempts()
    assert (attempt.credential_id, attempt.credential_state, attempt.outcome) == (key.id, "active", "granted")
    (told,) = site.told(site.hotel.devices["101"])
    assert (told["subject"], told["attemptId"], told["keyCredentialId"]) == ("audit.attempt.v1", attempt.id, key.id)
    assert (told["outcome"], told["denyReason"], told["vendorEventId"]) == ("granted", None, row.external_event_id)
    with tenant(site.hotel.tenant_id):
        assert LockDevice.objects.get(tenant_id=site.hotel.tenant_id, id=site.hotel.devices["101"]).last_seen_at is not None
    assert alerts(site.hotel) == []


def test_the_same_push_again_is_answered_alike_and_has_no_second_effect(site: Site) -> None:
    record = site.record()
    answers = [site.push(record) for _ in range(3)]
    assert [(answer.status_code, answer.text) for answer in answers] == [(200, "success")] * 3
    site.work()
    assert sorted(row.outcome for row in site.webhooks()) == ["applied", "duplicate", "duplicate"]
    assert len(site.attempts()) == 1
    assert [item["subject"] for item in site.told(site.hotel.devices["101"])] == ["audit.attempt.v1"]
    last = site.webhooks()[-1]
    assert [item.get("outcome") for item in site.told(last.id)] == [None, "duplicate"]


def test_an_attempt_told_in_two_pushes_counts_once(site: Site) -> None:
    first, second = site.record(), site.record("102", outcome="denied", why="outside_validity")
    site.push(first)
    site.push(second, first)
    site.push(second)
    assert site.work() == 3
    assert [(row.type, row.outcome) for row in site.webhooks()] == [
        ("access.granted", "applied"), ("access.mixed", "applied"), ("access.denied", "duplicate"),
    ]  # fmt: skip
    assert len(site.attempts()) == 2


def test_a_lock_that_is_not_ours_and_a_push_without_attempts_are_ignored(site: Site) -> None:
    site.push({**site.record(), "door": "somebody_elses"})
    site.push()
    body = b'{"hello": 1}'
    assert site.send(body, sign(Token(site.secret), body, datetime.now(UTC))).status_code == 200
    site.work()
    assert [(row.type, row.outcome) for row in site.webhooks()] == [
        ("access.granted", "ignored"), ("notification", "ignored"), ("unreadable", "ignored"),
    ]  # fmt: skip
    assert site.attempts() == []


@pytest.mark.parametrize(
    "change",
    [
        {"id": "rec\0"}, {"id": "\ud800"}, {"id": "x" * 300}, {"why": "\0"}, {"mark": "\udfff"}, {"outcome": "opened"},
        {"at": "2026-11-27T14:00:00"},
    ],
    ids=["zero byte", "half a pair", "too long", "zero byte in a remark", "half a pair in a mark", "no outcome", "no zone"],
)  # fmt: skip
def test_a_proven_push_that_no_row_can_hold_is_kept_as_unreadable_and_not_asked_for_again(
    site: Site, change: dict[str, Any]
) -> None:
    body = json.dumps({"records": [{**site.record(), **change}]}).encode()
    answers = [site.send(body, site.signature(body)) for _ in range(2)]
    assert [(answer.status_code, answer.text) for answer in answers] == [(200, "success")] * 2
    site.work()
    rows = site.webhooks()
    assert [(row.type, row.status, row.outcome, row.detail) for row in rows] == [
        ("unreadable", "done", "ignored", "ValueError"), ("unreadable", "done", "duplicate", "ValueError"),
    ]  # fmt: skip
    assert (site.attempts(), alerts(site.hotel)) == ([], [])


def test_a_condition_that_no_lock_can_have_is_kept_as_unreadable(site: Site) -> None:
    for change in (
        {"batteryPercent": 101},
        {"batteryPercent": -1},
        {"clockSkewMs": 2**31},
        {"id": "\0"},
        {"eventId": "\ud800"},
    ):
        state = {"id": site.hotel.doors["101"], "batteryPercent": 50, **change}
        body = json.dumps({"records": [], "devices": [state]}).encode()
        assert site.send(body, site.signature(body)).status_code == 200
    site.work()
    assert {(row.type, row.status, row.outcome) for row in site.webhooks()} == {("unreadable", "done", "ignored")}
    assert len(site.webhooks()) == 5


def test_a_key_that_was_revoked_or_suspended_and_opens_is_a_critical_alert(
    site: Site, locks: MockLocks, settle: Settle
) -> None:
    stays = {label: new_id("rsv") for label in ("101", "102", "103")}
    for label, stay in stays.items():
        site.hotel.tell("booking.confirmed", site.hotel.booking(stay, 1, [label]))
    settle(site.hotel)
    marks = {label: _mark(keys(site.hotel, stay)[0]) for label, stay in stays.items()}
    site.hotel.tell("booking.cancelled", site.hotel.booking(stays["101"], 2, ["101"], status="cancelled"))
    site.hotel.tell("booking.fraud_flagged", site.hotel.booking(stays["102"], 2, ["102"], status="fraud_flagged"))
    settle(site.hotel)
    before = datetime.now(UTC) - timedelta(minutes=1)
    later = datetime.now(UTC) + timedelta(seconds=2)
    site.push(site.record("101", mark=marks["101"], at=before))  # came late: the key was good then
    site.push(site.record("101", mark=marks["101"], at=later, outcome="denied", why="revoked"))
    site.work()
    assert ("REVOKED_KEY_OPENED", "critical") not in alerts(site.hotel)
    for label in stays:
        site.push(site.open_anyway(locks, label, marks[label]))
    site.push(site.open_anyway(locks, "101", marks["101"]))
    site.work()
    assert ("REVOKED_KEY_OPENED", "critical") not in alerts(site.hotel)  # nobody has asked the vendor so far
    assert sorted(report.device_id for report in site.read_due()) == sorted(site.hotel.devices[n] for n in ("101", "102"))
    with tenant(site.hotel.tenant_id):
        found = Alert.objects.filter(tenant_id=site.hotel.tenant_id, code="REVOKED_KEY_OPENED").order_by("detail")
        told = [(row.severity, row.detail, row.credential_id, row.runbook) for row in found]
    revoked, suspended = (keys(site.hotel, stays[label])[0].id for label in ("101", "102"))
    assert told == [
        ("critical", "101 opened for a key that was revoked", revoked, "lock/webhooks"),
        ("critical", "102 opened for a key that was suspended", suspended, "lock/webhooks"),
    ]


def test_a_locks_wrong_clock_is_taken_into_account_when_its_attempt_is_judged(
    site: Site, locks: MockLocks, settle: Settle
) -> None:
    stay = new_id("rsv")
    site.hotel.tell("booking.confirmed", site.hotel.booking(stay, 1, ["101"]))
    settle(site.hotel)
    mark = _mark(keys(site.hotel, stay)[0])
    tried = datetime.now(UTC)
    time.sleep(0.05)
    site.hotel.tell("booking.cancelled", site.hotel.booking(stay, 2, ["101"], status="cancelled"))
    with tenant(site.hotel.tenant_id):
        LockDevice.objects.filter(tenant_id=site.hotel.tenant_id, id=site.hotel.devices["101"]).update(clock_skew_ms=1_800_000)
    site.push(site.record("101", mark=mark, at=tried + timedelta(minutes=30)))
    site.work()
    assert [attempt.credential_state for attempt in site.attempts()] == ["active"]


def test_an_attempt_that_is_told_before_the_vendors_answer_finds_its_key(site: Site) -> None:
    site.hotel.tell("booking.confirmed", site.hotel.booking(new_id("rsv"), 1, ["101"]))
    (key,) = keys(site.hotel)
    site.push(site.record("101", mark=_mark(key)))
    site.work()
    (attempt,) = site.attempts()
    assert (attempt.credential_id, attempt.credential_state) == (key.id, "requested")


def test_one_push_we_cannot_handle_stops_no_other_and_ends_with_a_person(site: Site) -> None:
    site.push(site.record("101"))
    site.push(site.record("102"))
    broken, sound = site.webhooks()
    for tried in range(take_webhook.TRIES):
        with tenant(site.hotel.tenant_id):
            VendorWebhook.objects.filter(id=broken.id).update(
                records=[{"id": "x"}], due_at=datetime.now(UTC) - timedelta(seconds=1)
            )
        site.work()
        states = {row.id: (row.status, row.attempts) for row in site.webhooks()}
        assert states == {
            broken.id: ("dead" if tried == take_webhook.TRIES - 1 else "due", tried + 1), sound.id: ("done", 0),
        }  # fmt: skip
    assert alerts(site.hotel) == [("INTERNAL_ERROR", "critical")]
    assert len(site.attempts()) == 1


def test_receipts_are_kept_for_ninety_days_and_replays_for_thirty(site: Site) -> None:
    for _ in range(2):
        site.push(site.record())
    site.work()
    old, kept = site.webhooks()
    with tenant(site.hotel.tenant_id):
        now = datetime.now(UTC)
        VendorWebhook.objects.filter(id=old.id).update(received_at=now - timedelta(days=91))
        VendorWebhook.objects.filter(id=kept.id).update(received_at=now - timedelta(days=89))
        replays = WebhookReplay.objects.filter(tenant_id=site.hotel.tenant_id)
        replays.filter(external_event_id=old.external_event_id).update(seen_at=now - timedelta(days=31))
        replays.filter(external_event_id=kept.external_event_id).update(seen_at=now - timedelta(days=29))
    site.push(site.record("102"))
    site.work()
    assert [row.id == kept.id for row in site.webhooks()] == [True, False]
    with tenant(site.hotel.tenant_id):
        left = set(WebhookReplay.objects.filter(tenant_id=site.hotel.tenant_id).values_list("external_event_id", flat=True))
    assert left == {row.external_event_id for row in site.webhooks()}
    assert len(site.attempts()) == 3


# --- Refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("secret", "age_s", "suffix"),
    [(STRANGER, 0, b""), ("", 301, b""), ("", -302, b""), ("", 0, b" ")],
    ids=["another hotel's secret", "old", "from the future", "one byte more"],
)
def test_a_push_that_is_not_proven_is_refused(site: Site, secret: str, age_s: int, suffix: bytes) -> None:
    body = json.dumps({"records": [site.record()]}).encode()
    signature = sign(Token(secret or site.secret), body, datetime.now(UTC) - timedelta(seconds=age_s))
    assert_refused(site.send(body + suffix, signature))
    site.assert_nothing_changed()


def test_a_push_without_or_with_a_malformed_signature_is_refused(site: Site) -> None:
    body = json.dumps({"records": [site.record()]}).encode()
    good = sign(Token(site.secret), body, datetime.now(UTC))
    moment, mac = good.split(",")
    for header in (None, "", moment, mac, f"{moment},{moment},{mac}", f"t=now,{mac}", f"{moment},v0={mac[3:]}", "v1=ää"):
        encoded = None if header is None else header.encode("utf-8").decode("latin-1")
        assert_refused(site.send(body, encoded))
    site.assert_nothing_changed()


def test_a_changed_byte_and_the_same_json_written_anew_are_refused(site: Site) -> None:
    record = site.record(outcome="denied", why="revoked")
    body = json.dumps({"records": [record]}).encode()
    signature = sign(Token(site.secret), body, datetime.now(UTC))
    assert_refused(site.send(body.replace(b"denied", b"Denied"), signature))
    assert_refused(site.send(json.dumps({"records": [record]}, separators=(",", ":")).encode(), signature))
    site.assert_nothing_changed()
    assert site.send(body, signature).status_code == 200


def test_a_rotated_secret_is_taken_beside_the_old_one(database: str, locks: MockLocks, web: WebServer) -> None:
    site = Site(web, make_hotel(locks, secrets=own_secrets("webhook_secret_next")))
    assert [site.push(site.record(), secret=secret).status_code for secret in (site.secret, site.next, STRANGER)] == [
        200,
        200,
        401,
    ]
    assert len(site.webhooks()) == 2


def test_a_wrong_token_vendor_or_installation_is_refused_alike(site: Site, locks: MockLocks) -> None:
    other = Site(site.web, make_hotel(locks, secrets=own_secrets()))
    body = json.dumps({"records": [site.record()]}).encode()
    signature = sign(Token(site.secret), body, datetime.now(UTC))
    for url in (
        site.url("x" * 43),
        site.url(other.token),
        site.url(vendor="ttlock"),
        site.url(installation=other.hotel.installation_id),
        site.url(installation=new_id("vad")),
    ):
        assert_refused(site.send(body, signature, url))
    site.assert_nothing_changed()
    other.assert_nothing_changed()


def test_an_installation_without_an_address_takes_nothing(database: str, locks: MockLocks, web: WebServer) -> None:
    site = Site(web, make_hotel(locks, secrets=own_secrets()))
    with tenant(site.hotel.tenant_id):
        WebhookAddress.objects.filter(tenant_id=site.hotel.tenant_id).delete()
    assert_refused(site.push(site.record()))
    assert_refused(site.send(b"{}", None, site.url("0" * 43)))
    site.assert_nothing_changed()


def test_the_token_before_is_taken_during_the_overlap_and_not_after(site: Site) -> None:
    before = site.token
    site.token = site.rotate()
    assert site.token != before
    body = json.dumps({"records": [site.record()]}).encode()
    signature = sign(Token(site.secret), body, datetime.now(UTC))
    assert [site.send(body, signature, site.url(token)).status_code for token in (before, site.token)] == [200, 200]
    with tenant(site.hotel.tenant_id):
        WebhookAddress.objects.filter(tenant_id=site.hotel.tenant_id).update(previous_until=datetime.now(UTC))
    assert [site.send(body, signature, site.url(token)).status_code for token in (before, site.token)] == [401, 200]


def test_a_hundred_forgeries_are_one_alert_an_hour(site: Site) -> None:
    for _ in range(20):
        assert_refused(site.push(site.record(), secret=STRANGER))
        assert_refused(site.send(b"{}", None, site.url("x" * 43)))
    site.assert_nothing_changed()


def test_too_large_a_body_is_refused_whether_announced_or_not(site: Site) -> None:
    body = b"{" + b" " * (256 * 1024)
    signature = sign(Token(site.secret), body, datetime.now(UTC))
    answer = site.send(body, signature)
    assert (answer.status_code, answer.json()["code"]) == (413, "MELMASTOON.LOCK.PAYLOAD_TOO_LARGE")
    site.assert_nothing_changed(alerted=0)
    exact = json.dumps({"records": [site.record()]}).encode().ljust(256 * 1024)
    assert site.send(exact, sign(Token(site.secret), exact, datetime.now(UTC))).status_code == 200
    assert_refused(site.send(body, signature, site.url("x" * 43)))  # who has no token is told nothing of limits


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/xml", "multipart/form-data", "application/json; charset=utf-16", ""]
)
def test_another_content_type_is_refused(site: Site, kind: str) -> None:
    body = json.dumps({"records": [site.record()]}).encode()
    answer = site.send(body, sign(Token(site.secret), body, datetime.now(UTC)), **{"Content-Type": kind})
    assert (answer.status_code, answer.json()["code"]) == (415, "MELMASTOON.LOCK.UNSUPPORTED_MEDIA_TYPE")
    site.assert_nothing_changed(alerted=0)


def test_another_method_is_refused(site: Site) -> None:
    answer = requests.get(site.url(), timeout=20)
    assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")


# --- TTLock: a form, no signature of the vendor's own -------------------------------------------


def _form(site: Site, place: TtlockHotel, **changes: Any) -> bytes:
    record = {
        "lockId": place.locks["101"], "recordTypeFromLock": 4, "recordType": 4, "success": 1, "keyboardPwd": "482915",
        "username": "", "lockDate": int(time.time() * 1000), "serverDate": int(time.time() * 1000), **changes,
    }  # fmt: skip
    fields = {"lockId": place.locks["101"], "notifyType": 1, "admin": "x", "records": json.dumps([record])}
    return (requests.Request("POST", "http://x/", data=fields).prepare().body or "").encode()  # type: ignore[union-attr]


def test_what_a_lock_tells_its_cloud_arrives_as_an_attempt(
    database: str, cloud: TtlockCloud, web: WebServer, settle: Settle
) -> None:
    place = TtlockHotel(cloud)
    site = Site(web, place.hotel, "ttlock")
    stay = new_id("rsv")
    place.hotel.tell("booking.confirmed", place.hotel.booking(stay, 1, ["101"]))
    settle(place.hotel)
    (key,) = keys(place.hotel)
    cloud.ask("/webhook", {"clientId": place.client_id, "url": site.url(), "duplicate": 1, "retries": 0})
    for value in (pin_of(place.hotel, key), "00000000"):
        cloud.ask("/try", {"device": place.locks["101"], "kind": "pin_code", "value": value})
    pushes = cloud.ask("/webhook/flush", {})["pushes"]
    assert [(push["status"], push["accepted"]) for push in pushes] == [(200, True)] * 3
    site.work()
    assert site.attempts() == []  # TTLock signs nothing, so its push is a hint to look
    assert [(report.outcome, report.new) for report in site.read_due()] == [("read", 2)]
    assert sorted(row.outcome for row in site.webhooks()) == ["applied", "applied", "duplicate"]
    assert [(a.outcome, a.deny_reason, a.credential_id) for a in sorted(site.attempts(), key=lambda a: a.outcome)] == [
        ("denied", "unknown_credential", None), ("granted", "", key.id),
    ]  # fmt: skip
    cloud.ask("/webhook", {"clientId": place.client_id, "wrongToken": 1})
    cloud.ask("/try", {"device": place.locks["101"], "kind": "pin_code", "value": "00000001"})
    last = cloud.ask("/webhook/flush", {})["pushes"][-1]
    assert (last["status"], last["accepted"], len(site.webhooks())) == (401, False, 3)
    assert alerts(place.hotel) == [("WEBHOOK_SIGNATURE_INVALID", "warning")]


def test_no_code_typed_at_a_door_is_kept_in_any_table(database: str, cloud: TtlockCloud, web: WebServer) -> None:
    place = TtlockHotel(cloud)
    site = Site(web, place.hotel, "ttlock")
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    cloud.ask("/webhook", {"clientId": place.client_id, "url": site.url(), "retries": 0})
    cloud.ask("/try", {"device": place.locks["101"], "kind": "pin_code", "value": "482915"})
    cloud.ask("/webhook/flush", {})
    assert site.send(_form(site, place), None, **form).status_code == 200  # never happened
    assert site.send(_form(site, place, recordType=31), None, **form).status_code == 200
    site.work()
    _assert_nowhere(site, "482915")  # while they wait
    site.read_due()
    _assert_nowhere(site, "482915")
    assert len(site.attempts()) == 1


def _assert_nowhere(site: Site, text: str) -> None:
    with tenant(site.hotel.tenant_id):
        for model in (VendorWebhook, WebhookReplay, AccessAttempt, OutboxEvent, Alert):
            for row in model.objects.filter(tenant_id=site.hotel.tenant_id).values():
                assert text not in str({name: bytes(v) if isinstance(v, memoryview) else v for name, v in row.items()})


# --- Addresses and logs -------------------------------------------------------------------------


def test_the_command_prints_an_address_that_works(site: Site) -> None:
    out = io.StringIO()
    call_command("webhook_address", site.hotel.tenant_id, site.hotel.installation_id, stdout=out)
    path = out.getvalue().strip()
    assert path.startswith(f"/lock/v1/webhooks/mock/{site.hotel.installation_id}/")
    site.token = path.rpartition("/")[2]
    assert len(site.token) == 43
    assert site.push(site.record()).status_code == 200


def test_a_token_prints_as_a_mask_and_is_sealed_at_rest(site: Site) -> None:
    with tenant(site.hotel.tenant_id):
        token = webhooks_addresses.rotate(site.hotel.tenant_id, site.hotel.installation_id)
        row = WebhookAddress.objects.get(tenant_id=site.hotel.tenant_id)
        facts = selectors.installation(site.hotel.tenant_id, site.hotel.installation_id)
    assert token.reveal() not in repr(token)
    assert token.reveal().encode() not in bytes(row.token_sealed)
    assert webhooks_addresses.path_of(facts, token).endswith(token.reveal())


def test_an_error_of_ours_is_logged_under_the_trace_that_is_told_and_says_nothing(
    database: str, locks: MockLocks, tmp_path: Path
) -> None:
    with tempfile.TemporaryFile(dir=tmp_path) as written:
        kept = os.dup(2)
        os.dup2(written.fileno(), 2)
        try:
            server = WebServer()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        try:
            site = Site(server, make_hotel(locks, secrets=own_secrets()))
            with tenant(site.hotel.tenant_id):
                WebhookAddress.objects.filter(tenant_id=site.hotel.tenant_id).update(token_sealed=b"broken")
            answer = site.push(site.record(why="marked_482915_body"))
        finally:
            server.stop()
        written.seek(0)
        lines = [json.loads(line) for line in written.read().decode().splitlines() if line.startswith("{")]
    told = answer.json()
    assert (answer.status_code, told["code"], "seal" in answer.text.lower()) == (500, "MELMASTOON.LOCK.INTERNAL_ERROR", False)
    (bug,) = [line for line in lines if line["event"] == "api.bug"]
    assert (bug["trace_id"], bug["level"], "SealBroken" in bug["exception"]) == (told["traceId"], "error", True)
    assert not [line for line in lines if site.token in str(line) or "482915" in str(line)]


def test_neither_token_nor_body_is_in_what_the_server_writes(database: str, locks: MockLocks, tmp_path: Path) -> None:
    with tempfile.TemporaryFile(dir=tmp_path) as written:
        kept = os.dup(2)
        os.dup2(written.fileno(), 2)
        try:
            server = WebServer(LOCK_LOG_LEVEL="DEBUG")
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        try:
            site = Site(server, make_hotel(locks, secrets=own_secrets()))
            marked = site.record(why="marked_482915_body")
            assert site.push(marked).status_code == 200
            assert site.push(marked, secret=STRANGER).status_code == 401
            wrong = "w" * 43
            assert site.send(b"marked_482915_body", None, site.url(wrong)).status_code == 401
            assert site.send(b"x" * 300_000, None).status_code == 413
        finally:
            server.stop()
        written.seek(0)
        text = written.read().decode()
    assert site.hotel.installation_id in text  # the requests were logged
    secrets = (site.token, wrong, site.secret, STRANGER, "482915")
    assert [line for line in text.splitlines() if any(secret in line for secret in secrets)] == []
