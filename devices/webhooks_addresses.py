"""The secret part of an installation's webhook address: made, compared, rotated with an overlap.

One rule: a token is sealed at rest, compared in constant time, and shown once to whoever makes it; no log, event or error has
it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection

from devices import selectors
from devices.models import WebhookAddress
from devices.selectors import InstallationFacts, UnknownDevice
from lockservice.core import crypto, tenancy
from vendors.port.secrets import Token

TOKEN_BYTES = 32
"""256 random bits. Where a vendor signs nothing this is the only proof, so fact sheets ask for at least 128."""
OVERLAP = timedelta(hours=24)
"""How long the previous token is taken after a rotation; somebody has to type the new one at the vendor's portal."""
PATH = "/lock/v1/webhooks/{vendor}/{installation}/{token}"
_NOBODY = "0" * 43


class AddressUnknown(Exception):
    """No installation is pushed to at this address, or its token is wrong; nobody is told which. Trying again makes no sense.

    tenant_id, property_id and installation_id are set where the installation exists, so that its hotel can be told.
    """

    def __init__(self, tenant_id: str = "", property_id: str = "", installation_id: str = "") -> None:
        super().__init__("no such webhook address")
        self.tenant_id = tenant_id
        self.property_id = property_id
        self.installation_id = installation_id


@dataclass(frozen=True, slots=True)
class Recipient:
    """Who is pushed to, once the token was right."""

    tenant_id: str
    facts: InstallationFacts


def recipient_of(vendor: str, installation_id: str, token: str) -> Recipient:
    """Finds whose address this is. No transaction may be open. Raises AddressUnknown."""
    tenant_id = _tenant_of(installation_id)
    if tenant_id is None:
        _same(token, _NOBODY)
        raise AddressUnknown
    with tenancy.tenant(tenant_id):
        facts = selectors.installation(tenant_id, installation_id)
        right = _is_right(tenant_id, installation_id, token)
    if not right or facts.vendor != vendor or not facts.active:
        raise AddressUnknown(tenant_id, facts.property_id, installation_id)
    return Recipient(tenant_id, facts)


def rotate(tenant_id: str, installation_id: str, overlap: timedelta = OVERLAP) -> Token:
    """Makes a new token, the first one too, and returns it; the one before is taken until the overlap is over.

    Inside the tenant's block. Raises UnknownDevice.
    """
    selectors.installation(tenant_id, installation_id)
    token = Token(secrets.token_urlsafe(TOKEN_BYTES))
    now = _real_now()
    row = WebhookAddress.objects.select_for_update().filter(tenant_id=tenant_id, installation_id=installation_id).first()
    if row is None:
        row = WebhookAddress(tenant_id=tenant_id, installation_id=installation_id)
    else:
        before = crypto.unseal("webhook-secret", tenant_id, _place(installation_id, "token_sealed"), row.token_sealed)
        row.previous_sealed = crypto.seal("webhook-secret", tenant_id, _place(installation_id, "previous_sealed"), before)
        row.previous_until = now + overlap
    place = _place(installation_id, "token_sealed")
    row.token_sealed = crypto.seal("webhook-secret", tenant_id, place, token.reveal())
    row.rotated_at = now
    row.save()
    return token


def path_of(facts: InstallationFacts, token: Token) -> str:
    """Returns the address's path, token and all: for the terminal of whoever types it at the vendor's portal."""
    return PATH.format(vendor=facts.vendor, installation=facts.id, token=token.reveal())


def _is_right(tenant_id: str, installation_id: str, token: str) -> bool:
    row = WebhookAddress.objects.filter(tenant_id=tenant_id, installation_id=installation_id).first()
    if row is None:
        return _same(token, _NOBODY) and False
    current = crypto.unseal("webhook-secret", tenant_id, _place(installation_id, "token_sealed"), row.token_sealed)
    right = _same(token, current)
    if row.previous_sealed is not None and row.previous_until is not None and row.previous_until > _real_now():
        place = _place(installation_id, "previous_sealed")
        right |= _same(token, crypto.unseal("webhook-secret", tenant_id, place, row.previous_sealed))
    return right


def _same(sent: str, held: str) -> bool:
    """Compares digests, which are of one length whatever was sent."""
    mine, theirs = (hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in (held, sent))
    return hmac.compare_digest(mine, theirs)


def _tenant_of(installation_id: str) -> str | None:
    """An address names no tenant. The database's function tells whose an active installation is, and nothing else."""
    with tenancy.tenant(tenancy.UNATTRIBUTED), connection.cursor() as cursor:
        cursor.execute("SELECT devices_tenant_of(%s)", [installation_id])
        found: str | None = cursor.fetchone()[0]
    return found


def _place(installation_id: str, column: str) -> tuple[str, str, str]:
    return ("devices_webhookaddress", installation_id, column)


def _real_now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now


__all__ = ["OVERLAP", "AddressUnknown", "Recipient", "UnknownDevice", "path_of", "recipient_of", "rotate"]
