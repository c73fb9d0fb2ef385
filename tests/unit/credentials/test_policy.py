"""Which kind a stay gets, and when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from credentials.policy import KeyKindPolicy, choose_kind
from credentials.scopes import StaffScope, parse_scope
from vendors.port.types import CredentialKind, LockCapabilities, Window

PIN, PHONE, CARD, QR = (
    CredentialKind.PIN_CODE, CredentialKind.MOBILE_APP, CredentialKind.RFID_CARD, CredentialKind.QR_CODE,
)  # fmt: skip
START = datetime(2026, 5, 1, 9, 30, tzinfo=UTC)
WINDOW = Window(START, START + timedelta(days=2))


def test_the_defaults_are_those_of_the_design() -> None:
    policy = KeyKindPolicy()
    assert policy.kinds == (PIN, PHONE, CARD)
    assert policy.widen(WINDOW) == Window(START, WINDOW.valid_until + timedelta(hours=2))
    assert (policy.no_show_suspend_after_hours, policy.pin_length, policy.pin_length_shared, policy.pin_rest_days) == (
        6,
        6,
        8,
        30,
    )
    assert policy.call_vendor_at(START) is None


def test_preference_comes_before_policy_and_the_channel_before_both() -> None:
    policy = KeyKindPolicy()
    assert policy.order_kinds((), None) == (PIN, PHONE, CARD)
    assert policy.order_kinds((CARD,), None) == (CARD, PIN, PHONE)
    assert policy.order_kinds((CARD,), "mobile") == (PHONE, PIN, CARD)
    assert policy.order_kinds((), "desk") == (CARD, PIN, PHONE)


def test_the_first_kind_all_doors_can_carry_is_chosen() -> None:
    pin_only, both = LockCapabilities(pin=True), LockCapabilities(pin=True, mobile_key=True)
    assert choose_kind((PHONE, PIN), [both, both], ()) is PHONE
    assert choose_kind((PHONE, PIN), [both, pin_only], ()) is PIN
    assert choose_kind((QR,), [both], ()) is None
    assert choose_kind((CARD, PIN), [LockCapabilities(pin=True, card_encoding=True)], (CARD,), at_kiosk=True) is PIN


def test_stored_values_are_checked_by_name_and_range() -> None:
    policy = KeyKindPolicy.from_values({"kinds": ["rfid_card"], "issue_lead_hours": 72})
    assert (policy.kinds, policy.call_vendor_at(START)) == ((CARD,), START - timedelta(hours=72))
    for wrong in ({"colour": "red"}, {"kinds": ["smoke"]}, {"kinds": []}, {"pin_length": 3}, {"pin_rest_days": -1}):
        with pytest.raises(ValueError):
            KeyKindPolicy.from_values(wrong)


def test_staff_scopes_have_one_spelling() -> None:
    assert parse_scope("room:rmu_1") == StaffScope("room", "rmu_1")
    assert parse_scope("floor:3") == StaffScope("floor", "3")
    assert parse_scope("areas:gym") == StaffScope("area", "gym")
    assert parse_scope("rooms:all").kind == "rooms_all"
    for wrong in ("", "room:", "areas:roof", "everything", "floor"):
        with pytest.raises(ValueError, match="unknown staff scope"):
            parse_scope(wrong)
