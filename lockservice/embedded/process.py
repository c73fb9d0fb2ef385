"""Starting and ending single processes by their id.

The one rule: a process is touched only after it was recognised by its working directory, so that a
process id used again by somebody else is never signalled.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_POLL_S = 0.01
_TETHER = Path(__file__).with_name("tether.py")


class ProcessError(RuntimeError):
    """A process did not start or did not end in time. The message names its log file."""


def works_in(pid: int, folder: Path) -> bool:
    """Say whether this process lives and has this folder as its working directory."""
    reap(pid)
    try:
        return Path(f"/proc/{pid}/cwd").readlink() == folder.resolve()
    except OSError:
        return False  # no such process, or one of another user


def is_alive(pid: int) -> bool:
    """Say whether a process with this id runs; one that ended and waits to be collected does not."""
    reap(pid)
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    # The name in brackets may hold anything, also brackets; the state follows the last one.
    if status.rpartition(")")[2].split()[0] not in {"Z", "X"}:
        return True
    reap(pid)  # it may have ended just after the first look
    return False


def reap(pid: int) -> None:
    """Collect the exit status if this is a finished child of ours."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return  # a child of somebody else


def spawn_server(
    argv: Sequence[str],
    *,
    log_file: Path,
    tether_signal: signal.Signals | None,
    prefix: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a server in a session of its own, its output appended to the log file.

    With `tether_signal` the kernel sends that signal to the server when the calling thread's
    process ends for any reason; call it from the main thread, since the kernel watches the thread.
    `prefix` is a command that finally executes the rest of its arguments, such as `unshare`.
    """
    command = [*prefix, *argv]
    if tether_signal is not None:
        command = [*prefix, *tethered(argv, tether_signal)]
    with log_file.open("ab") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=None if env is None else dict(env),
        )


def tethered(argv: Sequence[str], death_signal: signal.Signals) -> list[str]:
    """Give a command that runs `argv` and receives the signal when this process is gone."""
    return [
        sys.executable,
        "-I",
        "-S",
        str(_TETHER),
        str(os.getpid()),
        str(int(death_signal)),
        *argv,
    ]


def wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Look every 10 ms until the condition holds; say whether it did within the time."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(_POLL_S)
    return condition()


def end(pid: int, sent: signal.Signals, timeout_s: float) -> bool:
    """Send one signal and wait; say whether the process is gone within the time."""
    try:
        os.kill(pid, sent)
    except ProcessLookupError:
        return True
    return wait_until(lambda: not is_alive(pid), timeout_s)
