"""A small SALTO hotel: stand-alone room doors, an on-line street door that updates cards, a gym by authorisation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.vendors.salto.harness import ENCODER, SaltoSite
from tests.vendors.site import Simulator, handle_for, new_key, request_for
from vendors.port.clock import FixedClock
from vendors.port.types import (
    CallMeta,
    CallResult,
    CredentialHandle,
    CredentialKind,
    Door,
    Intent,
    IssueInput,
    IssueResult,
    Outcome,
    Window,
)

CARD, PHONE, PIN = CredentialKind.RFID_CARD, CredentialKind.MOBILE_APP, CredentialKind.PIN_CODE
NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
H = timedelta(hours=1)


class Hotel(SaltoSite):
    """Rooms 101, 102, 103 are stand-alone; `street` is on-line; `gym` is a stand-alone shared door, authorisation 7.

    `transport` and `time_zone` may be set before the first call. The clock stands until it is moved; card and door follow it.
    """

    online = False
    time_zone = "Asia/Kabul"

    def __init__(self, simulator: Simulator, proxy: Any, **settings: object) -> None:
        self.extra = settings
        super().__init__(simulator, proxy)
        self.street = Door("lck_street", f"{self.property}-street", label="Street")
        self.gym = Door("lck_gym", "auth:7", label="Gym")
        self.fixed = FixedClock(NOON)
        self.clock = self.fixed
        simulator.post("/clock", {"now": NOON.isoformat(), "running": False})

    def seed_body(self) -> dict[str, object]:
        return {
            "property": self.property,
            "timeZone": self.time_zone,
            "apiKeys": [self.api_key],
            "webhookSecret": self.webhook_secret,
            "doors": [
                *({"name": d.external_id, "label": d.label} for d in self.doors),
                {"name": f"{self.property}-street", "label": "Street", "online": True},
                {"name": f"{self.property}-gym", "label": "Gym", "authorization": 7},
            ],
            "encoders": [{"name": ENCODER, "automatic": True}],
            "encoderTimeoutS": 0.3,
            "pms": True,
            "connector": True,
        }

    def settings(self) -> Mapping[str, object]:
        pms = {"pms_address": self.seeded["pms"], "encoder_timeout_s": 2.0}
        return {**super().settings(), **pms, "connector_url": self.seeded["connector"]["url"], **self.extra}

    def secrets(self) -> Mapping[str, str]:
        link = self.seeded["connector"]
        return {**super().secrets(), "connector_cert": link["cert"], "connector_key": link["key"]}

    def at(self, instant: datetime) -> None:
        """Moves every clock."""
        self.fixed.set(instant)
        self.simulator.post("/clock", {"now": instant.isoformat(), "running": False})

    def fault(self, **rule: object) -> None:
        self.simulator.post("/faults", {"surface": "pms", "property": self.property, "times": 1, **rule})

    def shown(self, door: Door, value: str, kind: CredentialKind = CARD) -> tuple[bool, str]:
        """Shows a card or phone at a door, with all that it teaches both."""
        body = {"property": self.property, "device": door.external_id, "kind": kind, "value": value}
        answer = self.simulator.post("/try", body)
        return bool(answer["open"]), str(answer["why"])

    def place(self, card: str | None = None, other: str = "") -> str:
        """Lays a card on the encoder; `other` says what it is where it is no guest's."""
        body = {"property": self.property, "encoder": ENCODER, "card": card, "other": other}
        return str(self.simulator.post("/place", body)["card"])

    def take(self) -> None:
        self.simulator.post("/take", {"property": self.property, "encoder": ENCODER})

    def by_hand(self) -> None:
        """The encoder waits for a person instead of drawing cards from a stack."""
        self.simulator.post("/seed", {"property": self.property, "encoders": [{"name": ENCODER, "automatic": False}]})

    def generation(self, door: Door) -> int:
        return int(next(room["generation"] for room in self.dump()["rooms"] if room["name"] == door.external_id))

    def calls(self) -> list[str]:
        return [row["call"] for row in self.simulator.get("/calls")["calls"] if row["property"] == self.property]

    def key(
        self, intent: Intent = Intent.NEW, doors: tuple[Door, ...] | None = None, kind: CredentialKind = CARD, **changes: Any
    ) -> Key:
        """Issues a key of three days, at the first room where no door is named."""
        window = changes.pop("window", Window(NOON - H, NOON + 72 * H))
        request = request_for(self, kind, doors or self.doors[:1], window=window, intent=intent, **changes)
        return Key(self, request, self.port.issue_credential(request))


class Key:
    """A key as its holder and the service have it."""

    def __init__(self, hotel: Hotel, request: IssueInput, result: IssueResult) -> None:
        self.hotel, self.request, self.result = hotel, request, result
        self.value = ""
        if all(door.outcome is Outcome.DONE for door in result.doors):
            self.value = self._carrier()

    def _carrier(self) -> str:
        if self.result.kind is PHONE:
            return self.request.holder.phone_e164 or ""
        operator = f"gk-{self.request.meta.idempotency_key[:16]}"
        return str([key["carrier"] for key in self.hotel.dump()["keys"] if key["operator"] == operator][-1])

    def handle(self, result: CallResult | None = None, **changes: Any) -> CredentialHandle:
        made = handle_for(self.request, result or self.result)
        return replace(made, **changes)

    def opens(self, door: Door) -> bool:
        return self.hotel.shown(door, self.value)[0]


def meta(attempt: int = 1) -> CallMeta:
    return CallMeta(new_key(), attempt)
