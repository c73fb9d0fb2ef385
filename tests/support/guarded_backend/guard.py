"""Raises where something slow happens while a transaction of this thread is open.

Slow is what waits for another machine, a disk or a long calculation: a password's hash, a connection, a file that is written or
synced, a call to the key service or the secret store, a sleep, another process. A session may idle five seconds in a
transaction; on a loaded machine any of these takes longer.

One rule: the database's own work is not looked at: its driver is in C and raises no audit events. What was found is also kept in
`found`, since the code that was stopped may catch the exception; a fixture fails the test for it.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from django.db import connections

from lockservice.core import kms, secret_store

_WRITES = os.O_WRONLY | os.O_RDWR
_state = threading.local()
found: list[str] = []
"""What was slow and where, of this process."""


class SlowInTransaction(AssertionError):
    """Something slow was about to happen in a transaction. The text says what and where."""


def install() -> None:
    """Watches this process from now on. Safe to repeat."""
    if getattr(install, "done", False):
        return
    install.done = True  # type: ignore[attr-defined]
    hashlib.pbkdf2_hmac = _guarded(hashlib.pbkdf2_hmac, "a password's hash")
    hashlib.scrypt = _guarded(hashlib.scrypt, "a password's hash")
    os.fsync = _guarded(os.fsync, "a sync of a file")
    time.sleep = _guarded(time.sleep, "a sleep")
    _guard_keys_and_secrets()
    sys.addaudithook(_hear)


def check(what: str) -> None:
    """Raises SlowInTransaction if a transaction of this thread is open."""
    if getattr(_state, "telling", False) or not _is_open():
        return
    _state.telling = True  # telling of it opens files
    try:
        stack = traceback.format_list(traceback.extract_stack()[:-1])
    finally:
        _state.telling = False
    text = f"{what} inside a transaction\n{''.join(stack[-14:])}"
    found.append(text)
    raise SlowInTransaction(text)


def _is_open() -> bool:
    return any(connection.in_atomic_block for connection in connections.all(initialized_only=True))


def _hear(event: str, args: tuple[Any, ...]) -> None:
    look = _LOOKS.get(event)
    if look is not None and (what := look(args)):
        check(what)


def _opened(args: tuple[Any, ...]) -> str:
    path, _, flags = args
    if isinstance(path, int) or not (isinstance(flags, int) and flags & _WRITES):
        return ""
    name = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else str(path)
    if "__pycache__" in name or name == os.devnull:
        return ""
    return f"a write to the file {name}"


_LOOKS: dict[str, Callable[[tuple[Any, ...]], str]] = {
    "open": _opened,
    "socket.connect": lambda args: f"a connection to {args[1]}",
    "socket.getaddrinfo": lambda args: f"a look-up of {args[0]}",
    "subprocess.Popen": lambda args: f"a start of {args[0]}",
}


def _guarded(work: Callable[..., Any], what: str) -> Callable[..., Any]:
    @functools.wraps(work)
    def guarded(*args: Any, **named: Any) -> Any:
        check(what)
        return work(*args, **named)

    return guarded


def _guard_keys_and_secrets() -> None:
    """A key service and a secret store are other machines, also where a test has a folder in their place.

    Their classes are guarded when the first one is made: what speaks to Google is loaded only where it is used.
    """
    for module, verbs in ((kms, ("wrap", "unwrap")), (secret_store, ("add", "read", "destroy"))):
        module._made = _with_guarded_verbs(module._made, verbs)  # type: ignore[attr-defined]


def _with_guarded_verbs(make: Callable[..., Any], verbs: tuple[str, ...]) -> Callable[..., Any]:
    @functools.wraps(make)
    def making(*args: Any) -> Any:
        made = make(*args)
        kind = type(made)
        for verb in verbs:
            work = getattr(kind, verb)
            if not hasattr(work, "__wrapped__"):
                setattr(kind, verb, _guarded(work, f"{kind.__name__}.{verb}"))
        return made

    return making
