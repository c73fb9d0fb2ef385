"""Secrets that cannot be mistaken for anything else, to be planted wherever a test needs a secret.

One rule: a mark belongs to one run, so what an earlier run left behind is no leak of this one. Three shapes: texts that hold the
run's word; numbers that begin with the run's five digits; PINs that the service draws at a keypad of three digits.
"""

from __future__ import annotations

import base64
import itertools
import os
import re
import secrets
from dataclasses import dataclass
from functools import cached_property

ENVIRONMENT_NAME = "LOCK_TEST_MARK"
KEYPAD = "479"
"""The keypad of a door at which drawn PINs are marked: nine digits, each one of three."""
PIN_LENGTH = 9

_FIRST, _STRIDE = secrets.randbelow(10**4), 3607
_turns = itertools.count()
_APART_BEFORE, _APART_AFTER = "(?<![0-9A-Za-z])", "(?![0-9A-Za-z])"


@dataclass(frozen=True)
class Marks:
    """The marks of one run; `run` is ten hexadecimal digits."""

    run: str

    @property
    def word(self) -> str:
        return f"planted{self.run}"

    @property
    def prefix(self) -> str:
        """Five digits, never trivial ones: 13 stands in front so that no keypad of KEYPAD could draw them."""
        return f"13{int(self.run, 16) % 1000:03d}"

    def token(self) -> str:
        """A password, key or token of 41 letters and digits."""
        return f"{self.word}{secrets.token_hex(12)}"

    def pin(self) -> str:
        """Nine digits, in one process never the same twice before ten thousand were drawn: a door takes no digits twice."""
        return f"{self.prefix}{(_FIRST + next(_turns) * _STRIDE) % 10**4:04d}"

    def card_number(self) -> str:
        """A card's number in decimal, below 2 to the power of 32."""
        return f"3{self.pin()}"

    @cached_property
    def pattern(self) -> str:
        """What finds every mark, also in base64 and hexadecimal; understood by Python and by PostgreSQL alike."""
        word, digits = self.word.encode(), self.prefix.encode()
        forms = [re.escape(self.word), word.hex(), *_base64_parts(word)]
        # Digits inside longer words are no numbers: sealed bytes in hexadecimal hold every short row of digits.
        forms += [rf"{_APART_BEFORE}(?:3?{self.prefix}\d{{4}}|[{KEYPAD}]{{{PIN_LENGTH}}}){_APART_AFTER}"]
        forms += [rf"{digits.hex()}(?:3\d){{4}}", rf"(?:3[{KEYPAD}]){{{PIN_LENGTH}}}"]
        return "|".join(forms)

    @cached_property
    def compiled(self) -> re.Pattern[bytes]:
        return re.compile(self.pattern.encode())


def _base64_parts(word: bytes) -> list[str]:
    """The characters that stand in base64 whatever comes before and after the word, for each of three alignments."""
    parts = []
    for lead in range(3):
        text = base64.b64encode(b"\0" * lead + word).decode().rstrip("=")
        skipped = (lead * 8 + 5) // 6
        kept = (lead + len(word)) * 8 // 6
        parts.append(re.escape(text[skipped:kept]))
    return parts


def _of_this_run() -> Marks:
    """Every process of a run finds the same marks: the first one leaves them in the environment."""
    return Marks(os.environ.setdefault(ENVIRONMENT_NAME, secrets.token_hex(5)))


MARKS = _of_this_run()
token = MARKS.token
pin = MARKS.pin
card_number = MARKS.card_number

_exact: set[str] = set()
_EXACT_MIN = 12


def plant(value: str) -> str:
    """Notes a secret that carries no mark, such as a digest or what a vendor made up, and returns it. Short ones are left out:
    they would be found in innocent text."""
    if len(value) >= _EXACT_MIN:
        _exact.add(value)
    return value


def planted() -> frozenset[str]:
    """What this process noted so far."""
    return frozenset(_exact)
