"""The project's own directory for data, secrets and logs of the embedded mode.

The one rule: everything that embedded mode writes lies under this directory (mode 0700), and no
mode or owner above it is ever changed. There are two exceptions, both in the system's temporary
directory: the lock files of held ports, and the socket folder where the path would not fit into a
Unix socket address.

Layout::

    keys/data.key      key for sealed columns: exactly 32 random bytes
    keys/kek/          key-encryption keys, a file for each version
    secret-store/      vendor secrets, sealed, a file for each version
    secrets/<name>     generated passwords and keys, mode 0600
    run/               ports, process ids, lock files, sockets
    log/               one file for each process
    postgres/ valkey/  the servers' data
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lockservice.embedded import ports
from lockservice.embedded.ports import free_port, port_is_free

__all__ = ["Addresses", "LocalDirectory", "LocalDirectoryError", "free_port", "port_is_free", "replace_file"]

ENVIRONMENT_NAME = "MELMASTOON_LOCAL"
REPOSITORY_ROOT = Path(__file__).resolve().parents[2]

# sun_path holds 108 bytes with the closing NUL; PostgreSQL appends "/.s.PGSQL.<port>" and makes a
# lock file with ".lock" behind it.
_SOCKET_DIRECTORY_MAX_BYTES = 107 - len("/.s.PGSQL.65535") - len(".lock")
_DATA_KEY_BYTES = 32
_SECRET_BYTES = 32


class LocalDirectoryError(RuntimeError):
    """The local directory cannot be used. Repair by hand first; trying again does not help."""


@dataclass(frozen=True)
class LocalDirectory:
    """Paths and generated values of one instance; two instances share nothing."""

    root: Path

    @classmethod
    def from_environment(cls) -> LocalDirectory:
        """Give the directory named by MELMASTOON_LOCAL, else `.local` beside manage.py."""
        configured = os.environ.get(ENVIRONMENT_NAME)
        return cls(Path(configured).absolute() if configured else REPOSITORY_ROOT / ".local")

    @property
    def keys(self) -> Path:
        return self.root / "keys"

    @property
    def secrets(self) -> Path:
        return self.root / "secrets"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def log(self) -> Path:
        return self.root / "log"

    @property
    def postgres(self) -> Path:
        return self.root / "postgres"

    @property
    def valkey(self) -> Path:
        return self.root / "valkey"

    @property
    def data_key_file(self) -> Path:
        return self.keys / "data.key"

    @property
    def key_encryption_folder(self) -> Path:
        return self.keys / "kek"

    @property
    def secret_store_folder(self) -> Path:
        return self.root / "secret-store"

    def prepare(self) -> LocalDirectory:
        """Make the folders and the data key if they are missing; safe to repeat and in parallel.

        Raises:
            LocalDirectoryError: the directory belongs to another user.
        """
        for folder in (self.root, self.keys, self.secrets, self.run, self.log):
            _own_directory(folder)
        _write_once(self.data_key_file, secrets.token_bytes(_DATA_KEY_BYTES))
        return self

    def secret(self, name: str) -> str:
        """Give the generated secret of this name, at least 256 bits, making it at first use."""
        self.prepare()
        file = self.secrets / name
        _write_once(file, f"{secrets.token_urlsafe(_SECRET_BYTES)}\n".encode())
        return file.read_text(encoding="ascii").strip()

    def port(self, server: str) -> int:
        """Give the remembered loopback port of a server, choosing a free one at first use."""
        self.prepare()
        file = self._port_file(server)
        _write_once(file, f"{self._port_for_nobody_else()}\n".encode())
        return int(file.read_text(encoding="ascii"))

    def port_to_listen(self, server: str) -> int:
        """Give the remembered port, or a new one where somebody else has it meanwhile; held from now on.

        For a server that is down and that this process starts now.
        """
        port = self.port(server)
        return port if ports.take(port, self.root) else self.choose_new_port(server)

    def choose_new_port(self, server: str) -> int:
        """Forget a port that somebody else took; remember a free one in its place and hold it."""
        while not ports.take(port := self._port_for_nobody_else(), self.root):
            pass
        self._remember_port(server, port)
        return port

    def prefer_port(self, server: str, preferred: Iterable[int]) -> int | None:
        """Give the first of the preferred ports that nobody has, remembered and held; None where all are taken."""
        for port in preferred:
            if ports.take(port, self.root):
                self._remember_port(server, port)
                return port
        return None

    def _remember_port(self, server: str, port: int) -> None:
        replace_file(self._port_file(server), f"{port}\n")

    def socket_directory(self) -> Path:
        """Give a private folder whose path is short enough for a Unix socket, making it if needed.

        Raises:
            LocalDirectoryError: the folder in the temporary directory belongs to another user.
        """
        self.prepare()
        if len(os.fsencode(self.run)) <= _SOCKET_DIRECTORY_MAX_BYTES:
            return self.run
        digest = hashlib.sha256(os.fsencode(self.root)).hexdigest()[:12]
        folder = Path(tempfile.gettempdir()) / f"melmastoon-{os.geteuid()}-{digest}"
        _own_directory(folder)
        return folder

    def _port_for_nobody_else(self) -> int:
        """Give a free port that is not promised to another server of this directory, which may not have opened it yet."""
        promised = {file.read_text(encoding="ascii").strip() for file in self.run.glob("*.port")}
        while str(port := free_port()) in promised:
            pass
        return port

    def _port_file(self, server: str) -> Path:
        return self.run / f"{server}.port"


class Addresses(Mapping[str, str]):
    """Where servers of a directory listen, each read when it is asked for: a port may be given up for another.

    `servers` maps a key to a prefix, such as `http://`, and the server's name.
    """

    def __init__(self, local: LocalDirectory, servers: Mapping[str, tuple[str, str]]) -> None:
        self._local = local
        self._servers = servers

    def __getitem__(self, key: str) -> str:
        prefix, server = self._servers[key]
        return f"{prefix}127.0.0.1:{self._local.port(server)}"

    def __iter__(self) -> Iterator[str]:
        return iter(self._servers)

    def __len__(self) -> int:
        return len(self._servers)


def replace_file(file: Path, text: str) -> None:
    """Put text into a file of mode 0600 so that a reader sees the old or the new one, never half."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    with os.fdopen(handle, "w", encoding="utf-8") as new:
        new.write(text)
    Path(name).replace(file)


def _own_directory(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        message = f"{folder} is not a directory of this user; set {ENVIRONMENT_NAME} to a directory of your own"
        raise LocalDirectoryError(message)
    if stat.S_IMODE(found.st_mode) != 0o700:
        folder.chmod(0o700)


def _write_once(file: Path, content: bytes) -> None:
    """Write the file unless it exists; of several writers one wins, readers never see half."""
    if file.exists():
        return
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    candidate = Path(name)
    try:
        with os.fdopen(handle, "wb") as new:
            new.write(content)
        os.link(candidate, file)
    except FileExistsError:
        return  # another process was first, its value counts
    finally:
        candidate.unlink()
