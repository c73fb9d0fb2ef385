"""Every word a flow can put into a credential's event is one that the event's schema takes."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pytest

from credentials import event_data
from credentials.models import KeyCredential
from sagas.events.validate import validate
from vendors.port.errors import ALL_ERRORS, Reason
from vendors.port.ids import new_id
from vendors.port.types import CredentialKind, Intent, RevokeReason, SuspendReason

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
TRIGGERS = (
    "", "cancelled", "checked_out", "room_moved", "window_ended", "replaced", "user.deactivated", "property.deactivated", "bulk",
)  # fmt: skip
WARNINGS = ("PIN_CHANGED", "KIND_CHANGED", "DOORS_PENDING", "DOORS_MISSING", "CLOCK_SKEW", "FIRST_USE_24H")


def key(**facts: object) -> KeyCredential:
    """Returns a guest's key as rows hold it (not saved)."""
    plain: dict[str, object] = {
        "id": new_id("key"), "tenant_id": new_id("tnt"), "property_id": new_id("ppt"), "installation_id": new_id("vad"),
        "vendor": "assa-abloy", "reservation_id": new_id("rsv"), "holder_id": new_id("gst"), "holder_kind": "guest",
        "kind": "pin_code", "preferred_kinds": ["pin_code"], "rooms": [new_id("rmu")], "areas": ["lobby"], "floors": ["1"],
        "valid_from": NOW, "valid_until": NOW + timedelta(days=1), "issue_key": "sha256:" + "0" * 64,
    }  # fmt: skip
    return KeyCredential(**plain | facts)


@pytest.mark.parametrize("error", ALL_ERRORS, ids=lambda error: error.__name__)
@pytest.mark.parametrize("reason", Reason)
def test_whatever_a_vendor_refused_with_can_be_told(error: type, reason: Reason) -> None:
    refused = error("assa-abloy", "x" * 900, reason=reason)
    for operation in ("issue", "update", "revoke", "suspend", "unsuspend"):
        data = event_data.vendor_error(
            key(), environment="simulator", operation=operation, code=refused.code, message=refused.vendor_message, attempts=5,
            final=True, device_id=new_id("lck"), at=NOW,
        )  # fmt: skip
        validate("melmastoon.lock.vendor.error.v1", data)
        assert (data["environment"], data["errorCode"]) == ("simulator", error.code)
    for word in (reason.value, "vendor_unreachable"):
        validate(event_data.subject("failed"), event_data.failed(key(), word, refused.vendor_message, 5, NOW))


@pytest.mark.parametrize("reason", RevokeReason)
def test_every_way_to_end_a_key_can_be_told(reason: RevokeReason) -> None:
    for trigger, is_ok in itertools.product(TRIGGERS, (True, False)):
        data = event_data.revoked(key(revoke_reason=reason.value), vendor_ok=is_ok, trigger=trigger, at=NOW)
        validate(event_data.subject("revoked"), data)
    validate(event_data.subject("failed"), event_data.failed(key(), f"abandoned_{reason.value}", "", 0, NOW))


@pytest.mark.parametrize("reason", SuspendReason)
def test_every_reason_to_rest_can_be_told_on_both_ways(reason: SuspendReason) -> None:
    validate(event_data.subject("suspended"), event_data.suspended(key(suspend_reason=reason.value), NOW))
    for by in ("usr_clerk", "saga", "booking-app"):
        validate(event_data.subject("unsuspended"), event_data.unsuspended(key(), reason.value, by, NOW))


@pytest.mark.parametrize("kind", CredentialKind)
def test_a_key_of_every_kind_and_waiting_for_anybody_can_be_told(kind: CredentialKind) -> None:
    warnings = [{"code": code, "detail": "d" * 300} for code in WARNINGS]
    artifacts = (None, {"type": "pin", "opaqueRef": new_id("tk")}, {"type": "rfid_card_ready_at", "deviceId": new_id("lck")})
    for artifact, intent in itertools.product(artifacts, Intent):
        replaces = new_id("key") if intent is Intent.REPLACEMENT else None
        made = key(kind=kind.value, intent=intent.value, replaces=replaces, warnings=warnings)
        validate(event_data.subject("issued"), event_data.issued(made, artifact, NOW))
    for waiting in ("", "desk", "room", "id"):
        rooms = [] if waiting == "room" else [new_id("rmu")]
        asked = key(kind=kind.value, waiting_for=waiting, rooms=rooms, preferred_kinds=[k.value for k in CredentialKind])
        validate(event_data.subject("requested"), event_data.requested(asked))
        validate(event_data.subject("pending"), event_data.pending(asked, 1, NOW))


def test_every_change_of_a_key_can_be_told() -> None:
    when = {"from": "2026-11-28T12:00:00Z", "to": "2026-11-29T12:00:00Z"}
    parts = {
        "validFrom": when, "validUntil": when, "rooms": {"from": [new_id("rmu")], "to": []},
        "scope": {"from": {"areas": []}, "to": {"areas": ["gym", "lobby"]}},
    }  # fmt: skip
    for count in range(1, len(parts) + 1):
        for names in itertools.combinations(parts, count):
            changes = {name: parts[name] for name in names}
            validate(event_data.subject("updated"), event_data.updated(key(), changes, NOW))
