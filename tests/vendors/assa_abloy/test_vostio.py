"""Vostio on its wire: tokens, limits, maintenance, deferred issuing, versions, what stays one effect."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.vendors.asking import Tipping
from tests.vendors.assa_abloy.conftest import NewHouse
from tests.vendors.assa_abloy.harness import VostioSite
from tests.vendors.site import handle_for, new_key, request_for, stay
from vendors import registry
from vendors.assa_abloy.adapter import VostioPort
from vendors.port.errors import CardEncoderOffline, KeyIssueFailed, LockError, Reason, VendorUnreachable
from vendors.port.protocol import Resume
from vendors.port.secrets import Token
from vendors.port.types import (
    Area,
    CallMeta,
    CallResult,
    CredentialKind,
    Door,
    Intent,
    Outcome,
    RevokeReason,
    Scope,
    SuspendReason,
    UpdateInput,
)

CARD, PHONE = CredentialKind.RFID_CARD, CredentialKind.MOBILE_APP


@pytest.fixture
def site(new_house: NewHouse) -> VostioSite:
    site: VostioSite = new_house(VostioSite)
    return site


def with_settings(site: VostioSite, secrets: dict[str, str] | None = None, **settings: object) -> VostioPort:
    changes: dict[str, Any] = {"settings": {**site.settings(), **settings}}
    if secrets is not None:
        changes["secrets"] = {name: Token(value) for name, value in secrets.items()}
    port = registry.build(site.code, site.context(**changes))
    assert isinstance(port, VostioPort)
    return port


def paths_of(site: VostioSite, act: Callable[[], object]) -> list[str]:
    before = len(site.proxy.paths)
    act()
    return [path.partition("?")[0] for path in site.proxy.paths[before:]]


def meta(attempt: int = 1) -> CallMeta:
    return CallMeta(new_key(), attempt)


# --- tokens


def test_one_token_serves_many_calls_and_a_rejected_one_is_replaced_once(site: VostioSite) -> None:
    doors = ["/maintenance-windows", "/doors"]
    assert paths_of(site, lambda: site.port.list_devices("p")) == ["/oauth2/token", *doors]
    assert paths_of(site, lambda: site.port.list_devices("p")) == doors
    site.simulator.post("/sessions", {})
    renewed = [doors[0], "/oauth2/token", *doors]
    assert paths_of(site, lambda: site.port.list_devices("p")) == renewed


def test_the_next_secret_is_tried_when_the_first_is_refused(site: VostioSite) -> None:
    secrets = {"client_secret": "withdrawn", "client_secret_next": site.client_secret}
    assert len(with_settings(site, secrets).list_devices("p")) == 3


def test_a_refused_login_is_a_matter_of_settings_and_not_asked_again_at_once(site: VostioSite) -> None:
    port = with_settings(site, {"client_secret": "wrong"})
    before = len(site.proxy.paths)
    for _ in range(3):
        with pytest.raises(VendorUnreachable) as caught:
            port.list_devices("p")
        assert (caught.value.reason, caught.value.retriable) == (Reason.SETTINGS, False)
    assert len(site.proxy.paths) - before == 1


def test_a_guest_api_credential_logs_in_at_its_user_pool(site: VostioSite) -> None:
    secrets = {"username": f"operator-{site.house}", "password": site.password}
    port = with_settings(site, secrets, grant="user_pool", token_url=site.proxy.url, user_pool_id="eu-west-1_abc")
    assert paths_of(site, lambda: port.list_devices("p")) == ["/", "/maintenance-windows", "/doors"]
    assert site.proxy.forms[-3][0] == "/"
    with pytest.raises(ValueError, match="user_pool_id"):
        with_settings(site, secrets, grant="user_pool", user_pool_id="nonsense")


# --- limits and maintenance


def test_the_environments_limit_is_told_with_its_wait_and_counts_as_no_attempt(new_house: NewHouse) -> None:
    site = new_house(VostioSite, rateLimit=2)
    errors: list[LockError] = []
    for _ in range(4):
        try:
            site.port.health_check(site.doors[0])
        except LockError as error:
            errors.append(error)
    assert errors
    assert {(e.reason, e.retriable, e.throttled) for e in errors} == {(Reason.RATE, True, True)}
    assert all(1 <= (e.retry_after_s or 0) <= 3 for e in errors)


def test_in_a_maintenance_window_one_call_learns_of_it_and_no_other_is_made(site: VostioSite) -> None:
    now = datetime.now(UTC)
    window = {"from": (now - timedelta(minutes=1)).isoformat(), "until": (now + timedelta(minutes=10)).isoformat()}
    site.simulator.post("/maintenance", {"house": site.house, **window})
    request = request_for(site, PHONE)
    before = site.request_count()
    for _ in range(3):
        with pytest.raises(VendorUnreachable) as caught:
            site.port.issue_credential(request)
        assert (caught.value.reason, caught.value.retriable, caught.value.throttled) == (Reason.BUSY, True, True)
        assert 590 <= (caught.value.retry_after_s or 0) <= 602
    assert site.request_count() - before == 1
    assert site.keys_at(site.doors[0]) == 0


# --- deferred issuing


def test_a_card_that_is_not_there_yet_is_deferred_and_resumed_once_it_is(new_house: NewHouse) -> None:
    site = new_house(VostioSite, cardWaitMs=60_000)
    port = with_settings(site, encoder="desk-2")
    assert isinstance(port, Resume)
    request = request_for(site, CARD)
    result = port.issue_credential(request)
    assert {row.outcome for row in result.doors} == {Outcome.DEFERRED}
    assert result.resume_token
    assert result.calls == 4  # asked for, and asked after three times
    handle = handle_for(request, result)
    waiting = port.resume(handle, result.resume_token, meta())
    assert {row.outcome for row in waiting.doors} == {Outcome.DEFERRED}
    assert waiting.resume_token == result.resume_token
    site.simulator.post("/place", {"house": site.house, "encoder": "desk-2", "serial": "77"})
    done = port.resume(handle, result.resume_token, meta())
    assert ({row.outcome for row in done.doors}, done.resume_token) == ({Outcome.DONE}, None)
    assert [site.opens(door, CARD, "77") for door in site.doors] == [True, True, True]
    assert [site.keys_at(door) for door in site.doors] == [1, 1, 1]


def test_the_same_issue_again_while_it_waits_makes_no_second_request(new_house: NewHouse) -> None:
    site = new_house(VostioSite, cardWaitMs=60_000)
    port = with_settings(site, encoder="desk-2")
    request = request_for(site, CARD)
    first = port.issue_credential(request)
    second = port.issue_credential(replace(request, meta=replace(request.meta, attempt=2)))
    assert second.resume_token == first.resume_token
    assert len(site.dump()["vendor"]) == 1


def test_a_limit_while_a_grant_is_being_made_is_an_attempt_so_that_the_next_one_finds_it(new_house: NewHouse) -> None:
    site = new_house(VostioSite, cardWaitMs=60_000)
    site.limiter = tipping = Tipping()
    port = with_settings(site, encoder="desk-2")
    port.list_devices("p")
    request = request_for(site, CARD)
    tipping.before(2, site.limit)  # the first made the grant, the second asks how far it has come
    with pytest.raises(VendorUnreachable) as caught:
        port.issue_credential(request)
    assert (caught.value.reason, caught.value.retriable, caught.value.throttled) == (Reason.RATE, True, False)
    assert 1 <= (caught.value.retry_after_s or 0) <= 3
    again = port.issue_credential(replace(request, meta=replace(request.meta, attempt=2)))
    assert {row.outcome for row in again.doors} == {Outcome.DEFERRED}
    assert len(site.dump()["vendor"]) == 1


def test_nobody_lays_a_card_and_the_desk_must_ask_again(new_house: NewHouse) -> None:
    site = new_house(VostioSite, cardWaitMs=1)
    with pytest.raises(KeyIssueFailed) as caught:
        with_settings(site, encoder="desk-2").issue_credential(request_for(site, CARD))
    assert not caught.value.retriable
    assert "no card was laid on the encoder" in caught.value.vendor_message
    assert site.keys_at(site.doors[0]) == 0


def test_a_card_with_a_valid_key_is_refused_and_keeps_it(site: VostioSite) -> None:
    port = with_settings(site, encoder="desk-2")
    site.simulator.post("/place", {"house": site.house, "encoder": "desk-2", "serial": "88"})
    port.issue_credential(request_for(site, CARD, site.doors[:1]))
    with pytest.raises(KeyIssueFailed) as caught:
        port.issue_credential(request_for(site, CARD, site.doors[1:2]))
    assert "still holds a valid key" in caught.value.vendor_message
    assert [site.opens(door, CARD, "88") for door in site.doors] == [True, False, False]


def test_an_unknown_encoder_is_offline_for_good(site: VostioSite) -> None:
    with pytest.raises(CardEncoderOffline) as caught:
        with_settings(site, encoder="desk-9").issue_credential(request_for(site, CARD))
    assert not caught.value.retriable
    with pytest.raises(KeyIssueFailed, match="KEY_ISSUE_FAILED"):
        with_settings(site, encoder=None).issue_credential(request_for(site, CARD))


# --- one effect


def test_an_idempotency_key_travels_as_64_hex_digits_with_every_grant(site: VostioSite) -> None:
    from tests.vendors.assa_abloy.tap import Tap

    tap = Tap(site.simulator.url)
    port = with_settings(site, base_url=tap.url)
    port.issue_credential(request_for(site, PHONE, meta=CallMeta("booking:1")))
    lines, body = tap.requests()[-1]
    tap.stop()
    headers = dict(line.split(": ", 1) for line in lines[1:])
    key = headers["Idempotency-Key"]
    assert (len(key), set(key) <= set("0123456789abcdef")) == (64, True)
    assert len(headers["X-Request-Id"]) == 24
    assert headers["Authorization"].startswith("Bearer tok-")
    sent = json.loads(body)
    assert sent["stay"] == {"mode": "override"}
    assert len(sent["label"]) == 32
    assert "زرغونه" not in body.decode()


@pytest.mark.parametrize(
    ("intent", "mode"), [(Intent.NEW, "override"), (Intent.REPLACEMENT, "override"), (Intent.ADDITIONAL, "join")]
)
def test_an_intent_says_whether_the_stay_is_overridden_or_joined(site: VostioSite, intent: Intent, mode: str) -> None:
    site.port.issue_credential(request_for(site, PHONE))
    site.port.issue_credential(request_for(site, PHONE, intent=intent))
    first, second = (row["stays"] for row in site.dump()["vendor"])
    assert [number - first[door] for door, number in second.items()] == [1 if mode == "override" else 0] * 3


def test_a_grant_changed_by_somebody_else_is_read_anew_and_changed(site: VostioSite) -> None:
    request = request_for(site, PHONE)
    handle = handle_for(request, site.port.issue_credential(request))
    site.simulator.post(
        "/faults", {"path": "/access-grants/", "method": "PATCH", "status": 412, "code": "version_stale", "times": 1}
    )
    paths = paths_of(site, lambda: site.port.suspend_credential(handle, SuspendReason.MANUAL, meta()))
    assert paths[:3] == ["/doors"] * 3  # which of them answer
    assert len(paths[3:]) == 4  # read, refused, read, changed
    assert site.dump()["vendor"][0]["status"] == "suspended"


def test_a_grant_overridden_by_another_terminal_is_not_changed_and_counts_as_gone(site: VostioSite) -> None:
    request = request_for(site, PHONE)
    result = site.port.issue_credential(request)
    handle = handle_for(request, result)
    other = request_for(site, PHONE, holder=replace(request.holder, phone_e164="+93700999999"))
    taken = site.port.issue_credential(other)
    assert site.opens(site.doors[0], PHONE, site.presented(taken, other))
    assert site.tried(site.doors[0], PHONE, site.presented(result, request)) == "unknown_credential"
    with pytest.raises(KeyIssueFailed) as caught:
        site.port.update_credential(UpdateInput(replace(handle, window=stay(-1, 90)), meta()))
    assert not caught.value.retriable
    assert site.port.find(handle, meta()) == ()
    gone = site.port.revoke_credential(handle, RevokeReason.CHECKOUT, meta())
    assert {row.outcome for row in gone.doors} == {Outcome.DONE}
    assert site.opens(site.doors[0], PHONE, site.presented(taken, other))


def test_revoking_one_room_of_three_leaves_the_others(site: VostioSite) -> None:
    request = request_for(site, PHONE)
    result = site.port.issue_credential(request)
    handle = handle_for(request, result)
    one = replace(handle, doors=handle.doors[:1])
    assert {r.outcome for r in site.port.revoke_credential(one, RevokeReason.SECURITY, meta()).doors} == {Outcome.DONE}
    value = site.presented(result, request)
    assert [site.opens(door, PHONE, value) for door in site.doors] == [False, True, True]


# --- doors


def test_areas_are_listed_and_entrances_follow_the_room(new_house: NewHouse) -> None:
    site = new_house(VostioSite)
    more = [{"doorId": f"{site.house}-{k}", "name": k, "type": k, "online": True} for k in ("common", "entrance", "elevator")]
    site.simulator.post("/seed", site.seed_body() | {"doors": more})
    common, entrance, elevator = (f"{k}:{site.house}-{k}" for k in ("common", "entrance", "elevator"))
    assert {d.external_id for d in site.port.list_devices("p")} >= {common, entrance, elevator}
    port = with_settings(site, common_doors={"gym": f"{site.house}-common"})
    way_in = Door("lck_in", entrance, has_remote=True)
    request = request_for(site, CARD, (site.doors[0], way_in), scope=Scope(areas=(Area.GYM, Area.POOL)))
    result = port.issue_credential(request)
    assert [r.outcome for r in result.doors] == [Outcome.DONE, Outcome.DONE]
    value = site.presented(result, request)
    doors = [site.doors[0], way_in, Door("c", common), Door("e", elevator), site.doors[1]]
    assert [site.opens(door, CARD, value) for door in doors] == [True, True, True, True, False]
    without = port.issue_credential(other := request_for(site, CARD, site.doors[:1]))
    assert not site.opens(Door("c", common), CARD, site.presented(without, other))


def test_a_card_for_34_rooms_is_refused_before_anything_is_asked_and_33_are_written(new_house: NewHouse) -> None:
    site = new_house(VostioSite)
    doors = tuple(Door(f"lck_{n}", f"{site.house}-{n}") for n in range(34))
    site.simulator.post(
        "/seed", site.seed_body() | {"doors": [{"doorId": d.external_id, "name": "r", "online": True} for d in doors]}
    )
    before = site.request_count()
    with pytest.raises(KeyIssueFailed) as caught:
        site.port.issue_credential(request_for(site, CARD, doors))
    assert (caught.value.reason, caught.value.retriable) == (Reason.DOOR_FULL, False)
    assert site.request_count() == before
    request = request_for(site, CARD, doors[:33])
    result = site.port.issue_credential(request)
    assert len([r for r in result.doors if r.outcome is Outcome.DONE]) == 33
    assert site.opens(doors[32], CARD, site.presented(result, request))


# --- pushes


def test_a_push_of_an_opening_is_read_and_another_holds_none(site: VostioSite) -> None:
    data = {"doorId": "7", "doorKind": "common", "kind": "rfid_card", "label": "ab" * 16, "reason": "overridden"}
    event = {"eventId": "e1", "type": "access.denied", "environmentId": "x", "occurredAt": "2026-11-27T10:00:00+04:30"}
    (record,) = site.port.parse(json.dumps(event | {"data": data}).encode())
    assert (record.external_event_id, record.device_external_id, record.outcome) == ("e1", "common:7", "denied")
    assert (record.deny_reason, record.nonce, record.kind) == ("overridden", "gk-" + "ab" * 8, CARD)
    assert record.attempted_at == datetime(2026, 11, 27, 5, 30, tzinfo=UTC)
    assert site.port.parse(json.dumps(event | {"type": "encoder.offline", "data": {}}).encode()) == ()
    for body in (b"[]", b"{}", b'{"type":"access.denied"}', b"not json"):
        with pytest.raises(ValueError):
            site.port.parse(body)


def test_a_rotated_secret_is_taken_beside_the_old_one_and_a_changed_byte_is_not(site: VostioSite) -> None:
    port = with_settings(site, {**site.secrets(), "webhook_secret_next": "whsec_next"})
    now, body = datetime.now(UTC), b'{"type":"grant.active"}'
    for secret in (site.webhook_secret, "whsec_next"):
        headers = site.signed_push(Token(secret), body, now)
        assert port.verify(headers, body, now)
        assert not port.verify(headers, body.replace(b":", b": "), now)
        assert not port.verify({**headers, "X-Vostio-Timestamp": str(int(now.timestamp()) + 1)}, body, now)
        assert not port.verify({**headers, "X-Vostio-Timestamp": "٣"}, body, now)


def test_without_a_webhook_secret_no_push_is_genuine(site: VostioSite) -> None:
    port = with_settings(site, {"client_secret": site.client_secret})
    now = datetime.now(UTC)
    assert not port.verify(site.signed_push(Token(""), b"{}", now), b"{}", now)


# --- settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mode", "vision"),
        ("base_url", ""),
        ("property_id", None),
        ("timeout_s", "soon"),
        ("timeout_s", 0),
        ("grant", "magic"),
        ("common_doors", {"bar": "1"}),
        ("common_doors", ["1"]),
    ],
)
def test_a_setting_that_cannot_work_is_named(site: VostioSite, name: str, value: object) -> None:
    with pytest.raises(ValueError, match="base_url|address" if name == "base_url" else name.replace("common_doors", "common")):
        with_settings(site, **{name: value})


def test_an_answer_is_never_trusted_to_be_a_result_of_another_kind(site: VostioSite) -> None:
    request = request_for(site, PHONE)
    assert isinstance(site.port.issue_credential(request), CallResult)
    site.simulator.post("/faults", {"path": "/access-grants", "method": "POST", "status": 404, "code": "not_in_the_table"})
    with pytest.raises(KeyIssueFailed) as caught:
        site.port.issue_credential(request_for(site, PHONE))
    assert not caught.value.retriable
    assert "unlisted error" in caught.value.vendor_message


def test_a_card_for_rooms_that_do_not_follow_each_other_is_refused_and_a_phone_takes_them(site: VostioSite) -> None:
    apart = (site.doors[0], site.doors[2])
    with pytest.raises(KeyIssueFailed) as caught:
        site.port.issue_credential(request_for(site, CARD, apart))
    assert (caught.value.reason, caught.value.retriable) == (Reason.DOOR_FULL, False)
    assert site.dump()["vendor"] == []
    request = request_for(site, PHONE, apart)
    value = site.presented(site.port.issue_credential(request), request)
    assert [site.opens(door, PHONE, value) for door in site.doors] == [True, False, True]
