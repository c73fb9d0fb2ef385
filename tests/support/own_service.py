"""A service of a test's own: commands on a local directory that nobody shares, and a look at what they leave behind.

One rule: the test suite's own database and clock are not touched; a moved clock here moves nobody else's time.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lockservice.embedded.local import ENVIRONMENT_NAME, REPOSITORY_ROOT

SERVERS = ("postgres", "valkey")


@dataclass(frozen=True)
class OwnService:
    """A local directory of its own."""

    local: Path

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("LOCK_", "DJANGO_", "PYTEST_"))}
        return {**kept, ENVIRONMENT_NAME: str(self.local), "DJANGO_SETTINGS_MODULE": "lockservice.settings.embedded"}

    def manage(self, *arguments: str, timeout_s: float = 280) -> subprocess.CompletedProcess[str]:
        """Runs a management command to its end."""
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=REPOSITORY_ROOT, env=self.environment, capture_output=True, text=True, timeout=timeout_s, check=False,
        )  # fmt: skip

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Starts a management command; output and errors come on its standard output."""
        return subprocess.Popen(
            [sys.executable, "manage.py", *arguments],
            cwd=REPOSITORY_ROOT, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            # as at a terminal: a suite that runs in the background hands on that interrupts are ignored
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - one call, no lock
        )  # fmt: skip

    def processes(self, *, but: Sequence[str] = ()) -> list[str]:
        """Returns the command lines of every process that works on this directory, without those that name one of `but`."""
        mark = f"{ENVIRONMENT_NAME}={self.local}".encode()
        found = []
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit() or int(folder.name) == os.getpid():
                continue
            try:
                if mark not in (folder / "environ").read_bytes().split(b"\0"):
                    continue
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            except OSError:
                continue  # it ended while we looked, or belongs to another user
            if line and not any(word in line for word in but):
                found.append(line)
        return found


@contextmanager
def own_servers(local: Path) -> Iterator[OwnService]:
    """Runs PostgreSQL and Valkey for a service of its own."""
    service = OwnService(local)
    command = [sys.executable, "-m", "lockservice.embedded"]
    subprocess.run([*command, "start"], cwd=REPOSITORY_ROOT, env=service.environment, check=True, capture_output=True)
    try:
        yield service
    finally:
        subprocess.run([*command, "stop"], cwd=REPOSITORY_ROOT, env=service.environment, check=True, capture_output=True)
