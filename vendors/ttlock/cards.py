"""Card keys: a lock learns a card's number (its UID); nothing is written on the card.

One rule: the number's byte order is the desk reader's, a setting found out once with a test card: many readers give the UID in
the opposite order to the lock's, and `addForReversedCardNumber` turns it (0xDA3CBC66 = 3661413478 for the reader is
0x66BC3CDA = 1723612378 for the lock). Source: the vendor's card pages.
"""

from __future__ import annotations

from vendors.port.clock import Clock
from vendors.port.errors import KeyIssueFailed
from vendors.port.secrets import CardNumber
from vendors.port.types import CredentialKind, Door, DoorResult, Window
from vendors.support.marks import tag_in

from .client import TtlockClient
from .door_keys import BY_GATEWAY, LIST_PAGES_MAX, PAGE_SIZE, DoorKeys, Held, Wire, Work, ended_before
from .manifest import MANIFEST
from .pins import new_id
from .refs import CARD, Ref
from .wire import to_ms

NORMAL_CARD = 1


class CardKeys(DoorKeys):
    """Cards known to the locks."""

    def __init__(self, client: TtlockClient, clock: Clock, *, reverse: bool) -> None:
        wire = Wire(
            kind=CredentialKind.RFID_CARD,
            ref_kind=CARD,
            list_path="identityCard/list",
            id_field="cardId",
            name_field="cardName",
            change_path="identityCard/changePeriod",
            delete_path="identityCard/delete",
            at_lock=True,
            take_path="identityCard/deleteByCardNumber",
            value_field="cardNumber",
        )
        super().__init__(wire, client, clock)
        self._reverse = reverse
        self._add_path = "identityCard/addForReversedCardNumber" if reverse else "identityCard/add"

    def can_add(self, work: Work) -> bool:
        """A card needs its number."""
        return work.card_number is not None

    def add(self, work: Work, door: Door) -> DoorResult:
        """Teaches the lock the card's number."""
        return self.done(door, self._add(work, door, work.window))

    def value_of(self, work: Work) -> str | None:
        """Return the number as the lock and the list have it."""
        number = work.card_number.reveal() if work.card_number is not None else None
        return turned(number) if number is not None and self._reverse else number

    def with_value(self, work: Work, door: Door, *, thorough: bool) -> list[Held]:
        """Return what the list has of the card's number. The vendor searches names only."""
        number = self.value_of(work)
        if number is None or not thorough:
            return self.find(work, door)
        found: list[Held] = []
        for page in range(1, LIST_PAGES_MAX + 1):
            rows = self.search(work, door, "", page)
            found += [held for held in rows if held.number == CardNumber(number) or tag_in(held.name) == work.tag]
            if len(rows) < PAGE_SIZE:
                break
        return found

    def unlisted(self, work: Work, door: Door) -> None:
        """Take the number from the lock. Where the vendor finds none, it is entered with a period that has ended, which takes
        the place of what the lock may hold, and that is deleted."""
        number = self.value_of(work)
        if number is None or self.take_by_value(work, door, number):
            return
        self.clear(work, door, self._add(work, door, ended_before(self.clock.now())).id)

    def _add(self, work: Work, door: Door, window: Window) -> Ref:
        if work.card_number is None:
            raise KeyIssueFailed(MANIFEST.code, "a card key needs a number", retriable=False)
        fields: dict[str, object] = {
            "lockId": door.external_id,
            "cardNumber": work.card_number.reveal(),
            "cardName": work.name,
            "cardType": NORMAL_CARD,
            "startDate": to_ms(window.valid_from),
            "endDate": to_ms(window.valid_until),
            "addType": BY_GATEWAY,
            "clientNonce": work.mark,
        }
        answer = self.client.ask(work.call, self._add_path, fields, gateway=True)
        return Ref(door.external_id, CARD, new_id(answer, "cardId"))


def turned(number: str) -> str:
    """Return a four-byte number with its bytes the other way round; a longer one as it is, since the vendor refuses those."""
    value = int(number)
    return str(int.from_bytes(value.to_bytes(4, "big"), "little")) if value < 1 << 32 else number
