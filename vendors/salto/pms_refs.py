"""What the adapter must remember of a key made over the PMS protocol, since that server cannot be asked for it.

One rule: it travels in the sealed reference and holds nothing of the guest.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime

from vendors.port.secrets import VendorRef
from vendors.port.types import Window

_PREFIX = "pms1:"
WAITS_TO_START, WAITS_TO_JOIN = "start", "join"


@dataclass(frozen=True, slots=True)
class PmsRef:
    """`opens_stay` tells a first key (CN) from a copy. `starts` is on the card. `may_last_until` is the latest end any carrier
    of this key can have: a change to an earlier end does not reach a card in a pocket. `desired` and `carried` are versions.
    `waits` is of a room that only the card will be written for, since the server would move another stay's guest too: it says
    what the card does there, WAITS_TO_START or WAITS_TO_JOIN."""

    mark: str
    opens_stay: bool
    starts: datetime
    may_last_until: datetime
    desired: int = 1
    carried: int = 1
    waits: str = ""

    def seal(self) -> VendorRef:
        """Returns it as a reference."""
        fields = {**asdict(self), "starts": self.starts.isoformat(), "may_last_until": self.may_last_until.isoformat()}
        return VendorRef(_PREFIX + json.dumps(fields, separators=(",", ":")))

    def changed(self, window: Window) -> PmsRef:
        """Returns it after the record moved on and the card did not."""
        return PmsRef(
            self.mark,
            self.opens_stay,
            self.starts,
            max(self.may_last_until, window.valid_until),
            self.desired + 1,
            self.carried,
            self.waits,
        )


def open_ref(ref: VendorRef | None) -> PmsRef | None:
    """Reads a reference; None for none, or for one of another transport."""
    text = ref.reveal() if ref else ""
    if not text.startswith(_PREFIX):
        return None
    fields = json.loads(text.removeprefix(_PREFIX))
    fields["starts"] = datetime.fromisoformat(fields["starts"])
    fields["may_last_until"] = datetime.fromisoformat(fields["may_last_until"])
    return PmsRef(**fields)
