"""Keeps one access token per vendor account: fetched when first needed, renewed early, by one thread at a time.

One rule: a vendor that refused the login is not asked again before a pause, whoever asks.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from vendors.port.clock import Clock
from vendors.port.errors import LockError, Reason
from vendors.port.secrets import Token

RENEW_AT_SHARE_OF_LIFE = 0.8
PAUSE_AFTER_REFUSAL_S = 60.0
MAX_LIFETIME_S = 366 * 86_400.0
"""A token is renewed within a year, whatever its vendor says."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What a token endpoint gave: access token, refresh token where there is one, and the access token's life in seconds."""

    access: Token
    lifetime_s: float
    refresh: Token | None = None


def lifetime_in(told: object, usual_s: float) -> float:
    """Reads a token's life in seconds as its vendor told it, 1 to MAX_LIFETIME_S; the usual one where that is no number."""
    if isinstance(told, bool) or not isinstance(told, int | float | str) or not told:
        return usual_s
    try:
        seconds = float(told)
    except OverflowError:
        return MAX_LIFETIME_S
    except ValueError:
        return usual_s
    return min(max(seconds, 1.0), MAX_LIFETIME_S) if math.isfinite(seconds) else usual_s


class RefreshRefused(Exception):
    """The refresh token is not taken any more; a fresh login may be."""


class TokenSource(Protocol):
    """A way to get tokens: password grant, client credentials, a login form. Each vendor brings its own."""

    def login(self, timeout_s: float) -> Grant:
        """Gets a first token from the account's secrets. Raises LockError; `Reason.SETTINGS` when a person must act."""
        ...

    def refresh(self, refresh_token: Token, timeout_s: float) -> Grant:
        """Gets a further token. Raises RefreshRefused, or LockError when the vendor gave no answer."""
        ...


class TokenKeeper:
    """Hands out the account's token. Safe from several threads; only one of them ever talks to the token endpoint.

    Token life runs on the given clock, as the vendor's does in the demo.
    """

    def __init__(self, source: TokenSource, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._lock = threading.Lock()
        self._grant: Grant | None = None
        self._renew_at: datetime | None = None
        self._refused: tuple[LockError, datetime] | None = None

    def current(self, timeout_s: float) -> Token:
        """Returns a token with life in it. Raises LockError when none can be had."""
        grant = self._grant
        if grant is not None and not self._is_due():
            return grant.access
        with self._lock:
            if self._grant is None or self._is_due():
                self._obtain(timeout_s)
            assert self._grant is not None  # noqa: S101 - _obtain sets it or raises
            return self._grant.access

    def replace(self, rejected: Token, timeout_s: float) -> Token:
        """Returns another token than the one the vendor rejected: somebody's newer one, a refreshed one, or a new login's.

        Raises LockError when none can be had.
        """
        with self._lock:
            if self._grant is None or self._grant.access == rejected:
                self._obtain(timeout_s)
            assert self._grant is not None  # noqa: S101 - _obtain sets it or raises
            return self._grant.access

    def _is_due(self) -> bool:
        return self._renew_at is None or self._clock.now() >= self._renew_at

    def _obtain(self, timeout_s: float) -> None:
        now = self._clock.now()
        if self._refused is not None and now < self._refused[1]:
            raise _again(self._refused[0])
        self._refused = None
        try:
            grant = self._renew_or_login(timeout_s)
        except LockError as error:
            if error.reason is Reason.SETTINGS:
                self._refused = (error, now + timedelta(seconds=PAUSE_AFTER_REFUSAL_S))
            raise
        self._grant = grant
        self._renew_at = now + timedelta(seconds=grant.lifetime_s * RENEW_AT_SHARE_OF_LIFE)

    def _renew_or_login(self, timeout_s: float) -> Grant:
        old = self._grant.refresh if self._grant else None
        if old is not None:
            try:
                grant = self._source.refresh(old, timeout_s)
            except RefreshRefused:
                return self._source.login(timeout_s)
            # A vendor may answer without a new refresh token; the old one then goes on.
            return grant if grant.refresh else Grant(grant.access, grant.lifetime_s, old)
        return self._source.login(timeout_s)


def _again(error: LockError) -> LockError:
    """Copies an error, since one instance must not be raised from two threads (its traceback would grow)."""
    return type(error)(
        error.vendor,
        error.vendor_message,
        retriable=error.retriable,
        reason=error.reason,
        retry_after_s=error.retry_after_s,
        throttled=True,
    )
