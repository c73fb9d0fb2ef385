"""TTLock over HTTP against its simulator: what is particular to this vendor's wire."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.vendors.site import handle_for, new_key, new_pin, request_for, stay
from tests.vendors.ttlock.harness import TtlockSite, is_changing
from vendors.port.errors import DeviceNotPaired, KeyIssueFailed, KeyRevokeFailed, LockError, Reason, VendorUnreachable
from vendors.port.secrets import CardNumber, Token
from vendors.port.types import (
    CallMeta,
    CallResult,
    CredentialKind,
    IssueInput,
    IssueResult,
    Outcome,
    Propagation,
    RevokeReason,
    SuspendReason,
    UpdateInput,
)
from vendors.support.marks import key_name, mark_of

PIN, CARD, PHONE = CredentialKind.PIN_CODE, CredentialKind.RFID_CARD, CredentialKind.MOBILE_APP


def fault(site: TtlockSite, path: str, door: int = 0, **rule: object) -> None:
    site.simulator.post("/faults", {"path": path, "lockId": int(site.doors[door].external_id), **rule})


def lock(site: TtlockSite, door: int = 0) -> dict:
    return site.simulator.get(f"/dump?lockId={site.doors[door].external_id}")["locks"][0]


def sent(site: TtlockSite, path: str) -> list[dict[str, str]]:
    return [form for p, form in site.proxy.forms if p == path and form.get("clientId") == site.client_id]


def paths(site: TtlockSite) -> list[str]:
    return [p for p, form in site.proxy.forms if form.get("clientId") == site.client_id]


def one_door(site: TtlockSite, kind: CredentialKind = PIN, **changes: Any) -> IssueInput:
    return request_for(site, kind, site.doors[:1], **changes)


def issue(site: TtlockSite, kind: CredentialKind = PIN, **changes: Any) -> tuple[IssueInput, IssueResult]:
    request = one_door(site, kind, **changes)
    return request, site.port.issue_credential(request)


def configure(site: TtlockSite, **account: object) -> None:
    site.simulator.post("/seed", {"account": {"clientId": site.client_id, **account}})


# --- the wire


def test_every_change_carries_an_explicit_type(site: TtlockSite) -> None:
    for kind in (PIN, CARD):
        request, result = issue(site, kind)
        handle = handle_for(request, result)
        site.port.update_credential(UpdateInput(replace(handle, window=stay(-1, 60)), CallMeta(new_key())))
        site.port.suspend_credential(handle, SuspendReason.MANUAL, CallMeta(new_key()))
        site.port.unsuspend_credential(handle, CallMeta(new_key()))
        site.port.revoke_credential(handle, RevokeReason.CHECKOUT, CallMeta(new_key()))
    checked = 0
    for path, form in site.proxy.forms:
        if form.get("clientId") == site.client_id and is_changing(path):
            types = [form[name] for name in ("addType", "changeType", "deleteType") if name in form]
            assert types == ["2"], path
            checked += 1
    assert checked == 10


def test_everything_secret_travels_in_the_body(site: TtlockSite) -> None:
    issue(site, PIN)
    issue(site, PHONE)
    assert all("?" not in path for path in site.proxy.paths)


def test_a_key_is_named_by_its_mark_and_never_by_its_guest(site: TtlockSite) -> None:
    request, _ = issue(site)
    (form,) = sent(site, "/v3/keyboardPwd/add")
    name = key_name(request.meta.idempotency_key, request.credential_id)
    assert form["keyboardPwdName"] == name
    assert name.startswith(f"gk-{request.meta.idempotency_key[:16]}")
    assert len(name) <= 50
    assert form["keyboardPwdType"] == "3"
    assert form["clientNonce"] == mark_of(request.meta.idempotency_key)


def test_both_dates_travel_in_a_change(site: TtlockSite) -> None:
    request, result = issue(site)
    window = stay(-1, 70)
    site.port.update_credential(UpdateInput(handle_for(request, result, window=window), CallMeta(new_key())))
    (form,) = sent(site, "/v3/keyboardPwd/change")
    assert form["startDate"] == str(int(window.valid_from.timestamp() * 1000))
    assert form["endDate"] == str(int(window.valid_until.timestamp() * 1000))


def test_the_requests_of_a_plain_stay_are_few(site: TtlockSite) -> None:
    request, result = issue(site)
    handle = handle_for(request, result)
    rested = site.port.suspend_credential(handle, SuspendReason.NO_SHOW, CallMeta(new_key()))
    woken = site.port.unsuspend_credential(handle, CallMeta(new_key()))
    gone = site.port.revoke_credential(handle, RevokeReason.CHECKOUT, CallMeta(new_key()))
    assert [r.calls for r in (result, rested, woken, gone)] == [1, 1, 1, 2]
    assert paths(site).count("/oauth2/token") == 1


@pytest.mark.parametrize("habit", ["numbersAsStrings", "omitOptional", "oldTokenFields", "uniqueNames"])
def test_the_vendors_habits_change_nothing(site: TtlockSite, habit: str) -> None:
    configure(site, **{habit: True})
    for kind in (PIN, CARD, PHONE):
        request, result = issue(site, kind)
        again = site.port.issue_credential(replace(request, meta=replace(request.meta, attempt=2)))
        assert again.doors[0].ref == result.doors[0].ref
        assert site.opens(site.doors[0], kind, site.presented(result, request))
    assert len(site.port.list_devices("ppt_test")) == 3
    assert site.port.health_check(site.doors[0]).online


# --- tokens


def test_a_token_that_died_is_refreshed_once_and_the_call_repeated(site: TtlockSite) -> None:
    issue(site)
    site.simulator.post("/tokens", {"clientId": site.client_id, "action": "expire"})
    request, _ = issue(site)
    grants = [form["grant_type"] for form in sent(site, "/oauth2/token")]
    assert grants == ["password", "refresh_token"]
    assert site.opens(site.doors[0], PIN, request.pin.reveal())


@pytest.mark.parametrize("action", ["forget", "expireRefresh"])
def test_when_the_refresh_token_died_too_one_login_helps(site: TtlockSite, action: str) -> None:
    issue(site)
    site.simulator.post("/tokens", {"clientId": site.client_id, "action": action})
    issue(site)
    grants = [form["grant_type"] for form in sent(site, "/oauth2/token")]
    assert grants == ["password", "refresh_token", "password"]


def test_rotating_refresh_tokens_are_followed(site: TtlockSite) -> None:
    configure(site, rotateRefresh=True, singleToken=True)
    for _ in range(3):
        issue(site)
        site.simulator.post("/tokens", {"clientId": site.client_id, "action": "expire"})
    grants = [form["grant_type"] for form in sent(site, "/oauth2/token")]
    assert grants == ["password", "refresh_token", "refresh_token"]


def test_a_wrong_password_stops_and_is_not_hammered(site: TtlockSite) -> None:
    configure(site, password="changed elsewhere")
    for _ in range(3):
        with pytest.raises(VendorUnreachable) as caught:
            issue(site)
        assert caught.value.reason is Reason.SETTINGS
        assert not caught.value.retriable
    assert paths(site) == ["/oauth2/token"]


def test_the_next_client_secret_is_tried_when_the_current_one_is_refused(site: TtlockSite) -> None:
    configure(site, clientSecret="rotated-by-hand")
    secrets = {n: Token(v) for n, v in site.secrets().items()} | {"client_secret_next": Token("rotated-by-hand")}
    port = type(site.port)(site.context(secrets=secrets))
    assert port.issue_credential(one_door(site, PHONE)).doors[0].outcome is Outcome.DONE


def test_client_credentials_are_a_switch_and_refused_by_the_real_vendor(site: TtlockSite) -> None:
    settings = {**site.settings(), "grant": "client_credentials"}
    port = type(site.port)(site.context(settings=settings))
    with pytest.raises(VendorUnreachable) as caught:
        port.issue_credential(one_door(site))
    assert caught.value.reason is Reason.SETTINGS
    assert "10010" in caught.value.vendor_message
    configure(site, clientCredentials=True)
    port = type(site.port)(site.context(settings=settings))
    assert port.issue_credential(one_door(site)).doors[0].outcome is Outcome.DONE


def test_one_login_serves_many_threads(site: TtlockSite) -> None:
    from concurrent.futures import ThreadPoolExecutor

    requests = [one_door(site, PHONE) for _ in range(8)]
    port = site.port
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(port.issue_credential, requests))
    assert all(r.doors[0].outcome is Outcome.DONE for r in results)
    assert paths(site).count("/oauth2/token") == 1


# --- errors inside HTTP 200


@pytest.mark.parametrize(
    ("code", "cls", "retriable", "reason"),
    [
        (-3003, VendorUnreachable, True, Reason.BUSY),
        (-3002, VendorUnreachable, True, Reason.DOOR_OFFLINE),
        (-2012, VendorUnreachable, True, Reason.DOOR_OFFLINE),
        (30006, VendorUnreachable, True, Reason.RATE),
        (30007, VendorUnreachable, True, Reason.QUOTA),
        (30008, VendorUnreachable, False, Reason.SETTINGS),
        (80000, VendorUnreachable, True, Reason.OTHER),
        (-1003, DeviceNotPaired, False, Reason.OTHER),
        (20002, DeviceNotPaired, False, Reason.OTHER),
        (-3009, KeyIssueFailed, False, Reason.DOOR_FULL),
        (-1007, KeyIssueFailed, False, Reason.KIND_UNSUPPORTED),
        (-2032, KeyIssueFailed, False, Reason.PIN_REFUSED),
        (-4321, KeyIssueFailed, False, Reason.OTHER),
    ],
)
def test_an_error_number_becomes_the_ports_error(
    site: TtlockSite, code: int, cls: type[LockError], retriable: bool, reason: Reason
) -> None:
    fault(site, "keyboardPwd/add", errcode=code)
    with pytest.raises(LockError) as caught:
        issue(site)
    error = caught.value
    assert (type(error), error.retriable, error.reason) == (cls, retriable, reason)
    assert str(code) in error.vendor_message
    assert site.keys_at(site.doors[0]) == 0


def test_busy_asks_to_wait_five_to_sixty_seconds(site: TtlockSite) -> None:
    fault(site, "keyboardPwd/add", errcode=-3003)
    with pytest.raises(VendorUnreachable) as caught:
        issue(site)
    assert 5 <= caught.value.retry_after_s <= 60
    assert not caught.value.throttled


def test_the_quota_asks_to_wait_for_the_next_month_in_beijing(site: TtlockSite) -> None:
    configure(site, monthLimit=1, monthCount=1)
    with pytest.raises(VendorUnreachable) as caught:
        issue(site)
    assert caught.value.reason is Reason.QUOTA
    assert caught.value.throttled
    beijing = datetime.now(UTC) + timedelta(hours=8, seconds=caught.value.retry_after_s)
    assert abs(beijing - beijing.replace(day=1, hour=0, minute=0, second=0, microsecond=0)) < timedelta(seconds=30)


def test_a_spent_quota_stops_the_other_doors(site: TtlockSite) -> None:
    fault(site, "keyboardPwd/add", door=1, errcode=30007)
    result = site.port.issue_credential(request_for(site, PIN))
    assert [r.outcome for r in result.doors] == [Outcome.DONE, Outcome.FAILED, Outcome.FAILED]
    assert [r.error.reason for r in result.doors[1:]] == [Reason.QUOTA, Reason.QUOTA]
    assert len(sent(site, "/v3/keyboardPwd/add")) == 2


def test_an_unlisted_error_is_looked_after_before_it_is_believed(site: TtlockSite) -> None:
    fault(site, "keyboardPwd/add", effect="apply_then_errcode", errcode=-4321)
    request, result = issue(site)
    assert result.doors[0].outcome is Outcome.DONE
    assert site.opens(site.doors[0], PIN, request.pin.reveal())


# --- unknown outcomes


def test_a_gateways_timeout_that_had_its_effect_is_found_at_once(site: TtlockSite) -> None:
    fault(site, "keyboardPwd/add", effect="apply_then_errcode1")
    _, result = issue(site)
    assert result.doors[0].outcome is Outcome.DONE
    assert site.keys_at(site.doors[0]) == 1
    assert result.calls == 2


def test_a_timeout_without_effect_is_unknown_until_the_next_attempt(site: TtlockSite) -> None:
    fault(site, "keyboardPwd/add", errcode=1)
    request, result = issue(site)
    (door,) = result.doors
    assert (door.outcome, door.propagation) == (Outcome.UNKNOWN, Propagation.UNKNOWN)
    assert door.error.reason is Reason.TIMEOUT
    again = site.port.issue_credential(replace(request, meta=replace(request.meta, attempt=2)))
    assert again.doors[0].outcome is Outcome.DONE
    assert site.keys_at(site.doors[0]) == 1


def test_a_hanging_gateway_ends_with_the_call(site: TtlockSite) -> None:
    fault(site, "keyboardPwd/add", effect="apply_then_hang")
    start = time.monotonic()
    _, result = issue(site)
    assert time.monotonic() - start < 3
    assert result.doors[0].outcome is Outcome.DONE


def test_a_code_at_the_lock_that_no_list_shows_is_removed_before_other_digits_are_drawn(site: TtlockSite) -> None:
    fault(site, "keyboardPwd/add", effect="skip_cloud")
    request, result = issue(site)
    assert result.doors[0].outcome is Outcome.UNKNOWN
    assert len(lock(site)["door"]["passcodes"]) == 1
    with pytest.raises(KeyIssueFailed) as caught:
        site.port.issue_credential(replace(request, meta=replace(request.meta, attempt=2)))
    assert caught.value.reason is Reason.PIN_REFUSED
    assert lock(site)["door"]["passcodes"] == []
    redrawn = replace(request, pin=new_pin(), meta=replace(request.meta, attempt=3))
    assert site.port.issue_credential(redrawn).doors[0].outcome is Outcome.DONE
    assert site.keys_at(site.doors[0]) == 1


def test_a_strangers_unlisted_code_is_left_alone_on_a_first_attempt(site: TtlockSite) -> None:
    fault(site, "keyboardPwd/add", effect="skip_cloud")
    stranger, _ = issue(site)
    with pytest.raises(KeyIssueFailed) as caught:
        issue(site, pin=stranger.pin)
    assert caught.value.reason is Reason.PIN_REFUSED
    assert [c["value"] for c in lock(site)["door"]["passcodes"]] == [stranger.pin.reveal()]


def test_an_adopted_code_gets_todays_window_and_digits(site: TtlockSite) -> None:
    request, _ = issue(site)
    moved = replace(request, window=stay(-2, 90), pin=new_pin(), meta=replace(request.meta, attempt=2))
    result = site.port.issue_credential(moved)
    assert result.doors[0].outcome is Outcome.DONE
    assert site.keys_at(site.doors[0]) == 1
    assert site.opens(site.doors[0], PIN, moved.pin.reveal(), datetime.now(UTC) + timedelta(hours=80))
    assert not site.opens(site.doors[0], PIN, request.pin.reveal())


def test_no_door_costs_more_than_four_requests_a_call(site: TtlockSite) -> None:
    configure(site, unknownDelete=0)
    counts = []
    for effect in ("apply_then_errcode1", "apply_then_drop", "skip_cloud", "drop_before", "html", "empty", "cut"):
        for kind in (PIN, CARD, PHONE):
            path = {PIN: "keyboardPwd/add", CARD: "identityCard/add", PHONE: "key/send"}[kind]
            fault(site, path, effect=effect)
            request = one_door(site, kind)
            for attempt in (1, 2, 3):
                try:
                    result = site.port.issue_credential(replace(request, meta=replace(request.meta, attempt=attempt)))
                except KeyIssueFailed:
                    break
                counts.append(result.calls)
                if result.doors[0].outcome is Outcome.DONE:
                    break
    assert max(counts) <= 4


# --- taking back


def test_a_success_for_an_unknown_delete_is_no_proof_but_a_list_is(site: TtlockSite) -> None:
    configure(site, unknownDelete=0)
    request, result = issue(site)
    handle = handle_for(request, result)
    for _ in range(2):
        gone = site.port.revoke_credential(handle, RevokeReason.CHECKOUT, CallMeta(new_key()))
        assert gone.doors[0].outcome is Outcome.DONE
        assert gone.calls == 2
    assert site.keys_at(site.doors[0]) == 0


def test_a_delete_that_did_nothing_is_seen(site: TtlockSite) -> None:
    fault(site, "keyboardPwd/delete", errcode=1)
    request, result = issue(site)
    handle = handle_for(request, result)
    answer = site.port.revoke_credential(handle, RevokeReason.SECURITY, CallMeta(new_key()))
    assert answer.doors[0].outcome is Outcome.UNKNOWN
    assert answer.doors[0].error.retriable
    again = site.port.revoke_credential(handle, RevokeReason.SECURITY, CallMeta(new_key(), attempt=2))
    assert again.doors[0].outcome is Outcome.DONE


def _say_nothing(site: TtlockSite, path: str) -> None:
    """The next such call is not done, and answered by an object with nothing in it. Keys of phones are named without a lock."""
    site.simulator.post("/faults", {"path": path, "clientId": site.client_id, "effect": "wordless"})


@pytest.mark.parametrize("kind", [PIN, CARD, PHONE])
def test_an_object_that_says_nothing_puts_no_key_to_rest_and_takes_none_back(site: TtlockSite, kind: CredentialKind) -> None:
    path = {PIN: "keyboardPwd", CARD: "identityCard", PHONE: "key"}[kind]
    request, result = issue(site, kind)
    handle = handle_for(request, result)
    rest = {PIN: "change", CARD: "changePeriod", PHONE: "freeze"}[kind]
    _say_nothing(site, f"{path}/{rest}")
    answer = site.port.suspend_credential(handle, SuspendReason.FRAUD_REVIEW, CallMeta(new_key()))
    assert answer.doors[0].outcome is Outcome.UNKNOWN
    again = site.port.suspend_credential(handle, SuspendReason.FRAUD_REVIEW, CallMeta(new_key(), attempt=2))
    assert again.doors[0].outcome is Outcome.DONE
    assert not site.opens(site.doors[0], kind, site.presented(result, request))
    _say_nothing(site, f"{path}/delete")
    gone = site.port.revoke_credential(handle, RevokeReason.LOST, CallMeta(new_key()))
    assert gone.doors[0].outcome is Outcome.UNKNOWN
    assert site.keys_at(site.doors[0]) == 1
    site.port.revoke_credential(handle, RevokeReason.LOST, CallMeta(new_key(), attempt=2))
    assert site.keys_at(site.doors[0]) == 0


def test_a_refused_revoke_is_a_revoke_failure_and_goes_on_being_tried(site: TtlockSite) -> None:
    fault(site, "keyboardPwd/delete", errcode=-2025)
    request, result = issue(site)
    with pytest.raises(KeyRevokeFailed) as caught:
        site.port.revoke_credential(handle_for(request, result), RevokeReason.SECURITY, CallMeta(new_key()))
    assert caught.value.retriable


def test_a_revoked_ekey_is_propagating_until_its_window_ends(site: TtlockSite) -> None:
    request, result = issue(site, PHONE)
    gone = site.port.revoke_credential(handle_for(request, result), RevokeReason.CHECKOUT, CallMeta(new_key()))
    assert gone.doors[0].propagation is Propagation.PROPAGATING
    assert gone.doors[0].effective_not_after == request.window.valid_until


def test_a_reference_to_a_lock_paired_anew_is_not_followed(site: TtlockSite) -> None:
    request, _ = issue(site)
    other, result = issue(site)
    handle = handle_for(request, CallResult(()))
    stale = replace(handle.doors[0], ref=type(result.doors[0].ref)("ttl:4711:pin:1"))
    gone = site.port.revoke_credential(replace(handle, doors=(stale,)), RevokeReason.CHECKOUT, CallMeta(new_key()))
    assert gone.doors[0].outcome is Outcome.DONE
    assert site.keys_at(site.doors[0]) == 1
    assert site.opens(site.doors[0], PIN, other.pin.reveal())


# --- resting


def test_when_the_period_may_not_change_the_pin_is_deleted_and_made_anew(site: TtlockSite) -> None:
    fault(site, "keyboardPwd/change", errcode=-3)
    request, result = issue(site)
    rested = site.port.suspend_credential(handle_for(request, result), SuspendReason.NO_SHOW, CallMeta(new_key()))
    assert rested.doors[0].outcome is Outcome.DONE
    assert rested.doors[0].ref is None
    assert site.keys_at(site.doors[0]) == 0
    woken = site.port.unsuspend_credential(handle_for(request, rested), CallMeta(new_key()))
    assert woken.doors[0].ref is not None
    assert site.opens(site.doors[0], PIN, request.pin.reveal())


def test_a_resting_pin_stays_shut_on_a_lock_clock_ten_hours_off(site: TtlockSite) -> None:
    for offset_h in (-10, 10):
        body = {"lockId": int(site.doors[0].external_id), "offsetMs": offset_h * 3_600_000}
        site.simulator.post("/clock", body)
        request, result = issue(site, window=stay(-24, 72))
        site.port.suspend_credential(handle_for(request, result), SuspendReason.NO_SHOW, CallMeta(new_key()))
        assert not site.opens(site.doors[0], PIN, request.pin.reveal())


# --- random PINs


@pytest.fixture
def offline(site: TtlockSite) -> TtlockSite:
    """No gateway reaches the first door; its clock is at half an hour."""
    lock_id = int(site.doors[0].external_id)
    row = {"lockId": lock_id, "gatewayId": None, "timezoneRawOffset": 16_200_000}
    site.simulator.post("/seed", {"account": {"clientId": site.client_id}, "locks": [row]})
    site.doors = (replace(site.doors[0], has_remote=False, gateway=""), *site.doors[1:])
    return site


def test_without_a_gateway_the_cloud_draws_the_digits_and_the_guest_is_warned(offline: TtlockSite) -> None:
    request, result = issue(offline, window=stay(1.25, 40))
    value = offline.presented(result, request)
    assert result.doors[0].outcome is Outcome.DONE
    assert 6 <= len(value) <= 9
    assert value != request.pin.reveal()
    assert [w.code for w in result.warnings] == ["FIRST_USE_24H"]
    middle = request.window.valid_from + timedelta(hours=2)
    last_minute = request.window.valid_until - timedelta(minutes=1)
    assert offline.opens(offline.doors[0], PIN, value, request.window.valid_from)
    assert offline.opens(offline.doors[0], PIN, value, middle)
    assert offline.opens(offline.doors[0], PIN, value) is False
    assert offline.simulator.post("/door", {"lockId": int(offline.doors[0].external_id), "markUsed": value})["marked"]
    assert offline.opens(offline.doors[0], PIN, value, last_minute)
    assert not offline.opens(offline.doors[0], PIN, value, request.window.valid_until + timedelta(hours=1))


def test_a_random_pin_is_the_same_after_a_lost_answer(offline: TtlockSite) -> None:
    request = one_door(offline, window=stay(1, 40))
    fault(offline, "keyboardPwd/get", effect="apply_then_drop")
    first = offline.port.issue_credential(request)
    again = offline.port.issue_credential(replace(request, meta=replace(request.meta, attempt=2)))
    assert offline.presented(first, request) == offline.presented(again, request)
    assert [w.code for w in again.warnings] == ["FIRST_USE_24H"]
    assert offline.keys_at(offline.doors[0]) == 1


def test_a_window_whose_random_code_is_spent_grows_by_an_hour(offline: TtlockSite) -> None:
    fault(offline, "keyboardPwd/get", errcode=-1026)
    soon = stay(1, 40)  # one that begins on a whole hour could also begin an hour earlier
    request, result = issue(offline, window=replace(soon, valid_from=soon.valid_from.replace(minute=10)))
    assert result.doors[0].outcome is Outcome.DONE
    ends = [int(form["endDate"]) for form in sent(offline, "/v3/keyboardPwd/get")]
    assert ends[1] - ends[0] == 3_600_000
    assert offline.presented(result, request)


def test_an_unused_random_pin_cannot_be_taken_back_and_says_so(offline: TtlockSite) -> None:
    request, result = issue(offline, window=stay(1, 40))
    with pytest.raises(LockError) as caught:
        offline.port.revoke_credential(handle_for(request, result), RevokeReason.CANCELLATION, CallMeta(new_key()))
    assert caught.value.retriable


def test_one_pin_for_several_doors_needs_a_gateway_at_each(offline: TtlockSite) -> None:
    request = request_for(offline, PIN, offline.doors[:2])
    result = offline.port.issue_credential(request)
    assert [r.outcome for r in result.doors] == [Outcome.FAILED, Outcome.DONE]
    assert result.doors[0].error.reason is Reason.KIND_UNSUPPORTED
    assert offline.presented(result, request) == request.pin.reveal()


# --- Wi-Fi locks that sleep


def test_a_sleeping_lock_takes_the_code_later(site: TtlockSite) -> None:
    lock_id = int(site.doors[0].external_id)
    row = {"lockId": lock_id, "gatewayId": None, "wifi": {"powerSave": True, "online": True}}
    site.simulator.post("/seed", {"account": {"clientId": site.client_id}, "locks": [row]})
    request, result = issue(site)
    assert result.doors[0].outcome is Outcome.DEFERRED
    assert result.resume_token == mark_of(request.meta.idempotency_key)
    handle, answer = handle_for(request, result), result
    for _ in range(50):
        answer = site.port.resume(handle, result.resume_token, CallMeta(new_key()))
        if answer.doors[0].outcome is not Outcome.DEFERRED:
            break
        assert answer.resume_token == result.resume_token
        time.sleep(0.02)
    assert answer.doors[0].outcome is Outcome.DONE
    assert answer.resume_token is None
    assert site.opens(site.doors[0], PIN, request.pin.reveal())


# --- eKeys and cards


def test_an_ekeys_user_is_registered_once_and_never_by_the_vendor(site: TtlockSite) -> None:
    request = request_for(site, PHONE)
    site.port.issue_credential(replace(request, doors=site.doors[:2]))
    site.refresh()
    site.port.issue_credential(replace(request, doors=site.doors[2:], meta=CallMeta(new_key())))
    users = {form["receiverUsername"] for form in sent(site, "/v3/key/send")}
    assert len(users) == 1
    assert {form["createUser"] for form in sent(site, "/v3/key/send")} == {"2"}
    assert all("@" not in user and "+" not in user for user in users)


def test_the_guests_app_can_sign_in_with_the_artifact(site: TtlockSite) -> None:
    _, result = issue(site, PHONE)
    login = json.loads(result.artifact.value.reveal())
    from hashlib import md5

    from vendors.support.http import HttpClient

    answer = HttpClient(site.proxy.url).post_form(
        "/oauth2/token",
        {
            "clientId": site.client_id,
            "clientSecret": site.client_secret,
            "grant_type": "password",
            "username": login["username"],
            "password": md5(login["password"].encode(), usedforsecurity=False).hexdigest(),
        },
        timeout_s=5,
    )
    assert "access_token" in answer.json()


def test_a_lost_ekey_answer_does_not_replace_the_key(site: TtlockSite) -> None:
    fault(site, "key/send", effect="apply_then_drop")
    request, result = issue(site, PHONE)
    assert result.doors[0].outcome is Outcome.DONE
    keys = lock(site)["cloud"]["keys"]
    assert len(keys) == 1
    assert result.doors[0].ref.reveal().endswith(f":{keys[0]['keyId']}")
    assert len(sent(site, "/v3/key/send")) == 1
    assert request.holder.display_name not in json.dumps(keys, ensure_ascii=False)


def test_a_card_number_is_turned_round_where_the_reader_gives_it_the_other_way(site: TtlockSite) -> None:
    settings = {**site.settings(), "reader_byte_order": "reversed"}
    port = type(site.port)(site.context(settings=settings))
    request = one_door(site, CARD, card_number=CardNumber("3661413478"))
    assert port.issue_credential(request).doors[0].outcome is Outcome.DONE
    assert site.opens(site.doors[0], CARD, "1723612378")
    assert not site.opens(site.doors[0], CARD, "3661413478")


# --- reading


def test_devices_and_their_gateways_are_read_in_few_requests(site: TtlockSite) -> None:
    devices = site.port.list_devices("ppt_test")
    assert {d.gateway for d in devices} == {str(site.gateway)}
    calls = paths(site)
    assert calls.count("/v3/lock/list") == 1
    assert len(calls) <= 5


def test_a_gateway_that_is_off_line_shows_in_health_and_list(site: TtlockSite) -> None:
    site.simulator.post("/gateway", {"gatewayId": site.gateway, "online": False})
    health = site.port.health_check(site.doors[0])
    assert (health.online, health.clock_skew_ms) == (False, None)
    assert [d.online for d in site.port.list_devices("ppt_test")] == [False, False, False]


def test_a_lock_clock_that_is_off_shows_as_skew(site: TtlockSite) -> None:
    site.simulator.post("/clock", {"lockId": int(site.doors[0].external_id), "offsetMs": 600_000})
    health = site.port.health_check(site.doors[0])
    assert abs(health.clock_skew_ms - 600_000) < 3_000


def test_an_inventory_of_more_than_a_page_is_complete(site: TtlockSite) -> None:
    refs = {issue(site)[1].doors[0].ref.reveal() for _ in range(203)}
    first = site.port.list_keys(site.doors[0], None)
    second = site.port.list_keys(site.doors[0], first.next_cursor)
    assert (len(first.keys), first.next_cursor) == (200, "pin_code:2")
    assert (len(second.keys), second.next_cursor) == (3, "rfid_card:1")
    assert {key.ref.reveal() for key in (*first.keys, *second.keys)} == refs
