"""Secrets as one process holds them: read when first needed, looked at again now and then, used on while the store is down.

One rule: a value is used at most KEPT_S after the store last confirmed it; one the store says is gone is not used again.
Ages go by the monotonic clock, which nobody moves.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lockservice.core.secret_store import SecretMissing, SecretName, SecretStore, StoreUnavailable
from vendors.port.secrets import Token

FRESH_S = 3600.0
"""How long a value is used without asking: a version never changes, so asking only finds out that it was withdrawn."""
KEPT_S = 6 * 3600.0
"""How long a value is used while the store is down. Longer than any outage of the store in living memory (assumed), and short
enough that a withdrawn secret ends with the working day."""
PAUSE_S = 15.0
"""How long a store that failed is not asked again for the same installation, so that its callers do not queue up behind it."""


@dataclass(slots=True)
class _Held:
    values: Mapping[str, Token]
    confirmed_at: float


class HeldSecrets:
    """The secrets of one version of one installation: field name → (stored name, version). Safe from several threads."""

    def __init__(
        self,
        wanted: Mapping[str, tuple[SecretName, int]],
        store: Callable[[], SecretStore],
        *,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wanted = dict(wanted)
        self._store = store
        self._now_s = now_s
        self._lock = threading.Lock()
        self._held: _Held | None = None
        self._failed: tuple[StoreUnavailable, float] | None = None

    @classmethod
    def given(cls, values: Mapping[str, Token]) -> HeldSecrets:
        """Returns secrets that are at hand and in no store yet; they are used as they are for good."""
        held = cls({}, _no_store, now_s=lambda: 0.0)
        held._held = _Held(dict(values), 0.0)
        return held

    def values(self) -> Mapping[str, Token]:
        """Returns the values by field name. May call the store: no transaction should be open.

        Raises StoreUnavailable when it is down and nothing usable is held, SecretMissing when a version is gone.
        """
        held = self._held
        if held is not None and self._age_s(held) < FRESH_S:
            return held.values
        is_usable = held is not None and self._age_s(held) < KEPT_S
        if not self._lock.acquire(blocking=not is_usable):
            assert held is not None  # noqa: S101 - usable
            return held.values  # somebody looks already; a slow store holds up nobody who has a value
        try:
            return self._look()
        finally:
            self._lock.release()

    def _look(self) -> Mapping[str, Token]:
        held = self._held
        if held is not None and self._age_s(held) < FRESH_S:
            return held.values
        if self._failed is not None and self._now_s() - self._failed[1] < PAUSE_S:
            return self._last(self._failed[0])
        try:
            store = self._store()
            values = {field: store.read(name, version) for field, (name, version) in self._wanted.items()}
        except StoreUnavailable as error:
            self._failed = (error, self._now_s())
            return self._last(error)
        except SecretMissing:
            self._held = None
            raise
        self._failed = None
        self._held = _Held(values, self._now_s())
        return values

    def _last(self, error: StoreUnavailable) -> Mapping[str, Token]:
        if self._held is not None and self._age_s(self._held) < KEPT_S:
            return self._held.values
        raise StoreUnavailable(str(error), retriable=error.retriable)

    def _age_s(self, held: _Held) -> float:
        return self._now_s() - held.confirmed_at


def _no_store() -> SecretStore:
    raise StoreUnavailable("these secrets are in no store", retriable=False)
