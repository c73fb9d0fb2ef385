"""Ports of 127.0.0.1 that a program means to listen at: held among the programs of this machine's user from their choice on.

The one rule: a hold is a lock on a file and ends with the process that took it. It keeps two instances that start at once from
choosing the same port; against everybody else only binding decides.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import stat
import tempfile
import threading
from pathlib import Path

# Below what Linux gives to outgoing connections (32768 to 60999, ip(7) of Linux), above the well-known databases' and caches'.
_SERVER_PORTS = range(12_000, 32_768)
_NO_FILE = -1
_held: dict[int, tuple[int, Path]] = {}
"""Port → the locked file's handle, and for whom it is held."""
_taking = threading.Lock()


def free_port() -> int:
    """Give a TCP port that was free on 127.0.0.1 a moment ago; somebody may still be faster.

    It is none of those that the system gives to outgoing connections: a remembered port whose server is away for a while
    would be somebody's connection when the server comes back.
    """
    while not port_is_free(port := secrets.choice(_SERVER_PORTS)):
        pass
    return port


def port_is_free(port: int) -> bool:
    """Say whether a server could listen on this port of 127.0.0.1 now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Without it the port of a server that just stopped looks taken for a minute (TIME_WAIT).
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def take(port: int, owner: Path) -> bool:
    """Hold a port until this process ends, and say whether a server of `owner` may listen there now.

    False where somebody listens, or where the port is held for another owner.
    """
    with _taking:
        held = _held.get(port)
        if held is not None and held[1] != owner:
            return False
        handle = _lock(port, owner) if held is None else held[0]
        if handle is None:
            return False
        if port_is_free(port):
            _held[port] = (handle, owner)
            return True
        _held.pop(port, None)
        if handle != _NO_FILE:
            os.close(handle)
        return False


def _lock(port: int, owner: Path) -> int | None:
    """Give the locked file's handle; _NO_FILE where a process of the same owner has it, None where one of another has."""
    folder = _folder()
    if folder is None:
        return _NO_FILE
    name = os.fsencode(owner)
    handle = os.open(folder / str(port), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        is_ours = os.pread(handle, 4096, 0) == name
        os.close(handle)
        return _NO_FILE if is_ours else None
    os.ftruncate(handle, 0)
    os.pwrite(handle, name, 0)
    return handle


def _folder() -> Path | None:
    """Give the folder of holds; None where it cannot be used, then only binding decides."""
    folder = Path(tempfile.gettempdir()) / f"melmastoon-ports-{os.geteuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    return folder if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() else None
