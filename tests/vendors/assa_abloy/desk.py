"""An ASSA ABLOY desk with an encoder that takes the card a person lays on it, on either product."""

from __future__ import annotations

import secrets

from tests.vendors.assa_abloy.harness import AssaSite, VisionlineSite, VostioSite, is_no_login
from tests.vendors.card_desk import CardDesk, Open, opened
from vendors import registry
from vendors.port.protocol import LockPort


class AssaDesk(CardDesk):
    site: AssaSite
    keeps_in_books = True

    def build(self) -> LockPort:
        return registry.build(self.site.code, self.site.context(settings={**self.site.settings(), "encoder": "desk-2"}))

    def lay(self, card: str | None = None) -> str:
        number = card or str(secrets.randbelow(2**31) + 1000)
        self._place(number)
        return number

    def take(self) -> None:
        self._place(None)

    def _place(self, number: str | None) -> None:
        self.site.simulator.post("/place", {"house": self.site.house, "encoder": "desk-2", "serial": number})


class VostioDesk(AssaDesk):
    waits_for_card = True


DESKS: dict[str, Open] = {
    "assa vostio": opened("assa-abloy", lambda *at: VostioDesk(VostioSite(*at)), is_no_login),
    "assa visionline": opened("assa-abloy", lambda *at: AssaDesk(VisionlineSite(*at)), is_no_login),
}
