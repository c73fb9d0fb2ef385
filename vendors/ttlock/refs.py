"""The text behind a TTLock VendorRef: `ttl:<lockId>:<kind>:<id>`.

One rule: only this folder reads it. Kinds: `pin` a custom passcode, `rpin` a random one, `ekey`, `card`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from vendors.port.secrets import VendorRef

PIN, RANDOM_PIN, EKEY, CARD = "pin", "rpin", "ekey", "card"
_TEXT = re.compile(r"ttl:([^:]{1,64}):(pin|rpin|ekey|card):(\d{1,20})")


@dataclass(frozen=True, slots=True)
class Ref:
    """A key at a lock."""

    lock_id: str
    kind: str
    id: int

    @property
    def text(self) -> VendorRef:
        """Returns it as the port carries it."""
        return VendorRef(f"ttl:{self.lock_id}:{self.kind}:{self.id}")


def read_ref(ref: VendorRef | None) -> Ref | None:
    """Reads a reference; None for none, and for one that is not TTLock's."""
    found = _TEXT.fullmatch(ref.reveal()) if ref is not None else None
    return Ref(found[1], found[2], int(found[3])) if found else None
