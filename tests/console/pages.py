"""Where pages are, and what stands on them."""

from __future__ import annotations

import html
import re
import uuid
from typing import Any

from django.test import Client

from credentials.models import CredentialDoor, KeyCredential, Reservation, Transition
from devices.models import LockDevice, VendorInstallation
from lockservice.console.models import StaffAct
from lockservice.core.tenancy import tenant
from sagas.models import Alert, DeadLetter, InboxMessage, OutboxEvent, Saga, SagaStep

MODELS: tuple[Any, ...] = (
    KeyCredential, Reservation, LockDevice, VendorInstallation, Saga, Alert, OutboxEvent, InboxMessage, DeadLetter,
)  # fmt: skip
LEDGER: tuple[Any, ...] = (*MODELS, CredentialDoor, Transition, SagaStep)


def list_of(model: Any) -> str:
    return f"/console/{model._meta.app_label}/{model._meta.model_name}/"


def page_of(model: Any, pk: Any) -> str:
    return f"{list_of(model)}{pk}/change/"


def act_url(key: KeyCredential, action: str) -> str:
    return f"{list_of(KeyCredential)}{key.id}/act/{action}/"


def act(client: Client, key: KeyCredential, action: str, **fields: Any) -> Any:
    """Presses a key's button, with a reason unless one is given, and follows to where it leads."""
    data = {"reason": "asked at the desk", "act_id": uuid.uuid4().hex, **fields}
    return client.post(act_url(key, action), data, follow=True)


def text_of(response: Any) -> str:
    """Returns the page as a reader sees it: without tags, white space joined."""
    body = re.sub(r"<[^>]+>", " ", response.content.decode())
    return re.sub(r"\s+", " ", html.unescape(body))


def snapshot(tenant_id: str) -> dict[str, list[tuple[Any, ...]]]:
    """Returns every row of the ledger's tables of a tenant."""
    with tenant(tenant_id):
        return {model.__name__: sorted(map(str, model.objects.filter(tenant_id=tenant_id).values_list())) for model in LEDGER}  # type: ignore[misc]


def acts_on(tenant_id: str, subject_id: str) -> list[tuple[str, str, str]]:
    """Returns (action, reason, outcome) recorded on something, oldest first."""
    with tenant(tenant_id):
        rows = StaffAct.objects.filter(tenant_id=tenant_id, subject_id=subject_id).order_by("id")
        return list(rows.values_list("action", "reason", "outcome"))


def some_pk(model: Any, tenant_id: str) -> Any:
    with tenant(tenant_id):
        row = model.objects.filter(tenant_id=tenant_id).first()
        return row.pk if row else None
