"""What no key may go beyond, whoever asks: the policy's longest window and most rooms.

One rule: what a person asks for beyond them is refused; a booking's guest gets in all the same, and it is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from credentials.policy import KeyKindPolicy
from sagas.alerts import NewAlert
from sagas.refusals import Refused
from vendors.port.types import Window


def require_within(policy: KeyKindPolicy, window: Window | None, rooms: Sequence[str] | None) -> None:
    """Refuse a window or a number of rooms beyond the policy. Raises Refused VALIDATION_FAILED."""
    if window is not None and policy.is_too_long(window):
        detail = f"lies more than {policy.longest_window_days} days after the start"
        raise Refused("VALIDATION_FAILED", "the window is longer than the policy allows", {"validUntil": detail})
    if rooms is not None and len(rooms) > policy.most_rooms:
        detail = f"are more than {policy.most_rooms}"
        raise Refused("VALIDATION_FAILED", "the policy allows fewer rooms for one key", {"rooms": detail})


def require_unbooked_end(policy: KeyKindPolicy, window: Window, now: datetime) -> None:
    """Refuse an end too far away for a stay that no booking told of. Raises Refused VALIDATION_FAILED."""
    if window.valid_until > now + timedelta(days=policy.longest_unbooked_days):
        detail = f"lies more than {policy.longest_unbooked_days} days ahead, and no booking has told of this stay"
        raise Refused("VALIDATION_FAILED", "the window is longer than the policy allows", {"validUntil": detail})


def without_booking(reservation_id: str, property_id: str, actor_id: str) -> NewAlert:
    """Return the alert for a key whose stay no booking told of; once for each stay."""
    detail = f"{actor_id} issued a key for {reservation_id}, a stay that no booking has told of"
    return NewAlert(f"unbooked:{reservation_id}", "KEY_WITHOUT_BOOKING", "warning", detail, "lock/key-issue", property_id)


def beyond_policy(policy: KeyKindPolicy, reservation_id: str, property_id: str, window: Window, rooms: int) -> list[NewAlert]:
    """Return the alert for a booking beyond the policy, or none. Its guest gets in; its key is cut to the longest window."""
    said = []
    if policy.cuts(window):
        said.append(f"its key ends after {policy.longest_window_days} days")
    if rooms > policy.most_rooms:
        said.append(f"it opens {rooms} rooms, more than {policy.most_rooms}")
    if not said:
        return []
    detail = f"booking {reservation_id} goes beyond the key policy: {' and '.join(said)}"
    return [NewAlert(f"beyond-policy:{reservation_id}", "STAY_BEYOND_POLICY", "warning", detail, "lock/key-issue", property_id)]
