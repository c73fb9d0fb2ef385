"""Vendor secrets in files of this machine: embedded mode, and a small hotel that runs the service itself.

One rule: every version is a file of mode 0600, sealed for its name and number, written whole, synced, and never changed; a
destroyed one stays as an empty file, so that its number is not given again. Any number of processes may write at once.
"""

from __future__ import annotations

from pathlib import Path

from lockservice.core import crypto
from lockservice.core.files import make_folder, replace, write_new
from lockservice.core.secret_store import SecretMissing, SecretName, StoreUnavailable, check_value
from vendors.port.secrets import Token

PURPOSE = "vendor-secret"
SUFFIX = ".sealed"


class FileStore:
    """Implements lockservice.core.secret_store.SecretStore in a folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def add(self, name: SecretName, value: Token) -> int:
        """Writes the next version; of several writers each gets a number of its own."""
        check_value(value)
        folder = self._folder(name)
        try:
            make_folder(folder)
            while True:
                version = max(_versions(folder), default=0) + 1
                sealed = crypto.seal(PURPOSE, name.tenant_id, _place(name, version), value.reveal())
                if write_new(folder / f"{version}{SUFFIX}", sealed):
                    return version
        except OSError as error:
            raise _unavailable(error) from error

    def read(self, name: SecretName, version: int) -> Token:
        """Opens one file."""
        try:
            sealed = (self._folder(name) / f"{version}{SUFFIX}").read_bytes()
        except FileNotFoundError as error:
            if not self._root.is_dir():
                raise StoreUnavailable("the secret folder is not there", retriable=True) from error
            raise SecretMissing(f"no version {version} of {name.name}") from error
        except OSError as error:
            raise _unavailable(error) from error
        if not sealed:
            raise SecretMissing(f"version {version} of {name.name} was destroyed")
        return Token(crypto.unseal(PURPOSE, name.tenant_id, _place(name, version), sealed))

    def destroy(self, name: SecretName, version: int) -> None:
        """Empties the file."""
        file = self._folder(name) / f"{version}{SUFFIX}"
        try:
            if file.exists():
                replace(file, b"")
        except OSError as error:
            raise _unavailable(error) from error

    def _folder(self, name: SecretName) -> Path:
        return self._root.joinpath(*name.parts)


def _versions(folder: Path) -> list[int]:
    return [int(path.stem) for path in folder.iterdir() if path.suffix == SUFFIX and path.stem.isdecimal()]


def _place(name: SecretName, version: int) -> tuple[str, str, str]:
    return ("secret-store", "/".join(name.parts), str(version))


def _unavailable(error: OSError) -> StoreUnavailable:
    return StoreUnavailable(f"the secret folder: {type(error).__name__}", retriable=True)
