"""Public keys that tokens are checked with: from this machine, a file or an address, as a JWKS (RFC 7517).

One rule: a key belongs to one algorithm (RSA: RS256, Ed25519: EdDSA), and that is decided by the key, never by a token.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import requests
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.conf import settings
from jwt.algorithms import OKPAlgorithm, RSAAlgorithm
from jwt.exceptions import InvalidKeyError

EMBEDDED: Final = "embedded:"
"""The address of the key set whose private half lies in the local directory."""

FRESH_S: Final = 300.0
ASK_AGAIN_S: Final = 15.0
"""After a failed fetch or an unknown key id the source is left alone for this long, so that made-up ids cannot flood it."""
TIMEOUT_S: Final = 2.0
MAX_BYTES: Final = 256 * 1024
MIN_RSA_BITS: Final = 2048


class KeysUnavailable(Exception):
    """The key set cannot be read and none was read before. Retriable."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key, with the one algorithm it may be used with."""

    algorithm: str
    key: RSAPublicKey | Ed25519PublicKey


class KeySet:
    """The keys of one source, read when needed and remembered; safe to use from several threads."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._keys: dict[str, PublicKey] = {}
        self._read_at = float("-inf")
        self._asked_at = float("-inf")

    def find(self, kid: str) -> PublicKey | None:
        """Returns the key of this id; None when the source has none. Raises KeysUnavailable."""
        with self._lock:
            now = time.monotonic()
            stale = now - self._read_at > FRESH_S or kid not in self._keys
            if stale and now - self._asked_at > ASK_AGAIN_S:
                self._asked_at = now
                self._refresh(now)
            if self._read_at == float("-inf"):
                raise KeysUnavailable("no key set could be read yet")
            return self._keys.get(kid)

    def _refresh(self, now: float) -> None:
        """Reads the source; keys that were read before stay good while it does not answer."""
        try:
            self._keys = parse_key_set(_read(self._source))
        except (OSError, ValueError, requests.RequestException) as error:
            if self._read_at == float("-inf"):
                raise KeysUnavailable(type(error).__name__) from error
            return
        self._read_at = now


@lru_cache(maxsize=8)
def key_set(source: str) -> KeySet:
    """Returns this process's key set of a source: `embedded:`, `file:/…`, `https://…`, or `http://` on loopback."""
    return KeySet(source)


def parse_key_set(document: Mapping[str, Any]) -> dict[str, PublicKey]:
    """Reads a JWKS by key id. Keys of other kinds, for encryption, without id or too short are left out.

    Raises ValueError when it is no key set.
    """
    rows = document.get("keys") if isinstance(document, Mapping) else None
    if not isinstance(rows, list):
        raise ValueError("a key set has a list of keys")  # noqa: TRY004 - one error for whatever is wrong in the document
    found = {}
    for row in rows:
        key = _public_key(row) if isinstance(row, dict) else None
        if key is not None:
            found[str(row["kid"])] = key
    return found


def _public_key(row: dict[str, Any]) -> PublicKey | None:
    kid = row.get("kid")
    if not isinstance(kid, str) or not kid or row.get("use", "sig") != "sig":
        return None
    try:
        if row.get("kty") == "RSA" and row.get("alg", "RS256") == "RS256":
            rsa = RSAAlgorithm.from_jwk(row)
            good = isinstance(rsa, RSAPublicKey) and rsa.key_size >= MIN_RSA_BITS
            return PublicKey("RS256", rsa) if good else None  # type: ignore[arg-type]  # checked in the line above
        if row.get("kty") == "OKP" and row.get("crv") == "Ed25519" and row.get("alg", "EdDSA") in ("EdDSA", "Ed25519"):
            edwards = OKPAlgorithm.from_jwk(row)
            return PublicKey("EdDSA", edwards) if isinstance(edwards, Ed25519PublicKey) else None
    except (InvalidKeyError, ValueError):
        return None
    return None


def embedded_key() -> Ed25519PrivateKey:
    """Returns the signing key of embedded mode, made from a secret in the local directory; the same at every start.

    Raises RuntimeError where there is none: outside embedded mode tokens come from the platform.
    """
    secret = getattr(settings, "API_SIGNING_SECRET", "")
    if not secret:
        raise RuntimeError("this installation signs no tokens; they come from the platform's identity service")
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(f"api-signing\x1f{secret}".encode()).digest())


def embedded_key_set() -> dict[str, Any]:
    """Returns the JWKS of embedded mode. Raises RuntimeError outside of it."""
    raw = embedded_key().public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    x = base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
    row = {"kty": "OKP", "crv": "Ed25519", "x": x, "kid": hashlib.sha256(raw).hexdigest()[:16], "use": "sig", "alg": "EdDSA"}
    return {"keys": [row]}


def _read(source: str) -> dict[str, Any]:
    if source == EMBEDDED:
        return embedded_key_set()
    if source.startswith("file:"):
        return json.loads(Path(source.removeprefix("file:")).read_text(encoding="utf-8"))
    return json.loads(_fetch(source))


def _fetch(address: str) -> bytes:
    parts = urlsplit(address)
    if parts.scheme != "https" and parts.hostname not in ("127.0.0.1", "::1", "localhost"):
        raise ValueError("keys are fetched over https")
    with requests.get(address, timeout=TIMEOUT_S, stream=True, allow_redirects=False) as answer:
        answer.raise_for_status()
        body = answer.raw.read(MAX_BYTES + 1, decode_content=True)
    if len(body) > MAX_BYTES:
        raise ValueError("the key set is too long")
    return bytes(body)
