"""Reads an installation's settings, and refuses what cannot work before any job is made.

One rule: which locks a house has decides what can be promised about them; there is no default for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from vendors.port.manifest import AdapterContext
from vendors.port.secrets import Token

DEFAULT_CARD_TIMEOUT_S = 120.0
DEFAULT_WAIT_S = 4.0
"""How long a call waits for the desk before it answers DEFERRED. An encoding takes 2.5 s at most (document 09 §5.4)."""

CLASSIC_RECORDS = 15
"""A Classic 1K card has sixteen sectors, of which the first belongs to the maker. Source: fact sheet §2.1 (high)."""
NTAG213_RECORDS = 3
"""144 bytes of user memory in an NTAG213 hold three records of 48. Source: fact sheet §2.1 (high)."""

CARD_FORMATS: Mapping[str, int] = {
    "csn32": 2**32,
    "h10301": 2**24,
    "h10306": 2**32,
    "h10304": 2**35,
    "h10302": 2**35,
    "c1000-35": 2**32,
    "c1000-48": 2**45,
}
"""Numbers each format can hold, facility code included, the whole frame's data bits read as one number.
Source: fact sheet §1.2 (checked against its vectors)."""


class Locks(StrEnum):
    """What hangs on the doors. STANDALONE: battery locks that read a record on the card and know nothing else. CONTROLLER:
    readers on a controller in the house, which holds lists of card numbers and is driven by the desk."""

    STANDALONE = "standalone"
    CONTROLLER = "controller"


@dataclass(frozen=True, slots=True)
class Settings:
    """An installation, checked. `property_number` is what the house's records carry (1 to 2^32 - 1; STANDALONE only).
    `card_timeout_s` bounds the wait for a person at the encoder (1 to 900), `wait_s` how long a call stays with a job
    (0 to 30). `card_records` and `tag_records` are how many doors a card or tag holds (1 to 15, 1 to 18)."""

    locks: Locks
    property_number: int
    card_timeout_s: float
    wait_s: float
    card_records: int
    tag_records: int
    card_format: str
    webhook_secrets: tuple[Token, ...]


def read_settings(context: AdapterContext) -> Settings:
    """Reads the context. Raises ValueError naming a setting that is missing or malformed."""
    given = context.settings
    try:
        locks = Locks(str(given.get("locks", "")))
    except ValueError:
        raise ValueError(f"the setting locks is one of {', '.join(Locks)}") from None
    is_standalone = locks is Locks.STANDALONE
    card_format = str(given.get("card_format", "csn32"))
    if card_format not in CARD_FORMATS:
        raise ValueError(f"the setting card_format is one of {', '.join(CARD_FORMATS)}")
    names = ("webhook_secret", "webhook_secret_next")
    return Settings(
        locks=locks,
        property_number=int(_number(given, "property_number", None if is_standalone else 1, 1, 2**32 - 1)),
        card_timeout_s=_number(given, "card_timeout_s", DEFAULT_CARD_TIMEOUT_S, 1, 900),
        wait_s=_number(given, "wait_s", DEFAULT_WAIT_S, 0, 30),
        card_records=int(_number(given, "card_records", CLASSIC_RECORDS, 1, CLASSIC_RECORDS)),
        tag_records=int(_number(given, "tag_records", NTAG213_RECORDS, 1, 18)),
        card_format=card_format,
        webhook_secrets=tuple(context.secrets[name] for name in names if name in context.secrets),
    )


def _number(given: Mapping[str, object], name: str, default: float | None, least: float, most: float) -> float:
    value = given.get(name, default)
    if value is None:
        raise ValueError(f"the setting {name} is missing")
    try:
        number = float(str(value))
    except ValueError:
        raise ValueError(f"the setting {name} is no number") from None
    if not least <= number <= most:
        raise ValueError(f"the setting {name} lies between {least:g} and {most:g}")
    return number
