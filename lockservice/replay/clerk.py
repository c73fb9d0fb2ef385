"""The clerk at the desk of a replay: encodes a card for each guest who has arrived and wants one.

One rule: she acts as a person does, by the act that console and API call. Where cards are made by a desk's own encoder and no
desk is there, the guests wait.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection

from credentials.models import KeyCredential
from devices import adapters
from lockservice.core import clock
from lockservice.core.tenancy import tenant
from lockservice.demo.desk_seat import needs_desk
from sagas import acts
from sagas.flows.issue_key import DESK
from vendors.port.manifest import CardsBy
from vendors.port.secrets import CardNumber

CLERK = acts.Actor("usr_replay_clerk")


class Clerk:
    """Serves the arrivals of one tenant at the lock systems she can encode cards for."""

    def __init__(self, tenant_id: str, vendors: Collection[str], *, has_desk: bool = False) -> None:
        self._tenant_id = tenant_id
        self._vendors = [vendor for vendor in vendors if has_desk or not needs_desk(vendor)]
        self._numbered = {vendor for vendor in vendors if adapters.manifest(vendor).cards_by is CardsBy.NUMBER}

    def serve(self) -> int:
        """Encodes for everybody who waits and may come in now; returns how many cards."""
        with tenant(self._tenant_id):
            now = clock.now()
            waiting = KeyCredential.objects.filter(
                tenant_id=self._tenant_id, state="requested", waiting_for=DESK, vendor__in=self._vendors,
                valid_from__lte=now, valid_until__gt=now,
            )  # fmt: skip
            vendors = dict(waiting.order_by("id").values_list("id", "vendor"))
        for key_id, vendor in vendors.items():
            number = _card(key_id) if vendor in self._numbered else None
            acts.encode(self._tenant_id, key_id, CLERK, f"replay:{key_id}", card_number=number)
        return len(vendors)


def _card(key_id: str) -> CardNumber:
    """Takes a card from the stack: a four-byte number in decimal, the same one for the same key."""
    return CardNumber(str(2**31 + int(hashlib.sha256(key_id.encode()).hexdigest(), 16) % 2**31))
