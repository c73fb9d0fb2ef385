"""What a simulated vendor does wrong on request, the same way in every simulator that speaks HTTP.

Control port, beside the simulator's own routes:

| request | body | effect |
|---|---|---|
| POST /trouble | `{"effect", "times"}` | so many requests (null: all) are answered by `drop`, `lost`, `error` or `throttled` |
| POST /trouble | `{"latencyMs": n}` | every request takes so much longer |
| POST /trouble | `{}` | heals |
| GET /trouble | | what is in force |

One rule: it goes around the vendor's side and never touches doors; waiting happens outside the world's lock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from vendors.port.simulated import Effect

from .simulator_http import Reply, Request

MAX_LATENCY_MS = 600_000
RETRY_AFTER_S = 1


class Trouble:
    """The rules in force. Safe from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rules: list[tuple[Effect, int | None]] = []
        self._latency_ms = 0

    def control(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Serves `POST /trouble`. Raises ValueError naming what is wrong."""
        times, latency_ms = body.get("times"), body.get("latencyMs")
        if (times is not None and (type(times) is not int or times < 1)) or set(body) - {"effect", "times", "latencyMs"}:
            raise ValueError("trouble is an effect, times (1 or more, or null) and latencyMs")
        if latency_ms is not None and (type(latency_ms) is not int or not 0 <= latency_ms <= MAX_LATENCY_MS):
            raise ValueError(f"latencyMs is 0 to {MAX_LATENCY_MS}")
        with self._lock:
            if not body:
                self._rules.clear()
                self._latency_ms = 0
            if "effect" in body:
                self._rules.append((Effect(str(body["effect"])), times))
            if latency_ms is not None:
                self._latency_ms = latency_ms
        return self.shown()

    def serve(self, request: Request) -> Reply:
        """Serves a request to PATH."""
        if request.method == "GET":
            return Reply(200, self.shown())
        try:
            return Reply(200, self.control(request.json()))
        except ValueError as error:
            return Reply(400, {"error": str(error)})

    def shown(self) -> dict[str, Any]:
        """Returns what is in force."""
        with self._lock:
            rules = [{"effect": effect.value, "times": times} for effect, times in self._rules]
            return {"rules": rules, "latencyMs": self._latency_ms}

    def around(self, handle: Callable[[Request], Reply]) -> Callable[[Request], Reply]:
        """Returns the vendor's side with this trouble around it."""

        def disturbed(request: Request) -> Reply:
            effect = self._take()
            if effect is None:
                return handle(request)
            if effect is Effect.LOST:
                handle(request)
            return _REPLIES[effect]

        return disturbed

    def _take(self) -> Effect | None:
        """Waits as long as the vendor shall take, then uses the first rule up by one."""
        with self._lock:
            latency_s = self._latency_ms / 1000
        if latency_s:
            time.sleep(latency_s)
        with self._lock:
            if not self._rules:
                return None
            effect, times = self._rules[0]
            if times is not None:
                self._rules[:1] = [(effect, times - 1)] if times > 1 else []
            return effect


_REPLIES = {
    Effect.DROP: Reply(0, is_dropped=True),
    Effect.LOST: Reply(0, is_dropped=True),
    Effect.ERROR: Reply(500, {"code": "internal", "message": "internal error"}),
    Effect.THROTTLED: Reply(429, {"code": "rate_limited", "message": "too many requests"}, {"Retry-After": str(RETRY_AFTER_S)}),
}
