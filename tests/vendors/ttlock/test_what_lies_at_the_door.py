"""What TTLock's list says of a lock is no proof of what lies there: codes it lost, codes under another id, locks that forgot."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.vendors.asking import all_done
from tests.vendors.site import handle_for, new_key, request_for, stay
from tests.vendors.ttlock.harness import TtlockSite
from vendors.port.errors import KeyIssueFailed, KeyRevokeFailed, LockError, Reason
from vendors.port.types import (
    CallMeta,
    CallResult,
    CredentialHandle,
    CredentialKind,
    IssueInput,
    Outcome,
    RevokeReason,
    SuspendReason,
    UpdateInput,
)
from vendors.support.marks import key_name

PIN, CARD = CredentialKind.PIN_CODE, CredentialKind.RFID_CARD
ADD = {PIN: "keyboardPwd/add", CARD: "identityCard/add"}
LATER = timedelta(hours=80)


@pytest.fixture(params=[PIN, CARD])
def kind(request: pytest.FixtureRequest) -> CredentialKind:
    """Give each kind that lies in the lock's own memory."""
    found: CredentialKind = request.param
    return found


def value_of(request: IssueInput, kind: CredentialKind) -> str:
    secret = request.pin if kind is PIN else request.card_number
    assert secret is not None
    return secret.reveal()


def given(site: TtlockSite, kind: CredentialKind) -> tuple[CredentialHandle, str]:
    request = request_for(site, kind, site.doors[:1])
    result = site.port.issue_credential(request)
    assert all_done(result)
    return handle_for(request, result), value_of(request, kind)


def in_doubt(site: TtlockSite, kind: CredentialKind) -> tuple[CredentialHandle, str]:
    """Let the lock take a key while the cloud answers a time-out and lists nothing: the handle has no reference."""
    door = int(site.doors[0].external_id)
    site.simulator.post("/faults", {"path": ADD[kind], "lockId": door, "effect": "skip_cloud"})
    request = request_for(site, kind, site.doors[:1])
    result = site.port.issue_credential(request)
    assert result.doors[0].outcome is Outcome.UNKNOWN
    assert site.opens(site.doors[0], kind, value_of(request, kind))
    return handle_for(request, CallResult(())), value_of(request, kind)


def revoked(site: TtlockSite, handle: CredentialHandle, attempt: int = 1) -> Outcome:
    answer = site.port.revoke_credential(handle, RevokeReason.CANCELLATION, CallMeta(new_key(), attempt))
    return answer.doors[0].outcome


def again(site: TtlockSite, **habits: object) -> None:
    site.simulator.post("/habits", {"clientId": site.client_id, **habits})


def cloud(site: TtlockSite, **change: object) -> None:
    assert site.simulator.post("/cloud", {"lockId": int(site.doors[0].external_id), **change})["records"] == 1


def lock(site: TtlockSite) -> dict[str, Any]:
    found: dict[str, Any] = site.simulator.get(f"/dump?lockId={site.doors[0].external_id}")["locks"][0]
    return found


def listed(site: TtlockSite) -> list[str]:
    held = lock(site)["cloud"]
    return [row["name"] for row in (*held["passcodes"], *held["cards"])]


# --- a key that no list shows


def test_a_key_that_only_the_door_has_is_taken_by_its_value(site: TtlockSite, kind: CredentialKind) -> None:
    handle, value = in_doubt(site, kind)
    assert revoked(site, handle, attempt=2) is Outcome.DONE
    assert not site.opens(site.doors[0], kind, value)
    assert site.keys_at(site.doors[0]) == 0


def test_where_the_vendor_cannot_take_digits_by_code_the_door_stays_unproven(site: TtlockSite) -> None:
    again(site, deleteByCode="list")
    handle, value = in_doubt(site, PIN)
    for attempt in (2, 3):
        with pytest.raises(KeyRevokeFailed) as caught:
            revoked(site, handle, attempt)
        assert caught.value.retriable
    assert site.opens(site.doors[0], PIN, value)
    assert listed(site) == []


def test_a_card_that_cannot_be_taken_by_its_number_is_overwritten_and_taken(site: TtlockSite) -> None:
    again(site, deleteByCode="list")
    handle, value = in_doubt(site, CARD)
    assert revoked(site, handle, attempt=2) is Outcome.DONE
    assert not site.opens(site.doors[0], CARD, value)
    assert site.keys_at(site.doors[0]) == 0


def test_without_its_value_a_key_in_doubt_is_not_said_to_be_gone(site: TtlockSite, kind: CredentialKind) -> None:
    handle, value = in_doubt(site, kind)
    blind = replace(handle, pin=None, card_number=None)
    assert revoked(site, blind, attempt=2) is Outcome.UNKNOWN
    assert site.opens(site.doors[0], kind, value)


def test_a_key_in_doubt_that_never_arrived_leaves_nothing_behind(site: TtlockSite, kind: CredentialKind) -> None:
    again(site, deleteByCode="list")
    request = request_for(site, kind, site.doors[:1])
    assert revoked(site, handle_for(request, CallResult(())), attempt=2) is Outcome.DONE
    assert (site.keys_at(site.doors[0]), listed(site)) == (0, [])


def test_a_key_whose_record_was_lost_is_taken_at_the_door(site: TtlockSite, kind: CredentialKind) -> None:
    handle, value = given(site, kind)
    cloud(site, forget=value)
    assert site.opens(site.doors[0], kind, value)
    assert revoked(site, handle) is Outcome.DONE
    assert not site.opens(site.doors[0], kind, value)


def test_a_key_whose_record_was_lost_rests_and_wakes_with_its_value(site: TtlockSite, kind: CredentialKind) -> None:
    handle, value = given(site, kind)
    cloud(site, forget=value)
    rested = site.port.suspend_credential(handle, SuspendReason.FRAUD_REVIEW, CallMeta(new_key()))
    assert all_done(rested)
    assert not site.opens(site.doors[0], kind, value)
    resting = replace(handle, doors=(replace(handle.doors[0], ref=rested.doors[0].ref),))
    assert all_done(site.port.unsuspend_credential(resting, CallMeta(new_key())))
    assert site.opens(site.doors[0], kind, value)


def test_a_key_whose_record_was_lost_is_moved_with_its_value(site: TtlockSite, kind: CredentialKind) -> None:
    handle, value = given(site, kind)
    cloud(site, forget=value)
    moved = site.port.update_credential(UpdateInput(replace(handle, window=stay(-1, 90)), CallMeta(new_key())))
    assert all_done(moved)
    assert site.opens(site.doors[0], kind, value, datetime.now(UTC) + LATER)
    assert site.keys_at(site.doors[0]) == 1


# --- the same value under another id


def test_a_key_entered_again_by_hand_is_taken_under_its_new_name(site: TtlockSite, kind: CredentialKind) -> None:
    handle, value = given(site, kind)
    cloud(site, renumber=value, name="Room 101, stays longer")
    assert revoked(site, handle) is Outcome.DONE
    assert not site.opens(site.doors[0], kind, value)
    assert site.keys_at(site.doors[0]) == 0


def test_a_success_for_an_unknown_id_does_not_hide_the_key_under_another(site: TtlockSite) -> None:
    again(site, unknownDelete=0)
    handle, value = given(site, PIN)
    cloud(site, renumber=value, name="Room 101, stays longer")
    assert revoked(site, handle) is Outcome.DONE
    assert not site.opens(site.doors[0], PIN, value)


def test_a_key_entered_again_by_hand_is_moved_and_keeps_its_value(site: TtlockSite, kind: CredentialKind) -> None:
    handle, value = given(site, kind)
    cloud(site, renumber=value, name="Room 101, stays longer")
    longer = replace(handle, window=stay(-1, 90))
    moved = site.port.update_credential(UpdateInput(longer, CallMeta(new_key())))
    assert all_done(moved)
    assert moved.doors[0].ref != handle.doors[0].ref
    assert site.opens(site.doors[0], kind, value, datetime.now(UTC) + LATER)
    assert site.keys_at(site.doors[0]) == 1


def test_what_another_key_of_ours_holds_is_not_taken_and_that_is_told(site: TtlockSite, kind: CredentialKind) -> None:
    handle, value = given(site, kind)
    cloud(site, renumber=value, name=key_name(new_key(), "key_other"))
    with pytest.raises(KeyRevokeFailed):
        revoked(site, handle)
    assert site.opens(site.doors[0], kind, value)
    assert len(listed(site)) == 1


def test_a_stranger_with_the_digits_of_a_key_in_doubt_keeps_them(site: TtlockSite) -> None:
    stranger, value = given(site, PIN)
    cloud(site, renumber=value, name="Cleaner")
    request = request_for(site, PIN, site.doors[:1], pin=stranger.pin)
    assert revoked(site, handle_for(request, CallResult(())), attempt=2) is Outcome.DONE
    assert site.opens(site.doors[0], PIN, value)
    assert listed(site) == ["Cleaner"]


# --- a lock that lost what it was told


@pytest.fixture(params=[0, -2009], ids=["deletes what it lost", "refuses to delete what it lost"])
def wiped(site: TtlockSite, request: pytest.FixtureRequest) -> TtlockSite:
    """Give a site at which locks answer in either way when they are told to delete what they do not have."""
    again(site, absentDelete=request.param)
    return site


def wipe(site: TtlockSite) -> None:
    site.simulator.post("/door", {"lockId": int(site.doors[0].external_id), "wipe": True})


def test_a_lock_that_lost_its_keys_is_given_them_again_by_a_change(wiped: TtlockSite, kind: CredentialKind) -> None:
    handle, value = given(wiped, kind)
    wipe(wiped)
    assert not wiped.opens(wiped.doors[0], kind, value)
    moved = wiped.port.update_credential(UpdateInput(replace(handle, window=stay(-1, 90)), CallMeta(new_key())))
    assert all_done(moved)
    assert wiped.opens(wiped.doors[0], kind, value)
    assert wiped.opens(wiped.doors[0], kind, value, datetime.now(UTC) + LATER)
    assert wiped.keys_at(wiped.doors[0]) == 1


def test_a_key_that_rested_on_a_lock_that_lost_it_wakes_with_its_value(wiped: TtlockSite, kind: CredentialKind) -> None:
    handle, value = given(wiped, kind)
    rested = wiped.port.suspend_credential(handle, SuspendReason.NO_SHOW, CallMeta(new_key()))
    wipe(wiped)
    resting = replace(handle, doors=(replace(handle.doors[0], ref=rested.doors[0].ref),))
    assert all_done(wiped.port.unsuspend_credential(resting, CallMeta(new_key())))
    assert wiped.opens(wiped.doors[0], kind, value)
    assert wiped.keys_at(wiped.doors[0]) == 1


def test_a_key_given_again_where_an_earlier_record_of_it_stands_is_given(wiped: TtlockSite) -> None:
    handle, value = given(wiped, PIN)
    wipe(wiped)
    request = request_for(wiped, PIN, wiped.doors[:1], credential_id=handle.credential_id, pin=handle.pin)
    assert all_done(wiped.port.issue_credential(request))
    assert wiped.opens(wiped.doors[0], PIN, value)
    assert wiped.keys_at(wiped.doors[0]) == 1


def test_taking_a_key_from_a_lock_that_lost_it_ends_its_record_too(wiped: TtlockSite, kind: CredentialKind) -> None:
    handle, value = given(wiped, kind)
    wipe(wiped)
    assert revoked(wiped, handle) is Outcome.DONE
    assert (wiped.opens(wiped.doors[0], kind, value), wiped.keys_at(wiped.doors[0])) == (False, 0)


# --- one random code for one window


@pytest.fixture(params=["same_id", "new_id"])
def apart(site: TtlockSite, request: pytest.FixtureRequest) -> TtlockSite:
    """Give a site whose first door no gateway reaches, at a vendor with either habit for a window it has given before."""
    again(site, sameWindow=request.param)
    row = {"lockId": int(site.doors[0].external_id), "gatewayId": None, "timezoneRawOffset": 16_200_000}
    site.simulator.post("/seed", {"account": {"clientId": site.client_id}, "locks": [row]})
    site.doors = (replace(site.doors[0], has_remote=False, gateway=""), *site.doors[1:])
    return site


def drawn(site: TtlockSite, **changes: Any) -> tuple[CredentialHandle, str]:
    request = request_for(site, PIN, site.doors[:1], **changes)
    result = site.port.issue_credential(request)
    assert all_done(result)
    return handle_for(request, result, pin=result.artifact.value), site.presented(result, request)  # type: ignore[union-attr]


@pytest.mark.parametrize("hours", [-3, 2], ids=["begun", "to come"])
def test_two_guests_with_one_window_get_codes_of_their_own(apart: TtlockSite, hours: int) -> None:
    window = stay(hours, 40)
    (first, one), (second, two) = drawn(apart, window=window), drawn(apart, window=window)
    assert one != two
    assert first.doors[0].ref != second.doors[0].ref
    soon = max(window.valid_from, datetime.now(UTC)) + timedelta(hours=2)
    assert [apart.opens(apart.doors[0], PIN, value, soon) for value in (one, two)] == [True, True]
    early, late = window.valid_from - timedelta(hours=1, minutes=1), window.valid_until + timedelta(hours=2)
    assert not any(apart.opens(apart.doors[0], PIN, value, at) for value in (one, two) for at in (early, late))


def test_taking_one_guests_code_leaves_the_other_hers(apart: TtlockSite) -> None:
    window = stay(-3, 40)
    (_, one), (second, two) = drawn(apart, window=window), drawn(apart, window=window)
    door = int(apart.doors[0].external_id)
    for value in (one, two):
        apart.simulator.post("/door", {"lockId": door, "markUsed": value})
    apart.simulator.post(
        "/seed", {"account": {"clientId": apart.client_id}, "locks": [{"lockId": door, "gatewayId": apart.gateway}]}
    )
    reached = replace(second, doors=(replace(second.doors[0], has_remote=True),))
    assert revoked(apart, reached) is Outcome.DONE
    assert [apart.opens(apart.doors[0], PIN, value) for value in (one, two)] == [True, False]


def test_a_cancelled_guests_code_that_still_opens_goes_to_nobody_else(apart: TtlockSite) -> None:
    window = stay(2, 40)
    cancelled, one = drawn(apart, window=window)
    with pytest.raises(LockError):
        revoked(apart, cancelled)
    _, two = drawn(apart, window=window)
    assert one != two


def test_a_code_of_the_vendors_own_app_is_not_handed_to_a_guest_as_well(apart: TtlockSite) -> None:
    window = stay(2, 40)
    _, one = drawn(apart, window=window)
    cloud(apart, renumber=one, name="Owner")
    _, two = drawn(apart, window=window)
    assert one != two


def test_when_every_window_that_fits_is_taken_another_kind_is_asked_for(apart: TtlockSite) -> None:
    window = stay(2, 40)
    with pytest.raises(KeyIssueFailed) as caught:
        for _ in range(12):
            drawn(apart, window=window)
    assert caught.value.reason is Reason.KIND_UNSUPPORTED
    assert not caught.value.retriable
    codes = [row["keyboardPwd"] for row in lock(apart)["cloud"]["passcodes"]]
    assert len(set(codes)) == len(codes)


def test_a_lost_answer_does_not_let_a_guest_take_over_anothers_code(apart: TtlockSite) -> None:
    window = stay(2, 40)
    _, one = drawn(apart, window=window)
    door = int(apart.doors[0].external_id)
    apart.simulator.post("/faults", {"path": "keyboardPwd/get", "lockId": door, "effect": "apply_then_drop"})
    request = request_for(apart, PIN, apart.doors[:1], window=window)
    apart.port.issue_credential(request)
    result = apart.port.issue_credential(replace(request, meta=replace(request.meta, attempt=2)))
    assert all_done(result)
    assert apart.presented(result, request) != one
