"""What every vendor must do, asked of its adapter and then of its doors. Runs over the registry."""

from __future__ import annotations

import importlib.util
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest

from tests.vendors.site import (
    Site,
    Trouble,
    handle_for,
    new_key,
    new_pin,
    request_for,
    stay,
    with_ref,
)
from vendors import registry
from vendors.port.errors import (
    CredentialExpired,
    DeviceNotPaired,
    KeyIssueFailed,
    LockError,
    Reason,
    VendorUnreachable,
)
from vendors.port.manifest import VendorManifest
from vendors.port.protocol import Inventory, Lookup, Records, Webhook
from vendors.port.secrets import Token
from vendors.port.types import (
    CallMeta,
    CallResult,
    CredentialKind,
    Holder,
    Intent,
    IssueInput,
    IssueResult,
    Outcome,
    RevokeReason,
    SuspendReason,
    UpdateInput,
)

PIN = CredentialKind.PIN_CODE
R = TypeVar("R", bound=CallResult)
F = TypeVar("F", bound=Callable[..., None])


def all_done(result: CallResult) -> bool:
    return all(r.outcome is Outcome.DONE for r in result.doors)


def meta() -> CallMeta:
    return CallMeta(new_key())


def until_done(site: Site, call: Callable[[CallMeta], R], first: CallMeta, tries: int = 7) -> R:
    """Repeats a call the way the service does after a crash: same key, next attempt, a fresh adapter."""
    for attempt in range(first.attempt, first.attempt + tries):
        site.refresh()
        try:
            result = call(replace(first, attempt=attempt))
        except LockError as error:
            if not error.retriable:
                raise
            continue
        if all_done(result):
            return result
        assert not any(r.error and not r.error.retriable for r in result.doors)
    raise AssertionError(f"not done after {tries} attempts")


def attempted(call: Callable[[], CallResult]) -> tuple[Outcome | None, LockError | None]:
    """What is known of the first door: its outcome (None when the verb raised) and the error."""
    try:
        door = call().doors[0]
    except LockError as error:
        return None, error
    return door.outcome, door.error


def issue(site: Site, kind: CredentialKind | None = None, **changes: Any) -> tuple[IssueInput, IssueResult]:
    request = request_for(site, kind or site.first_kind, **changes)
    result = site.port.issue_credential(request)
    assert all_done(result)
    return request, result


def over_http(function: F) -> F:
    """Marks a test for harnesses whose answers travel."""
    function.over_http = True  # type: ignore[attr-defined]
    return function


def with_pins(function: F) -> F:
    """Marks a test for vendors whose locks have a keypad."""
    function.with_pins = True  # type: ignore[attr-defined]
    return function


def through(*troubles: Trouble) -> Callable[[F], F]:
    """Marks a test for these troubles only."""

    def mark(function: F) -> F:
        function.troubles = troubles  # type: ignore[attr-defined]
        return function

    return mark


# --- the registry


@pytest.mark.parametrize("manifest", registry.manifests().values(), ids=lambda m: m.code)
class TestManifest:
    def test_its_adapter_and_simulator_are_there_and_its_harness_too(self, manifest: VendorManifest) -> None:
        module, _, function = manifest.adapter.partition(":")
        assert callable(getattr(importlib.import_module(module), function))
        assert manifest.simulator is None or importlib.util.find_spec(manifest.simulator) is not None
        assert importlib.import_module(f"tests.vendors.{module.split('.')[1]}.harness").HARNESSES

    def test_its_kinds_are_kinds_its_locks_can_carry(self, manifest: VendorManifest) -> None:
        assert manifest.kinds
        assert all(manifest.capabilities.supports(kind) for kind in manifest.kinds)
        assert set(manifest.desk_kinds) <= set(manifest.kinds)

    def test_it_is_found_by_each_of_its_names(self, manifest: VendorManifest) -> None:
        assert all(registry.manifest(name) is manifest for name in (manifest.code, *manifest.aliases))


def test_an_unknown_vendor_is_refused() -> None:
    with pytest.raises(registry.UnknownVendor):
        registry.manifest("no-such-vendor")


# --- the verbs


def test_the_adapter_tells_its_code_without_a_call(site: Site) -> None:
    before = site.request_count()
    described = site.port.describe_adapter()
    assert described.vendor == site.code
    assert all(described.capabilities.supports(kind) for kind in site.manifest.kinds)
    assert site.request_count() == before


def test_an_issued_key_opens_its_doors_and_no_other(site: Site, kind: CredentialKind) -> None:
    request, result = issue(site, kind, doors=site.doors[:2])
    assert result.kind is kind
    value = site.presented(result, request)
    assert [site.opens(door, kind, value) for door in site.doors] == [True, True, False]
    assert [site.keys_at(door) for door in site.doors] == [1, 1, 0]
    assert all(r.ref is not None for r in result.doors)


@with_pins
def test_a_pin_is_the_one_the_service_drew(site: Site) -> None:
    request, result = issue(site)
    assert site.presented(result, request) == request.pin.reveal()


@with_pins
def test_leading_zeros_of_a_pin_matter(site: Site) -> None:
    request, _ = issue(site, pin=type(new_pin())("048291"))
    assert site.opens(site.doors[0], PIN, "048291")
    assert not site.opens(site.doors[0], PIN, "48291")
    assert request.pin.reveal() == "048291"


def test_the_window_starts_and_ends_to_the_second_at_the_door(site: Site, kind: CredentialKind) -> None:
    request, result = issue(site, kind, doors=site.doors[:1], window=stay(2, 20))
    value, second = site.presented(result, request), timedelta(seconds=1)
    start, end = request.window.valid_from, request.window.valid_until
    opens = [site.opens(site.doors[0], kind, value, at) for at in (start - second, start, end - second, end + second)]
    assert opens == [False, True, True, False]


def test_the_same_key_twice_has_one_effect(site: Site, kind: CredentialKind) -> None:
    request, first = issue(site, kind)
    again = site.port.issue_credential(replace(request, meta=replace(request.meta, attempt=2)))
    assert all_done(again)
    assert {r.device_id: r.ref for r in again.doors} == {r.device_id: r.ref for r in first.doors}
    assert site.presented(again, request) == site.presented(first, request)
    assert [site.keys_at(door) for door in site.doors] == [1, 1, 1]


def test_a_crash_and_a_repeat_have_one_effect(site: Site, kind: CredentialKind) -> None:
    request, _ = issue(site, kind)
    site.refresh()
    again = site.port.issue_credential(replace(request, meta=replace(request.meta, attempt=2)))
    assert all_done(again)
    assert site.opens(site.doors[0], kind, site.presented(again, request))
    assert [site.keys_at(door) for door in site.doors] == [1, 1, 1]


def test_two_credentials_at_one_door_open_both(site: Site) -> None:
    first = issue(site, doors=site.doors[:1])
    second = issue(site, doors=site.doors[:1], intent=Intent.ADDITIONAL)
    for request, result in (first, second):
        assert site.opens(site.doors[0], site.first_kind, site.presented(result, request))


@with_pins
def test_a_pin_taken_at_the_door_asks_for_other_digits_and_leaves_the_stranger_alone(site: Site) -> None:
    first, _ = issue(site, doors=site.doors[:1])
    second = request_for(site, PIN, site.doors[:1], pin=first.pin)
    for attempt in (1, 2):
        with pytest.raises(KeyIssueFailed) as caught:
            site.port.issue_credential(replace(second, meta=replace(second.meta, attempt=attempt)))
        assert caught.value.reason is Reason.PIN_REFUSED
        assert not caught.value.retriable
    assert site.opens(site.doors[0], PIN, first.pin.reveal())
    assert site.keys_at(site.doors[0]) == 1


def test_an_update_moves_both_ends_of_the_window(site: Site, kind: CredentialKind) -> None:
    request, result = issue(site, kind, window=stay(2, 20))
    window = stay(-3, 10)
    update = UpdateInput(handle_for(request, result, window=window), meta())
    changed = site.port.update_credential(update)
    assert all_done(changed)
    value, door, second = site.presented(result, request), site.doors[0], timedelta(seconds=1)
    opens = [
        site.opens(door, kind, value, at) for at in (window.valid_from - second, window.valid_from, window.valid_until + second)
    ]
    assert opens == [False, True, False]
    assert [site.keys_at(d) for d in site.doors] == [1, 1, 1]


def test_an_update_can_be_repeated(site: Site, kind: CredentialKind) -> None:
    request, result = issue(site, kind, doors=site.doors[:1])
    first, second, _ = site.doors
    update = UpdateInput(
        replace(handle_for(request, result), doors=()),
        meta(),
        added=(second,),
        removed=(with_ref(first, result.doors[0].ref),),
    )
    once = site.port.update_credential(update)
    again = site.port.update_credential(replace(update, meta=replace(update.meta, attempt=2)))
    assert all_done(once)
    assert all_done(again)
    assert [site.keys_at(door) for door in site.doors] == [0, 1, 0]


def test_a_room_move_gives_the_new_door_and_takes_the_old(site: Site, kind: CredentialKind) -> None:
    request, result = issue(site, kind, doors=site.doors[:2])
    handle = handle_for(request, result)
    first, second = handle.doors
    third = site.doors[2]
    moved = site.port.update_credential(UpdateInput(replace(handle, doors=(second,)), meta(), added=(third,), removed=(first,)))
    assert all_done(moved)
    value = site.presented(result, request)
    assert [site.opens(door, kind, value) for door in site.doors] == [False, True, True]
    assert {r.device_id for r in moved.doors} == {d.device_id for d in site.doors}
    assert {r.device_id: r.ref is not None for r in moved.doors}[third.device_id]


def test_the_old_door_is_kept_while_the_new_one_fails(site: Site) -> None:
    request, result = issue(site, doors=site.doors[:1])
    first, second, _ = site.doors
    site.kill_door(second)
    update = UpdateInput(
        replace(handle_for(request, result), doors=(with_ref(first, result.doors[0].ref),)),
        meta(),
        added=(second,),
        removed=(),
    )
    moved = site.port.update_credential(update)
    outcomes = {r.device_id: r.outcome for r in moved.doors}
    assert outcomes == {first.device_id: Outcome.DONE, second.device_id: Outcome.FAILED}
    with pytest.raises(LockError) as caught:
        site.port.update_credential(
            replace(
                update,
                handle=replace(update.handle, doors=()),
                removed=(with_ref(first, result.doors[0].ref),),
            )
        )
    assert caught.value.retriable
    assert site.opens(first, site.first_kind, site.presented(result, request))


def test_a_suspended_key_rests_and_opens_again_with_the_same_value(site: Site, kind: CredentialKind) -> None:
    request, result = issue(site, kind)
    value, handle = site.presented(result, request), handle_for(request, result)
    for _ in range(2):
        rested = site.port.suspend_credential(handle, SuspendReason.NO_SHOW, meta())
        assert all_done(rested)
        assert [site.opens(door, kind, value) for door in site.doors] == [False, False, False]
    resting = handle_for(request, rested)
    woken = site.port.unsuspend_credential(resting, meta())
    assert all_done(woken)
    assert [site.opens(door, kind, value) for door in site.doors] == [True, True, True]
    assert [site.keys_at(door) for door in site.doors] == [1, 1, 1]


def test_a_resumed_key_has_the_window_of_its_handle(site: Site, kind: CredentialKind) -> None:
    request, result = issue(site, kind, doors=site.doors[:1], window=stay(-1, 5))
    handle = handle_for(request, result)
    site.port.suspend_credential(handle, SuspendReason.OVERDUE_PAYMENT, meta())
    longer = replace(handle, window=stay(-1, 50))
    site.port.unsuspend_credential(longer, meta())
    later = datetime.now(UTC) + timedelta(hours=30)
    assert site.opens(site.doors[0], kind, site.presented(result, request), later)


def test_a_key_whose_window_is_over_cannot_be_resumed(site: Site) -> None:
    request, result = issue(site)
    before = site.request_count()
    over = handle_for(request, result, window=stay(-50, 2))
    with pytest.raises(CredentialExpired) as caught:
        site.port.unsuspend_credential(over, meta())
    assert not caught.value.retriable
    assert site.request_count() == before


def test_a_revoked_key_is_gone_and_others_stay(site: Site, kind: CredentialKind) -> None:
    stranger = issue(site)
    request, result = issue(site, kind, intent=Intent.ADDITIONAL)
    handle = handle_for(request, result)
    for attempt in (1, 2):
        gone = site.port.revoke_credential(handle, RevokeReason.CHECKOUT, CallMeta("revoke-1", attempt))
        assert all_done(gone)
        assert all(r.ref is None for r in gone.doors)
    value = site.presented(result, request)
    assert [site.opens(door, kind, value) for door in site.doors] == [False, False, False]
    theirs = site.presented(stranger[1], stranger[0])
    assert [site.opens(door, site.first_kind, theirs) for door in site.doors] == [True, True, True]
    assert [site.keys_at(door) for door in site.doors] == [1, 1, 1]


def test_revoking_what_never_was_is_done(site: Site, kind: CredentialKind) -> None:
    request = request_for(site, kind)
    handle = handle_for(request, CallResult(()))
    assert all_done(site.port.revoke_credential(handle, RevokeReason.CANCELLATION, meta()))


def test_revoking_without_a_reference_finds_what_a_lost_answer_left(site: Site, kind: CredentialKind) -> None:
    request, _ = issue(site, kind)
    blind = handle_for(request, CallResult(()))
    assert all(door.ref is None for door in blind.doors)
    assert all_done(site.port.revoke_credential(blind, RevokeReason.CANCELLATION, meta()))
    assert [site.keys_at(door) for door in site.doors] == [0, 0, 0]


@with_pins
def test_a_revoked_digit_set_can_be_given_again(site: Site) -> None:
    request, result = issue(site, doors=site.doors[:1])
    site.port.revoke_credential(handle_for(request, result), RevokeReason.REPLACED, meta())
    issue(site, doors=site.doors[:1], pin=request.pin)
    assert site.opens(site.doors[0], PIN, request.pin.reveal())


# --- what goes wrong


def test_one_dead_door_of_three_fails_alone(site: Site, kind: CredentialKind) -> None:
    dead = site.doors[1]
    site.kill_door(dead)
    request = request_for(site, kind)
    result = site.port.issue_credential(request)
    by_device = {r.device_id: r for r in result.doors}
    assert [by_device[d.device_id].outcome for d in site.doors] == [Outcome.DONE, Outcome.FAILED, Outcome.DONE]
    error = by_device[dead.device_id].error
    assert (type(error), error.reason, error.retriable) == site.dead_door_answer
    assert error.device_id == dead.device_id
    assert [site.keys_at(door) for door in site.doors] == [1, 0, 1]


def test_when_every_door_fails_the_verb_raises(site: Site) -> None:
    site.kill_door(site.doors[0])
    with pytest.raises(site.dead_door_answer[0]) as caught:
        site.port.issue_credential(request_for(site, site.first_kind, site.doors[:1]))
    assert caught.value.device_id == site.doors[0].device_id


def test_an_unsupported_kind_is_refused_for_good_without_a_call(site: Site) -> None:
    missing = tuple(kind for kind in CredentialKind if kind not in site.manifest.kinds)
    before = site.request_count()
    with pytest.raises(KeyIssueFailed) as caught:
        site.port.issue_credential(request_for(site, site.first_kind, preferred_kinds=missing))
    assert caught.value.reason is Reason.KIND_UNSUPPORTED
    assert not caught.value.retriable
    assert site.request_count() == before


def test_the_first_kind_that_can_be_made_is_taken(site: Site) -> None:
    unwanted = tuple(kind for kind in CredentialKind if kind not in site.manifest.kinds)
    first = site.first_kind
    request = request_for(site, first, preferred_kinds=(*unwanted, first, *site.manifest.kinds))
    assert site.port.issue_credential(request).kind is first


def test_a_broken_answer_ends_in_one_effect(site: Site, kind: CredentialKind, trouble: Trouble) -> None:
    request = request_for(site, kind, site.doors[:1])
    site.trouble(trouble)
    start = time.monotonic()
    result = until_done(site, lambda m: site.port.issue_credential(replace(request, meta=m)), request.meta)
    assert time.monotonic() - start < 10
    assert site.keys_at(site.doors[0]) == 1
    assert site.opens(site.doors[0], kind, site.presented(result, request))


@pytest.mark.parametrize("losses", [1, 2, 3, 4, 5])
def test_an_answer_lost_again_and_again_leaves_one_effect(site: Site, kind: CredentialKind, losses: int) -> None:
    request = request_for(site, kind, site.doors[:1])
    before = site.request_count()
    site.trouble(Trouble.RESET_AFTER, losses)
    result = until_done(site, lambda m: site.port.issue_credential(replace(request, meta=m)), request.meta)
    assert site.keys_at(site.doors[0]) == 1
    assert site.opens(site.doors[0], kind, site.presented(result, request))
    assert site.request_count() - before <= 4 * (losses + 1)


@through(Trouble.RESET_BEFORE, Trouble.RESET_AFTER, Trouble.HTML_AFTER)
@pytest.mark.parametrize("verb", ["update", "suspend", "unsuspend", "revoke"])
def test_every_verb_survives_a_broken_answer(site: Site, kind: CredentialKind, verb: str, trouble: Trouble) -> None:
    request, result = issue(site, kind, doors=site.doors[:1])
    handle = handle_for(request, result)
    if verb == "unsuspend":
        rested = site.port.suspend_credential(handle, SuspendReason.MANUAL, meta())
        handle = handle_for(request, rested)
    calls = {
        "update": lambda m: site.port.update_credential(UpdateInput(replace(handle, window=stay(-1, 90)), m)),
        "suspend": lambda m: site.port.suspend_credential(handle, SuspendReason.MANUAL, m),
        "unsuspend": lambda m: site.port.unsuspend_credential(handle, m),
        "revoke": lambda m: site.port.revoke_credential(handle, RevokeReason.SECURITY, m),
    }
    site.trouble(trouble)
    until_done(site, calls[verb], meta())
    later = datetime.now(UTC) + timedelta(hours=60)
    at = later if verb == "update" else None
    opens = site.opens(site.doors[0], kind, site.presented(result, request), at)
    assert opens is (verb in {"update", "unsuspend"})
    gone = verb == "revoke" or (verb == "suspend" and not site.keeps_resting_keys)
    assert site.keys_at(site.doors[0]) == (0 if gone else 1)


def test_a_lost_answer_is_never_a_guess(site: Site) -> None:
    request = request_for(site, site.first_kind, site.doors[:1])
    site.trouble(Trouble.RESET_BEFORE)
    outcome, error = attempted(lambda: site.port.issue_credential(request))
    assert outcome in {None, Outcome.UNKNOWN}
    assert error.retriable
    assert site.keys_at(site.doors[0]) == 0


@over_http
def test_a_vendor_that_is_not_there_is_unreachable(site: Site) -> None:
    settings = {name: _nowhere(value) for name, value in site.settings().items()}
    port = registry.build(site.code, site.context(settings=settings))
    for call in (
        lambda: port.issue_credential(request_for(site, site.first_kind)),
        lambda: port.list_devices("ppt_test"),
        lambda: port.health_check(site.doors[0]),
    ):
        with pytest.raises(VendorUnreachable) as caught:
            call()
        assert caught.value.retriable


def _nowhere(value: object) -> object:
    if not isinstance(value, str) or "127.0.0.1:" not in value:
        return value
    head, _, tail = value.partition("127.0.0.1:")
    return f"{head}127.0.0.1:9{tail.lstrip('0123456789')}"


class Empty:
    """A limiter whose bucket is empty."""

    def acquire(self, calls: int, priority: int) -> None:
        raise VendorUnreachable("limit", reason=Reason.RATE, retry_after_s=12.0, throttled=True)


class Counting:
    def __init__(self) -> None:
        self.taken: list[tuple[int, int]] = []

    def acquire(self, calls: int, priority: int) -> None:
        self.taken.append((calls, priority))


def test_a_throttled_call_leaves_no_request(site: Site, kind: CredentialKind) -> None:
    site.limiter = Empty()
    site.refresh()
    before = site.request_count()
    with pytest.raises(VendorUnreachable) as caught:
        site.port.issue_credential(request_for(site, kind))
    assert (caught.value.throttled, caught.value.retry_after_s) == (True, 12.0)
    assert site.request_count() == before


def test_every_request_is_taken_from_the_limit_at_the_callers_priority(site: Site, kind: CredentialKind) -> None:
    site.limiter = limiter = Counting()
    site.refresh()
    request = request_for(site, kind, meta=CallMeta(new_key(), priority=0))
    before = site.request_count()
    result = site.port.issue_credential(request)
    assert sum(calls for calls, _ in limiter.taken) >= result.calls == site.request_count() - before
    assert {priority for _, priority in limiter.taken} == {0}
    assert result.calls <= 2 * len(site.doors)


@over_http
def test_the_deadline_bounds_a_call(site: Site) -> None:
    site.trouble(Trouble.DRIP_AFTER, 9)
    start = time.monotonic()
    request = request_for(site, site.first_kind, meta=CallMeta(new_key(), deadline_s=1.0))
    outcome, error = attempted(lambda: site.port.issue_credential(request))
    assert time.monotonic() - start < 3
    assert outcome in {None, Outcome.UNKNOWN, Outcome.FAILED}
    assert error.retriable


# --- reading


def test_devices_are_listed_with_their_labels(site: Site) -> None:
    listed = {device.external_id: device for device in site.port.list_devices("ppt_test")}
    for door in site.doors:
        device = listed[door.external_id]
        assert device.label == door.label
        assert device.gateway == door.gateway
        assert device.has_remote
        assert device.online
        assert all(device.capabilities.supports(kind) for kind in site.manifest.kinds)


def test_health_is_read_from_the_lock(site: Site) -> None:
    health = site.port.health_check(site.doors[0])
    assert health.device_id == site.doors[0].device_id
    assert health.online
    if site.tells_battery_and_clock:
        assert 0 <= health.battery_percent <= 100
        assert abs(health.clock_skew_ms) < 5_000
    else:
        assert (health.battery_percent, health.clock_skew_ms) == (None, None)


def test_a_lock_unknown_to_the_vendor_is_not_paired(site: Site) -> None:
    stranger = replace(site.doors[0], external_id="999999999")
    with pytest.raises(DeviceNotPaired) as caught:
        site.port.health_check(stranger)
    assert not caught.value.retriable
    with pytest.raises(DeviceNotPaired):
        site.port.issue_credential(request_for(site, site.first_kind, (stranger,)))


def test_a_look_up_tells_what_is_there(site: Site, kind: CredentialKind) -> None:
    port = site.port
    assert isinstance(port, Lookup)
    request = request_for(site, kind, site.doors[:2])
    handle = handle_for(request, CallResult(()))
    assert port.find(handle, request.meta) == ()
    result = port.issue_credential(request)
    found = port.find(handle, request.meta)
    assert {(f.device_external_id, f.ref) for f in found} == {
        (d.external_id, r.ref) for d, r in zip(site.doors[:2], result.doors, strict=True)
    }
    assert {f.kind for f in found} == {kind}
    assert {f.window for f in found} == {request.window}
    assert all(f.nonce is not None for f in found)


def test_the_inventory_lists_ours_and_nothing_else(site: Site) -> None:
    port = site.port
    assert isinstance(port, Inventory)
    issued = {
        issue(site, kind, doors=site.doors[:1], intent=intent)[1].doors[0].ref.reveal()
        for kind in site.manifest.kinds
        for intent in (Intent.NEW, Intent.ADDITIONAL)
    }
    found, cursor, pages = [], None, 0
    while True:
        page = port.list_keys(site.doors[0], cursor)
        found += page.keys
        pages += 1
        cursor = page.next_cursor
        if cursor is None:
            break
    assert pages < 10
    assert sorted(f.ref.reveal() for f in found) == sorted(issued)
    assert port.list_keys(site.doors[1], None).keys == ()


def test_the_log_tells_who_tried_without_the_digits(site: Site) -> None:
    port = site.port
    assert isinstance(port, Records)
    request, result = issue(site, doors=site.doors[:1])
    value = site.presented(result, request)
    assert site.opens(site.doors[0], site.first_kind, value)
    assert not site.opens(site.doors[0], site.first_kind, "907163")
    now = datetime.now(UTC)
    rows = port.list_records(site.doors[0], now - timedelta(minutes=5), now + timedelta(minutes=5))
    assert [row.outcome for row in rows] == ["granted", "denied"]
    assert rows[0].nonce is not None
    assert rows[0].kind is site.first_kind
    assert rows[1].deny_reason == "unknown_credential"
    assert len({row.external_event_id for row in rows}) == 2
    assert "907163" not in repr(rows)
    assert value not in repr(rows)
    assert rows == port.list_records(site.doors[0], now - timedelta(minutes=5), now + timedelta(minutes=5))


def test_a_push_is_verified_by_its_signature(site: Site) -> None:
    port = site.port
    assert isinstance(port, Webhook)
    now, body, other = datetime.now(UTC), b'{"x":1}', b'{"x":2}'
    secret = Token(site.secrets()["webhook_secret"])
    good = site.signed_push(secret, body, now)
    assert port.verify(good, body, now)
    assert not port.verify(good, other, now)
    assert not port.verify(good, body, now + timedelta(seconds=301))
    assert not port.verify(good, body, now - timedelta(seconds=301))
    assert not port.verify(site.signed_push(Token("another"), body, now), body, now)
    assert not port.verify({}, body, now)


# --- people and secrets


@pytest.mark.parametrize("name", ["عبدالرحمن خان", "زرغونه احمدزۍ", "Müller\u200f \u202e", "王小明", ""])
def test_names_of_every_script_get_a_key(site: Site, kind: CredentialKind, name: str) -> None:
    holder = Holder("gst_2", name, "guest@example.org", "+93700123456")
    request, result = issue(site, kind, doors=site.doors[:1], holder=holder)
    assert site.opens(site.doors[0], kind, site.presented(result, request))


def test_no_secret_is_in_an_error_or_a_result(site: Site, kind: CredentialKind) -> None:
    request, result = issue(site, kind)
    refused = replace(request, credential_id="key_other", meta=meta())
    seen = [repr(result), repr(request), repr(handle_for(request, result)), repr(site.context())]
    for act in _provocations(site, refused):
        site.refresh()
        try:
            seen.append(repr(act()))
        except LockError as error:
            seen += [str(error), repr(error), error.vendor_message, "".join(traceback.format_exception(error))]
    secrets = [request.pin.reveal(), request.card_number.reveal(), site.presented(result, request)]
    secrets += [r.ref.reveal() for r in result.doors]
    secrets += [value for value in site.secrets().values() if "@" not in value]
    secrets += [request.holder.display_name, request.holder.phone_e164]
    text = "\n".join(seen)
    assert [s for s in secrets if s in text] == []


def _provocations(site: Site, refused: IssueInput) -> Iterator[Callable[[], CallResult]]:
    yield lambda: site.port.issue_credential(refused)
    for trouble in (Trouble.RESET_BEFORE, Trouble.RESET_AFTER):
        site.trouble(trouble)
        yield lambda: site.port.issue_credential(replace(refused, meta=meta(), pin=new_pin()))
    site.kill_door(site.doors[0])
    yield lambda: site.port.issue_credential(replace(refused, meta=meta(), doors=site.doors[:1]))


def test_results_know_their_calls(site: Site, kind: CredentialKind) -> None:
    before = site.request_count()
    _, result = issue(site, kind)
    assert isinstance(result, IssueResult)
    assert result.calls == site.request_count() - before
