"""What the contract for cards needs of a vendor: an encoder that holds the card a person lays on it, and doors that take cards.

A vendor's folder here whose cards are written at a desk has a `desk.py` with `DESKS`: a way to open one by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

from tests.vendors.proxy import Proxy
from tests.vendors.site import Simulator, Site, handle_for, new_key, request_for
from vendors.port.protocol import LockPort, Resume
from vendors.port.types import (
    CallMeta,
    CallResult,
    CredentialHandle,
    CredentialKind,
    Door,
    IssueInput,
    IssueResult,
    Outcome,
    UpdateInput,
)

CARD = CredentialKind.RFID_CARD
Open = Callable[[], AbstractContextManager["Callable[[], CardDesk]"]]


class CardDesk(ABC):
    """A desk of one installation. Nothing lies on its encoder at first."""

    waits_for_card = False
    """Whether an order may be given before the card is laid down, and is finished once it is."""
    keeps_in_books = False
    """Whether the key is in the vendor's books by the card's number, so that taking it back frees the card at once."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.port: LockPort = self.build()

    @abstractmethod
    def build(self) -> LockPort:
        """A fresh adapter on the same encoder, as a new process would have it."""

    @abstractmethod
    def lay(self, card: str | None = None) -> str:
        """Lays a card on the encoder, a fresh one if none is named. Returns what the door calls it."""

    @abstractmethod
    def take(self) -> None:
        """Takes the card away."""

    def opens(self, door: Door, card: str) -> bool:
        return self.site.opens(door, CARD, card)

    def order(self, door: Door, **changes: Any) -> IssueInput:
        return request_for(self.site, CARD, (door,), card_number=None, **changes)

    def issue(self, request: IssueInput) -> IssueResult | CallResult:
        """Issues a key to its end: what is deferred is asked for until it is no more. Raises what the port raises."""
        result: CallResult = self.port.issue_credential(request)
        return self.settled(request, result)

    def settled(self, request: IssueInput, result: CallResult) -> CallResult:
        for _ in range(50):
            if not any(door.outcome is Outcome.DEFERRED for door in result.doors):
                for door in result.doors:
                    if door.error is not None:
                        raise door.error
                return result
            assert isinstance(self.port, Resume)
            assert result.resume_token is not None
            result = self.port.resume(handle_for(request, result), result.resume_token, CallMeta(new_key(), 2))
        raise AssertionError("the key is never made")

    def change(self, update: UpdateInput) -> CallResult:
        """Asks for a change while a card lies there; a desk that waits for another one gives up soon."""
        return self.port.update_credential(update)

    def handle(self, request: IssueInput, result: CallResult, **changes: Any) -> CredentialHandle:
        return replace(handle_for(request, result), card_number=None, **changes)


def opened(
    vendor: str, desk: Callable[[Simulator, Proxy], CardDesk], counts: Callable[[str], bool] = lambda path: True
) -> Open:
    """Returns a way to put up a desk at a vendor's simulator; `counts` names the paths that the proxy breaks and counts."""

    @contextmanager
    def process() -> Iterator[Callable[[], CardDesk]]:
        simulator = Simulator.start(vendor)
        proxy = Proxy(simulator.url, counts)
        try:
            yield lambda: desk(simulator, proxy)
        finally:
            proxy.stop()
            simulator.stop()

    return process
