"""Secrets as types whose text form is a mask, so that a log line, an exception or a task message cannot carry them.

One rule: the plain value leaves only through `reveal()`, and the caller of `reveal()` hands it to a wire or a cipher.
"""

from __future__ import annotations

import hmac
from typing import Final

MASK: Final = "●●●●"


class Secret:
    """A text that prints as a mask. Equality takes constant time; hashing, formatting and pickling give nothing away."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        if not isinstance(value, str):
            raise TypeError(f"{type(self).__name__} wraps text")
        self._value = value

    def reveal(self) -> str:
        """Returns the plain value."""
        return self._value

    def __repr__(self) -> str:
        return f"{type(self).__name__}({MASK})"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._value))

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(f"a {type(self).__name__} does not travel: seal it instead")


class Pin(Secret):
    """The digits a guest types at a door, leading zeros included."""


class VendorRef(Secret):
    """What a vendor calls a credential at one door. Only the adapter that made it understands it."""


class Token(Secret):
    """A bearer token, password, client secret or mobile key."""


class CardNumber(Secret):
    """The number (UID) of a card in decimal text, as the lock learns it."""
