"""Work that goes on after the answer: a saga as an operation, looking at it, and waiting a little for it.

The one rule: waiting polls with no transaction open, for at most MAX_WAIT_S, and never by more than a few requests at a time.
"""

from __future__ import annotations

import re
import threading
import time
from typing import Any, ClassVar, Final

from django.urls import reverse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from credentials.lifecycle import State
from credentials.models import KeyCredential
from lockservice.api.credential_body import CredentialBody, moment, render
from lockservice.api.openapi import documented
from lockservice.api.route import Route, principal, reply
from lockservice.core.auth_permissions import Permission, Principal
from lockservice.core.http_problems import Problem
from lockservice.core.http_strict import shape
from lockservice.core.tenancy import tenant
from sagas.flows import issue_key
from sagas.models import Saga, SagaStatus

MAX_WAIT_S: Final = 5
POLL_S: Final = (0.03, 0.15)
WAITERS_AT_ONCE: Final = 4
"""Of a web process's threads (6), those that may be waiting; further requests are answered at once."""

_waiters = threading.BoundedSemaphore(WAITERS_AT_ONCE)

RUNNING, SUCCEEDED, FAILED = "running", "succeeded", "failed"

OperationBody = shape(
    "Operation",
    id=serializers.CharField(),
    flow=serializers.CharField(),
    status=serializers.ChoiceField(choices=[RUNNING, SUCCEEDED, FAILED]),
    attempts=serializers.IntegerField(help_text="Calls made to the vendor so far."),
    errorCode=serializers.CharField(allow_null=True),
    createdAt=serializers.DateTimeField(),
    finishedAt=serializers.DateTimeField(allow_null=True),
    credential=CredentialBody(allow_null=True),
)


class OperationRoute(Route):
    """One operation."""

    needs: ClassVar = {"GET": Permission.KEY_READ}

    @documented(
        summary="How far a piece of work has come", tag="operations", answers={200: OperationBody}, problems=[404],
        operation_id="operation_get",
    )  # fmt: skip
    def get(self, request: Request, operation_id: str) -> Response:
        """Answers with the saga, and the credential it works on."""
        caller = principal(request)
        with tenant(caller.tenant_id):
            return reply(render_operation(caller, operation_id))


def render_operation(caller: Principal, operation_id: str) -> dict[str, Any]:
    """Returns an operation's body. Inside the tenant's block. Raises Problem NOT_FOUND, also for another property's."""
    row = Saga.objects.filter(tenant_id=caller.tenant_id, id=operation_id).first()
    if row is None:
        raise Problem("NOT_FOUND", "no such operation")
    key = find_key(caller, row.credential_id) if row.credential_id else None
    if key is None and caller.property_ids is not None:
        raise Problem("NOT_FOUND", "no such operation")
    return {
        "id": row.id,
        "flow": row.flow,
        "status": status_of(row, key),
        "attempts": row.attempts,
        "errorCode": row.error_code or None,
        "createdAt": moment(row.created_at),
        "finishedAt": moment(row.finished_at),
        "credential": render(key) if key is not None else None,
    }


def find_key(caller: Principal, credential_id: str) -> KeyCredential:
    """Returns a credential of the caller's properties. Inside the tenant's block. Raises Problem NOT_FOUND."""
    key = KeyCredential.objects.filter(tenant_id=caller.tenant_id, id=credential_id).first()
    if key is None or not caller.reaches(key.property_id):
        raise Problem("NOT_FOUND", "no such credential")
    return key


def status_of(row: Saga, key: KeyCredential | None) -> str:
    """Returns where the work stands; an issue that is done with but gave no key has failed."""
    if row.status == SagaStatus.DEAD:
        return FAILED
    if row.status != SagaStatus.DONE:
        return RUNNING
    return FAILED if key is not None and row.flow == issue_key.FLOW and key.state == State.FAILED else SUCCEEDED


def wished_wait_s(request: Request) -> int:
    """Returns the seconds of `Prefer: wait=N` (RFC 7240 §4.3), at most MAX_WAIT_S; 0 without."""
    found = re.search(r"(?:^|[,;\s])wait\s*=\s*(\d{1,9})(?:$|[,;\s])", request.headers.get("Prefer", ""))
    return min(int(found.group(1)), MAX_WAIT_S) if found else 0


def wait_for(caller: Principal, operation_id: str, wait_s: int) -> bool:
    """Waits until the operation has ended; False when it goes on, or when too many wait already. No block may be open."""
    if not wait_s or not _waiters.acquire(blocking=False):
        return _has_ended(caller, operation_id)
    try:
        ends, pause = time.monotonic() + wait_s, POLL_S[0]
        while not (ended := _has_ended(caller, operation_id)) and time.monotonic() < ends:
            time.sleep(pause)
            pause = min(POLL_S[1], pause * 1.3)
        return ended
    finally:
        _waiters.release()


def address_of(operation_id: str) -> str:
    """Returns where an operation can be looked at."""
    return reverse("lock:operation", args=[operation_id])


def _has_ended(caller: Principal, operation_id: str) -> bool:
    with tenant(caller.tenant_id):
        rows = Saga.objects.filter(tenant_id=caller.tenant_id, id=operation_id, status__in=[SagaStatus.DONE, SagaStatus.DEAD])
        return rows.exists()
