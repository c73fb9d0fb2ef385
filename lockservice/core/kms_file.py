"""Key-encryption keys in a folder of this machine: embedded mode, and a small hotel that runs the service itself.

One rule: a version is a file of 32 bytes that is written once and never changed; the highest number is the present one. Wrapped
bytes: version (4, big-endian), nonce (12), AES-256-GCM ciphertext. Each key name has a key of its own, derived by HKDF.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from lockservice.core.crypto import SealBroken
from lockservice.core.files import make_folder, write_new
from lockservice.core.kms import KeyUnavailable

KEY_BYTES = 32
SUFFIX = ".kek"


class KeyFolder:
    """Implements lockservice.core.kms.KeyWrapper."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._read: dict[int, bytes] = {}

    def wrap(self, key_name: str, plain: bytes, context: bytes) -> bytes:
        """Wraps under the present version; makes the first one when there is none."""
        version = self.version() or self.add_version(first=True)
        nonce = os.urandom(12)
        return version.to_bytes(4, "big") + nonce + self._cipher(version, key_name).encrypt(nonce, plain, context)

    def unwrap(self, key_name: str, wrapped: bytes, context: bytes) -> bytes:
        """Unwraps with the version named in the bytes."""
        if len(wrapped) < 32:
            raise SealBroken("not a wrapped key")
        try:
            return self._cipher(int.from_bytes(wrapped[:4], "big"), key_name).decrypt(wrapped[4:16], wrapped[16:], context)
        except InvalidTag as error:
            raise SealBroken("the wrapped key does not open here") from error

    def is_current(self, key_name: str, wrapped: bytes) -> bool | None:
        """Reads the version in the bytes."""
        return int.from_bytes(wrapped[:4], "big") == self.version()

    def version(self) -> int:
        """Returns the present version, 0 when there is none."""
        try:
            names = [path.stem for path in self._folder.iterdir() if path.suffix == SUFFIX and path.stem.isdecimal()]
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise KeyUnavailable("the key folder cannot be read", retriable=False) from error
        return max(map(int, names), default=0)

    def add_version(self, *, first: bool = False) -> int:
        """Makes the next version and returns its number; with `first` only where there is none. Of several writers each gets
        its own, but a first one is made once."""
        make_folder(self._folder)
        while True:
            version = self.version() + 1
            if first and version > 1:
                return version - 1
            if write_new(self._folder / f"{version}{SUFFIX}", os.urandom(KEY_BYTES)):
                return version

    def _cipher(self, version: int, key_name: str) -> AESGCM:
        info = f"melmastoon-lock\x1fkek\x1f{key_name}".encode()
        return AESGCM(HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(self._key(version)))

    def _key(self, version: int) -> bytes:
        with self._lock:
            if version not in self._read:
                try:
                    key = (self._folder / f"{version}{SUFFIX}").read_bytes()
                except FileNotFoundError as error:
                    raise KeyUnavailable(f"key version {version} is not in the key folder", retriable=False) from error
                if len(key) != KEY_BYTES:
                    raise KeyUnavailable(f"key version {version} is not {KEY_BYTES} bytes", retriable=False)
                self._read[version] = key
            return self._read[version]
