"""KeyKindPolicy: which kind of key a stay gets, when the vendor is called, and how much grace the window has.

One rule: the reservation's preference comes first, then the property's policy, then what the doors can do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any

from credentials import phones
from vendors.port.types import Area, CredentialKind, LockCapabilities, Window

CHANNEL_KINDS: dict[str, tuple[CredentialKind, ...]] = {
    "mobile": (CredentialKind.MOBILE_APP, CredentialKind.QR_CODE, CredentialKind.PIN_CODE),
    "desk": (CredentialKind.RFID_CARD, CredentialKind.NFC_TAG, CredentialKind.PIN_CODE),
    "kiosk": (CredentialKind.PIN_CODE, CredentialKind.QR_CODE, CredentialKind.MOBILE_APP),
}
"""Kinds each channel can hand over; they move to the front of the order. A kiosk never waits for a desk."""

PHONE_AND_PIN = frozenset({CredentialKind.MOBILE_APP, CredentialKind.PIN_CODE, CredentialKind.QR_CODE})


@dataclass(frozen=True, slots=True)
class KeyKindPolicy:
    """A property's rules. Hours and days are whole numbers ≥ 0; PIN lengths 4 to 9 digits.

    issue_lead_hours None means the vendor is called at once; otherwise that many hours before the start. A vendor that has been
    away for outage_patience_minutes (real time) is given up for the fall-back installation, or for a card at the desk.

    No key opens for longer than longest_window_days after its start; one for a stay that no booking told of not for longer than
    longest_unbooked_days. most_rooms is how many rooms one key may open. Both are at least 1.

    phone_country (ISO 3166 alpha-2) is whose numbers guests write without a country's code; empty for that of the time zone.
    """

    kinds: tuple[CredentialKind, ...] = (
        CredentialKind.PIN_CODE,
        CredentialKind.MOBILE_APP,
        CredentialKind.RFID_CARD,
    )
    issue_lead_hours: int | None = None
    early_grace_minutes: int = 0
    late_grace_minutes: int = 120
    no_show_suspend_after_hours: int = 6
    pin_length: int = 6
    pin_length_shared: int = 8
    pin_rest_days: int = 30
    require_id_verification: bool = False
    default_areas: tuple[Area, ...] = (Area.LOBBY,)
    fallback_installation_id: str | None = None
    outage_patience_minutes: int = 15
    longest_window_days: int = 366
    longest_unbooked_days: int = 31
    most_rooms: int = 20
    phone_country: str = ""

    def __post_init__(self) -> None:
        if not self.kinds:
            raise ValueError("a policy names at least one kind")
        if not (4 <= self.pin_length <= 9 and 4 <= self.pin_length_shared <= 9):
            raise ValueError("PIN lengths lie between 4 and 9 digits")
        names = ("early_grace_minutes", "late_grace_minutes", "no_show_suspend_after_hours", "pin_rest_days")
        for name in (*names, "outage_patience_minutes"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative")
        for name in ("longest_window_days", "longest_unbooked_days", "most_rooms"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if self.phone_country and not phones.is_country(self.phone_country):
            raise ValueError("phone_country is a country's two letters, such as AF")

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> KeyKindPolicy:
        """Builds a policy from stored values; unknown names raise ValueError, missing ones take the default."""
        known = {field.name for field in fields(cls)}
        unknown = set(values) - known
        if unknown:
            raise ValueError(f"unknown policy values: {', '.join(sorted(unknown))}")
        converted = dict(values)
        if "kinds" in values:
            converted["kinds"] = tuple(CredentialKind(kind) for kind in values["kinds"])
        if "default_areas" in values:
            converted["default_areas"] = tuple(Area(area) for area in values["default_areas"])
        return cls(**converted)

    def widen(self, window: Window) -> Window:
        """Returns the window the door is given: the stay's, with early and late grace, cut to the longest the policy allows."""
        start = window.valid_from - timedelta(minutes=self.early_grace_minutes)
        end = window.valid_until + timedelta(minutes=self.late_grace_minutes)
        return Window(start, min(end, start + timedelta(days=self.longest_window_days)))

    def cuts(self, window: Window) -> bool:
        """Says whether a stay is longer than its key may be."""
        return self.widen(window).valid_until < window.valid_until + timedelta(minutes=self.late_grace_minutes)

    def is_too_long(self, window: Window) -> bool:
        """Says whether a window is longer than any key's may be."""
        return window.valid_until - window.valid_from > timedelta(days=self.longest_window_days)

    def call_vendor_at(self, valid_from: datetime) -> datetime | None:
        """Returns the instant (hotel clock) before which the vendor is not called; None for at once."""
        if self.issue_lead_hours is None:
            return None
        return valid_from - timedelta(hours=self.issue_lead_hours)

    def order_kinds(self, preferred: Sequence[CredentialKind], channel_hint: str | None) -> tuple[CredentialKind, ...]:
        """Returns every acceptable kind, best first and without repetition."""
        wanted = tuple(preferred) or self.kinds
        by_channel = CHANNEL_KINDS.get(channel_hint or "", ())
        front = tuple(kind for kind in by_channel if kind in wanted or kind in self.kinds)
        return tuple(dict.fromkeys((*front, *wanted, *self.kinds)))


def choose_kind(
    ordered: Sequence[CredentialKind],
    doors: Sequence[LockCapabilities],
    desk_kinds: Sequence[CredentialKind],
    *,
    at_kiosk: bool = False,
) -> CredentialKind | None:
    """Returns the first kind that every door can carry; None when no kind fits. A kiosk skips kinds that need a desk."""
    for kind in ordered:
        if at_kiosk and kind in desk_kinds:
            continue
        if doors and all(door.supports(kind) for door in doors):
            return kind
    return None
