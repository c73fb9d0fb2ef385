"""What every vendor tells when it is asked: its locks, their health, the keys on them, who tried them, and pushes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.vendors.asking import issue, offering
from tests.vendors.site import Harness, Site, handle_for, request_for
from vendors.port.errors import DeviceNotPaired
from vendors.port.protocol import Inventory, Lookup, Records, Webhook
from vendors.port.secrets import Token
from vendors.port.types import CallResult, CredentialKind, Intent


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


@offering(Lookup)
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


@offering(Inventory)
def test_the_inventory_lists_ours_and_nothing_else(site: Site) -> None:
    port = site.port
    assert isinstance(port, Inventory)
    starts = Intent.NEW  # where a new stay's key ends the earlier ones, the others join
    issued = set()
    for kind in site.manifest.kinds:
        spans = kind in site.manifest.spanning_kinds
        for intent in (starts if spans else Intent.NEW, Intent.ADDITIONAL):
            issued.add(issue(site, kind, doors=site.doors[:1], intent=intent)[1].doors[0].ref.reveal())
        starts = Intent.ADDITIONAL if spans else starts
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


@offering(Records)
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


@offering(Webhook)
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


def test_its_harness_names_what_its_adapter_does_not_offer(site: Site, harness: Harness) -> None:
    lacking = {protocol for protocol in (Lookup, Inventory, Records, Webhook) if not isinstance(site.port, protocol)}
    assert lacking == harness.lacks
