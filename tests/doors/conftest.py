"""Houses with stand-alone locks on SALTO and Visionline, worked end to end: events, sagas, the desk, and the doors themselves.

Rule: who gets in is asked at the simulated lock, which knows only what cards have told it; what the API says is read from the
body it answers with.
"""

from __future__ import annotations

import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from credentials.models import KeyCredential
from lockservice.api.credential_body import render
from lockservice.core.tenancy import tenant
from sagas import acts
from sagas.models import Lane, OutboxEvent, Saga
from sagas.runner import Runner
from tests.support.hotel import Hotel, build_hotel
from tests.support.rate_pause import waited_for_limit
from tests.vendors.site import Simulator
from vendors.port.ids import new_id
from vendors.port.types import CredentialKind, RevokeReason, Window

CLERK = acts.Actor("usr_clerk")
ROOMS = ("101", "102", "103")
CARDS_ONLY = {"kinds": ["rfid_card"], "default_areas": []}
STAND_ALONE = {"mobile_key": True, "card_encoding": True, "remote_issue": True}


class House(ABC):
    """A house of one vendor, with three stand-alone rooms and an encoder that takes the card a person lays on it."""

    code: str
    names_companions = True
    """Whether a lost card takes the companions' with it, so that they are issued again."""

    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator
        self.tail = secrets.token_hex(4)
        self.hotel: Hotel = self.build()
        self.hotel.opened_at = self.hotel.opened_at.replace(second=0)  # the locks know whole minutes
        self.end = self.hotel.opened_at + timedelta(days=3)

    @abstractmethod
    def build(self) -> Hotel: ...

    @abstractmethod
    def lay(self, card: str | None) -> None:
        """Lays a card on the desk's encoder, or takes it away."""

    def tries(self, card: str, room: str, at: datetime | None = None) -> bool:
        """Holds a card to a room's door; with `at` the lock judges at another instant and learns nothing."""
        body = {"device": self.hotel.doors[room], "kind": "rfid_card", "value": card, "at": at.isoformat() if at else None}
        return bool(self.simulator.post("/try", body)["open"])

    def opens(self, card: str) -> list[str]:
        """The rooms a card opens now. Teaches the locks what it carries."""
        return [room for room in ROOMS if self.tries(card, room)]

    # -- the service

    def work(self) -> None:
        """Runs all due work to its end, retries included."""
        rounds = 3
        while rounds > 0:
            with tenant(self.hotel.tenant_id):
                lanes = list(Lane.objects.filter(tenant_id=self.hotel.tenant_id).values_list("key", flat=True))
                Saga.objects.filter(tenant_id=self.hotel.tenant_id, status="retry").update(status="due", due_at=None)
            Runner(only=lanes).run(until=lambda: False, drain=True, max_s=30)
            rounds -= 0 if waited_for_limit(self.hotel.tenant_id) else 1

    def tell(self, subject: str, stay: str, version: int, rooms: Sequence[str], **extra: Any) -> None:
        extra.setdefault("end", self.end)
        self.hotel.tell(subject, self.hotel.booking(stay, version, rooms, **extra))
        self.work()

    def book(self, room: str = "101") -> str:
        """A booking; its key waits at the desk."""
        stay = new_id("rsv")
        self.tell("booking.confirmed", stay, 1, [room])
        (key,) = self.keys(stay)
        assert (key.state, key.waiting_for) == ("requested", "desk")
        return stay

    def companion(self, stay: str, room: str = "101") -> KeyCredential:
        """The desk asks for a second key of the stay, which waits for its card."""
        window = Window(self.hotel.opened_at, self.end)
        command = acts.IssueCommand(
            self.hotel.property_id, (self.hotel.rooms[room],), window, "gst_companion", stay,
            preferred_kinds=(CredentialKind.RFID_CARD,),
        )  # fmt: skip
        made = acts.issue(self.hotel.tenant_id, command, CLERK, secrets.token_hex(4))
        self.work()
        return self.key(made.credential_id)

    def encode(self, key: KeyCredential, card: str | None = None) -> str:
        """The desk encodes a key: on a fresh card, or on the guest's own. Returns the card's number."""
        number = card or str(secrets.randbelow(2**31) + 1000)
        self.lay(number)
        acts.encode(self.hotel.tenant_id, key.id, CLERK, secrets.token_hex(4))
        self.work()
        self.lay(None)
        return number

    def check_in(self, room: str = "101") -> tuple[str, str]:
        """A booking and its first card. Returns the stay and the card."""
        stay = self.book(room)
        card = self.encode(self.keys(stay)[0])
        assert self.keys(stay)[0].state == "active"
        return stay, card

    def lose(self, key: KeyCredential) -> KeyCredential:
        """The guest reports the card lost. Returns its successor, which waits at the desk."""
        made = acts.revoke(self.hotel.tenant_id, key.id, RevokeReason.LOST, CLERK, secrets.token_hex(4))
        self.work()
        successor = self.key(made.credential_id)
        assert (successor.state, successor.waiting_for, successor.replaces) == ("requested", "desk", key.id)
        return successor

    # -- what is told

    def keys(self, stay: str) -> list[KeyCredential]:
        with tenant(self.hotel.tenant_id):
            return list(KeyCredential.objects.filter(tenant_id=self.hotel.tenant_id, reservation_id=stay).order_by("id"))

    def key(self, key_id: str) -> KeyCredential:
        with tenant(self.hotel.tenant_id):
            return KeyCredential.objects.get(tenant_id=self.hotel.tenant_id, id=key_id)

    def told(self, key: KeyCredential) -> dict[str, Any]:
        """What the API says of a key now."""
        with tenant(self.hotel.tenant_id):
            return render(KeyCredential.objects.get(tenant_id=self.hotel.tenant_id, id=key.id))

    def bound(self, key: KeyCredential) -> tuple[str, datetime | None]:
        """How far the key's doors have followed, as the API says, and until when at the latest."""
        body = self.told(key)
        until = body["effectiveNotAfter"]
        return body["propagation"], datetime.fromisoformat(until) if until else None

    def doors_told(self, key: KeyCredential) -> dict[str, tuple[str, str]]:
        """Label → (state, propagation), as the API says."""
        return {row["label"]: (row["state"], row["propagation"]) for row in self.told(key)["doors"]}

    def events(self, key: KeyCredential) -> list[tuple[str, dict[str, Any]]]:
        with tenant(self.hotel.tenant_id):
            rows = OutboxEvent.objects.filter(tenant_id=self.hotel.tenant_id, ordering_key=key.id).order_by("sequence")
            prefix = "melmastoon.lock.credential."
            return [(r.subject.removeprefix(prefix).removesuffix(".v1"), json.loads(bytes(r.body))["data"]) for r in rows]

    def until(self, key: KeyCredential) -> datetime:
        """The end that a card of the key carries once it is written."""
        return key.valid_until


class Salto(House):
    """SALTO over the cloud's contract: a lost card is put on the deny list by name."""

    code = "salto"
    names_companions = False
    settings: dict[str, Any] = {}

    def build(self) -> Hotel:
        self.property = f"hotel-{self.tail}"
        names = {room: f"{self.property}-{room}" for room in ROOMS}
        api_key = secrets.token_urlsafe(24)
        seeded = self.simulator.post(
            "/seed",
            {
                "property": self.property, "timeZone": "Asia/Kabul", "apiKeys": [api_key], "pms": True,
                "doors": [
                    *({"name": name, "label": room} for room, name in names.items()),
                    {"name": f"{self.property}-street", "label": "Street", "online": True},
                ],
                "encoders": [{"name": "Front desk"}], "encoderTimeoutS": 0.3,
            },
        )  # fmt: skip
        settings = {
            "transport": "cloud", "base_url": self.simulator.url, "property_ref": self.property, "encoder": "Front desk",
            "timeout_s": 2.0, "pms_address": seeded["pms"], "time_zone": "Asia/Kabul", "encoder_timeout_s": 2.0,
        }  # fmt: skip
        return build_hotel(
            vendor="salto", settings=settings | self.settings, secrets={"api_key": api_key}, rooms=names,
            policy=CARDS_ONLY, capabilities=STAND_ALONE, has_remote=False,
        )  # fmt: skip

    def lay(self, card: str | None) -> None:
        place = {"property": self.property, "encoder": "Front desk"}
        self.simulator.post("/place" if card else "/take", place | ({"card": card} if card else {}))

    def street(self, card: str) -> None:
        """The card passes the street door, which is on the network and gives it the deny list."""
        body = {"property": self.property, "device": f"{self.property}-street", "kind": "rfid_card", "value": card}
        self.simulator.post("/try", body)


class SaltoPms(Salto):
    """SALTO over the PMS protocol: a lost card's successor starts a new generation."""

    names_companions = True
    settings = {"transport": "pms"}


class Visionline(House):
    """ASSA ABLOY Visionline: an overriding card ends every earlier one at its room when it is used."""

    code = "assa-abloy"

    def build(self) -> Hotel:
        self.house = f"hotel-{self.tail}"
        password = secrets.token_hex(12)
        rooms = {room: f"{self.tail}{room}" for room in ROOMS}
        self.simulator.post(
            "/seed",
            {
                "code": self.house, "clientId": f"api-{self.house}", "clientSecret": secrets.token_hex(8),
                "username": f"operator-{self.house}", "password": password, "timeZone": "UTC", "rateLimit": None,
                "cardWaitMs": 200, "doors": [{"doorId": d, "name": n, "online": False} for n, d in rooms.items()],
                "encoders": [{"name": "desk"}],
            },
        )  # fmt: skip
        settings = {
            "mode": "visionline", "base_url": self.simulator.url, "time_zone": "UTC", "encoder": "desk", "timeout_s": 2.0,
            "encode_timeout_s": 2.0,
        }  # fmt: skip
        return build_hotel(
            vendor="assa-abloy", settings=settings, rooms=rooms, policy=CARDS_ONLY, capabilities=STAND_ALONE,
            secrets={"username": f"operator-{self.house}", "password": password}, has_remote=False,
        )  # fmt: skip

    def lay(self, card: str | None) -> None:
        self.simulator.post("/place", {"house": self.house, "encoder": "desk", "serial": card})


@pytest.fixture(scope="session")
def simulators() -> Iterator[dict[str, Simulator]]:
    running = {code: Simulator.start(code) for code in ("salto", "assa-abloy")}
    yield running
    for simulator in running.values():
        simulator.stop()


@pytest.fixture
def build(database: str, simulators: dict[str, Simulator]) -> Callable[[type[House]], House]:
    """Puts up a house of a kind."""
    return lambda kind: kind(simulators[kind.code])


@pytest.fixture(params=[Salto, SaltoPms, Visionline], ids=["salto", "salto pms", "visionline"])
def house(request: pytest.FixtureRequest, build: Callable[[type[House]], House]) -> House:
    return build(request.param)
