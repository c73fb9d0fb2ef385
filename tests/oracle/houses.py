"""The houses that lives are played in, one for each way of keeping keys, and their rules as the model takes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.oracle.facts import Rules

WIDE = {"calls_per_minute": 100_000, "calls_per_month": 10_000_000}
PINS = {"kinds": ["pin_code"]}
CARDS = {"kinds": ["rfid_card"]}
PHONES = {"kinds": ["mobile_app"], "default_areas": []}
CLOCKLESS = frozenset({"assa-abloy"})
"""Lock systems that tell no lock's clock: neither Vostio nor Visionline has a word for it (vendors/assa_abloy/README.md)."""


@dataclass(frozen=True)
class Plan:
    """A house to put up: rooms and areas to their vendors. `by_server`: its ASSA ABLOY locks are kept by a Visionline server.
    `in_a_row`: a card takes rooms that follow each other, and no others (vendors/assa_abloy/README.md)."""

    rooms: Mapping[str, str]
    areas: Mapping[str, str] = field(default_factory=dict)
    policy: Mapping[str, Any] = field(default_factory=dict)
    zone: str = "Asia/Kabul"
    by_server: bool = False
    in_a_row: bool = False

    @property
    def has_encoder(self) -> bool:
        """Whether cards are written at the desk."""
        return "rfid_card" in self.policy["kinds"]

    @property
    def needs_phone(self) -> bool:
        """Whether keys go to a telephone number."""
        return "mobile_app" in self.policy["kinds"]

    @property
    def systems(self) -> list[str]:
        """Return the vendors, each once."""
        return list(dict.fromkeys([*self.rooms.values(), *self.areas.values()]))

    def rules(self) -> Rules:
        """Return what the model knows of the house."""
        on_card, overriding = frozenset({"salto", "assa-abloy", "generic-wiegand"}), frozenset({"assa-abloy"})
        return Rules(self.rooms, self.areas, self.zone, on_card=on_card, overriding=overriding)


def _three(vendor: str, *, lobby: bool = True) -> dict[str, Any]:
    return {"rooms": {"101": vendor, "102": vendor, "103": vendor}, "areas": {"lobby": vendor} if lobby else {}}


HOUSES = {
    "ttlock": Plan(**_three("ttlock"), policy=PINS),
    "mock": Plan(**_three("mock"), policy=PINS, zone="Europe/Berlin"),
    "mixed": Plan({"101": "ttlock", "102": "ttlock", "201": "mock"}, {"lobby": "ttlock"}, PINS, "Europe/Berlin"),
    "salto": Plan(**_three("salto", lobby=False), policy=CARDS | {"default_areas": []}, zone="Europe/Berlin"),
    "vostio": Plan(**_three("assa-abloy", lobby=False), policy=CARDS | {"default_areas": []}, in_a_row=True),
    "visionline": Plan(
        **_three("assa-abloy", lobby=False),
        policy=CARDS | {"default_areas": []},
        zone="Europe/Berlin",
        by_server=True,
        in_a_row=True,
    ),
    "salto phones": Plan(**_three("salto", lobby=False), policy=PHONES),
    "vostio phones": Plan(**_three("assa-abloy", lobby=False), policy=PHONES, zone="Europe/Berlin"),
}
