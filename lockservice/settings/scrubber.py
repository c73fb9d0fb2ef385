"""Takes secrets out of log records before they are written.

The one rule: it errs on the side of hiding. A value under a telling key is replaced whole, at any
depth; texts lose webhook tokens, query strings, bearer tokens and web tokens wherever they stand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping
from typing import Any

MASK = "[hidden]"

# Compared without case, hyphens and underscores, so that `keyboardPwd` and `keyboard_pwd` are one.
_SECRET_NAMES = frozenset(
    {
        "accesstoken",
        "apikey",
        "artifact",
        "authorization",
        "cardnumber",
        "clientsecret",
        "contact",
        "cookie",
        "email",
        "keyboardpwd",
        "opaqueref",
        "passcode",
        "passwd",
        "password",
        "phone",
        "phonee164",
        "pin",
        "refreshtoken",
        "secret",
        "setcookie",
        "token",
        "vendorref",
    }
)
# A longer name is secret too when it ends like this: `door_pin`, `webhookSecret`.
_SECRET_ENDINGS = ("password", "secret", "token", "vendorref", "opaqueref", "keyboardpwd", "pincode")

_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    # /lock/v1/webhooks/{vendor}/{installation}/{token}
    (re.compile(r"(/webhooks/[^/\s?]+/[^/\s?]+/)[^\s/?\"']+"), rf"\1{MASK}"),
    (re.compile(r"(?<=\?)[^\s\"'<>]*=[^\s\"'<>]*"), MASK),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]+"), rf"\1 {MASK}"),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*"), MASK),
    (re.compile(r"(?i)\b(keyboardPwd|password|access_token|refresh_token|clientSecret)=[^\s&\"']+"), rf"\1={MASK}"),
    (re.compile(r"(\w+://[^/\s:@]*:)[^/\s@]+@"), rf"\1{MASK}@"),
)

# Deeper structures are cut, since a log line is no place for them.
_MAX_DEPTH = 12


def scrub_event(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Give the log event without its secrets; a processor of structlog, run just before rendering."""
    for key, value in event.items():
        event[key] = MASK if is_secret_name(key) else scrub(value)
    return event


def scrub(value: Any, depth: int = 0) -> Any:
    """Give a copy of a value of any shape in which secrets are replaced by a fixed mark."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, bytes):
        return f"[{len(value)} bytes]"
    if depth >= _MAX_DEPTH and isinstance(value, Mapping | list | tuple | set | frozenset):
        return "[too deep]"
    if isinstance(value, Mapping):
        return {key: MASK if is_secret_name(str(key)) else scrub(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [scrub(inner, depth + 1) for inner in value]
    # Other objects as the renderer would write them: the text of a request holds its path.
    return scrub_text(value if isinstance(value, str) else repr(value))


def scrub_text(text: str) -> str:
    """Give the text without webhook tokens, query strings, credentials in addresses and bearer tokens."""
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def is_secret_name(name: str) -> bool:
    """Say whether a field of this name may hold a secret or a guest's contact."""
    plain = name.replace("_", "").replace("-", "").lower()
    return plain in _SECRET_NAMES or plain.endswith(_SECRET_ENDINGS)
