"""The real gateway in a process of its own, and desks that speak its frames by hand."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from lockservice.core.auth import issue_token
from lockservice.embedded.local import REPOSITORY_ROOT

TETHER = REPOSITORY_ROOT / "lockservice" / "embedded" / "tether.py"
HEARTBEAT_S = 0.5
VENDOR = "generic-wiegand"


class GatewayProcess:
    """One `manage.py bridge_gateway`; its address is `url`."""

    def __init__(self, *options: str, **environment: str) -> None:
        self._process = subprocess.Popen(
            [
                sys.executable,
                str(TETHER),
                str(os.getpid()),
                str(int(signal.SIGTERM)),
                sys.executable,
                "manage.py",
                "bridge_gateway",
                "--port",
                "0",
                "--heartbeat",
                str(HEARTBEAT_S),
                *options,
            ],
            cwd=REPOSITORY_ROOT,
            env={
                **os.environ,
                "DJANGO_SETTINGS_MODULE": "lockservice.settings.testing",
                "LOCK_DB_LOGIN": "worker",
                "LOCK_DB_POOL_MAX": "8",
                **environment,
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        assert self.url.startswith("ws://"), "the gateway does not listen"

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(15)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def kill(self) -> None:
        """As a crash would end it: no goodbye to anybody."""
        self._process.kill()
        self._process.wait(15)
        assert self._process.stdout is not None
        self._process.stdout.close()


def token(tenant_id: str, *properties: str, desk: str = "dev_desk", role: str = "desk", ttl_s: int = 600) -> str:
    return issue_token(tenant_id, desk, (role,), properties, ttl_s=ttl_s)


class ScriptedDesk:
    """A desk whose every word a test decides. It answers no offer by itself and sends no ping of its own."""

    def __init__(self, url: str, bearer: str, *, hello: bool = True) -> None:
        headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
        self._opened = connect(url, additional_headers=headers, compression=None, proxy=None, close_timeout=1)
        self.socket: ClientConnection = self._opened.__enter__()
        if hello:
            self.say("hello", version=1, program="scripted", vendors=[VENDOR], encoder="", holding=[])
            assert self.hear("welcome")["version"] == 1

    def say(self, kind: str, **fields: Any) -> None:
        self.socket.send(json.dumps({"type": kind, **fields}))

    def hear(self, *kinds: str, within_s: float = 10) -> dict[str, Any]:
        """The next message of one of these kinds; pings are kept up and others dropped meanwhile."""
        ends = time.monotonic() + within_s
        while time.monotonic() < ends:
            try:
                message = json.loads(self.socket.recv(timeout=HEARTBEAT_S))
            except TimeoutError:
                self.say("ping", encoderReady=True)
                continue
            if message["type"] in kinds:
                return dict(message)
        raise AssertionError(f"no {kinds} came")

    def hears_nothing(self, *kinds: str, for_s: float = 2.0) -> bool:
        try:
            self.hear(*kinds, within_s=for_s)
        except AssertionError:
            return True
        return False

    def begin(self) -> dict[str, Any]:
        """Takes the next job up to `go`."""
        offer = self.hear("offer")
        self.say("accept", jobId=offer["jobId"])
        assert self.hear("go", "cancel") == {"type": "go", "jobId": offer["jobId"]}
        return offer

    def done(self, offer: dict[str, Any], **body: Any) -> None:
        self.say("result", jobId=offer["jobId"], outcome="done", detail="", body=body)

    def closed_while_pinging(self, within_s: float = 20) -> tuple[int, str]:
        """The code and the reason the gateway closes with, though the desk pings."""
        try:
            self.hear("no such kind", within_s=within_s)
        except ConnectionClosed as error:
            return (error.rcvd.code, error.rcvd.reason) if error.rcvd else (1006, "")
        raise AssertionError("the connection stays open")

    def closed(self, within_s: float = 10) -> int:
        """The code the gateway closes with."""
        ends = time.monotonic() + within_s
        while time.monotonic() < ends:
            try:
                self.socket.recv(timeout=0.2)
            except TimeoutError:
                continue
            except ConnectionClosed as error:
                return error.rcvd.code if error.rcvd else 1006
        raise AssertionError("the connection stays open")

    def vanish(self) -> None:
        """The cable is pulled: no closing frame."""
        self.socket.socket.close()

    def close(self) -> None:
        self._opened.__exit__(None, None, None)


class VirtualDesk:
    """`python -m desktop_bridge.virtual_desk` for one house."""

    def __init__(self, gateway: str, encoder: str, house: str, bearer: str, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._token_file = folder / "token"
        self._token_file.write_text(bearer, encoding="utf-8")
        self.journal = folder / "journal.json"
        self._argv = [
            sys.executable,
            "-m",
            "desktop_bridge.virtual_desk",
            VENDOR,
            "--gateway",
            gateway,
            "--encoder",
            encoder,
            "--house",
            house,
            "--journal",
            str(self.journal),
            "--token-file",
            str(self._token_file),
        ]
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._argv, cwd=REPOSITORY_ROOT, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        while not (line := self._process.stdout.readline()).startswith("connected"):
            assert line, "the desk has ended"

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(10)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(15)
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def desk(url: str, bearer: str) -> Iterator[ScriptedDesk]:
    scripted = ScriptedDesk(url, bearer)
    try:
        yield scripted
    finally:
        scripted.close()
