"""JSON as events may contain it.

One rule: whatever another reader could understand differently (doubled names, NaN, numbers beyond a double, lone
surrogates, NUL, bottomless nesting) is refused here, so that nothing behind this door has to think of it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any, NoReturn

from sagas.events.refusals import EventRefused, RefusalCode

MAX_DEPTH = 32
"""Objects and arrays inside each other. Our deepest payload uses 6; jsonschema-rs stops at 255, CPython near 1,000."""

MAX_INTEGER_DIGITS = 19


def _invalid(detail: str) -> EventRefused:
    return EventRefused(RefusalCode.INVALID_JSON, detail)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise _invalid("a name occurs twice in one object")
    return result


def _no_constant(_: str) -> NoReturn:
    raise _invalid("NaN and Infinity are no JSON")


def _integer(text: str) -> int:
    if len(text) > MAX_INTEGER_DIGITS:
        raise _invalid("an integer is too long")
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _invalid("a number is out of range")
    return number


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant, parse_int=_integer, parse_float=_finite)
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=True, sort_keys=True, separators=(",", ":"))


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _is_deeper_than(value: Any, limit: int) -> bool:
    level: list[Any] = [value]
    for _ in range(limit + 1):
        level = [child for parent in level for child in _children(parent) if isinstance(child, (dict, list))]
        if not level:
            return False
    return True


def _has_bad_text(value: Any) -> bool:
    if isinstance(value, str):
        return "\x00" in value or any("\ud800" <= character <= "\udfff" for character in value)
    if isinstance(value, dict):
        return any(_has_bad_text(name) or _has_bad_text(item) for name, item in value.items())
    return isinstance(value, list) and any(_has_bad_text(item) for item in value)


def loads(raw: bytes, max_bytes: int) -> Any:
    """Reads one JSON document of at most `max_bytes` bytes.

    Raises `EventRefused` PAYLOAD_TOO_LARGE, INVALID_UTF8 or INVALID_JSON; nothing else, whatever the bytes.
    """
    if len(raw) > max_bytes:
        raise EventRefused(RefusalCode.PAYLOAD_TOO_LARGE, f"more than {max_bytes} bytes")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise EventRefused(RefusalCode.INVALID_UTF8, f"byte {error.start}") from None
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise _invalid(f"character {error.pos}") from None
    except RecursionError:
        raise _invalid("nested too deep") from None
    if text.count("{") + text.count("[") > MAX_DEPTH and _is_deeper_than(value, MAX_DEPTH - 1):
        raise _invalid("nested too deep")
    # Raw control characters are already refused by the decoder, so bad text can only come from an escape.
    if "\\u" in text and _has_bad_text(value):
        raise _invalid("NUL or half a surrogate pair in a text")
    return value


def dumps(value: Any) -> bytes:
    """Writes compact UTF-8 JSON with sorted names; equal values give equal bytes.

    Raises `EventRefused` INVALID_JSON for what JSON cannot say.
    """
    try:
        text = _ENCODER.encode(value)
        raw = text.encode("utf-8")
    except (TypeError, ValueError, RecursionError):
        # Deliberately without the cause: the encoder's message repeats the value.
        raise _invalid("not representable") from None
    if "\\u0000" in text and _has_bad_text(value):
        raise _invalid("NUL in a text")
    return raw
