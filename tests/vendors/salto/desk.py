"""A SALTO desk with an encoder that draws no cards by itself: over the cloud, and over the PMS protocol."""

from __future__ import annotations

from tests.vendors.card_desk import CardDesk, Open, opened
from tests.vendors.salto.hotel import Hotel
from vendors.port.clock import SystemClock
from vendors.port.protocol import LockPort


class SaltoDesk(CardDesk):
    site: Hotel
    waits_for_card = True
    keeps_in_books = True

    def __init__(self, site: Hotel) -> None:
        site.extra["connector_ca"] = site.seeded["connector"]["ca"]
        site.by_hand()
        site.simulator.post("/clock", {"now": None})
        site.clock = SystemClock()
        super().__init__(site)

    def build(self) -> LockPort:
        return self.site.build()

    def lay(self, card: str | None = None) -> str:
        return self.site.place(card)

    def take(self) -> None:
        self.site.take()


class PmsDesk(SaltoDesk):
    waits_for_card = False
    keeps_in_books = False


DESKS: dict[str, Open] = {
    "salto cloud": opened("salto", lambda *at: SaltoDesk(Hotel(*at))),
    "salto connector": opened("salto", lambda *at: SaltoDesk(Hotel(*at, transport="connector"))),
    "salto pms": opened("salto", lambda *at: PmsDesk(Hotel(*at, transport="pms"))),
}
