"""Probes: is the process alive, and can it work.

The one rule: a probe answers within a second whatever hangs. Each part is asked in a thread that is not waited for longer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import ClassVar, Final

import redis
from django.db import Error, connection
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from lockservice.api.openapi import documented
from lockservice.api.route import OpenRoute, reply
from lockservice.core import tenancy, wake
from lockservice.core.clock import HotelClock
from lockservice.core.http_strict import shape

LIMIT_S: Final = 0.85
UP, AWAY = "up", "away"

AliveBody = shape("Alive", status=serializers.ChoiceField(choices=["alive"]))
ReadyBody = shape(
    "Ready",
    status=serializers.ChoiceField(choices=["ready", "not ready"]),
    database=serializers.ChoiceField(choices=[UP, AWAY]),
    redis=serializers.ChoiceField(choices=[UP, AWAY], help_text="Only makes things faster; work goes on without it."),
)


class Probe:
    """Asks one part in a thread of its own; while it hangs, nobody asks again."""

    def __init__(self, name: str, ask: Callable[[], None]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"probe-{name}")
        self._running: Future[None] | None = None

    def start(self) -> Future[None]:
        """Returns the question under way, or a new one."""
        with self._lock:
            if self._running is None or self._running.done():
                self._running = self._pool.submit(self._ask)
            return self._running


def _ask_database() -> None:
    try:
        with tenancy.tenant(tenancy.UNATTRIBUTED):
            HotelClock.objects.exists()
    finally:
        connection.close()


def _ask_redis() -> None:
    wake.client().ping()


_DATABASE = Probe("database", _ask_database)
_REDIS = Probe("redis", _ask_redis)


class AliveRoute(OpenRoute):
    """Whether the process serves requests."""

    @documented(summary="The process is alive", tag="probes", answers={200: AliveBody}, is_open=True, operation_id="alive")
    def get(self, request: Request) -> Response:
        """Answers without asking anything of anybody."""
        return reply({"status": "alive"})


class ReadyRoute(OpenRoute):
    """Whether the process can work."""

    needs: ClassVar = {"GET": None}

    @documented(
        summary="The process can work", tag="probes", answers={200: ReadyBody, 503: ReadyBody}, is_open=True,
        operation_id="ready",
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        """Answers 503 while the database is away."""
        asked = {"database": _DATABASE.start(), "redis": _REDIS.start()}
        wait(asked.values(), timeout=LIMIT_S)
        parts = {name: _state(future) for name, future in asked.items()}
        ready = parts["database"] == UP
        return reply({"status": "ready" if ready else "not ready", **parts}, 200 if ready else 503)


def _state(future: Future[None]) -> str:
    if not future.done():
        return AWAY
    error = future.exception()
    if error is None:
        return UP
    if isinstance(error, Error | redis.RedisError | OSError):
        return AWAY
    raise error
