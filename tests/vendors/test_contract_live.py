"""The contract at a vendor's own address, where one is told: capped, at one named test lock, cleaned up after itself.

See docs/adding-a-vendor.md, *Against the vendor itself*. Without an address a vendor is skipped, with the reason.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.vendors import live
from tests.vendors.live import Visit, handle, visiting
from vendors import registry
from vendors.port.errors import DeviceNotPaired
from vendors.port.manifest import VendorManifest
from vendors.port.types import CallMeta, CallResult, RevokeReason, SuspendReason, UpdateInput, Window

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(params=registry.manifests().values(), ids=lambda manifest: manifest.code)
def visit(request: pytest.FixtureRequest) -> Iterator[Visit]:
    manifest: VendorManifest = request.param
    target = live.read(manifest)
    if isinstance(target, str):
        pytest.skip(target)
    with visiting(target) as found:
        yield found


def test_the_test_lock_is_listed_and_healthy(visit: Visit) -> None:
    assert visit.target.door.external_id in {device.external_id for device in visit.port.list_devices("ppt_live")}
    assert visit.port.health_check(visit.target.door).device_id == visit.target.door.device_id


def test_a_lock_nobody_paired_is_not_paired(visit: Visit) -> None:
    with pytest.raises(DeviceNotPaired):
        visit.port.health_check(replace(visit.target.door, external_id="999999999"))


def test_a_key_lives_its_whole_life(visit: Visit) -> None:
    request = visit.request()
    given = visit.issue(request)
    assert given.kind is visit.target.kind
    later = Window(request.window.valid_from, request.window.valid_until + timedelta(hours=1))
    held = handle(request, given, later)
    changed = visit.until_done(
        lambda m: visit.port.update_credential(UpdateInput(held, m)), CallMeta(request.meta.idempotency_key[::-1])
    )
    held = handle(request, changed, later)
    visit.note(held)
    rested = visit.until_done(lambda m: visit.port.suspend_credential(held, SuspendReason.MANUAL, m), _meta("a", request))
    held = handle(request, rested, later)
    visit.note(held)
    woken = visit.until_done(lambda m: visit.port.unsuspend_credential(held, m), _meta("b", request))
    held = handle(request, woken, later)
    visit.note(held)
    for _ in range(2):
        visit.until_done(lambda m: visit.port.revoke_credential(held, RevokeReason.CHECKOUT, m), _meta("c", request))
    assert visit.found(request) in {0, None}


def test_the_same_key_twice_has_one_effect_at_the_vendor(visit: Visit) -> None:
    request = visit.request()
    first = visit.issue(request)
    visit.port = visit.build()
    again = visit.until_done(
        lambda m: visit.port.issue_credential(live.again(request, CallMeta(m.idempotency_key, m.attempt + 1))), request.meta
    )
    assert [door.ref for door in again.doors] == [door.ref for door in first.doors]
    assert visit.found(request) in {1, None}


def test_a_key_whose_answer_was_never_read_is_found_and_taken_back(visit: Visit) -> None:
    request = visit.request()
    visit.issue(request)
    blind = handle(request, CallResult(()))
    visit.until_done(lambda m: visit.port.revoke_credential(blind, RevokeReason.CANCELLATION, m), _meta("d", request))
    assert visit.found(request) in {0, None}


def _meta(letter: str, request: object) -> CallMeta:
    return CallMeta(hashlib.sha256(f"{letter}:{request!r}".encode()).hexdigest())
