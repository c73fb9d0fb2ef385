"""What it takes to have a front desk without hardware at work in a simulated house: its token, and how it is started.

One rule: a desk belongs to one house; its token is for that property alone and lies in a file of mode 0600.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from devices import adapters, relay_jobs
from lockservice.core.auth import MAX_TTL_S, issue_token
from lockservice.core.tenancy import tenant
from vendors.port.manifest import CardsBy

ROLE = "desk"


@dataclass(frozen=True, slots=True)
class Seat:
    """A desk of a house. `house` is the house's name at the simulator, `encoder` where its vendor's side listens, host and
    port; `folder` keeps token and journal."""

    vendor: str
    house: str
    encoder: str
    tenant_id: str
    property_id: str
    folder: Path

    def argv(self, gateway_port: int) -> list[str]:
        """Writes the token and returns the arguments of Python that run the desk at a gateway of this machine."""
        token, journal = (self.folder / f"desk-{self.house}.{name}" for name in ("token", "ndjson"))
        handle = os.open(token, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            subject = f"desk-{self.house}"
            file.write(issue_token(self.tenant_id, subject, (ROLE,), (self.property_id,), ttl_s=MAX_TTL_S))
        return [
            "-m", "desktop_bridge.virtual_desk", self.vendor, "--house", self.house, "--encoder", f"http://{self.encoder}",
            "--gateway", f"ws://127.0.0.1:{gateway_port}/relay/v1", "--journal", str(journal), "--token-file", str(token),
        ]  # fmt: skip

    def is_connected(self) -> bool:
        """Says whether the desk is there. Opens a tenant block."""
        with tenant(self.tenant_id):
            return relay_jobs.connected(self.tenant_id, self.property_id, self.vendor)


def needs_desk(vendor: str) -> bool:
    """Says whether the vendor's cards are made by a desk of the house, over the relay."""
    return adapters.manifest(vendor).cards_by is CardsBy.RELAY
