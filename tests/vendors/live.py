"""What the live part of the contract suite is told of a vendor's real address: one named test lock, and how often it may ask.

One rule: it may do harm at one lock only and for one hour only, and it takes back what it gave, whatever happens.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.vendors.site import new_pin
from vendors import registry
from vendors.port.clock import SystemClock
from vendors.port.errors import LockError, Reason, VendorUnreachable
from vendors.port.manifest import AdapterContext, VendorManifest
from vendors.port.protocol import LockPort, Lookup
from vendors.port.secrets import CardNumber, Token
from vendors.port.types import (
    CallMeta,
    CallResult,
    CredentialHandle,
    CredentialKind,
    Door,
    Holder,
    IssueInput,
    IssueResult,
    Outcome,
    RevokeReason,
    Window,
)

KEPT_FOR_CLEANING = 8
CALLS_MAX = 200
TRIES = 4
FIELDS = {"settings", "secrets", "testLock", "kind", "maxCalls"}


class Capped:
    """A limiter that lets `most` requests through in all; the last ones only while cleaning up."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.made = 0
        self.is_cleaning = False

    def acquire(self, calls: int, priority: int) -> None:
        allowed = self.most if self.is_cleaning else self.most - KEPT_FOR_CLEANING
        if self.made + calls > allowed:
            raise VendorUnreachable(
                "live", f"{allowed} requests are spent", reason=Reason.QUOTA, throttled=True, retriable=False
            )
        self.made += calls


_caps: dict[str, Capped] = {}


@dataclass(frozen=True)
class Target:
    """A real address and the one lock that may be touched there."""

    manifest: VendorManifest
    settings: Mapping[str, Any]
    secrets: Mapping[str, str]
    door: Door
    kind: CredentialKind
    most_calls: int


def variable(manifest: VendorManifest) -> str:
    """The environment variable that names the vendor's file."""
    return f"LOCK_LIVE_{manifest.code.upper().replace('-', '_')}"


def read(manifest: VendorManifest) -> Target | str:
    """The target, or why there is none. Raises ValueError for a file that cannot be meant."""
    path = os.environ.get(variable(manifest))
    if not path:
        return f"{variable(manifest)} names no file with an address, secrets and a test lock"
    file = Path(path)
    if stat.S_IMODE(file.stat().st_mode) & 0o077:
        raise ValueError(f"{variable(manifest)}: the file holds secrets and must be readable by its owner only (mode 0600)")
    told = json.loads(file.read_text(encoding="utf-8"))
    if set(told) != FIELDS:
        raise ValueError(f"{variable(manifest)}: the file has exactly {', '.join(sorted(FIELDS))}")
    lock, kind, most = told["testLock"], CredentialKind(told["kind"]), told["maxCalls"]
    if kind not in manifest.kinds or type(most) is not int or not KEPT_FOR_CLEANING < most <= CALLS_MAX:
        raise ValueError(f"{variable(manifest)}: kind is one of the vendor's, maxCalls {KEPT_FOR_CLEANING + 1} to {CALLS_MAX}")
    door = Door("lck_live", lock["externalId"], label=lock.get("label", ""), gateway=lock.get("gateway", ""))
    return Target(manifest, told["settings"], told["secrets"], door, kind, most)


class Visit:
    """One visit to the vendor: an adapter under a cap, and keys that are taken back at its end."""

    def __init__(self, target: Target) -> None:
        self.target = target
        # One cap a vendor for the whole run, however many tests visit it.
        self.limit = _caps.setdefault(target.manifest.code, Capped(target.most_calls))
        self.limit.is_cleaning = False
        self._given: list[CredentialHandle] = []
        self.port = self.build()

    def build(self) -> LockPort:
        """A fresh adapter under the same cap."""
        context = AdapterContext(
            tenant_id="tnt_live",
            installation_id="vad_live",
            settings=self.target.settings,
            secrets={name: Token(value) for name, value in self.target.secrets.items()},
            clock=SystemClock(),
            rng=random.Random(),
            sleep=time.sleep,
            limiter=self.limit,
        )
        return registry.build(self.target.manifest.code, context)

    def request(self) -> IssueInput:
        """A key for the test lock: an hour, two days from now."""
        starts = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(days=2)
        return IssueInput(
            tenant_id="tnt_live",
            property_id="ppt_live",
            credential_id=f"key_live_{secrets.token_hex(6)}",
            rooms=("rmu_live",),
            window=Window(starts, starts + timedelta(hours=1)),
            holder=Holder("gst_live", "Contract suite", "contract-suite@example.org", "+10000000000"),
            preferred_kinds=(self.target.kind,),
            doors=(self.target.door,),
            meta=CallMeta(secrets.token_hex(32)),
            pin=new_pin() if self.target.kind is CredentialKind.PIN_CODE else None,
            card_number=CardNumber(str(secrets.randbelow(2**32))) if self.target.kind is CredentialKind.RFID_CARD else None,
        )

    def issue(self, request: IssueInput) -> IssueResult:
        """Gives the key, noted before the call so that it is taken back even when the answer is lost."""
        self.note(handle(request, CallResult(())))
        result = self.until_done(lambda meta: self.port.issue_credential(again(request, meta)), request.meta)
        self.note(handle(request, result))
        return result

    def note(self, given: CredentialHandle) -> None:
        """Keeps what is to be taken back, the newest knowledge of each key."""
        self._given = [kept for kept in self._given if kept.credential_id != given.credential_id] + [given]

    def until_done(self, call: Callable[[CallMeta], Any], first: CallMeta) -> Any:
        """Repeats what may be repeated, under the same key, as the service does."""
        last: Exception | None = None
        for attempt in range(1, TRIES + 1):
            try:
                result = call(CallMeta(first.idempotency_key, attempt, priority=first.priority))
            except LockError as error:
                if not error.retriable:
                    raise
                last = error
            else:
                if all(door.outcome is Outcome.DONE for door in result.doors):
                    return result
            time.sleep(min(2.0**attempt, 10) if attempt < TRIES else 0)
        raise AssertionError(f"not done after {TRIES} attempts") from last

    def clean(self) -> list[str]:
        """Takes back every key of this visit; returns the credentials whose absence is not proven."""
        self.limit.is_cleaning = True
        left = []
        for given in self._given:
            try:
                meta = CallMeta(secrets.token_hex(32), priority=0)
                self.until_done(lambda m, g=given: self.port.revoke_credential(g, RevokeReason.SECURITY, m), meta)  # type: ignore[misc]
            except (LockError, AssertionError):
                left.append(given.credential_id)
        return left

    def found(self, request: IssueInput) -> int | None:
        """How many keys the vendor tells under this request's mark; None where it cannot be asked."""
        if not isinstance(self.port, Lookup):
            return None
        return len(self.port.find(handle(request, CallResult(())), request.meta))


@contextmanager
def visiting(target: Target) -> Iterator[Visit]:
    """A visit that cleans up, and is loud when it cannot."""
    visit = Visit(target)
    try:
        yield visit
    finally:
        left = visit.clean()
        if left:
            raise AssertionError(f"take these keys back by hand at the test lock: {', '.join(left)}")


def handle(request: IssueInput, result: CallResult, window: Window | None = None) -> CredentialHandle:
    """The credential as the service would hand it back."""
    refs = {door.device_id: door.ref for door in result.doors}
    (door,) = request.doors
    return CredentialHandle(
        credential_id=request.credential_id,
        kind=request.preferred_kinds[0],
        window=window or request.window,
        doors=(Door(door.device_id, door.external_id, label=door.label, gateway=door.gateway, ref=refs.get(door.device_id)),),
        pin=request.pin,
        card_number=request.card_number,
        issue_key=request.meta.idempotency_key,
    )


def again(request: IssueInput, meta: CallMeta) -> IssueInput:
    """The same request under another attempt."""
    return replace(request, meta=meta)
