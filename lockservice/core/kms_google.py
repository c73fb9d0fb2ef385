"""Key-encryption keys in Google Cloud KMS.

One rule: both ways are checked end to end with CRC-32C as the service asks, and an answer that fails the check is none.
Wrapped bytes are the service's own ciphertext; it names the version that made them by itself. Source: google.cloud.kms.v1,
EncryptRequest and DecryptRequest; data integrity guidelines of Cloud KMS (read November 2026).
"""

from __future__ import annotations

from google.api_core import exceptions as api
from google.auth.exceptions import GoogleAuthError
from google.cloud import kms_v1
from google.cloud.kms_v1.services.key_management_service.transports import KeyManagementServiceGrpcTransport

from lockservice.core.crc32c import crc32c
from lockservice.core.crypto import SealBroken
from lockservice.core.google_channel import REFUSALS, PerProcess, local_channel
from lockservice.core.kms import KeyUnavailable

TIMEOUT_S = 5.0
"""One call. A lock waits for it, so it is short; the caller tries again later."""


class CloudKms:
    """Implements lockservice.core.kms.KeyWrapper. `endpoint` (`127.0.0.1:port`) means a local server, no credentials."""

    def __init__(self, *, endpoint: str = "") -> None:
        self._endpoint = endpoint
        self._client = PerProcess(self._make)

    def wrap(self, key_name: str, plain: bytes, context: bytes) -> bytes:
        """Encrypts with the key's primary version."""
        request = kms_v1.EncryptRequest(
            name=key_name,
            plaintext=plain,
            additional_authenticated_data=context,
            plaintext_crc32c=crc32c(plain),
            additional_authenticated_data_crc32c=crc32c(context),
        )
        try:
            answer = self._client.get().encrypt(request=request, timeout=TIMEOUT_S, retry=None)
        except (api.GoogleAPICallError, GoogleAuthError) as error:
            raise _unavailable(error) from error
        is_whole = answer.verified_plaintext_crc32c and answer.verified_additional_authenticated_data_crc32c
        if not is_whole or answer.ciphertext_crc32c != crc32c(answer.ciphertext):
            raise KeyUnavailable("the key service's answer is damaged", retriable=True)
        return bytes(answer.ciphertext)

    def unwrap(self, key_name: str, wrapped: bytes, context: bytes) -> bytes:
        """Decrypts with whichever version encrypted."""
        request = kms_v1.DecryptRequest(
            name=key_name,
            ciphertext=wrapped,
            additional_authenticated_data=context,
            ciphertext_crc32c=crc32c(wrapped),
            additional_authenticated_data_crc32c=crc32c(context),
        )
        try:
            answer = self._client.get().decrypt(request=request, timeout=TIMEOUT_S, retry=None)
        except api.InvalidArgument as error:
            raise SealBroken("the wrapped key does not open here") from error
        except (api.GoogleAPICallError, GoogleAuthError) as error:
            raise _unavailable(error) from error
        if answer.plaintext_crc32c != crc32c(answer.plaintext):
            raise KeyUnavailable("the key service's answer is damaged", retriable=True)
        return bytes(answer.plaintext)

    def is_current(self, key_name: str, wrapped: bytes) -> bool | None:
        """The ciphertext does not say; wrapping anew is the way to be sure."""
        return None

    def _make(self) -> kms_v1.KeyManagementServiceClient:
        if not self._endpoint:
            return kms_v1.KeyManagementServiceClient()
        return kms_v1.KeyManagementServiceClient(
            transport=KeyManagementServiceGrpcTransport(channel=local_channel(self._endpoint))
        )


def _unavailable(error: Exception) -> KeyUnavailable:
    """Names the kind of failure and nothing of its text."""
    stays = isinstance(error, (*REFUSALS, api.NotFound, api.FailedPrecondition))
    return KeyUnavailable(f"the key service: {type(error).__name__}", retriable=not stays)
