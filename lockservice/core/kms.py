"""Key-encryption keys: who wraps data keys, and the one place that chooses between a key file and Cloud KMS.

One rule: a key-encryption key is named and never held here; callers give 32 bytes and get wrapped ones. `context` binds the
wrapped bytes to the row they belong to.
"""

from __future__ import annotations

import threading
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from django.conf import settings


class KeyUnavailable(Exception):
    """The key service gave no usable answer, or refuses us. `retriable` says whether trying again may help."""

    def __init__(self, message: str, *, retriable: bool) -> None:
        super().__init__(message)
        self.retriable = retriable


class KeyWrapper(Protocol):
    """Wraps and unwraps data keys with a named key-encryption key. Safe from several threads."""

    def wrap(self, key_name: str, plain: bytes, context: bytes) -> bytes:
        """Returns the wrapped key, under the named key's present version. Raises KeyUnavailable."""
        ...

    def unwrap(self, key_name: str, wrapped: bytes, context: bytes) -> bytes:
        """Returns the plain key, whichever version wrapped it. Raises KeyUnavailable, and SealBroken for other bytes or
        context."""
        ...

    def is_current(self, key_name: str, wrapped: bytes) -> bool | None:
        """Says whether the present version wrapped it; None where only the service knows."""
        ...


_making = threading.Lock()


def key_wrapper() -> KeyWrapper:
    """Returns this process's wrapper as the settings name it; makes no call. Raises ValueError for settings that are wrong."""
    with _making:
        return _made(settings.KEY_ENCRYPTION, settings.KEK_FOLDER, settings.KMS_ENDPOINT)


def key_name_for(configured: str) -> str:
    """Returns the name of the key-encryption key to use: the tenant's own where one is configured, else the service's."""
    return configured or str(settings.CONFIG_KEY_NAME)


@lru_cache(maxsize=8)
def _made(backend: str, folder: str, endpoint: str) -> KeyWrapper:
    if backend == "file":
        from lockservice.core.kms_file import KeyFolder

        return KeyFolder(Path(folder))
    if backend == "kms":
        # Loaded only where it is used: it brings gRPC along.
        from lockservice.core.kms_google import CloudKms

        return CloudKms(endpoint=endpoint)
    raise ValueError(f"LOCK_KEY_ENCRYPTION must be file or kms, not {backend!r}")
