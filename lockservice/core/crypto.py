"""Sealing of secrets at rest, and blind indexes over them.

One rule: a sealed value opens only at the place it was sealed for: purpose, tenant, table, row and column are its associated
data, so a ciphertext moved elsewhere fails. AES-256-GCM, 96-bit random nonce; layout: key id (1 byte), nonce (12), ciphertext.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from functools import lru_cache
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

KEY_ID = 1
PURPOSES = frozenset({"lock-config", "vendor-ref", "webhook-secret", "offline-cert", "guest-pii", "artifact", "vendor-secret"})


class SealBroken(Exception):
    """The bytes were not sealed for this place, or were changed. Trying again makes no sense."""


def seal(purpose: str, tenant_id: str, place: tuple[str, str, str], plain: str) -> bytes:
    """Seals a text for `place` = (table, row id, column). Raises ValueError for an unknown purpose."""
    nonce = os.urandom(12)
    sealed = _cipher(purpose, tenant_id).encrypt(nonce, plain.encode(), _associated(purpose, tenant_id, place))
    return bytes([KEY_ID]) + nonce + sealed


def unseal(purpose: str, tenant_id: str, place: tuple[str, str, str], sealed: bytes | memoryview) -> str:
    """Opens what `seal` made for the same place. Raises SealBroken."""
    blob = bytes(sealed)
    if len(blob) < 29 or blob[0] != KEY_ID:
        raise SealBroken(f"not a seal of key {KEY_ID}")
    try:
        plain = _cipher(purpose, tenant_id).decrypt(blob[1:13], blob[13:], _associated(purpose, tenant_id, place))
    except InvalidTag as error:
        raise SealBroken(f"seal of {place[0]}.{place[2]} does not open here") from error
    return plain.decode()


def blind_index(purpose: str, tenant_id: str, value: str) -> bytes:
    """Returns 32 bytes that are equal for equal values of one tenant and tell nothing without the key."""
    return hmac.new(_derive("index", purpose, tenant_id), value.encode(), hashlib.sha256).digest()


def _associated(purpose: str, tenant_id: str, place: tuple[str, str, str]) -> bytes:
    return "\x1f".join((purpose, tenant_id, *place)).encode()


@lru_cache(maxsize=4096)
def _cipher(purpose: str, tenant_id: str) -> AESGCM:
    if purpose not in PURPOSES:
        raise ValueError(f"unknown sealing purpose {purpose!r}")
    return AESGCM(_derive("seal", purpose, tenant_id))


@lru_cache(maxsize=4096)
def _derive(use: str, purpose: str, tenant_id: str) -> bytes:
    info = f"melmastoon-lock\x1f{use}\x1f{purpose}\x1f{tenant_id}".encode()
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(_master_key())


@lru_cache(maxsize=1)
def _master_key() -> bytes:
    key = Path(settings.DATA_KEY_FILE).read_bytes()
    if len(key) != 32:
        raise ValueError("the data key file must hold exactly 32 bytes")
    return key
