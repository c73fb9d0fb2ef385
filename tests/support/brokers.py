"""The brokers that the bus contract runs against, all behind one face.

Rule: a test asks a broker for buses and topics, and may freeze, kill and empty it; it never asks which one it is.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import uuid
from typing import Any, Protocol

from lockservice.embedded import valkey
from lockservice.embedded.local import LocalDirectory
from sagas.bus.port import EventBus
from sagas.bus.redis_streams import RedisStreamsBus
from sagas.bus.topology import SubscriptionDeclaration, Topology
from tests.support.pubsub_servers import REPOSITORY, PubSubServer

LEASE_S = 2
PROJECT = "melmastoon"
_numbers = itertools.count(1)


class Broker(Protocol):
    def bus(self) -> EventBus: ...

    def child(self, *arguments: str) -> subprocess.Popen[str]:
        """A process of its own with a bus of its own, see ``bus_child``."""
        ...

    def freeze(self) -> None: ...

    def thaw(self) -> None: ...

    def kill_and_empty(self) -> None: ...

    def restart(self) -> None: ...

    def stop(self) -> None: ...


def new_topic(name: str = "topic") -> str:
    return f"test.{name}.{next(_numbers)}.{uuid.uuid4().hex[:8]}"


def make_bus(description: dict[str, Any]) -> EventBus:
    """A bus from plain values, so that child processes can make the same one."""
    if description["kind"] == "redis":
        return RedisStreamsBus(description["url"], prefix=description["prefix"], lease_s=LEASE_S)
    from sagas.bus.google_pubsub import GooglePubSubBus  # a child for Redis does without gRPC

    return GooglePubSubBus(
        PROJECT,
        topology=_QuickRetries(topics=(), subscriptions=()),
        emulator_host=description["host"],
        lease_s=LEASE_S,
        publish_timeout_s=2.0,
        make_missing=True,
    )


class _QuickRetries(Topology):
    """Declares any subscription it is asked for, with a back-off that tests can wait for."""

    def subscription(self, topic: str, group: str) -> SubscriptionDeclaration:
        return SubscriptionDeclaration(
            topic,
            group,
            ack_deadline_s=10,
            dead_letter_topic=f"{topic}.dlq",
            minimum_backoff_s=0.1,
            maximum_backoff_s=0.2,
        )


class _Children:
    description: dict[str, Any]

    def bus(self) -> EventBus:
        return make_bus(self.description)

    def child(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.support.bus_child", json.dumps(self.description), *arguments]
        return subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)


class ValkeyBroker(_Children):
    """The embedded Valkey, in a directory of its own so that killing it hurts nobody else."""

    def __init__(self, local: LocalDirectory) -> None:
        self._local = local
        place = valkey.start(local)
        self.description = {"kind": "redis", "url": place.url(), "prefix": f"{{bus-{uuid.uuid4().hex[:8]}}}"}

    @property
    def url(self) -> str:
        return str(self.description["url"])

    def freeze(self) -> None:
        os.kill(self._pid(), signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self._pid(), signal.SIGCONT)

    def kill_and_empty(self) -> None:
        valkey.stop(self._local, kill=True)
        shutil.rmtree(self._local.valkey)

    def restart(self) -> None:
        place = valkey.start(self._local)
        assert place.url() == self.url, "somebody took the port in the meantime"

    def stop(self) -> None:
        valkey.stop(self._local, kill=True)

    def _pid(self) -> int:
        pid = valkey.running_pid(self._local)
        assert pid is not None
        return pid


class PubSubBroker(_Children):
    """A Pub/Sub server in a process of its own."""

    def __init__(self, server: PubSubServer) -> None:
        self._server = server
        server.start()
        self.description = {"kind": "pubsub", "host": server.host}

    @property
    def host(self) -> str:
        return self._server.host

    def freeze(self) -> None:
        self._server.freeze()

    def thaw(self) -> None:
        self._server.thaw()

    def kill_and_empty(self) -> None:
        self._server.stop()

    def restart(self) -> None:
        self._server.start()

    def stop(self) -> None:
        self._server.stop()
