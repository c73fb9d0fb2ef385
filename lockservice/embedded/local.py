"""The project's own directory for data, secrets and logs of the embedded mode.

The one rule: everything that embedded mode writes lies under this directory (mode 0700), and no
mode or owner above it is ever changed. The one exception is the socket folder, which moves to the
system's temporary directory when the path would not fit into a Unix socket address.

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
import socket
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

ENVIRONMENT_NAME = "MELMASTOON_LOCAL"
REPOSITORY_ROOT = Path(__file__).resolve().parents[2]

# sun_path holds 108 bytes with the closing NUL; PostgreSQL appends "/.s.PGSQL.<port>" and makes a
# lock file with ".lock" behind it.
_SOCKET_DIRECTORY_MAX_BYTES = 107 - len("/.s.PGSQL.65535") - len(".lock")
# Below what Linux gives to outgoing connections (32768 to 60999, ip(7) of Linux), above the well-known databases' and caches'.
_SERVER_PORTS = range(12_000, 32_768)
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
        """Give the remembered port, or a new one where somebody else listens there meanwhile; for a server that is down."""
        port = self.port(server)
        return port if port_is_free(port) else self.choose_new_port(server)

    def choose_new_port(self, server: str) -> int:
        """Forget a port that somebody else took and remember a free one in its place."""
        port = self._port_for_nobody_else()
        replace_file(self._port_file(server), f"{port}\n")
        return port

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
