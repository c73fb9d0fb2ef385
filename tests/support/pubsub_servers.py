"""Starts a Pub/Sub server for tests: our own, or Google's emulator where this machine happens to have it.

Rule: a server that was started is ended by its process id, whatever the test did to it.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = "google-cloud-cli-pubsub-emulator"


def google_emulator_jar() -> str | None:
    """Google's emulator, if its Debian package is installed; no registry of ours has it."""
    if shutil.which("dpkg") is None or shutil.which("java") is None:
        return None
    listed = subprocess.run(["dpkg", "-L", PACKAGE], capture_output=True, text=True, check=False).stdout.split()
    return next((name for name in listed if name.endswith("-all.jar")), None)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class PubSubServer:
    """One server on a port that stays the same over restarts. It forgets everything when it stops."""

    command: list[str]
    marker: str
    port: int
    process: subprocess.Popen[str] | None = field(default=None)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self.process.stdout is not None
        seen = []
        for line in self.process.stdout:
            seen.append(line)
            if self.marker in line:
                threading.Thread(target=self._drain, args=(self.process,), daemon=True).start()
                return
        raise RuntimeError(f"Pub/Sub server did not start: {''.join(seen)[-500:]}")

    def stop(self, signal_number: int = signal.SIGKILL) -> None:
        if self.process is not None:
            self.process.send_signal(signal_number)
            self.process.wait(10)
            self.process = None

    def freeze(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    @staticmethod
    def _drain(process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with contextlib.closing(process.stdout) as output:
            for _ in output:
                continue


def own_server(faults: str = "", seed: int = 0) -> PubSubServer:
    port = free_port()
    command = [sys.executable, "-m", "tests.support.pubsub_fake", "--port", str(port)]
    return PubSubServer([*command, "--faults", faults, "--seed", str(seed)], "PUBSUB_EMULATOR_HOST=", port)


def google_server(jar: str) -> PubSubServer:
    port = free_port()
    command = ["java", "-Xmx512m", "-jar", jar, "--host=127.0.0.1", f"--port={port}"]
    return PubSubServer(command, "Server started", port)
