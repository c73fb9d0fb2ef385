"""Idempotency-Key: the same request, sent again for whatever reason, has one effect and one answer.

One rule: the unique row decides. It is committed before the work starts, so that a second request sees it; the work and its
answer are committed together, so that a crash leaves neither, and the request may run again after TAKE_OVER_S.

A row holds ids, never a body and never a PIN; answers are rendered from them again. What the work refuses for good (404, 409,
422) is an answer and is kept; what was wrong with the input (400) or may succeed later (503) is not, and frees the key.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import structlog
from django.db import Error, connection

from lockservice.core import tenancy
from lockservice.core.http_problems import Problem
from lockservice.core.idempotency import IdempotencyRecord
from lockservice.core.outage import is_conflict
from sagas.events import strict_json

log = structlog.get_logger(__name__)

HEADER: Final = "Idempotency-Key"
TAKE_OVER_S: Final = 60
"""Real seconds after which a running row counts as left behind by a crash. A web statement ends after 10 s."""
KEEP_HOURS: Final = 48
PURGE_ROWS: Final = 20
TRIES: Final = 3
RUNNING: Final = 0

_KEY: Final = re.compile(r"[!-~]{1,255}", re.ASCII)
_TABLE: Final = IdempotencyRecord._meta.db_table
_KEPT_REFUSALS: Final = frozenset({404, 409, 422})


@dataclass(frozen=True, slots=True)
class Call:
    """One mutating request: whose it is, its key, and what it asks."""

    tenant_id: str
    principal_id: str
    key: str
    method: str
    path: str
    body: Any

    @property
    def fingerprint(self) -> str:
        """Returns a digest of method, path, canonical body and principal."""
        parts = (self.method, self.path, self.principal_id, strict_json.dumps(self.body).decode())
        return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()

    @property
    def act_id(self) -> str:
        """Returns the name of the intention: the same for every repetition of the request."""
        return hashlib.sha256(f"http-call\x1f{self.tenant_id}\x1f{self.key}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request came to: a status, and the ids its body is rendered from."""

    status: int
    resource: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Claim:
    """The right to run: good while the row still carries this start."""

    started_at: datetime


def read_key(headers: Mapping[str, str]) -> str:
    """Returns the request's key. Raises Problem VALIDATION_FAILED when it is missing or malformed."""
    key = headers.get(HEADER, "")
    if not key:
        raise Problem("VALIDATION_FAILED", f"the header {HEADER} is needed", {HEADER: "is required"})
    if _KEY.fullmatch(key) is None:
        raise Problem("VALIDATION_FAILED", f"the header {HEADER} is malformed", {HEADER: "1 to 255 visible ASCII characters"})
    return key


def once(call: Call, work: Callable[[str], Answer], *, atomic: bool = True) -> tuple[Answer, bool]:
    """Runs the work once for the call's key and returns its answer, and whether it is an earlier one.

    `work` gets the act id. With `atomic` it runs in a tenant's block together with the answer's record; without, it opens its
    own blocks and must be harmless when repeated. No block may be open. Raises what the work raises, and Problem
    IDEMPOTENCY_KEY_REUSED (another request had the key) or OPERATION_IN_PROGRESS (it runs; try again).
    """
    begun = _begin(call)
    if isinstance(begun, Answer):
        return _reopened(begun), True
    try:
        answer = _run_atomic(call, begun, work) if atomic else _run_plain(call, begun, work)
    except Problem as problem:
        if problem.status in _KEPT_REFUSALS and not problem.retriable:
            _keep_refusal(call, begun, problem)
        else:
            _release(call, begun)
        raise
    except Exception:
        _release_if_possible(call, begun)
        raise
    return answer, False


def amend(call: Call, status: int) -> None:
    """Notes that the caller was told another success than the one recorded (it waited, and the work was done)."""
    with tenancy.tenant(call.tenant_id):
        rows = IdempotencyRecord.objects.filter(tenant_id=call.tenant_id, key=call.key, fingerprint=call.fingerprint)
        rows.exclude(status=RUNNING).update(status=status)


def _begin(call: Call) -> _Claim | Answer:
    """Takes the key, or returns the answer it already has. Raises Problem."""
    with tenancy.tenant(call.tenant_id), connection.cursor() as cursor:
        _purge(cursor, call.tenant_id)
        cursor.execute(
            f"INSERT INTO {_TABLE} (tenant_id, key, fingerprint, status, resource, created_at)"  # noqa: S608 - our own table
            " VALUES (%s, %s, %s, %s, '{}', (SELECT clock_timestamp()))"
            " ON CONFLICT (tenant_id, key) DO NOTHING RETURNING created_at",
            [call.tenant_id, call.key, call.fingerprint, RUNNING],
        )
        fresh = cursor.fetchone()
        return _Claim(fresh[0]) if fresh else _meet(cursor, call)


def _meet(cursor: Any, call: Call) -> _Claim | Answer:
    cursor.execute(
        "SELECT fingerprint, status, resource,"  # noqa: S608 - our own table
        f" created_at < (SELECT clock_timestamp()) - make_interval(secs => %s) FROM {_TABLE}"
        " WHERE tenant_id = %s AND key = %s FOR UPDATE",
        [TAKE_OVER_S, call.tenant_id, call.key],
    )
    row = cursor.fetchone()
    if row is None:  # freed between the two statements
        raise _in_progress()
    fingerprint, status, resource, is_left_behind = row
    if fingerprint != call.fingerprint:
        raise Problem("IDEMPOTENCY_KEY_REUSED", "use a new key for a new request")
    if status != RUNNING:
        return Answer(status, json.loads(resource) if isinstance(resource, str) else resource)
    if not is_left_behind:
        raise _in_progress()
    cursor.execute(
        f"UPDATE {_TABLE} SET created_at = (SELECT clock_timestamp())"  # noqa: S608 - our own table
        " WHERE tenant_id = %s AND key = %s RETURNING created_at",
        [call.tenant_id, call.key],
    )
    log.warning("idempotency.taken_over", method=call.method)
    return _Claim(cursor.fetchone()[0])


def _run_atomic(call: Call, claim: _Claim, work: Callable[[str], Answer]) -> Answer:
    """Runs work and record in one transaction, again from the start when PostgreSQL asks for it."""
    for last in (False,) * (TRIES - 1) + (True,):
        try:
            with tenancy.tenant(call.tenant_id):
                answer = work(call.act_id)
                _record(call, claim, answer)
                return answer
        except Error as error:
            if last or not is_conflict(error):
                raise
            time.sleep(random.uniform(0.005, 0.05))  # noqa: S311 - only spreads the second tries
    raise AssertionError("unreachable")


def _run_plain(call: Call, claim: _Claim, work: Callable[[str], Answer]) -> Answer:
    answer = work(call.act_id)
    with tenancy.tenant(call.tenant_id):
        _record(call, claim, answer)
    return answer


def _record(call: Call, claim: _Claim, answer: Answer) -> None:
    """Writes the answer, unless somebody took over in the meantime: then nothing of ours may be committed."""
    rows = IdempotencyRecord.objects.filter(tenant_id=call.tenant_id, key=call.key, status=RUNNING, created_at=claim.started_at)
    if not rows.update(status=answer.status, resource=dict(answer.resource)):
        raise _in_progress()


def _keep_refusal(call: Call, claim: _Claim, problem: Problem) -> None:
    resource = {"refusal": problem.code, "detail": problem.detail, "fields": problem.fields}
    with tenancy.tenant(call.tenant_id):
        _record(call, claim, Answer(problem.status, resource))


def _release(call: Call, claim: _Claim) -> None:
    with tenancy.tenant(call.tenant_id):
        IdempotencyRecord.objects.filter(
            tenant_id=call.tenant_id, key=call.key, status=RUNNING, created_at=claim.started_at
        ).delete()


def _release_if_possible(call: Call, claim: _Claim) -> None:
    """Frees the key after an exception; with the database away the row stays, and is taken over after TAKE_OVER_S."""
    try:
        _release(call, claim)
    except Error as error:
        log.warning("idempotency.not_freed", error=type(error).__name__)


def _reopened(answer: Answer) -> Answer:
    refusal = answer.resource.get("refusal")
    if refusal is not None:
        raise Problem(refusal, answer.resource["detail"], answer.resource["fields"], headers={"Idempotent-Replayed": "true"})
    return answer


def _in_progress() -> Problem:
    return Problem("OPERATION_IN_PROGRESS", "the first request with this key still runs", headers={"Retry-After": "1"})


def _purge(cursor: Any, tenant_id: str) -> None:
    """Forgets a few old rows on the way, so that the table needs nobody else."""
    cursor.execute(
        f"DELETE FROM {_TABLE} WHERE id IN (SELECT id FROM {_TABLE} WHERE tenant_id = %s"  # noqa: S608 - our own table
        " AND created_at < (SELECT clock_timestamp()) - make_interval(hours => %s) ORDER BY created_at LIMIT %s"
        " FOR UPDATE SKIP LOCKED)",
        [tenant_id, KEEP_HOURS, PURGE_ROWS],
    )
