"""What every vendor must do, asked of its adapter and then of its doors. Runs over the registry; the other `test_contract_*` go on."""

from __future__ import annotations

import importlib.util
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.vendors.asking import PIN, all_done, issue, meta, with_pins
from tests.vendors.site import Site, handle_for, new_pin, request_for, stay, with_ref
from vendors import registry
from vendors.port.errors import CredentialExpired, KeyIssueFailed, LockError, Reason
from vendors.port.manifest import VendorManifest
from vendors.port.types import CallMeta, CallResult, CredentialKind, Intent, Outcome, RevokeReason, SuspendReason, UpdateInput

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
    promised = asdict(site.manifest.capabilities)
    assert [name for name, able in asdict(described.capabilities).items() if able and not promised[name]] == []
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
