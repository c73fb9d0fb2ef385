"""How an act is asked for over HTTP: once per Idempotency-Key, answered with an operation or, after a wait, with the key.

The one rule: the act, its events and the record of its answer are one transaction; bodies are rendered after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import structlog
from rest_framework.request import Request
from rest_framework.response import Response

from credentials.lifecycle import State
from credentials.models import KeyCredential
from lockservice.api.credential_body import render
from lockservice.api.operations import SUCCEEDED, address_of, find_key, render_operation, wait_for, wished_wait_s
from lockservice.api.route import principal, read_call, refused, reply
from lockservice.console.models import StaffAct
from lockservice.core import clock, wake
from lockservice.core.auth_permissions import Permission, Principal
from lockservice.core.http_idempotency import Answer, Call, amend, once
from lockservice.core.tenancy import tenant
from sagas.acts import Act, Refused, reveal_pin

log = structlog.get_logger(__name__)

ACCEPTED: Final = 202


def perform(
    request: Request, act: Callable[[str], Act], *, about: str | None = None, masked: str = "", shows_pin: bool = True
) -> Response:
    """Does an act and answers. `act` gets the act id and runs in the tenant's block; `about` is the credential asked about.

    202 with the operation while the work goes on, or when it failed. Once nothing is left to do, at once or within the wait
    asked for: 201 with the key if the act made one, else 200 with the credential. `masked` names a part of the body that may
    not be guessed from what is kept of the request; without `shows_pin` no answer holds digits. Raises Problem.
    """
    caller, call = principal(request), read_call(request, masked)
    answer, replayed = once(call, lambda act_id: _answer(act, act_id))
    replayed = replayed or bool(answer.resource.get("repeated"))
    if not replayed:
        wake.hint("sagas.drain", "saga")
    operation_id, credential_id = answer.resource["operation"], answer.resource["credential"]
    headers = {"Idempotent_Replayed": "true"} if replayed else {}
    if operation_id is not None and answer.status == ACCEPTED:
        body = _operation(caller, operation_id, wished_wait_s(request))
        if body is not None:
            return reply(body, ACCEPTED, Location=address_of(operation_id), **headers)
    made = credential_id != about
    return _done(caller, call, answer, made=made, shows_pin=made and shows_pin, headers=headers)


def _answer(act: Callable[[str], Act], act_id: str) -> Answer:
    try:
        done = act(act_id)
    except Refused as error:
        raise refused(error) from error
    repeated = {"repeated": True} if done.is_repeated else {}
    return Answer(ACCEPTED, {"credential": done.credential_id, "operation": done.saga_id, **repeated})


def _operation(caller: Principal, operation_id: str, wait_s: int) -> dict[str, Any] | None:
    """The operation to answer with; None when the caller waited and the work has succeeded."""
    ended = wait_s > 0 and wait_for(caller, operation_id, wait_s)
    with tenant(caller.tenant_id):
        body = render_operation(caller, operation_id)
    return None if ended and body["status"] == SUCCEEDED else body


def record_act(caller: Principal, action: str, subject_id: str, reason: str) -> None:
    """Keeps who asked for an act that needs a reason, beside those asked for in the console. Inside the tenant's block, so that
    act and record are one transaction; a refused act leaves neither."""
    StaffAct.objects.create(
        tenant_id=caller.tenant_id,
        actor_id=caller.id[:64],
        login=caller.id[:150],
        role=",".join(sorted(caller.roles))[:32],
        action=action,
        subject_id=subject_id,
        reason=reason,
        outcome="done",
        at=clock.now(),
    )


def _done(caller: Principal, call: Call, answer: Answer, *, made: bool, shows_pin: bool, headers: dict[str, str]) -> Response:
    status = 201 if made else 200
    with tenant(caller.tenant_id):
        key = find_key(caller, answer.resource["credential"])
        body = render(key)
    if answer.status == ACCEPTED:
        amend(call, status)
    if shows_pin:
        body |= _pin(caller, key)
    if made:
        headers["Location"] = body["links"]["self"]
    return reply(body, status, **headers)


def _pin(caller: Principal, key: KeyCredential) -> dict[str, Any]:
    """The digits, for a clerk who reads them out now; that she was shown them is noted."""
    if key.kind != "pin_code" or key.state != State.ACTIVE or not caller.may(Permission.PIN_REVEAL):
        return {}
    try:
        pin = reveal_pin(caller.tenant_id, key.id)
    except Refused:
        return {}  # it ended while it was being answered
    if pin is None:
        return {}
    log.info("pin.revealed", credential_id=key.id, tenant_id=caller.tenant_id, principal=caller.id, reason="issued at the desk")
    return {"pin": pin.reveal()}
