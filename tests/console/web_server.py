"""The console as the web login serves it: gunicorn in a process of its own, on the tests' database."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import requests

from lockservice.embedded.local import REPOSITORY_ROOT, free_port


@contextmanager
def served() -> Iterator[str]:
    """Give the address of a console that runs as `lock_web`, and stop it afterwards."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        [
            sys.executable, "-m", "gunicorn", "lockservice.wsgi:application", "--bind", f"127.0.0.1:{port}",
            "--workers", "1", "--threads", "4", "--no-control-socket", "--log-level", "warning",
        ],
        cwd=REPOSITORY_ROOT,
        env={
            **os.environ, "LOCK_DB_LOGIN": "web", "LOCK_PROCESS_NAME": "console-test", "LOCK_DB_POOL_MAX": "4",
            "DJANGO_SETTINGS_MODULE": "lockservice.settings.testing",
        },
        stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        _wait(address, process)
        yield address
    finally:
        process.terminate()
        process.communicate(timeout=20)


def _wait(address: str, process: subprocess.Popen[bytes]) -> None:
    ends = time.monotonic() + 60
    while time.monotonic() < ends:
        try:
            assert requests.get(f"{address}/console/login/", timeout=10).status_code == 200
            return
        except requests.ConnectionError:
            assert process.poll() is None, process.stderr.read().decode() if process.stderr else "it ended"
            time.sleep(0.1)
    raise AssertionError("the console did not answer within a minute")
