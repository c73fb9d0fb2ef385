"""Loopback servers of google.cloud.kms.v1 and google.cloud.secretmanager.v1, to the part of their wire that the service uses.

One rule: what the real services refuse is refused here with the same status: wrong checksums, unknown keys, destroyed versions.
No protoc: the message classes come from Google's own clients. Limits: no IAM, no rotation schedules, nothing is kept.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NoReturn

import grpc
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from google.cloud import kms_v1, secretmanager_v1

from lockservice.core.crc32c import crc32c

Code = grpc.StatusCode
SECRET_ID = re.compile(r"[A-Za-z0-9_-]{1,255}")


def refuse(context: Any, code: grpc.StatusCode, reason: str) -> NoReturn:
    context.abort(code, reason)
    raise AssertionError("abort does not return")


@dataclass
class Trouble:
    """What a server does wrong: `code` answers every call with a failure, `damages` flips a bit of what goes out."""

    code: grpc.StatusCode | None = None
    damages: bool = False

    def strike(self, context: Any) -> None:
        if self.code is not None:
            refuse(context, self.code, "injected")


@dataclass
class FakeKms:
    """Symmetric keys by name, each with versions; the last is primary. `calls` lists (method, key)."""

    keys: dict[str, list[bytes]] = field(default_factory=dict)
    trouble: Trouble = field(default_factory=Trouble)
    calls: list[tuple[str, str]] = field(default_factory=list)

    def make(self, name: str) -> str:
        self.keys[name] = [os.urandom(32)]
        return name

    def rotate(self, name: str) -> None:
        self.keys[name].append(os.urandom(32))

    def encrypt(self, request: Any, context: Any) -> Any:
        self.calls.append(("encrypt", request.name))
        self.trouble.strike(context)
        versions = self._versions(request.name, context)
        _check(context, request.plaintext_crc32c, request.plaintext, "plaintext")
        _check(context, request.additional_authenticated_data_crc32c, request.additional_authenticated_data, "aad")
        nonce = os.urandom(12)
        sealed = AESGCM(versions[-1]).encrypt(nonce, request.plaintext, request.additional_authenticated_data)
        ciphertext = bytes([len(versions)]) + nonce + sealed
        return kms_v1.EncryptResponse(
            name=f"{request.name}/cryptoKeyVersions/{len(versions)}",
            ciphertext=_flipped(ciphertext) if self.trouble.damages else ciphertext,
            ciphertext_crc32c=crc32c(ciphertext),
            verified_plaintext_crc32c=True,
            verified_additional_authenticated_data_crc32c=True,
        )

    def decrypt(self, request: Any, context: Any) -> Any:
        self.calls.append(("decrypt", request.name))
        self.trouble.strike(context)
        versions = self._versions(request.name, context)
        _check(context, request.ciphertext_crc32c, request.ciphertext, "ciphertext")
        version, nonce, sealed = request.ciphertext[0], request.ciphertext[1:13], request.ciphertext[13:]
        try:
            plain = AESGCM(versions[version - 1]).decrypt(nonce, sealed, request.additional_authenticated_data)
        except (InvalidTag, IndexError):
            refuse(context, Code.INVALID_ARGUMENT, "Decryption failed: the ciphertext is invalid.")
        return kms_v1.DecryptResponse(
            plaintext=_flipped(plain) if self.trouble.damages else plain, plaintext_crc32c=crc32c(plain)
        )

    def _versions(self, name: str, context: Any) -> list[bytes]:
        if name not in self.keys:
            refuse(context, Code.NOT_FOUND, f"CryptoKey {name} not found.")
        return self.keys[name]


@dataclass
class FakeSecretManager:
    """Secrets by resource name, each a list of versions; a destroyed one is None."""

    secrets: dict[str, list[bytes | None]] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    trouble: Trouble = field(default_factory=Trouble)
    reads: int = 0

    def create_secret(self, request: Any, context: Any) -> Any:
        self.trouble.strike(context)
        name = f"{request.parent}/secrets/{request.secret_id}"
        if not SECRET_ID.fullmatch(request.secret_id):
            refuse(context, Code.INVALID_ARGUMENT, "secret_id")
        if name in self.secrets:
            refuse(context, Code.ALREADY_EXISTS, f"Secret [{name}] already exists.")
        self.secrets[name], self.settings[name] = [], secretmanager_v1.Secret(request.secret)
        return secretmanager_v1.Secret(name=name)

    def add_secret_version(self, request: Any, context: Any) -> Any:
        self.trouble.strike(context)
        if request.parent not in self.secrets:
            refuse(context, Code.NOT_FOUND, f"Secret [{request.parent}] not found.")
        _check(context, request.payload.data_crc32c, request.payload.data, "payload")
        if not 0 < len(request.payload.data) <= 65536:
            refuse(context, Code.INVALID_ARGUMENT, "payload size")
        self.secrets[request.parent].append(request.payload.data)
        return secretmanager_v1.SecretVersion(name=f"{request.parent}/versions/{len(self.secrets[request.parent])}")

    def access_secret_version(self, request: Any, context: Any) -> Any:
        self.reads += 1
        self.trouble.strike(context)
        data = self._version(request.name, context)
        if data is None:
            refuse(context, Code.FAILED_PRECONDITION, "Secret Version is in DESTROYED state.")
        sent = _flipped(data) if self.trouble.damages else data
        payload = secretmanager_v1.SecretPayload(data=sent, data_crc32c=crc32c(data))
        return secretmanager_v1.AccessSecretVersionResponse(name=request.name, payload=payload)

    def destroy_secret_version(self, request: Any, context: Any) -> Any:
        self.trouble.strike(context)
        if self._version(request.name, context) is None:
            refuse(context, Code.FAILED_PRECONDITION, "Secret Version is already in DESTROYED state.")
        parent, _sign, number = request.name.partition("/versions/")
        self.secrets[parent][int(number) - 1] = None
        return secretmanager_v1.SecretVersion(name=request.name)

    def _version(self, name: str, context: Any) -> bytes | None:
        parent, _sign, number = name.partition("/versions/")
        held = self.secrets.get(parent, [])
        if not number.isdigit() or not 0 < int(number) <= len(held):
            refuse(context, Code.NOT_FOUND, f"Secret Version [{name}] not found.")
        return held[int(number) - 1]


class GoogleServer:
    """Both services on one port of 127.0.0.1."""

    def __init__(self) -> None:
        self.kms, self.secrets = FakeKms(), FakeSecretManager()
        self._server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
        kms = {"Encrypt": (self.kms.encrypt, kms_v1.EncryptRequest), "Decrypt": (self.kms.decrypt, kms_v1.DecryptRequest)}
        store = {
            "CreateSecret": (self.secrets.create_secret, secretmanager_v1.CreateSecretRequest),
            "AddSecretVersion": (self.secrets.add_secret_version, secretmanager_v1.AddSecretVersionRequest),
            "AccessSecretVersion": (self.secrets.access_secret_version, secretmanager_v1.AccessSecretVersionRequest),
            "DestroySecretVersion": (self.secrets.destroy_secret_version, secretmanager_v1.DestroySecretVersionRequest),
        }
        self._serve("google.cloud.kms.v1.KeyManagementService", kms)
        self._serve("google.cloud.secretmanager.v1.SecretManagerService", store)
        self.endpoint = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def stop(self) -> None:
        self._server.stop(grace=0).wait()

    def _serve(self, service: str, methods: dict[str, tuple[Callable[[Any, Any], Any], Any]]) -> None:
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(
                method, request.deserialize, lambda answer: type(answer).serialize(answer)
            )
            for name, (method, request) in methods.items()
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))


def _check(context: Any, given: int | None, content: bytes, what: str) -> None:
    if given is not None and given != crc32c(content):
        refuse(context, Code.INVALID_ARGUMENT, f"The checksum of the {what} does not match.")


def _flipped(content: bytes) -> bytes:
    return bytes([content[0] ^ 1]) + content[1:]
