"""Vendor secrets in Google Secret Manager.

One rule: a value is checked end to end with CRC-32C, and an answer that fails the check is none. A secret's id is the parts of
its name joined by `--`, since ids take no slash: `lock--tnt_…--ppt_…--vad_…--client_secret`. Source:
google.cloud.secretmanager.v1 (read November 2026): ids of at most 255 letters, digits, `-` and `_`; a version's payload cannot
be changed.
"""

from __future__ import annotations

from google.api_core import exceptions as api
from google.auth.exceptions import GoogleAuthError
from google.cloud import secretmanager_v1
from google.cloud.secretmanager_v1.services.secret_manager_service.transports import SecretManagerServiceGrpcTransport

from lockservice.core.crc32c import crc32c
from lockservice.core.google_channel import REFUSALS, PerProcess, local_channel
from lockservice.core.secret_store import SecretMissing, SecretName, StoreUnavailable, check_value
from vendors.port.secrets import Token

TIMEOUT_S = 5.0
"""One call. A lock waits for it, so it is short; the caller tries again later."""
MAX_ID_CHARS = 255


class GoogleStore:
    """Implements lockservice.core.secret_store.SecretStore. `locations` pins the replicas to regions; none: Google chooses.
    `endpoint` (`127.0.0.1:port`) means a local server, no credentials."""

    def __init__(self, project: str, *, locations: tuple[str, ...] = (), endpoint: str = "") -> None:
        self._project = project
        self._locations = locations
        self._endpoint = endpoint
        self._client = PerProcess(self._make)

    def add(self, name: SecretName, value: Token) -> int:
        """Adds a version, and makes the secret itself at its first."""
        content = check_value(value)
        payload = secretmanager_v1.SecretPayload(data=content, data_crc32c=crc32c(content))
        request = {"parent": self._path(name), "payload": payload}
        try:
            try:
                added = self._client.get().add_secret_version(request=request, timeout=TIMEOUT_S, retry=None)
            except api.NotFound:
                self._create(name)
                added = self._client.get().add_secret_version(request=request, timeout=TIMEOUT_S, retry=None)
        except (api.GoogleAPICallError, GoogleAuthError) as error:
            raise _unavailable(error) from error
        return int(added.name.rpartition("/")[2])

    def read(self, name: SecretName, version: int) -> Token:
        """Accesses one version."""
        request = {"name": f"{self._path(name)}/versions/{version}"}
        try:
            answer = self._client.get().access_secret_version(request=request, timeout=TIMEOUT_S, retry=None)
        except (api.NotFound, api.FailedPrecondition) as error:  # the latter: disabled or destroyed
            raise SecretMissing(f"no usable version {version} of {name.name}") from error
        except (api.GoogleAPICallError, GoogleAuthError) as error:
            raise _unavailable(error) from error
        if answer.payload.data_crc32c != crc32c(answer.payload.data):
            raise StoreUnavailable("the secret store's answer is damaged", retriable=True)
        return Token(answer.payload.data.decode())

    def destroy(self, name: SecretName, version: int) -> None:
        """Destroys one version; one that is not there counts as destroyed."""
        request = {"name": f"{self._path(name)}/versions/{version}"}
        try:
            self._client.get().destroy_secret_version(request=request, timeout=TIMEOUT_S, retry=None)
        except (api.NotFound, api.FailedPrecondition):
            return
        except (api.GoogleAPICallError, GoogleAuthError) as error:
            raise _unavailable(error) from error

    def _create(self, name: SecretName) -> None:
        secret = secretmanager_v1.Secret(replication=self._replication(), labels={"service": "lock"})
        request = {"parent": f"projects/{self._project}", "secret_id": _id_of(name), "secret": secret}
        try:
            self._client.get().create_secret(request=request, timeout=TIMEOUT_S, retry=None)
        except api.AlreadyExists:
            return  # another writer was first

    def _replication(self) -> secretmanager_v1.Replication:
        if not self._locations:
            return secretmanager_v1.Replication(automatic=secretmanager_v1.Replication.Automatic())
        replica = secretmanager_v1.Replication.UserManaged.Replica
        replicas = [replica(location=location) for location in self._locations]
        return secretmanager_v1.Replication(user_managed=secretmanager_v1.Replication.UserManaged(replicas=replicas))

    def _path(self, name: SecretName) -> str:
        return f"projects/{self._project}/secrets/{_id_of(name)}"

    def _make(self) -> secretmanager_v1.SecretManagerServiceClient:
        if not self._endpoint:
            return secretmanager_v1.SecretManagerServiceClient()
        return secretmanager_v1.SecretManagerServiceClient(
            transport=SecretManagerServiceGrpcTransport(channel=local_channel(self._endpoint))
        )


def _id_of(name: SecretName) -> str:
    text = "--".join(name.parts)
    if len(text) > MAX_ID_CHARS:
        raise ValueError("the ids of this installation are too long for a secret's name")
    return text


def _unavailable(error: Exception) -> StoreUnavailable:
    """Names the kind of failure and nothing of its text."""
    return StoreUnavailable(f"the secret store: {type(error).__name__}", retriable=not isinstance(error, REFUSALS))
