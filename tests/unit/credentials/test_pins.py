"""What a drawn PIN looks like."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from credentials.pins import NoPinPossible, common_digits, draw_pin, is_trivial


@given(st.integers(4, 9), st.lists(st.text("0123456789", min_size=4, max_size=10), min_size=1, max_size=4))
def test_a_pin_has_its_length_only_common_digits_and_is_not_trivial(length: int, keypads: list[str]) -> None:
    shared = common_digits(keypads)
    if len(shared) < 3:
        with pytest.raises(NoPinPossible):
            draw_pin(length, keypads)
        return
    digits = draw_pin(length, keypads).reveal()
    assert len(digits) == length
    assert set(digits) <= set(shared)
    assert not is_trivial(digits)


@pytest.mark.parametrize("digits", ["123456", "987654", "890123", "000000", "121212", "123123", "112211", "5555", "343434"])
def test_what_a_thief_tries_first_is_trivial(digits: str) -> None:
    assert is_trivial(digits)


@pytest.mark.parametrize("digits", ["048291", "482913", "190274", "7391", "20261127"])
def test_ordinary_digits_are_not_trivial(digits: str) -> None:
    assert not is_trivial(digits)


@pytest.mark.parametrize("length", [0, 3, 10])
def test_a_length_no_keypad_takes_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match="4 to 9"):
        draw_pin(length, ["0123456789"])


def test_draws_do_not_repeat() -> None:
    assert len({draw_pin(8, ["0123456789"]).reveal() for _ in range(500)}) >= 499
