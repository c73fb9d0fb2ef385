"""Reads telephone numbers as people write them into what vendors take, E.164; a number that reaches no mobile phone is none.

| written as | read as |
|---|---|
| `+93 700 123 456`, `tel:+93-700-123-456` | that country's, wherever the house is |
| `0093 700 123456` | the same; also where the house's country dials abroad otherwise than by 00 |
| `0700 123 456`, `700123456`, `٠٧٠٠١٢٣٤٥٦` | a number of the house's country |
| with letters (`+93700123XXX`) or an extension; a landline; a number of no country's plan | none: a key there reaches nobody |

One rule: a doubtful number is none. Sources: ITU-T E.164 for the form; the numbering plans are those of libphonenumber.
"""

from __future__ import annotations

import importlib.resources
import unicodedata
import zoneinfo
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Final

import phonenumbers
from phonenumbers import NumberParseException, PhoneNumber, PhoneNumberFormat, PhoneNumberType

LONGEST: Final = 40
"""Characters of what is looked at: 15 digits with what people put between them."""
ABROAD: Final = "00"
_WITHOUT_A_MOBILE: Final = frozenset(
    {
        PhoneNumberType.FIXED_LINE, PhoneNumberType.TOLL_FREE, PhoneNumberType.PREMIUM_RATE, PhoneNumberType.SHARED_COST,
        PhoneNumberType.PAGER, PhoneNumberType.UAN, PhoneNumberType.VOICEMAIL,
    }
)  # fmt: skip
_TABLE: Final = "zone.tab"


def as_e164(written: str | None, country: str) -> str | None:
    """Return a mobile number in E.164, None for one that cannot be read as such. `country` is ISO 3166 alpha-2, or empty."""
    text = (written or "").strip()
    if not text or len(text) > LONGEST:
        return None
    text = "".join(char for char in text.removeprefix("tel:") if unicodedata.category(char) != "Cf")  # marks of direction
    if any(char.isalpha() for char in text):  # a masked number, or a word: a keypad's letters would make another's number of it
        return None
    number = _read(text, country)
    if number is None and _digits(text).startswith(ABROAD):
        number = _read("+" + _digits(text).removeprefix(ABROAD), "")
    return phonenumbers.format_number(number, PhoneNumberFormat.E164) if number is not None else None


def is_country(code: str) -> bool:
    """Say whether a code names a country (ISO 3166 alpha-2) whose numbers are known."""
    return code in phonenumbers.SUPPORTED_REGIONS


def country_of(time_zone: str) -> str:
    """Return the country that a time zone belongs to, by the zone database's table; empty where it names none or several."""
    code = _countries().get(time_zone, "")
    return code if is_country(code) else ""


def _read(text: str, country: str) -> PhoneNumber | None:
    try:
        number = phonenumbers.parse(text, country or None)
    except NumberParseException:
        return None
    if number.extension or not phonenumbers.is_valid_number(number):
        return None
    return None if phonenumbers.number_type(number) in _WITHOUT_A_MOBILE else number


def _digits(text: str) -> str:
    return "".join(phonenumbers.normalize_digits_only(char) for char in text)


@cache
def _countries() -> dict[str, str]:
    rows = [line.split("\t") for line in _table().splitlines() if line and not line.startswith("#")]
    zones = Counter(row[2] for row in rows)
    return {row[2]: row[0] for row in rows if zones[row[2]] == 1}


def _table() -> str:
    """Return the zone database's table of countries, from where the zones themselves come; empty where there is none."""
    for folder in zoneinfo.TZPATH:
        path = Path(folder) / _TABLE
        if path.is_file():
            return path.read_text("utf-8")
    try:
        return importlib.resources.files("tzdata.zoneinfo").joinpath(_TABLE).read_text("utf-8")
    except (ModuleNotFoundError, FileNotFoundError):
        return ""
