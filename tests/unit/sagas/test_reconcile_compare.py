"""What counts as a difference between books and door, and what does not."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from sagas.reconcile.compare import Danger, Expected, Kind, Known, Seen, compare
from vendors.port.types import Window

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
STAY = Window(NOW - timedelta(days=1), NOW + timedelta(days=2))
DOOR = Expected(1, "key_1", "c-1", "pin_code", "present", "present", (STAY,), "mark", "ref-1")
KEY = Seen("ref-1", "pin_code", "c-1", is_ours=True, window=STAY)


def kinds(expected: list[Expected], seen: list[Seen], known: dict[str, Known] | None = None) -> list[tuple[Kind, Danger]]:
    return [(item.kind, item.danger) for item in compare(expected, seen, known or {}, NOW)[0]]


def moved(start_s: float = 0, end_s: float = 0, window: Window = STAY) -> Window:
    return Window(window.valid_from + timedelta(seconds=start_s), window.valid_until + timedelta(seconds=end_s))


def test_a_key_that_is_as_it_should_be_is_none() -> None:
    assert kinds([DOOR], [KEY]) == []


@pytest.mark.parametrize("end_s", [-60, 60])
def test_a_vendors_whole_minutes_are_no_difference(end_s: float) -> None:
    assert kinds([DOOR], [replace(KEY, window=moved(end_s=end_s))]) == []


def test_a_start_that_is_over_does_not_matter() -> None:
    assert kinds([DOOR], [replace(KEY, window=moved(start_s=3600 * 5))]) == []


@pytest.mark.parametrize(
    ("window", "danger"),
    [
        (moved(end_s=3600), Danger.OPENS),
        (moved(end_s=-3600), Danger.NONE),
        (None, Danger.OPENS),
        (moved(start_s=3600 * 30), Danger.LOCKED_OUT),
        (moved(end_s=-3600 * 48), Danger.LOCKED_OUT),
    ],
)
def test_a_window_says_what_is_at_stake(window: Window | None, danger: Danger) -> None:
    assert kinds([DOOR], [replace(KEY, window=window)]) == [(Kind.WINDOW_DIFFERS, danger)]


def test_a_future_stay_that_opens_early_is_dangerous() -> None:
    future = Window(NOW + timedelta(days=3), NOW + timedelta(days=5))
    door, key = replace(DOOR, fits=(future,)), replace(KEY, window=moved(start_s=-3600, window=future))
    assert kinds([door], [key]) == [(Kind.WINDOW_DIFFERS, Danger.OPENS)]


def test_a_window_shifted_for_a_wrong_clock_fits() -> None:
    shifted = moved(start_s=1800)
    assert kinds([replace(DOOR, fits=(STAY, shifted))], [replace(KEY, window=shifted)]) == []


def test_a_missing_key_matters_until_its_window_is_over() -> None:
    assert kinds([DOOR], []) == [(Kind.MISSING, Danger.LOCKED_OUT)]
    over = Window(NOW - timedelta(days=3), NOW - timedelta(hours=1))
    assert kinds([replace(DOOR, fits=(over,))], []) == []


def test_what_is_on_its_way_is_left_alone() -> None:
    busy = replace(DOOR, is_in_flight=True)
    for seen in ([], [KEY], [replace(KEY, window=None), replace(KEY, fingerprint="ref-2")]):
        assert compare([busy], seen, {}, NOW) == ([], 1)


def test_a_key_that_was_taken_back_and_one_that_never_was() -> None:
    gone = replace(DOOR, wants="absent", has="absent", fingerprint="")
    assert kinds([gone], [KEY]) == [(Kind.PRESENT_BUT_REVOKED, Danger.OPENS)]
    assert kinds([replace(gone, is_failed=True)], [KEY]) == [(Kind.ORPHAN, Danger.OPENS)]
    ended = replace(KEY, window=Window(NOW - timedelta(days=3), NOW - timedelta(days=1)))
    assert kinds([gone], [ended]) == [(Kind.PRESENT_BUT_REVOKED, Danger.NONE)]
    assert kinds([gone], []) == []


def test_a_suspended_key_rests_or_is_gone() -> None:
    rests = replace(DOOR, wants="suspended", has="suspended")
    assert kinds([rests], []) == []
    assert kinds([rests], [replace(KEY, is_resting=True)]) == []
    assert kinds([rests], [replace(KEY, window=Window(NOW - timedelta(days=3), NOW - timedelta(days=2)))]) == []
    assert kinds([rests], [KEY]) == [(Kind.NOT_RESTING, Danger.OPENS)]


def test_strangers_and_orphans_are_told_apart_by_our_mark() -> None:
    assert kinds([], [Seen("x", "pin_code")]) == [(Kind.STRANGER, Danger.NONE)]
    ours = Seen("x", "pin_code", "c-9", is_ours=True, window=STAY)
    assert kinds([], [ours]) == [(Kind.ORPHAN, Danger.OPENS)]
    (found,), _ = compare([], [ours], {"c-9": Known("key_9", is_dead=True)}, NOW)
    assert (found.kind, found.credential_id) == (Kind.ORPHAN, "key_9")


def test_of_two_keys_the_one_our_books_name_is_the_key() -> None:
    other = replace(KEY, fingerprint="ref-2")
    (found,), _ = compare([DOOR], [other, KEY], {}, NOW)
    assert (found.kind, found.subject, found.danger) == (Kind.DUPLICATE, "ref-2", Danger.NONE)


def test_a_key_is_known_by_its_reference_though_its_name_is_a_strangers() -> None:
    assert kinds([DOOR], [Seen("ref-1", "pin_code", window=STAY)]) == []


def test_a_stale_card_is_told_by_the_vendor_or_by_our_books() -> None:
    card = replace(DOOR, kind="rfid_card")
    assert kinds([card], [replace(KEY, is_stale=True)]) == [(Kind.STALE_CARD, Danger.NONE)]
    late = replace(card, card_is_late=True)
    assert kinds([late], [KEY]) == [(Kind.STALE_CARD, Danger.NONE)]
    assert kinds([late], [replace(KEY, is_stale=False)]) == []
