"""What a credential is called here: which card carries it at a door, or which line of the controller's list.

One rule: a reference holds all that a later call needs to know of the card, because no table is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from vendors.port.secrets import VendorRef

_CARD, _ENTRY = "gw1", "gc1"


@dataclass(frozen=True, slots=True)
class CardRef:
    """A record on a card: the card's UID in hex, the record's sequence, and until when the card opens."""

    uid: str
    sequence: int
    opens_until: datetime

    def seal(self) -> VendorRef:
        """Returns it as the port hands it about."""
        return VendorRef(f"{_CARD}.{self.uid}.{self.sequence}.{int(self.opens_until.timestamp())}")


def open_card(ref: VendorRef | None) -> CardRef | None:
    """Reads a reference; None for none, and for one that is no card's."""
    parts = ref.reveal().split(".") if ref is not None else []
    if len(parts) != 4 or parts[0] != _CARD:
        return None
    return CardRef(parts[1], int(parts[2]), datetime.fromtimestamp(int(parts[3]), UTC))


def entry_ref(entry: str) -> VendorRef:
    """Returns a controller's line as the port hands it about."""
    return VendorRef(f"{_ENTRY}.{entry}")


def entry_in(ref: VendorRef | None) -> str:
    """Reads a controller's line; empty for none."""
    text = ref.reveal() if ref is not None else ""
    return text.removeprefix(f"{_ENTRY}.") if text.startswith(f"{_ENTRY}.") else ""
