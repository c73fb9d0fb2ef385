"""Card keys: a lock learns a card's number (its UID); nothing is written on the card.

One rule: the number's byte order is the desk reader's, a setting found out once with a test card: many readers give the UID in
the opposite order to the lock's, and `addForReversedCardNumber` turns it (0xDA3CBC66 = 3661413478 for the reader is
0x66BC3CDA = 1723612378 for the lock). Source: the vendor's card pages.
"""

from __future__ import annotations

from vendors.port.clock import Clock
from vendors.port.errors import KeyIssueFailed
from vendors.port.types import CredentialKind, Door, DoorResult

from .client import TtlockClient
from .door_keys import BY_GATEWAY, DoorKeys, Wire, Work
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
        )
        super().__init__(wire, client, clock)
        self._add_path = "identityCard/addForReversedCardNumber" if reverse else "identityCard/add"

    def can_add(self, work: Work) -> bool:
        """A card needs its number."""
        return work.card_number is not None

    def add(self, work: Work, door: Door) -> DoorResult:
        """Teaches the lock the card's number."""
        if work.card_number is None:
            raise KeyIssueFailed(MANIFEST.code, "a card key needs a number", retriable=False)
        fields: dict[str, object] = {
            "lockId": door.external_id,
            "cardNumber": work.card_number.reveal(),
            "cardName": work.name,
            "cardType": NORMAL_CARD,
            "startDate": to_ms(work.window.valid_from),
            "endDate": to_ms(work.window.valid_until),
            "addType": BY_GATEWAY,
            "clientNonce": work.mark,
        }
        answer = self.client.ask(work.call, self._add_path, fields, gateway=True)
        return self.done(door, Ref(door.external_id, CARD, new_id(answer, "cardId")))
