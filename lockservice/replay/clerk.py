"""The clerk at the desk of a replay: encodes a card for each guest who has arrived and wants one.

One rule: she acts as a person does, by the act that console and API call. Where every kind of key needs an encoder on her desk,
and there is none, the guests wait.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection

from credentials.models import KeyCredential
from devices import adapters
from lockservice.core import clock
from lockservice.core.tenancy import tenant
from sagas import acts
from sagas.flows.issue_key import DESK
from vendors.port.secrets import CardNumber

CLERK = acts.Actor("usr_replay_clerk")


class Clerk:
    """Serves the arrivals of one tenant at the lock systems she can encode cards for."""

    def __init__(self, tenant_id: str, vendors: Collection[str]) -> None:
        self._tenant_id = tenant_id
        self._vendors = [vendor for vendor in vendors if gives_keys_without_her(vendor)]

    def serve(self) -> int:
        """Encodes for everybody who waits and may come in now; returns how many cards."""
        with tenant(self._tenant_id):
            now = clock.now()
            waiting = KeyCredential.objects.filter(
                tenant_id=self._tenant_id, state="requested", waiting_for=DESK, vendor__in=self._vendors,
                valid_from__lte=now, valid_until__gt=now,
            )  # fmt: skip
            ids = list(waiting.order_by("id").values_list("id", flat=True))
        for key_id in ids:
            acts.encode(self._tenant_id, key_id, CLERK, f"replay:{key_id}", card_number=_card(key_id))
        return len(ids)


def gives_keys_without_her(vendor: str) -> bool:
    """Says whether the vendor has encoders of its own: one that has none but the desk's knows no other kind either."""
    manifest = adapters.manifest(vendor)
    return bool(set(manifest.kinds) - set(manifest.desk_kinds))


def _card(key_id: str) -> CardNumber:
    """Takes a card from the stack: a four-byte number in decimal, the same one for the same key."""
    return CardNumber(str(2**31 + int(hashlib.sha256(key_id.encode()).hexdigest(), 16) % 2**31))
