"""A desk with a generic encoder: for stand-alone locks, and for readers on a controller."""

from __future__ import annotations

from dataclasses import replace

from tests.vendors.card_desk import CardDesk, Open, opened
from tests.vendors.generic_wiegand.direct_relay import DirectRelay
from tests.vendors.generic_wiegand.harness import WiegandSite
from tests.vendors.generic_wiegand.test_standalone import LockSite
from tests.vendors.site import new_key
from vendors.generic_wiegand.virtual_encoder import VirtualEncoder
from vendors.port.protocol import LockPort, Resume
from vendors.port.types import CallMeta, CallResult, UpdateInput


class LockDesk(CardDesk):
    site: WiegandSite

    def __init__(self, site: WiegandSite) -> None:
        site.simulator.post("/encoder", {"house": site.house, "automatic": False})
        super().__init__(site)

    def build(self) -> LockPort:
        """A desk that was started again, too: it remembers no card."""
        self.site.relay = DirectRelay(VirtualEncoder(self.site.proxy.url, self.site.house, timeout_s=0.8))
        return self.site.build()

    def lay(self, card: str | None = None) -> str:
        return str(self.site.simulator.post("/place", {"house": self.site.house, "card": card})["uid"])

    def change(self, update: UpdateInput) -> CallResult:
        relay = self.site.relay
        relay.is_held = True
        result = self.port.update_credential(update)
        relay.is_held = False
        work = relay.works[-1]
        work.desk_job = replace(work.desk_job, expires_in_s=0.5)
        relay.do(work)
        assert isinstance(self.port, Resume)
        assert result.resume_token is not None
        return self.port.resume(update.handle, result.resume_token, CallMeta(new_key(), 2))

    def take(self) -> None:
        self.site.simulator.post("/take", {"house": self.site.house})


class ControllerDesk(LockDesk):
    keeps_in_books = True


DESKS: dict[str, Open] = {
    "wiegand standalone": opened("generic-wiegand", lambda *at: LockDesk(LockSite(*at))),
    "wiegand controller": opened("generic-wiegand", lambda *at: ControllerDesk(WiegandSite(*at))),
}
