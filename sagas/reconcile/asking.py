"""Asks a vendor what its doors hold: page by page, at the lowest priority, waiting where its limits say so.

One rule: what the vendor cannot be asked about is said, never guessed: a door that does not answer is left out of the
comparison, and a vendor that does not answer ends it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from vendors.port.errors import CardEncoderOffline, DeviceNotPaired, LockError, Reason
from vendors.port.protocol import Inventory, LockPort, Lookup
from vendors.port.types import CallMeta, CredentialHandle, CredentialKind, Door, FoundKey, FoundPage, Window

T = TypeVar("T")

TRIES = 3
PAUSE_S = 1.0
WAIT_MAX_S = 60.0
"""A limit that asks for more than this is a spent quota: nobody waits for that here."""
WAITS_MAX = 100
"""A vendor that throttles one question more often than this is not to be waited for."""
PRIORITY_BULK = 3
DESK_OFFLINE = "desk_offline"
"""What only a desk can read is read when one is there; at night it may well not be."""
UNKNOWN_VENDOR = "unknown_vendor"
"""No folder of vendors claims the installation's code any more: nobody here can speak to its doors."""
PAGES_MAX = 500
"""A door whose list never ends is the vendor's mistake; no lock holds so many pages."""
REPEATS_MAX = 20
"""So many rows that were all told before are the page before once more. A few are what a list does that grew in between."""


class OutOfTime(Exception):
    """The slice is over; the rest is done by the next one. Its rows say where."""


class VendorSilent(Exception):
    """The vendor does not answer, or refuses everything. `error` says how. Worth a new run later."""

    def __init__(self, error: LockError) -> None:
        super().__init__(error.code)
        self.error = error

    @property
    def outcome(self) -> str:
        """Names what ended the comparison; only a vendor that gives no answer is unreachable."""
        if isinstance(self.error, CardEncoderOffline):
            return DESK_OFFLINE
        return {Reason.QUOTA: "quota", Reason.SETTINGS: "settings"}.get(self.error.reason, "unreachable")

    @property
    def detail(self) -> str:
        """Tells more: what is wrong with the settings, or how the vendor is silent."""
        if self.outcome == "settings":
            return self.error.vendor_message
        return f"{self.error.code.rsplit('.', 1)[-1]} {self.error.reason.value}"


class DoorSilent(Exception):
    """One door cannot be asked about; the others can."""

    def __init__(self, error: LockError) -> None:
        super().__init__(error.code)
        self.error = error


class EndlessList(Exception):
    """A door's list repeats itself or goes on for ever. What was read of it counts for nothing: it may be a part."""


class AdapterBroken(Exception):
    """An adapter raised what no adapter may: our defect. The message names the exception's type."""


@dataclass(slots=True)
class Leafing:
    """The pages of one list as they come; says when it gets nowhere."""

    pages_count: int = 0
    idle_count: int = 0

    def turn(self, keys_count: int, new_count: int, cursor: str | None, next_cursor: str | None) -> None:
        """Takes note of a page with `keys_count` keys, `new_count` of which no page before it had. Raises EndlessList."""
        self.pages_count += 1
        if next_cursor is None:
            return
        if next_cursor == cursor:
            raise EndlessList("a page names itself as the next one")
        brings_nothing = keys_count > 0 and new_count == 0
        self.idle_count = self.idle_count + 1 if brings_nothing else 0
        if brings_nothing and (keys_count >= REPEATS_MAX or self.idle_count > 1):
            raise EndlessList("pages repeat what earlier ones told")
        if self.pages_count >= PAGES_MAX:
            raise EndlessList(f"more than {PAGES_MAX} pages")


@dataclass(slots=True)
class Inquiry:
    """A vendor being asked. `ends_at` is the monotonic instant after which nothing new is asked; `pause` waits seconds and may
    raise; `keep` is called before every request, to hold what is held meanwhile."""

    port: LockPort | None = None
    ends_at: float | None = None
    pause: Callable[[float], None] = time.sleep
    keep: Callable[[], None] = lambda: None
    errors: list[LockError] = field(default_factory=list)
    answered_count: int = 0
    pages_count: int = 0

    @property
    def can_list(self) -> bool:
        """Says whether the vendor can list a door's keys. Opens the adapter; raises VendorSilent where that is not possible."""
        return self._speaks(Inventory)

    def page(self, door: Door, cursor: str | None) -> FoundPage:
        """Returns one page. Raises OutOfTime, DoorSilent, VendorSilent."""
        port: object = self.port
        if not self._speaks(Inventory) or not isinstance(port, Inventory):
            raise TypeError("a vendor that lists nothing was asked for a list")
        found = self._ask(lambda: port.list_keys(door, cursor))
        self.pages_count += 1
        return found

    def every_page(self, door: Door) -> tuple[FoundKey, ...]:
        """Returns a door's whole list, never a part of it. Raises EndlessList, and as `page` does."""
        found: dict[str, FoundKey] = {}
        leafing = Leafing()
        cursor: str | None = None
        while True:
            page = self.page(door, cursor)
            before = len(found)
            for key in page.keys:
                found.setdefault(key.ref.reveal(), key)
            leafing.turn(len(page.keys), len(found) - before, cursor, page.next_cursor)
            cursor = page.next_cursor
            if cursor is None:
                return tuple(found.values())

    def of_credential(
        self, door: Door, credential_id: str, kind: CredentialKind, window: Window, issue_key: str
    ) -> tuple[FoundKey, ...] | None:
        """Returns what the door holds of a credential; None where the vendor cannot be asked so. Raises as `page` does."""
        port: object = self.port
        if not self._speaks(Lookup) or not isinstance(port, Lookup):
            return None
        handle = CredentialHandle(credential_id, kind, window, (door,), issue_key=issue_key)
        meta = CallMeta("reconcile", priority=PRIORITY_BULK)
        return self._ask(lambda: port.find(handle, meta))

    def _speaks(self, protocol: type) -> bool:
        """Says whether the adapter has an optional part of the port. Asking opens the adapter, which needs keys and secrets."""
        try:
            return isinstance(self.port, protocol)
        except LockError as error:
            self.errors.append(error)
            raise VendorSilent(error) from error
        except Exception as unexpected:
            raise AdapterBroken(f"{type(unexpected).__module__}.{type(unexpected).__qualname__}") from unexpected

    def _ask(self, question: Callable[[], T]) -> T:
        tries, waits = 0, 0
        while True:
            self._require_time(0.0)
            self.keep()
            try:
                answer = question()
            except LockError as error:
                tries += not error.throttled
                waits += error.throttled
                self._weigh(error, tries, waits)
                continue
            except Exception as unexpected:
                raise AdapterBroken(f"{type(unexpected).__module__}.{type(unexpected).__qualname__}") from unexpected
            self.answered_count += 1
            return answer

    def _weigh(self, error: LockError, tries: int, waits: int) -> None:
        """Waits where asking again makes sense; raises where not."""
        if isinstance(error, CardEncoderOffline):
            raise VendorSilent(error)
        if (
            error.throttled
            and waits <= WAITS_MAX
            and error.reason is not Reason.QUOTA
            and (error.retry_after_s or 0.0) <= WAIT_MAX_S
        ):
            wait_s = max(0.02, error.retry_after_s or PAUSE_S)
            self._require_time(wait_s)
            self.pause(wait_s)
            return
        if isinstance(error, DeviceNotPaired) or error.reason is Reason.DOOR_OFFLINE:
            raise DoorSilent(error)
        self.errors.append(error)
        if not error.retriable or tries >= TRIES or error.throttled:
            raise VendorSilent(error)
        self._require_time(PAUSE_S)
        self.pause(PAUSE_S)

    def _require_time(self, wait_s: float) -> None:
        if self.ends_at is not None and time.monotonic() + wait_s > self.ends_at:
            raise OutOfTime
