"""The mock's address, and how it fails on request."""

from __future__ import annotations

import random
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from vendors import registry
from vendors.mock.adapter import MockLockPort
from vendors.mock.cloud import MockCloud
from vendors.mock.profile import parse_address
from vendors.port.clock import FixedClock
from vendors.port.errors import CardEncoderOffline, KeyIssueFailed, LockError, Reason, VendorUnreachable
from vendors.port.manifest import AdapterContext
from vendors.port.secrets import Pin, Token
from vendors.port.types import (
    CallMeta,
    CredentialHandle,
    CredentialKind,
    Door,
    Holder,
    IssueInput,
    Outcome,
    RevokeReason,
    TokenArtifact,
    Window,
)

NOON = datetime(2026, 4, 30, 12, tzinfo=UTC)
DOORS = tuple(Door(f"lck_{n}", str(n)) for n in (101, 102, 103))
PIN, PHONE = CredentialKind.PIN_CODE, CredentialKind.MOBILE_APP


def port(query: str = "", waits: list[float] | None = None) -> MockLockPort:
    context = AdapterContext(
        "tnt_1", "vad_1", {"url": f"mock://?{query}"}, {"webhook_secret": Token("w")}, FixedClock(NOON),
        random.Random(1), (waits if waits is not None else []).append,
    )  # fmt: skip
    built = registry.build("mock", context)
    assert isinstance(built, MockLockPort)
    return built


def request(key: str = "k1", kind: CredentialKind = PIN, pin: str = "482913") -> IssueInput:
    return IssueInput(
        tenant_id="tnt_1",
        property_id="ppt_1",
        credential_id=f"key_{key}",
        rooms=("rmu_1",),
        window=Window(NOON, NOON + timedelta(days=1)),
        holder=Holder("gst_1"),
        preferred_kinds=(kind,),
        doors=DOORS,
        meta=CallMeta(key),
        pin=Pin(pin),
    )


def test_the_documented_address_refuses_a_fifth_of_issues_and_nothing_else() -> None:
    mock = port("fail=issue&pct=20&error=VENDOR_UNREACHABLE&seed=5")
    refused = 0
    for n in range(1000):
        try:
            mock.issue_credential(request(f"k{n}", pin=f"{n + 100000}"))
        except VendorUnreachable:
            refused += 1
    assert 160 <= refused <= 240
    assert len(mock.list_devices("ppt_1")) == 3
    mock.health_check(DOORS[0])


def test_the_same_seed_fails_the_same_calls() -> None:
    def failures() -> list[int]:
        mock, failed = port("fail=issue&pct=50&seed=11"), []
        for n in range(40):
            try:
                mock.issue_credential(request(f"k{n}", pin=f"{n + 100000}"))
            except VendorUnreachable:
                failed.append(n)
        return failed

    assert failures() == failures()


@pytest.mark.parametrize(
    ("query", "cls", "retriable", "reason"),
    [
        ("fail=issue", VendorUnreachable, True, Reason.OTHER),
        ("fail=issue&error=KEY_ISSUE_FAILED&reason=pin_refused&retriable=0", KeyIssueFailed, False, Reason.PIN_REFUSED),
        ("fail=all&error=CARD_ENCODER_OFFLINE", CardEncoderOffline, True, Reason.OTHER),
        ("fail=issue&reason=quota&retryAfterS=90", VendorUnreachable, True, Reason.QUOTA),
    ],
)
def test_any_error_of_the_port_can_be_asked_for(query: str, cls: type[LockError], retriable: bool, reason: Reason) -> None:
    with pytest.raises(cls) as caught:
        port(query).issue_credential(request())
    assert (caught.value.retriable, caught.value.reason) == (retriable, reason)
    assert caught.value.retry_after_s == (90 if "retryAfterS" in query else None)


def test_so_many_refusals_then_health() -> None:
    mock = port("fail=issue&times=2")
    for _ in range(2):
        with pytest.raises(VendorUnreachable):
            mock.issue_credential(request())
    assert mock.issue_credential(request()).doors[0].outcome is Outcome.DONE


def test_lost_answers_have_their_effect_and_cuts_have_none() -> None:
    for query, keys in (("lost=2", 1), ("cut=2", 0)):
        mock = port(query)
        for _ in range(2):
            with pytest.raises(VendorUnreachable) as caught:
                mock.issue_credential(request())
            assert caught.value.reason is Reason.TIMEOUT
            assert len(mock.cloud.ledger.door("101").keys) == keys
        mock.issue_credential(request())
        assert len(mock.cloud.ledger.door("101").keys) == 1


def test_an_unknown_outcome_can_be_looked_up() -> None:
    mock = port("unknown=1&on=issue")
    result = mock.issue_credential(request())
    assert {r.outcome for r in result.doors} == {Outcome.UNKNOWN}
    handle = CredentialHandle("key_k1", PIN, request().window, DOORS)
    assert len(mock.find(handle, CallMeta("k1"))) == 3


def test_a_deferred_call_is_done_at_the_nth_question() -> None:
    mock = port("deferred=2&on=issue")
    result = mock.issue_credential(request())
    handle = CredentialHandle("key_k1", PIN, request().window, DOORS)
    assert {r.outcome for r in result.doors} == {Outcome.DEFERRED}
    assert mock.cloud.ledger.door("101").keys == {}
    first = mock.resume(handle, result.resume_token, CallMeta("r"))
    assert {r.outcome for r in first.doors} == {Outcome.DEFERRED}
    second = mock.resume(handle, first.resume_token, CallMeta("r"))
    assert {r.outcome for r in second.doors} == {Outcome.DONE}
    assert second.resume_token is None
    assert mock.cloud.ledger.open("101", "pin_code", "482913") == (True, "granted")


def test_dead_doors_fail_alone() -> None:
    result = port("deadDoors=102").issue_credential(request())
    assert [r.outcome for r in result.doors] == [Outcome.DONE, Outcome.FAILED, Outcome.DONE]


def test_a_full_door_says_so() -> None:
    mock = port("capacity=1")
    mock.issue_credential(request("a", pin="111222"))
    with pytest.raises(KeyIssueFailed) as caught:
        mock.issue_credential(request("b", pin="333444"))
    assert caught.value.reason is Reason.DOOR_FULL


def test_capabilities_decide_the_kind() -> None:
    mock = port("capabilities=mobile,remote_issue")
    assert mock.describe_adapter().capabilities.pin is False
    result = mock.issue_credential(replace(request(), preferred_kinds=(PIN, PHONE)))
    assert result.kind is PHONE
    assert isinstance(result.artifact, TokenArtifact)
    with pytest.raises(KeyIssueFailed) as caught:
        mock.issue_credential(request())
    assert caught.value.reason is Reason.KIND_UNSUPPORTED


@pytest.mark.parametrize(
    ("query", "low", "high"),
    [
        ("latencyMs=50", 0.05, 0.05),
        ("latencyMs=20-80", 0.02, 0.08),
        ("slowPct=100&slowMs=60000", 60, 60),
        ("latencyMs=exp:50&seed=3", 0, 2),
    ],
)
def test_latency_follows_its_profile(query: str, low: float, high: float) -> None:
    waits: list[float] = []
    mock = port(query, waits)
    for n in range(50):
        mock.issue_credential(request(f"k{n}", pin=f"{n + 100000}"))
    assert len(waits) == 50
    assert all(low <= wait <= high for wait in waits)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1",
        "mock://?fial=issue",
        "mock://?fail=isue",
        "mock://?error=OUT_OF_CHEESE",
        "mock://?pct=many",
        "mock://?pct=-1",
        "mock://?latencyMs=x-y",
        "mock://?capabilities=telepathy",
        "mock://?reason=whim",
        "mock://?retriable=perhaps",
        "mock://?lost",
    ],
)
def test_a_mistyped_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError):
        parse_address(url)


def test_an_address_with_a_host_names_the_ledgers_process() -> None:
    address = parse_address("mock://127.0.0.1:9000?lost=1")
    assert (address.base_url, address.profile.lost) == ("http://127.0.0.1:9000", 1)
    assert parse_address("mock://?lost=1").base_url is None


def test_a_stale_repeat_does_not_bring_a_revoked_key_back() -> None:
    mock = port()
    result = mock.issue_credential(request())
    doors = tuple(replace(d, ref=r.ref) for d, r in zip(DOORS, result.doors, strict=True))
    handle = CredentialHandle("key_k1", PIN, request().window, doors)
    mock.revoke_credential(handle, RevokeReason.CHECKOUT, CallMeta("rv"))
    mock.issue_credential(request())
    assert mock.cloud.ledger.open("101", "pin_code", "482913") == (False, "unknown_credential")


def test_a_hundred_threads_with_one_key_have_one_effect() -> None:
    mock = port()
    threads = [threading.Thread(target=mock.issue_credential, args=(request(),)) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [mock.cloud.ledger.door(d.external_id).created_count for d in DOORS] == [1, 1, 1]


def test_a_door_judges_by_its_own_clock() -> None:
    cloud = MockCloud(lambda: NOON)
    cloud.ledger.seed([{"externalId": "101", "clockSkewS": -7200}], additive=True)
    mock = MockLockPort(
        AdapterContext("t", "v", {"url": "mock://"}, {}, FixedClock(NOON), random.Random(1), lambda s: None), cloud
    )
    mock.issue_credential(replace(request(), doors=DOORS[:1]))
    assert cloud.ledger.open("101", "pin_code", "482913") == (False, "outside_validity")
    assert mock.health_check(DOORS[0]).clock_skew_ms == -7_200_000
