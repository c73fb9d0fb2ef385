"""What goes wrong at every vendor, and what must hold all the same: one effect at the door, and never a guess."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.vendors.asking import (
    Counting,
    Empty,
    answered,
    attempted,
    issue,
    meta,
    over_http,
    over_tls,
    throttled,
    through,
    until_done,
)
from tests.vendors.site import Site, Trouble, handle_for, new_key, request_for, stay
from tests.vendors.stranger import Stranger
from vendors import registry
from vendors.port.errors import KeyIssueFailed, Reason, VendorUnreachable
from vendors.port.types import CallMeta, CallResult, CredentialKind, Outcome, RevokeReason, SuspendReason, UpdateInput


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
    assert time.monotonic() - start < 6
    assert outcome in {None, Outcome.UNKNOWN, Outcome.FAILED}
    assert error.retriable


# --- what a lock can do decides


def test_at_a_door_out_of_reach_a_key_opens_or_is_refused_and_never_both(site: Site, kind: CredentialKind) -> None:
    far = replace(site.doors[0], has_remote=False)
    request = request_for(site, kind, (far,), window=stay(0, 30))
    result, refused = answered(lambda: site.port.issue_credential(request))
    if result is None or result.doors[0].outcome is Outcome.FAILED:
        error = refused if result is None else result.doors[0].error
        assert error is not None
        assert site.keys_at(site.doors[0]) == 0
        return
    assert result.doors[0].outcome is Outcome.DONE
    moment = request.window.valid_from + timedelta(minutes=30)
    assert site.opens(site.doors[0], kind, site.presented(result, request), moment)


# --- called off while it is on its way


@over_http
def test_a_key_called_off_while_it_is_being_made_ends_in_an_empty_door(site: Site, kind: CredentialKind) -> None:
    request = request_for(site, kind, site.doors[:1], meta=CallMeta(new_key(), deadline_s=5))
    blind = handle_for(request, CallResult(()), issue_key=request.meta.idempotency_key)
    making, calling_off = site.port, site.build()
    gate = site.hold()
    with ThreadPoolExecutor(2) as both:
        made = both.submit(attempted, lambda: making.issue_credential(request))
        assert gate.arrived.wait(5)
        taken_back = both.submit(attempted, lambda: calling_off.revoke_credential(blind, RevokeReason.CANCELLATION, meta()))
        gate.open()
        outcomes = made.result(10)[0], taken_back.result(10)[0]
    assert outcomes[0] in {Outcome.DONE, Outcome.UNKNOWN, Outcome.DEFERRED, None}
    until_done(site, lambda m: site.port.revoke_credential(blind, RevokeReason.CANCELLATION, m), meta())
    assert site.keys_at(site.doors[0]) == 0
    if request.pin is not None and kind is CredentialKind.PIN_CODE:
        assert not site.opens(site.doors[0], kind, request.pin.reveal())


@through(Trouble.RESET_AFTER, Trouble.GARBAGE_AFTER)
def test_a_key_called_off_after_its_answer_was_lost_is_found_and_taken_back(
    site: Site, kind: CredentialKind, trouble: Trouble
) -> None:
    request = request_for(site, kind, site.doors[:1])
    site.trouble(trouble)
    attempted(lambda: site.port.issue_credential(request))
    blind = handle_for(request, CallResult(()), issue_key=request.meta.idempotency_key)
    until_done(site, lambda m: site.port.revoke_credential(blind, RevokeReason.CANCELLATION, m), meta())
    assert [site.keys_at(door) for door in site.doors] == [0, 0, 0]


def test_taking_back_twice_at_once_has_one_end(site: Site, kind: CredentialKind) -> None:
    request, result = issue(site, kind, doors=site.doors[:1])
    handle = handle_for(request, result)
    with ThreadPoolExecutor(2) as both:
        tries = [both.submit(attempted, lambda: site.port.revoke_credential(handle, RevokeReason.LOST, meta())) for _ in "ab"]
        assert {outcome for outcome, _ in (done.result(10) for done in tries)} <= {Outcome.DONE, Outcome.UNKNOWN, None}
    until_done(site, lambda m: site.port.revoke_credential(handle, RevokeReason.LOST, m), meta())
    assert site.keys_at(site.doors[0]) == 0


# --- one door of several


@pytest.mark.parametrize("verb", ["update", "suspend", "unsuspend", "revoke"])
def test_with_one_dead_door_every_answer_is_true_of_its_door(site: Site, kind: CredentialKind, verb: str) -> None:
    request, result = issue(site, kind)
    value, handle = site.presented(result, request), handle_for(request, result)
    if verb == "unsuspend":
        handle = handle_for(request, site.port.suspend_credential(handle, SuspendReason.MANUAL, meta()))
    site.kill_door(site.doors[1])
    port, later = site.port, stay(-1, 60)
    calls: dict[str, Callable[[], CallResult]] = {
        "update": lambda: port.update_credential(UpdateInput(replace(handle, window=later), meta())),
        "suspend": lambda: port.suspend_credential(handle, SuspendReason.MANUAL, meta()),
        "unsuspend": lambda: port.unsuspend_credential(handle, meta()),
        "revoke": lambda: port.revoke_credential(handle, RevokeReason.SECURITY, meta()),
    }
    shall_open = verb in {"update", "unsuspend"}
    result_of, error = answered(calls[verb])
    if result_of is None:  # nothing is known to have been done, and nothing was
        assert error is not None
        assert [site.opens(door, kind, value) for door in (site.doors[0], site.doors[2])] == [verb != "unsuspend"] * 2
        return
    assert {door.device_id for door in result_of.doors} == {door.device_id for door in site.doors}
    for door in result_of.doors:
        place = next(d for d in site.doors if d.device_id == door.device_id)
        if door.outcome is Outcome.DONE and place is not site.doors[1]:
            assert site.opens(place, kind, value) == shall_open
        if door.outcome is not Outcome.DONE:
            assert door.error is not None


# --- what the net does


@over_tls
def test_a_plain_server_where_https_is_spoken_is_unreachable(site: Site) -> None:
    before = site.request_count()
    _none_gets_in(site, lambda netloc: f"https://{netloc}")
    assert site.request_count() == before


@over_tls
def test_a_server_with_a_certificate_of_its_own_making_hears_nothing(site: Site, stranger: Stranger) -> None:
    _none_gets_in(site, lambda netloc: f"https://{stranger.netloc}")
    assert stranger.heard == []


def _none_gets_in(site: Site, address: Callable[[str], str]) -> None:
    pattern = re.compile(r"http://(127\.0\.0\.1:\d+)")
    settings = {
        name: pattern.sub(lambda found: address(found[1]), value) if isinstance(value, str) else value
        for name, value in site.settings().items()
    }
    assert settings != site.settings()
    port = registry.build(site.code, site.context(settings=settings))
    outcome, error = attempted(lambda: port.issue_credential(request_for(site, site.first_kind, site.doors[:1])))
    assert outcome is None
    assert isinstance(error, VendorUnreachable)
    with pytest.raises(VendorUnreachable):
        port.list_devices("ppt_test")
    assert site.keys_at(site.doors[0]) == 0


@throttled
def test_a_vendor_that_says_too_fast_is_believed_and_asked_later(site: Site, kind: CredentialKind) -> None:
    site.port.list_devices("ppt_test")  # the login is made
    site.throttle()
    request = request_for(site, kind, site.doors[:1])
    outcome, error = attempted(lambda: site.port.issue_credential(request))
    assert outcome in {None, Outcome.FAILED}
    assert isinstance(error, VendorUnreachable)
    assert (error.reason, error.retriable) == (Reason.RATE, True)
    assert site.keys_at(site.doors[0]) == 0
    result = until_done(site, lambda m: site.port.issue_credential(replace(request, meta=m)), replace(request.meta, attempt=2))
    assert site.keys_at(site.doors[0]) == 1
    assert site.opens(site.doors[0], kind, site.presented(result, request))
