"""Gateway, web server and simulator of this session, and a hotel whose rooms are on a desk's encoder for each test."""

from __future__ import annotations

import itertools
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lockservice.core.tenancy import tenant
from sagas.intake import internal_lane
from sagas.models import Lane
from sagas.runner import Runner
from tests.relay.gateway import VENDOR, GatewayProcess, ScriptedDesk, VirtualDesk, token
from tests.support.hotel import Hotel, build_hotel
from tests.support.web_server import Caller, WebServer, caller
from tests.vendors.site import Simulator

CARDS = {"card_encoding": True, "nfc": True, "offline_issuance": True, "scope_areas": True}
CARD_TIMEOUT_S = 20
_numbers = itertools.count(secrets.randbelow(10**8) * 10 + 1)


@pytest.fixture(scope="session")
def gateway(database: str) -> Iterator[GatewayProcess]:
    process = GatewayProcess()
    yield process
    process.stop()


@pytest.fixture(scope="session")
def web(database: str) -> Iterator[WebServer]:
    server = WebServer()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def encoder() -> Iterator[Simulator]:
    """Give the simulator of encoder, cards and locks."""
    simulator = Simulator.start(VENDOR)
    yield simulator
    simulator.stop()


class House:
    """A hotel with rooms 101, 102 and a gym, its simulated doors, and what a test asks of them."""

    def __init__(self, simulator: Simulator, **settings: Any) -> None:
        self.simulator = simulator
        self.code = f"house-{secrets.token_hex(4)}"
        self.property_number = secrets.randbelow(2**31) + 1
        controller = settings.get("locks") == "controller"
        numbers = {label: next(_numbers) for label in ("101", "102", "gym")}
        rows = [{"number": n, "label": label, "shared": label == "gym"} for label, n in numbers.items()]
        seed = {"house": self.code, "propertyNumber": self.property_number, "controller": controller, "doors": rows}
        doors = simulator.post("/seed", seed)["doors"]
        names = {label: doors[str(n)] for label, n in numbers.items()}
        given = {"locks": "standalone", "property_number": self.property_number, "card_timeout_s": CARD_TIMEOUT_S, "wait_s": 1}
        self.hotel: Hotel = build_hotel(
            vendor=VENDOR,
            settings=given | settings,
            rooms={"101": names["101"], "102": names["102"]},
            shared={"gym": names["gym"]},
            capabilities=CARDS,
            has_remote=False,
            policy={"kinds": ["rfid_card"], "default_areas": ["gym"]},
        )

    def token(self, **options: Any) -> str:
        return token(self.hotel.tenant_id, self.hotel.property_id, **options)

    def dump(self) -> dict[str, Any]:
        (house,) = self.simulator.get(f"/dump?house={self.code}")["houses"]
        return house

    def cards(self) -> list[dict[str, Any]]:
        """The cards that carry records."""
        return [card for card in self.dump()["cards"] if card["records"]]

    def shown(self, label: str, card: str, at: str | None = None, *, dry: bool = False) -> str:
        """What the door says to a card."""
        body = {"house": self.code, "device": self.hotel.doors[label], "kind": "rfid_card", "value": card, "at": at, "dry": dry}
        return str(self.simulator.post("/try", body)["why"])

    def hand(self, *, automatic: bool) -> None:
        """Whether cards are laid on the encoder by themselves."""
        self.simulator.post("/encoder", {"house": self.code, "automatic": automatic})

    def place(self, card: str | None = None) -> str:
        return str(self.simulator.post("/place", {"house": self.code, "card": card})["uid"])

    def work(self, max_s: float = 30) -> int:
        """Runs what is due to its end, as a worker would."""
        return Runner(only=lanes(self.hotel)).run(until=lambda: False, drain=True, max_s=max_s)


def lanes(hotel: Hotel) -> list[str]:
    with tenant(hotel.tenant_id):
        for key in (f"{hotel.installation_id}:", internal_lane(hotel.tenant_id)):
            Lane.objects.get_or_create(key=key, defaults={"tenant_id": hotel.tenant_id, "width": 4})
        return list(Lane.objects.filter(tenant_id=hotel.tenant_id).values_list("key", flat=True))


@pytest.fixture(autouse=True)
def _hurried(settings: Any) -> None:
    """Retries and questions come twenty times as soon."""
    settings.RETRY_SCALE = 0.05


@pytest.fixture
def house(database: str, encoder: Simulator) -> House:
    return House(encoder)


@pytest.fixture
def clerk(web: WebServer, house: House) -> Caller:
    return caller(web, house.hotel.tenant_id, "front_desk_supervisor", properties=(house.hotel.property_id,))


@pytest.fixture
def scripted(gateway: GatewayProcess, house: House) -> Iterator[Callable[..., ScriptedDesk]]:
    """Give a function that connects a desk of the house whose words the test decides."""
    made: list[ScriptedDesk] = []

    def make(**options: Any) -> ScriptedDesk:
        made.append(ScriptedDesk(gateway.url, house.token(**options)))
        return made[-1]

    yield make
    for desk in made:
        desk.close()


@pytest.fixture
def virtual(gateway: GatewayProcess, house: House, encoder: Simulator, tmp_path: Path) -> Iterator[VirtualDesk]:
    desk = VirtualDesk(gateway.url, encoder.url, house.code, house.token(), tmp_path / "desk")
    yield desk
    desk.stop()


@contextmanager
def working(house: House) -> Iterator[None]:
    """Keeps a worker running beside the test."""
    from django.db import connection

    stopped = threading.Event()
    runner = Runner(only=lanes(house.hotel))

    def run() -> None:
        try:
            runner.run(until=stopped.is_set)
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join(20)
