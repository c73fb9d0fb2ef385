"""Envelope sealing: a row's text under a data key of its own, and that key wrapped by a key-encryption key.

One rule: the data key's plain bytes leave this process never, and the wrapped ones open only for the row they were made for.
A sealed text is: form (1 byte, 2), nonce (12), AES-256-GCM ciphertext; purpose, tenant and place are its associated data, as in
`crypto`. Form 1 is `crypto`'s own, so a reader tells the two apart by the first byte.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from lockservice.core.crypto import SealBroken
from lockservice.core.kms import KeyWrapper

FORM = 2
KEY_BYTES = 32
Place = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class WrappedKey:
    """A data key at rest: which key-encryption key wrapped it, and the wrapped bytes."""

    key_name: str
    wrapped: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class DataKey:
    """A data key in use. Its bytes never print."""

    plain: bytes = field(repr=False)


def new_data_key(wrapper: KeyWrapper, key_name: str, tenant_id: str, place: Place) -> tuple[DataKey, WrappedKey]:
    """Draws a data key for a place and wraps it. May call the key service: no transaction should be open.

    Raises lockservice.core.kms.KeyUnavailable.
    """
    key = DataKey(os.urandom(KEY_BYTES))
    return key, WrappedKey(key_name, wrapper.wrap(key_name, key.plain, _context(tenant_id, place)))


def unwrap(wrapper: KeyWrapper, wrapped: WrappedKey, tenant_id: str, place: Place) -> DataKey:
    """Opens a wrapped data key for its place. May call the key service. Raises KeyUnavailable, SealBroken."""
    plain = wrapper.unwrap(wrapped.key_name, wrapped.wrapped, _context(tenant_id, place))
    if len(plain) != KEY_BYTES:
        raise SealBroken("the wrapped key has another length")
    return DataKey(plain)


def rewrap(wrapper: KeyWrapper, wrapped: WrappedKey, key_name: str, tenant_id: str, place: Place) -> WrappedKey:
    """Wraps the same data key anew under `key_name`'s present version; what it sealed stays as it is.

    Raises KeyUnavailable, SealBroken.
    """
    plain = unwrap(wrapper, wrapped, tenant_id, place).plain
    return WrappedKey(key_name, wrapper.wrap(key_name, plain, _context(tenant_id, place)))


def seal(key: DataKey, purpose: str, tenant_id: str, place: Place, plain: str) -> bytes:
    """Seals a text for its place = (table, row id, column)."""
    nonce = os.urandom(12)
    return bytes([FORM]) + nonce + AESGCM(key.plain).encrypt(nonce, plain.encode(), _associated(purpose, tenant_id, place))


def unseal(key: DataKey, purpose: str, tenant_id: str, place: Place, sealed: bytes | memoryview) -> str:
    """Opens what `seal` made for the same place with the same key. Raises SealBroken."""
    blob = bytes(sealed)
    if not is_envelope(blob) or len(blob) < 29:
        raise SealBroken("not sealed by a data key")
    try:
        plain = AESGCM(key.plain).decrypt(blob[1:13], blob[13:], _associated(purpose, tenant_id, place))
    except InvalidTag as error:
        raise SealBroken(f"seal of {place[0]}.{place[2]} does not open here") from error
    return plain.decode()


def is_envelope(sealed: bytes | memoryview) -> bool:
    """Says whether a data key sealed the bytes; otherwise `crypto` did."""
    return bytes(sealed[:1]) == bytes([FORM])


def _associated(purpose: str, tenant_id: str, place: Place) -> bytes:
    return "\x1f".join(("envelope", purpose, tenant_id, *place)).encode()


def _context(tenant_id: str, place: Place) -> bytes:
    return "\x1f".join(("data-key", tenant_id, place[0], place[1])).encode()
