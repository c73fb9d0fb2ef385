"""Takes secrets out of a vendor's words before they reach an error, a log or a screen.

One rule: when in doubt mask; a vendor's message is a hint for a person, never data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from vendors.port.secrets import MASK, Secret

_MAX_CHARS = 300
_PATTERNS = (
    re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"),  # addresses
    re.compile(r"(?i)\b(?:bearer|basic)\s+\S+"),
    re.compile(r"(?i)\b[\w-]*(?:token|secret|password|passwd|pwd|pin|code|cardnumber)[\"']?\s*[=:]\s*[\"']?[^\s\"'&,;}]+"),
    re.compile(r"\b[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),  # signed tokens
    re.compile(r"\b(?=[A-Za-z0-9+/_-]*\d)[A-Za-z0-9+/_-]{16,}={0,2}"),  # keys and tokens
    re.compile(r"\+?\d(?:[ -]?\d){3,}"),  # PINs, cards, telephones: four digits or more
)


def scrub(message: str, secrets: Iterable[Secret | str | None] = ()) -> str:
    """Returns the message with the given secrets, and everything that looks like one, replaced by a mask.

    Digits of every script count; control characters become blanks; at most 300 characters come back.
    """
    text = "".join(char if char.isprintable() else " " for char in message)
    plain = {s.reveal() if isinstance(s, Secret) else s for s in secrets if s is not None}
    for value in sorted((v for v in plain if v), key=len, reverse=True):
        text = text.replace(value, MASK)
    for pattern in _PATTERNS:
        text = pattern.sub(MASK, text)
    return text[:_MAX_CHARS]
