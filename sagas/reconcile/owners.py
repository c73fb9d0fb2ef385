"""Guesses whose an unknown key is, when a hotel's doors were in use before this service was.

One rule: a guess says how sure it is and why, and names nobody: the reasons are words, the stay is an id. Nothing is done on a
guess; a person decides.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from credentials.house import house
from credentials.models import Reservation
from credentials.reservations import CONFIRMED, holder_of
from devices.selectors import DeviceFacts
from vendors.port.types import Window

STAFF_LENGTH = timedelta(days=60)
"""A guest's stay is shorter than that; a code that lasts longer, or for ever, is somebody's who works there."""
NEAR = timedelta(hours=3)
"""How far a code's hours may lie from a stay's: receptions round to whole hours, and add grace."""
CANDIDATES_MAX = 500
SHOWN_MAX = 3
_STAFF_WORDS = frozenset(
    "staff master clean cleaner cleaning housekeeping housekeeper maid maintenance technician engineer manager owner admin"
    " security guard reception frontdesk emergency service".split()
)


@dataclass(frozen=True, slots=True)
class Guess:
    """Whose a key may be. who: stay, staff, over (its window has ended) or unknown. confidence 0 to 100."""

    who: str
    confidence: int
    why: tuple[str, ...]
    reservation_id: str = ""

    def as_json(self) -> dict[str, Any]:
        """Returns it as a finding keeps it."""
        document: dict[str, Any] = {"who": self.who, "confidence": self.confidence, "why": list(self.why)}
        return document | ({"reservationId": self.reservation_id} if self.reservation_id else {})


@dataclass(frozen=True, slots=True)
class StayFacts:
    """A booking as far as a guess needs it. `rooms_here` are those of its rooms that the door belongs to."""

    reservation_id: str
    window: Window
    names: frozenset[str]
    rooms_here: tuple[str, ...]


def guess(label: str, window: Window | None, stays: Sequence[StayFacts], *, is_shared: bool, now: datetime) -> list[Guess]:
    """Returns the likeliest owners, best first; never empty. `window` None: the key has no end."""
    if window is not None and window.valid_until <= now:
        return [Guess("over", 95, ("its window has ended",))]
    words = words_in(label)
    found = [item for stay in stays if (item := _stay(stay, label, words, window, is_shared=is_shared)) is not None]
    staff = _staff(words, window)
    if staff is not None:
        found.append(staff)
    found.sort(key=lambda item: (-item.confidence, item.reservation_id))
    return found[:SHOWN_MAX] or [Guess("unknown", 0, ("no stay, no name and no pattern fits",))]


def words_in(text: str) -> frozenset[str]:
    """Returns a text's words of three letters or more, without case, accents and marks."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    plain = "".join(char for char in plain if not unicodedata.combining(char))
    return frozenset(word for word in re.findall(r"[^\W\d_]+", plain) if len(word) >= 3)


def stays_at(tenant_id: str, device: DeviceFacts, now: datetime) -> list[StayFacts]:
    """Reads the stays that may have a key at a door: its room's, or the house's where the door is shared. Inside the tenant's
    block."""
    rows = Reservation.objects.filter(
        tenant_id=tenant_id, property_id=device.property_id, status=CONFIRMED, valid_until__gt=now
    )
    if not device.shared:
        rows = rows.filter(rooms__overlap=list(device.rooms))
    policy = house(tenant_id, device.property_id).policy
    return [
        StayFacts(
            row.reservation_id,
            policy.widen(Window(row.valid_from, row.valid_until)),
            words_in(holder_of(row).display_name),
            tuple(room for room in row.rooms if room in device.rooms),
        )
        for row in rows.order_by("valid_from", "reservation_id")[:CANDIDATES_MAX]
    ]


def _stay(stay: StayFacts, label: str, words: Iterable[str], window: Window | None, *, is_shared: bool) -> Guess | None:
    if stay.reservation_id.casefold() in label.casefold():
        return Guess("stay", 99, ("its name at the vendor holds the booking's id",), stay.reservation_id)
    points, why = 0, []
    if stay.names and stay.names & set(words):
        whole = stay.names <= set(words)
        points += 60 if whole else 35
        why.append("its name at the vendor is the guest's" if whole else "its name at the vendor holds part of the guest's")
    if window is not None:
        gained, reason = _by_window(window, stay.window)
        points += gained
        why += [reason] if reason else []
    if not points:
        return None
    if stay.rooms_here and not is_shared:
        points += 15
        why.append("the stay's room is behind this door")
    return Guess("stay", min(points, 95), tuple(why), stay.reservation_id)


def _by_window(key: Window, stay: Window) -> tuple[int, str]:
    if key.valid_until <= stay.valid_from or stay.valid_until <= key.valid_from:
        return 0, ""
    ends_with = abs(key.valid_until - stay.valid_until) <= NEAR
    if ends_with and abs(key.valid_from - stay.valid_from) <= NEAR:
        return 60, "begins and ends with the stay"
    if ends_with:
        return 40, "ends with the stay"
    within = stay.valid_from - NEAR <= key.valid_from and key.valid_until <= stay.valid_until + NEAR
    return (20, "lies within the stay") if within else (0, "")


def _staff(words: Iterable[str], window: Window | None) -> Guess | None:
    points, why = 0, []
    if window is None:
        points, why = 60, ["has no end"]
    elif window.valid_until - window.valid_from >= STAFF_LENGTH:
        points, why = 55, [f"lasts {(window.valid_until - window.valid_from).days} days"]
    if _STAFF_WORDS & set(words):
        points += 30
        why.append("its name at the vendor is a word for staff")
    return Guess("staff", min(points, 90), tuple(why)) if points else None
