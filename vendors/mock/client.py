"""Reaches the mock's cloud: in this process, or over HTTP in its own.

One rule: both ways give the same answers and the same two failures, NotSent and AnswerLost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from vendors.support.http import AnswerLost, HttpClient

from .cloud import Dropped, MockCloud
from .profile import MockAddress

PROFILE_HEADER = "X-Mock-Profile"


class MockLink(Protocol):
    """A way to the mock's cloud."""

    def call(self, verb: str, body: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Runs one verb. Raises NotSent or AnswerLost."""
        ...


class InProcessLink:
    """For unit tests: the ledger dies with this object."""

    def __init__(self, address: MockAddress, cloud: MockCloud) -> None:
        self._profile = address.profile
        self.cloud = cloud

    def call(self, verb: str, body: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Runs one verb."""
        try:
            return self.cloud.call(verb, body, self._profile)
        except Dropped as error:
            raise AnswerLost("the mock dropped the answer") from error


class HttpLink:
    """The mock's own process; its ledger outlives ours."""

    def __init__(self, address: MockAddress) -> None:
        assert address.base_url is not None  # noqa: S101 - the caller chose this link for that
        self._http = HttpClient(address.base_url, pool_size=32)
        self._headers = {PROFILE_HEADER: address.query}

    def call(self, verb: str, body: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Runs one verb."""
        answer = self._http.post_json(f"/v1/{verb}", body, timeout_s=timeout_s, headers=self._headers)
        try:
            document = answer.json()
        except ValueError as error:
            raise AnswerLost("the answer is no JSON") from error
        if answer.status != 200 or not isinstance(document, dict):
            raise AnswerLost(f"the answer has status {answer.status}")
        return document
