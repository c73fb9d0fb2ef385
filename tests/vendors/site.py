"""What the contract suite needs of a vendor: a fresh installation with doors, and ways to break it.

A vendor's folder here has a `harness.py` with `HARNESSES`: a Harness by name.
"""

from __future__ import annotations

import http.client
import itertools
import json
import random
import secrets
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.support import marked
from vendors import registry
from vendors.port.clock import Clock, SystemClock
from vendors.port.errors import LockError, Reason, VendorUnreachable
from vendors.port.manifest import AdapterContext, CallLimiter, NoLimit, VendorManifest
from vendors.port.protocol import LockPort
from vendors.port.secrets import CardNumber, Pin, Token, VendorRef
from vendors.port.types import (
    CallMeta,
    CallResult,
    CredentialHandle,
    CredentialKind,
    Door,
    Holder,
    IssueInput,
    IssueResult,
    Window,
)
from vendors.support.signatures import sign

if TYPE_CHECKING:
    from tests.vendors.proxy import Gate

_numbers = itertools.count(1)


class Trouble(StrEnum):
    """What goes wrong with the next changing request; `…_AFTER` once the vendor has done the work."""

    RESET_BEFORE = "reset_before"
    RESET_AFTER = "reset_after"
    CUT_AFTER = "cut_after"
    HTML_BEFORE = "html_before"
    HTML_AFTER = "html_after"
    EMPTY_AFTER = "empty_after"
    WORDLESS_BEFORE = "wordless_before"
    DRIP_AFTER = "drip_after"
    ERROR_500_AFTER = "error_500_after"
    GARBAGE_AFTER = "garbage_after"
    HALF_CLOSED_AFTER = "half_closed_after"
    SILENT_AFTER = "silent_after"


class Site(ABC):
    """One installation at one vendor. `doors` share a lane."""

    code: str
    doors: tuple[Door, ...]
    dead_door_answer: tuple[type[LockError], Reason, bool] = (VendorUnreachable, Reason.DOOR_OFFLINE, True)
    """The error at a door after `kill_door`: its class, its reason, whether it is retriable."""
    tells_battery_and_clock = True
    keeps_resting_keys = True
    """Whether a suspended key is still listed at the vendor."""
    time_zone = "UTC"

    def __init__(self) -> None:
        self.clock: Clock = SystemClock()
        self.limiter: CallLimiter = NoLimit()
        self.refresh()

    def refresh(self) -> None:
        """Starts over as a new process would: a fresh adapter on the same vendor."""
        self._port: LockPort | None = None

    @property
    def port(self) -> LockPort:
        if self._port is None:
            self._port = self.build()
        return self._port

    @property
    def manifest(self) -> VendorManifest:
        return registry.manifest(self.code)

    @property
    def first_kind(self) -> CredentialKind:
        """The kind for tests in which the kind does not matter."""
        return self.manifest.kinds[0]

    def signed_push(self, secret: Token, body: bytes, now: datetime) -> Mapping[str, str]:
        """The headers of a genuine push."""
        return {"X-Webhook-Signature": sign(secret, body, now)}

    def push_body(self) -> tuple[bytes, str]:
        """What the vendor would push of an opening at the first door just now, and its media type."""
        record = {
            "door": self.doors[0].external_id, "id": f"rec_{secrets.token_hex(6)}", "outcome": "denied",
            "at": datetime.now(UTC).isoformat(), "why": "unknown_credential", "mark": None, "kind": self.first_kind,
        }  # fmt: skip
        return json.dumps({"records": [record]}).encode(), "application/json"

    def build(self) -> LockPort:
        return registry.build(self.code, self.context())

    def context(self, **changes: Any) -> AdapterContext:
        context = AdapterContext(
            tenant_id="tnt_test",
            installation_id="vad_test",
            settings=self.settings(),
            secrets={name: Token(value) for name, value in self.secrets().items()},
            clock=self.clock,
            rng=random.Random(7),
            sleep=lambda seconds: None,
            limiter=self.limiter,
            time_zone=self.time_zone,
        )
        return replace(context, **changes)

    @abstractmethod
    def settings(self) -> Mapping[str, object]: ...

    @abstractmethod
    def secrets(self) -> Mapping[str, str]: ...

    @abstractmethod
    def opens(self, door: Door, kind: CredentialKind, value: str, at: datetime | None = None) -> bool:
        """Asks the door itself, by its own clock."""

    @abstractmethod
    def keys_at(self, door: Door) -> int:
        """Counts the keys the door and the vendor hold, resting ones included."""

    @abstractmethod
    def request_count(self) -> int:
        """Counts what has reached the vendor so far."""

    @abstractmethod
    def kill_door(self, door: Door) -> None:
        """The door answers no more; the vendor's cloud does."""

    @abstractmethod
    def trouble(self, trouble: Trouble, times: int = 1) -> None:
        """Makes the next changing requests go wrong."""

    def hold(self) -> Gate:
        """Lets the next changing request wait on its way to the vendor until the gate is opened."""
        gate: Gate = self.proxy.hold()  # type: ignore[attr-defined]
        return gate

    def throttle(self) -> None:
        """Makes the vendor itself answer the next issue with *too fast*, once. For harnesses that say `throttles`."""
        raise AssertionError(f"{type(self).__name__} cannot be throttled")

    def limit(self) -> None:
        """Makes the vendor answer its very next request with *too fast*. For harnesses that say `stepwise`."""
        raise AssertionError(f"{type(self).__name__} cannot be limited")

    def enlarged(self, count: int) -> Site:
        """Another installation like this one, with so many doors. For harnesses that say `enlarges`."""
        raise AssertionError(f"{type(self).__name__} cannot be enlarged")

    def in_zone(self, zone: str) -> Site:
        """An installation like this one in a house of this time zone; the same where the vendor keeps no local time."""
        self.time_zone = zone
        return self

    def presented(self, result: IssueResult, request: IssueInput) -> str:
        """What the holder types, shows or taps."""
        if result.kind is CredentialKind.PIN_CODE:
            return result.artifact.value.reveal()  # type: ignore[union-attr]
        if result.kind is CredentialKind.RFID_CARD:
            assert request.card_number is not None
            return request.card_number.reveal()
        return self.phone_of(result.artifact.value)  # type: ignore[union-attr]

    def phone_of(self, token: Token) -> str:
        return token.reveal()


@dataclass(frozen=True)
class Harness:
    """One way to run a vendor. `over_http` says that answers can break on the way; `throttles`, that the vendor can be made to
    say that it is asked too fast; `stepwise`, that its verbs take several requests, before any of which it may say so;
    `enlarges`, that a house can have any number of doors; `speaks_https`, that its settings hold
    http addresses which may be https. `lacks` are the optional protocols of the port its adapter does not offer; `runs_again` says that another
    harness has the same adapter and simulator, so that `make test` need not run all of its cases."""

    open: Callable[[], AbstractContextManager[Callable[[], Site]]]
    troubles: tuple[Trouble, ...] = tuple(Trouble)
    throttles: bool = False
    stepwise: bool = False
    enlarges: bool = False
    speaks_https: bool = False
    lacks: frozenset[type] = frozenset()
    runs_again: bool = False

    @property
    def over_http(self) -> bool:
        return Trouble.DRIP_AFTER in self.troubles


def new_key() -> str:
    return secrets.token_hex(32)


def new_pin() -> Pin:
    """Nine digits that no keypad rule objects to, and that are found wherever they should not be."""
    return Pin(marked.pin())


def stay(start_in_h: float = -1, hours: float = 48) -> Window:
    start = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(hours=start_in_h)
    return Window(start, start + timedelta(hours=hours))


GUEST = Holder("gst_1", "زرغونه احمدزۍ", "zarghuna@example.org", "+93700123456")


def request_for(site: Site, kind: CredentialKind, doors: tuple[Door, ...] | None = None, **changes: Any) -> IssueInput:
    request = IssueInput(
        tenant_id="tnt_test",
        property_id="ppt_test",
        credential_id=f"key_{next(_numbers)}_{secrets.token_hex(4)}",
        rooms=("rmu_1",),
        window=stay(),
        holder=GUEST,
        preferred_kinds=(kind,),
        doors=site.doors if doors is None else doors,
        meta=CallMeta(new_key()),
        pin=new_pin(),
        card_number=CardNumber(marked.card_number()),
    )
    return replace(request, **changes)


def handle_for(request: IssueInput, result: CallResult, **changes: Any) -> CredentialHandle:
    """The credential as the service would hand it back: the doors with what is known of them."""
    refs = {r.device_id: r.ref for r in result.doors}
    kind = request.preferred_kinds[0]
    handle = CredentialHandle(
        credential_id=request.credential_id,
        kind=kind,
        window=request.window,
        doors=tuple(replace(d, ref=refs.get(d.device_id)) for d in request.doors),
        pin=request.pin if kind is CredentialKind.PIN_CODE else None,
        card_number=request.card_number if kind is CredentialKind.RFID_CARD else None,
    )
    return replace(handle, **changes)


def with_ref(door: Door, ref: VendorRef | None) -> Door:
    return replace(door, ref=ref)


@dataclass
class Simulator:
    """A vendor's simulator in a process of its own."""

    process: subprocess.Popen[str]
    url: str
    control: str

    @classmethod
    def start(cls, code: str) -> Simulator:
        process = subprocess.Popen(
            [sys.executable, "-m", "vendors.simulate", code, "--port", "0", "--control-port", "0"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        return cls(process, ready["url"], ready["control"])

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(10)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def post(self, path: str, body: object) -> Any:
        return self._asked("POST", path, json.dumps(body).encode())

    def get(self, path: str) -> Any:
        return self._asked("GET", path, None)

    def _asked(self, method: str, path: str, body: bytes | None) -> Any:
        connection = http.client.HTTPConnection(urlsplit(self.control).netloc, timeout=10)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            content = answer.read()
            assert answer.status == 200, content
            return json.loads(content)
        finally:
            connection.close()
