"""The one boundary between a vendor's adapter and everything else: it opens the adapter late, and lets no secret out in a text.

One rule: whatever an adapter raises or warns of is scrubbed here of the installation's secrets and of what was handed to the
call (PINs, references, card numbers, tokens), whatever the adapter itself did about it. Only this module builds on
`open_adapter`.

The adapter is opened at the first call, outside any transaction, since that may ask the key service and the secret store.
`isinstance` against an optional protocol of the port opens it too, and answers as the adapter itself would.
"""

from __future__ import annotations

import base64
import json
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Final

import structlog

from devices import call_scope
from lockservice.core.crypto import SealBroken
from lockservice.core.kms import KeyUnavailable
from lockservice.core.secret_cache import PAUSE_S, HeldSecrets
from lockservice.core.secret_store import SecretMissing, StoreUnavailable
from lockservice.settings.scrubber import scrub_text
from vendors.port.errors import LockError, Reason, VendorUnreachable
from vendors.port.protocol import LockPort
from vendors.port.secrets import MASK, Secret, Token
from vendors.port.types import CallResult, DoorResult, Warning  # noqa: A004 - the contract calls it so
from vendors.support.scrub import scrub

log = structlog.get_logger(__name__)

SHORTEST: Final = 4
"""Values of fewer characters are not looked for: they would mask half of every text and protect nothing."""
AGAIN_S: Final = 20.0
"""When a call is to be tried again that found key service or store down."""
MAX_CHARS: Final = 500
_DEPTH: Final = 10
"""An issue's request holds a handle, that its doors, those their references: six deep, and room for the wrappers around it."""


class AdapterFault(Exception):
    """An adapter raised what no adapter may. The text is scrubbed; where it was raised stands in the traceback."""


@dataclass(frozen=True, slots=True)
class Opening:
    """How to open an installation: its held secrets, and what builds the adapter from them."""

    vendor: str
    secrets: HeldSecrets
    build: Callable[[Mapping[str, Token]], LockPort]


class BoundaryPort:
    """A LockPort that opens the installation's adapter when it is first used. Safe from several threads.

    `previous` answers while this version cannot be opened because key service or store are down.
    """

    def __init__(self, opening: Opening, previous: BoundaryPort | None = None) -> None:
        self._opening = opening
        self._previous: BoundaryPort | None = previous if previous is None or previous._opened else previous._previous
        self._lock = threading.Lock()
        self._opened: tuple[Mapping[str, Token], LockPort] | None = None
        self._failed: tuple[KeyUnavailable, float] | None = None

    def issue_credential(self, request: Any) -> Any:
        """See LockPort."""
        return self._call("issue_credential", request)

    def update_credential(self, request: Any) -> Any:
        """See LockPort."""
        return self._call("update_credential", request)

    def revoke_credential(self, handle: Any, reason: Any, meta: Any) -> Any:
        """See LockPort."""
        return self._call("revoke_credential", handle, reason, meta)

    def suspend_credential(self, handle: Any, reason: Any, meta: Any) -> Any:
        """See LockPort."""
        return self._call("suspend_credential", handle, reason, meta)

    def unsuspend_credential(self, handle: Any, meta: Any) -> Any:
        """See LockPort."""
        return self._call("unsuspend_credential", handle, meta)

    def list_devices(self, property_id: str) -> Any:
        """See LockPort."""
        return self._call("list_devices", property_id)

    def health_check(self, door: Any) -> Any:
        """See LockPort."""
        return self._call("health_check", door)

    def describe_adapter(self) -> Any:
        """See LockPort."""
        return self._call("describe_adapter")

    def __getattr__(self, name: str) -> Any:
        """Gives an optional verb of the adapter, wrapped likewise; AttributeError where it has none, as `isinstance`
        expects."""
        if name.startswith("_") or not callable(getattr(self._adapter()[1], name)):
            raise AttributeError(name)
        return lambda *args, **named: self._call(name, *args, **named)

    def _call(self, verb: str, *args: Any, **named: Any) -> Any:
        secrets, adapter = self._adapter()
        handed = (args, tuple(named.values()))
        fault: Exception
        try:
            with call_scope.verb():
                answer = getattr(adapter, verb)(*args, **named)
        except LockError as error:
            fault = cleaned(error, _known(secrets, handed))
        except Exception as error:  # noqa: BLE001 - an adapter's mistake may carry anything in its text
            fault = AdapterFault(f"{type(error).__name__}: {scrub(_words(error), _known(secrets, handed))}")
            fault.__traceback__ = error.__traceback__
        else:
            return _clean_answer(answer, lambda: _known(secrets, (handed, answer)))
        raise fault  # outside of the handler, so that what was caught is not chained to it

    def _adapter(self) -> tuple[Mapping[str, Token], LockPort]:
        """Returns the adapter and the secrets it was built with. Raises VendorUnreachable, as callers of a port expect."""
        problem: LockError
        try:
            values = self._opening.secrets.values()
            opened = self._opened
            if opened is None or opened[0] is not values:
                opened = self._open(values)
            return opened
        except (StoreUnavailable, KeyUnavailable) as error:
            problem = VendorUnreachable(
                self._opening.vendor, f"not asked: {error}", reason=Reason.SETTINGS, retriable=error.retriable,
                throttled=error.retriable, retry_after_s=AGAIN_S if error.retriable else None,
            )  # fmt: skip
            log.warning("secrets.unavailable", vendor=self._opening.vendor, reason=str(error))
        except (SecretMissing, SealBroken, ValueError) as error:
            problem = VendorUnreachable(self._opening.vendor, f"settings: {error}", reason=Reason.SETTINGS, retriable=False)
        if self._previous is not None and problem.retriable:
            return self._previous._adapter()
        raise problem

    def _open(self, values: Mapping[str, Token]) -> tuple[Mapping[str, Token], LockPort]:
        with self._lock:
            opened = self._opened
            if opened is not None and dict(opened[0]) == dict(values):
                # Looked at again and the same: the adapter keeps its connections and its token.
                self._opened = (values, opened[1])
            else:
                self._opened = (values, self._build(values))
            self._previous = None
            return self._opened

    def _build(self, values: Mapping[str, Token]) -> LockPort:
        """Opens the settings and builds; a key service that failed is left alone for a while, or callers would queue up."""
        if self._failed is not None and time.monotonic() - self._failed[1] < PAUSE_S:
            raise KeyUnavailable(str(self._failed[0]), retriable=self._failed[0].retriable)
        fault: Exception
        try:
            return self._opening.build(values)
        except KeyUnavailable as error:
            self._failed = (error, time.monotonic())
            raise
        except (SealBroken, StoreUnavailable, SecretMissing):
            raise
        except LockError as error:
            fault = cleaned(error, _spellings(values.values()))
        except Exception as error:  # noqa: BLE001 - what cannot read a secret may quote it
            text = clean(_words(error), _spellings(values.values()))
            fault = ValueError(text) if isinstance(error, ValueError) else AdapterFault(f"{type(error).__name__}: {text}")
            fault.__traceback__ = error.__traceback__
        raise fault  # outside of the handler, as in _call


def _words(error: Exception) -> str:
    """Returns an exception's text; a KeyError would quote it, and what it quotes a second time."""
    return " ".join(str(part) for part in error.args) if isinstance(error, KeyError) else str(error)


def cleaned(error: LockError, known: Iterable[str]) -> LockError:
    """Scrubs an error in place and cuts it off from what caused it: a cause's text can hold an address with a token in it."""
    known = tuple(known)
    error.vendor_message = clean(error.vendor_message, known)
    error.args = tuple(clean(part, known) if isinstance(part, str) else part for part in error.args)
    error.__cause__ = error.__context__ = None
    return error


def clean(text: str, known: Iterable[str]) -> str:
    """Returns a text without the known values and without what looks like a token, a signature or a credential."""
    for value in sorted(known, key=len, reverse=True):
        text = text.replace(value, MASK)
    return scrub_text(text)[:MAX_CHARS]


def _known(secrets: Mapping[str, Token], values: Any) -> tuple[str, ...]:
    """Returns every spelling of the installation's secrets and of those in the values of a call."""
    return tuple(_spellings([*secrets.values(), *_secrets_in(values)]))


def _clean_answer(answer: Any, spellings: Callable[[], tuple[str, ...]]) -> Any:
    """Nearly every answer says nothing in prose, so what to look for is only gathered where one does."""
    if not isinstance(answer, CallResult) or not (answer.warnings or any(door.error for door in answer.doors)):
        return answer
    known = spellings()
    warnings = tuple(Warning(item.code, clean(item.detail, known)) for item in answer.warnings)
    doors = tuple(_clean_door(door, known) for door in answer.doors)
    return replace(answer, warnings=warnings, doors=doors)


def _clean_door(door: DoorResult, known: tuple[str, ...]) -> DoorResult:
    if door.error is not None:
        cleaned(door.error, known)
    return door


def _secrets_in(value: Any, depth: int = 0) -> Iterator[Secret]:
    """Finds the secrets handed over or brought back, wherever they stand in the port's values."""
    if isinstance(value, Secret):
        yield value
    elif depth < _DEPTH:
        for inner in _parts(value):
            yield from _secrets_in(inner, depth + 1)


def _parts(value: Any) -> Iterable[Any]:
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, item.name) for item in fields(value)]
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, (list, tuple, set, frozenset)) else ()


def _spellings(secrets: Iterable[Secret]) -> Iterator[str]:
    """Gives each value as it may stand in a text: plain, quoted, in an address, in base 64, line by line."""
    for secret in secrets:
        value = secret.reveal()
        if len(value) < SHORTEST:
            continue
        yield value
        yield from (
            quoted[1:-1] for quoted in (json.dumps(value), json.dumps(value, ensure_ascii=False), repr(value), ascii(value))
        )
        yield urllib.parse.quote(value, safe="")
        yield urllib.parse.quote_plus(value)
        yield base64.b64encode(value.encode()).decode()
        yield from (line for line in value.splitlines() if len(line) >= 16)  # a certificate's or key's lines
