"""Uses a demo that runs, or starts one for as long as it is needed.

One rule: what was started here ends here, with everything it started; nothing of it holds this process's output.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from lockservice.embedded.local import REPOSITORY_ROOT, LocalDirectory

START_TIMEOUT_S = 170.0
STOP_TIMEOUT_S = 30.0
_POLL_S = 0.05


class DemoDidNotStart(Exception):
    """The demo ended or was not ready in time; the text shows the end of its log."""


def is_up(local: LocalDirectory) -> bool:
    """Says whether an `up` runs on this local directory."""
    handle = os.open(local.prepare().run / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(handle)


@contextmanager
def demo(local: LocalDirectory) -> Iterator[bool]:
    """Makes sure the demo is up inside the block; gives whether it was started for it. Raises DemoDidNotStart.

    A signal to end (SIGINT, SIGTERM, SIGHUP) leaves the block with KeyboardInterrupt, so that everything is stopped first.
    """
    if is_up(local):
        yield False
        return
    log_path, ready = local.log / "first-key-demo.log", local.run / f"demo-{os.getpid()}.json"
    ready.unlink(missing_ok=True)
    with _ends_by_exception(), log_path.open("wb") as log:
        argv = [sys.executable, "manage.py", "up", "--no-progress", "--end-with-parent", "--ready-file", str(ready)]
        # A session of its own: Ctrl-C in the terminal reaches this process, which then stops the demo in order.
        started = subprocess.Popen(
            argv, cwd=REPOSITORY_ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        try:
            _wait_until_ready(started, ready, log_path)
            yield True
        finally:
            _stop(started)


def _wait_until_ready(started: subprocess.Popen[bytes], ready: Path, log_path: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not ready.exists():
        if started.poll() is not None or time.monotonic() > deadline:
            with log_path.open(encoding="utf-8", errors="replace") as log:
                tail = "".join(log.readlines()[-20:])
            raise DemoDidNotStart(f"the demo did not start; the end of {log_path}:\n{tail}")
        time.sleep(_POLL_S)


def _stop(started: subprocess.Popen[bytes]) -> None:
    if started.poll() is None:
        started.terminate()
    try:
        started.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)  # its own children end with it, the kernel sees to that
        started.wait()


@contextmanager
def _ends_by_exception() -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, _interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
