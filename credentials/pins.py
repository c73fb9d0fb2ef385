"""Draws PINs: cryptographic, never trivial, only from digits every door's keypad has.

One rule: a drawn PIN is only a proposal; the unique rows of PinSlot decide whether it is free at every door.
Trivial digits are refused by vendors too (TTLock errcode -2032: runs and repeats; fact sheet §5, confidence A).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from itertools import pairwise

from vendors.port.secrets import Pin

DRAW_LIMIT = 1000


class NoPinPossible(Exception):
    """The doors' common digits give no acceptable PIN of this length. Trying again makes no sense."""


def draw_pin(length: int, keypads: Iterable[str]) -> Pin:
    """Draws one PIN of `length` digits (4 to 9) from the digits all keypads share. Raises NoPinPossible."""
    if not 4 <= length <= 9:
        raise ValueError("a PIN has 4 to 9 digits")
    digits = common_digits(keypads)
    if len(digits) < 3:
        raise NoPinPossible("the doors share fewer than three digits")
    for _ in range(DRAW_LIMIT):
        candidate = "".join(secrets.choice(digits) for _ in range(length))
        if not is_trivial(candidate):
            return Pin(candidate)
    raise NoPinPossible("no acceptable PIN was drawn")


def fault_in(digits: str, length: int, keypads: Iterable[str]) -> str | None:
    """Says which rule chosen digits break, as drawn ones never do; None when they break none."""
    if len(digits) != length or not (digits.isascii() and digits.isdigit()):
        return f"must have {length} digits"
    if set(digits) - set(common_digits(keypads)):
        return "has a digit that the keypad of a door lacks"
    return "is too simple" if is_trivial(digits) else None


def common_digits(keypads: Iterable[str]) -> str:
    """Returns the digits that every keypad has, ascending."""
    shared = set("0123456789")
    for keypad in keypads:
        shared &= set(keypad)
    return "".join(sorted(shared))


def is_trivial(digits: str) -> bool:
    """Says whether a thief would try it early: fewer than three different digits, a run up or down, a repeated half or
    third, or a palindrome of pairs such as 121212."""
    if len(set(digits)) < 3:
        return True
    steps = {(int(b) - int(a)) % 10 for a, b in pairwise(digits)}
    if steps in ({1}, {9}):
        return True
    return any(
        len(digits) % size == 0 and digits == digits[:size] * (len(digits) // size) for size in range(1, len(digits) // 2 + 1)
    )
