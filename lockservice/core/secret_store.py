"""Where vendor secrets are kept: names, versions, and the one place that chooses between files and Google Secret Manager.

One rule: a version is written once and never changed; rows hold names and version numbers, never values. The namespace is
`lock/<tenant>/<property>/<installation>/<name>`, so that access can be granted by prefix.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol

from django.conf import settings

from vendors.port.secrets import Token

NAMESPACE: Final = "lock"
MAX_BYTES: Final = 60 * 1024
"""Secret Manager takes at most 64 KiB; a certificate chain has a few."""
_PLAIN = re.compile(r"[A-Za-z0-9_]")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


class StoreUnavailable(Exception):
    """The store gave no usable answer, or refuses us. `retriable` says whether trying again may help."""

    def __init__(self, message: str, *, retriable: bool) -> None:
        super().__init__(message)
        self.retriable = retriable


class SecretMissing(LookupError):
    """The store answers, and has no such version, or destroyed it. Trying again makes no sense."""


@dataclass(frozen=True, slots=True)
class SecretName:
    """One secret of one installation. Raises ValueError for a name that is no lower-case word of at most 40 characters."""

    tenant_id: str
    property_id: str
    installation_id: str
    name: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError("a secret's name is a lower-case word")
        if not (self.tenant_id and self.property_id and self.installation_id):
            raise ValueError("a secret belongs to a tenant, a property and an installation")

    @property
    def parts(self) -> tuple[str, str, str, str, str]:
        """The namespace and the four parts, each in letters, digits, `_`; anything else as `-` and the hex of its bytes."""
        owners = (self.tenant_id, self.property_id, self.installation_id)
        return (NAMESPACE, *(_escaped(part) for part in owners), self.name)  # type: ignore[return-value]


class SecretStore(Protocol):
    """Keeps secrets by name and version. Safe from several threads and processes."""

    def add(self, name: SecretName, value: Token) -> int:
        """Writes a new version and returns its number, 1 or more, higher than every one before. Raises StoreUnavailable, and
        ValueError for an empty or too long value. An answer that was lost may leave a version nobody names."""
        ...

    def read(self, name: SecretName, version: int) -> Token:
        """Returns a version's value. Raises SecretMissing, StoreUnavailable."""
        ...

    def destroy(self, name: SecretName, version: int) -> None:
        """Makes a version unreadable for good; its number is not given again. Repeatable. Raises StoreUnavailable."""
        ...


_making = threading.Lock()


def secret_store() -> SecretStore:
    """Returns this process's store as the settings name it; makes no call. Raises ValueError for settings that are wrong."""
    with _making:
        return _made(
            settings.SECRET_STORE,
            settings.SECRET_STORE_FOLDER,
            settings.SECRETS_PROJECT,
            tuple(settings.SECRETS_LOCATIONS),
            settings.SECRETS_ENDPOINT,
        )


def check_value(value: Token) -> bytes:
    """Returns the bytes to store. Raises ValueError without the value in its text."""
    content = value.reveal().encode()
    if not content or len(content) > MAX_BYTES:
        raise ValueError(f"a secret has 1 to {MAX_BYTES} bytes")
    return content


def _escaped(part: str) -> str:
    return "".join(char if _PLAIN.fullmatch(char) else "".join(f"-{byte:02x}" for byte in char.encode()) for char in part)


@lru_cache(maxsize=8)
def _made(backend: str, folder: str, project: str, locations: tuple[str, ...], endpoint: str) -> SecretStore:
    if backend == "file":
        from lockservice.core.secret_store_file import FileStore

        return FileStore(Path(folder))
    if backend == "google":
        # Loaded only where it is used: it brings gRPC along.
        from lockservice.core.secret_store_google import GoogleStore

        return GoogleStore(project, locations=locations, endpoint=endpoint)
    raise ValueError(f"LOCK_SECRET_STORE must be file or google, not {backend!r}")
