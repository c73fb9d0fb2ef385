"""A gRPC channel to one of Google's services, or to a server of that wire on this machine.

One rule: without credentials and TLS only loopback is spoken to; everything else goes to Google's own address.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

import grpc  # type: ignore[import-untyped]
from google.api_core import exceptions as api

_CHANNEL_OPTIONS = (
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # Several servers come and go on one address in local mode; sharing sub-channels would share their failures.
    ("grpc.use_local_subchannel_pool", 1),
)
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

REFUSALS = (api.PermissionDenied, api.Unauthenticated, api.InvalidArgument, api.MethodNotImplemented)
"""Answers that stay the same however often one asks: a person must act."""

Client = TypeVar("Client")


def local_channel(endpoint: str) -> grpc.Channel:
    """Opens a plain channel to `host:port` on this machine. Raises ValueError for any other host."""
    host = endpoint.rpartition(":")[0]
    if host not in _LOOPBACK:
        raise ValueError(f"only loopback is reached without TLS, not {host!r}")
    return grpc.insecure_channel(endpoint, options=_CHANNEL_OPTIONS)


class PerProcess(Generic[Client]):
    """Makes a client on first use and once per process, since gRPC does not survive a fork."""

    def __init__(self, make: Callable[[], Client]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._process: int | None = None
        self._client: Client | None = None

    def get(self) -> Client:
        """Returns this process's client."""
        with self._lock:
            if self._client is None or self._process != os.getpid():
                self._process, self._client = os.getpid(), self._make()
            return self._client
