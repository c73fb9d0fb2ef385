"""The log of what arrived at the cloud side, and counts of it.

One rule: no field that could hold a code, a card number, a password or a token is kept.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from dataclasses import dataclass

from .params import Params

LOG_SIZE = 200_000


@dataclass(slots=True)
class Call:
    """One request. Times are CLOCK_MONOTONIC ms; `errcode` is 0 for success and None while it runs or if it never answered.
    `applied` says that the work was done, whatever the client was told; `fault` names the effect that struck. `until` is the
    end of the period that was asked for, ms since 1970; None where none was named.
    """

    seq: int
    path: str
    method: str
    client_id: str
    lock_id: int | None
    nonce: str
    at_ms: float
    until: int | None = None
    done_ms: float | None = None
    errcode: int | None = None
    applied: bool = False
    fault: str | None = None

    def as_json(self) -> dict[str, object]:
        """Returns the line as the control port gives it."""
        return {
            "seq": self.seq,
            "path": self.path,
            "method": self.method,
            "clientId": self.client_id,
            "lockId": self.lock_id,
            "clientNonce": self.nonce or None,
            "until": self.until,
            "at": round(self.at_ms, 3),
            "done": None if self.done_ms is None else round(self.done_ms, 3),
            "errcode": self.errcode,
            "applied": self.applied,
            "fault": self.fault,
        }


class CallLog:
    """The last 200,000 calls, and counts of all since the last reset."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forgets lines and counts; sequence numbers start again."""
        self.lines: deque[Call] = deque(maxlen=LOG_SIZE)
        self.total = 0
        self.requests: Counter[tuple[str, str]] = Counter()
        self.applied: Counter[tuple[str, str]] = Counter()

    def begin(self, path: str, method: str, params: Params, at_ms: float) -> Call:
        """Writes the line of a call that has just arrived."""
        self.total += 1
        lock_text = params.fields.get("lockId", "")
        lock_id = _number(lock_text)
        client_id = params.either("clientId", "client_id")
        nonce, until = params.fields.get("clientNonce", "")[:64], _number(params.fields.get("endDate", ""))
        call = Call(self.total, path, method, client_id, lock_id, nonce, at_ms, until)
        self.lines.append(call)
        self.requests[(path, lock_text)] += 1
        return call

    def finish(self, call: Call, errcode: int | None, applied: bool) -> None:
        """Completes a line."""
        call.done_ms = time.monotonic() * 1000
        call.errcode = errcode
        call.applied = applied
        if applied:
            self.applied[(call.path, "" if call.lock_id is None else str(call.lock_id))] += 1

    def counts(self) -> dict[str, object]:
        """Returns requests and applied calls per path and per lock and path."""
        return {"requests": _tree(self.requests), "applied": _tree(self.applied)}


def _tree(counter: Counter[tuple[str, str]]) -> dict[str, object]:
    by_path: Counter[str] = Counter()
    by_lock: dict[str, dict[str, int]] = {}
    for (path, lock), number in counter.items():
        by_path[path] += number
        if lock:
            by_lock.setdefault(lock, {})[path] = number
    return {"byPath": dict(by_path), "byLock": by_lock}


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 18 else None
