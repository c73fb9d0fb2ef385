"""What a holder receives, sealed under a single-use reference.

One rule: the plain value leaves here as a masked type, for a door, for a permitted clerk, or once for an authorised consumer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from credentials.models import Artifact
from lockservice.core import crypto
from vendors.port.ids import new_id
from vendors.port.secrets import Pin, Token

TABLE = "credentials_artifact"
PIN, MOBILE_TOKEN, QR, NFC, CARD_READY = "pin", "mobile_token", "qr", "nfc", "rfid_card_ready_at"
REPEAT_S = 60
"""An exchange may be repeated for this long by the same caller under the same key (design: 60 s)."""


class AlreadyExchanged(Exception):
    """The reference was used by somebody else, or earlier, or the artifact is gone. Not retriable: mint a fresh one."""


class NoSuchReference(LookupError):
    """No artifact of this tenant has the reference."""


@dataclass(frozen=True, slots=True)
class NewArtifact:
    """An artifact to store."""

    credential_id: str
    type: str
    value: Pin | Token
    version: int = 1


def store(tenant_id: str, items: Sequence[NewArtifact], now: datetime) -> dict[str, Artifact]:
    """Seals and inserts artifacts, by credential. Inside the tenant's block."""
    rows = [_row(tenant_id, item, now) for item in items]
    if rows:
        Artifact.objects.bulk_create(rows)
    return {row.credential_id: row for row in rows}


def current(tenant_id: str, credential_ids: Iterable[str]) -> dict[str, Artifact]:
    """Returns the current artifact of each credential that has one."""
    ids = sorted(set(credential_ids))
    rows = Artifact.objects.filter(tenant_id=tenant_id, credential_id__in=ids, current=True) if ids else ()
    return {row.credential_id: row for row in rows}


def pins_ever_given(tenant_id: str, credential_ids: Iterable[str]) -> dict[str, dict[int, Pin]]:
    """Return every PIN that a credential had and that is not erased, by credential and version. A lock may still hold any."""
    ids = sorted(set(credential_ids))
    rows = Artifact.objects.filter(tenant_id=tenant_id, credential_id__in=ids, type=PIN, value_sealed__isnull=False)
    found: dict[str, dict[int, Pin]] = {}
    for row in rows.order_by("created_at", "id"):
        found.setdefault(row.credential_id, {})[row.version] = Pin(_open(row))
    return found


def reveal(row: Artifact) -> Token:
    """Opens any artifact. Raises NoSuchReference when it was erased."""
    return Token(_open(row))


def open_pin(row: Artifact) -> Pin | None:
    """Returns the PIN; None when it was erased or is no PIN."""
    if row.type != PIN or row.value_sealed is None:
        return None
    return Pin(_open(row))


def retire(tenant_id: str, credential_ids: Iterable[str]) -> None:
    """Marks artifacts as no longer current (new digits were drawn, or the key moved to another kind)."""
    Artifact.objects.filter(tenant_id=tenant_id, credential_id__in=sorted(set(credential_ids))).update(current=False)


def mint(tenant_id: str, credential_id: str, now: datetime) -> Artifact:
    """Makes a fresh reference to the current artifact; the old reference stops working. Raises NoSuchReference."""
    old = current(tenant_id, [credential_id]).get(credential_id)
    if old is None or old.value_sealed is None:
        raise NoSuchReference(credential_id)
    value = Pin(_open(old)) if old.type == PIN else Token(_open(old))
    retire(tenant_id, [credential_id])
    return store(tenant_id, [NewArtifact(credential_id, old.type, value, old.version)], now)[credential_id]


def exchange(tenant_id: str, reference: str, principal: str, key: str, real_now: datetime) -> tuple[Artifact, Pin | Token]:
    """Hands the artifact over once. The same principal may repeat under the same key for REPEAT_S.

    Locks the row. Raises NoSuchReference, AlreadyExchanged.
    """
    row = next(iter(Artifact.objects.select_for_update().filter(tenant_id=tenant_id, id=reference)), None)
    if row is None:
        raise NoSuchReference(reference)
    if row.value_sealed is None or not row.current or not _may_take(row, principal, key, real_now):
        raise AlreadyExchanged(reference)
    if row.exchanged_at is None:
        row.exchanged_by, row.exchange_key, row.exchanged_at = principal, key, real_now
        row.save(update_fields=["exchanged_by", "exchange_key", "exchanged_at"])
    plain = _open(row)
    return row, (Pin(plain) if row.type == PIN else Token(plain))


def erase_after(tenant_id: str, credential_ids: Iterable[str], now: datetime) -> int:
    """Erases the sealed values of finished keys; returns how many."""
    rows = Artifact.objects.filter(tenant_id=tenant_id, credential_id__in=sorted(set(credential_ids)), erased_at__isnull=True)
    return rows.update(value_sealed=None, erased_at=now)


def _may_take(row: Artifact, principal: str, key: str, real_now: datetime) -> bool:
    if row.exchanged_at is None:
        return True
    same = row.exchanged_by == principal and row.exchange_key == key
    return same and real_now - row.exchanged_at <= timedelta(seconds=REPEAT_S)


def _row(tenant_id: str, item: NewArtifact, now: datetime) -> Artifact:
    reference = new_id("tk")
    sealed = crypto.seal("artifact", tenant_id, (TABLE, reference, "value_sealed"), item.value.reveal())
    return Artifact(
        id=reference,
        tenant_id=tenant_id,
        credential_id=item.credential_id,
        type=item.type,
        version=item.version,
        value_sealed=sealed,
        created_at=now,
    )


def _open(row: Artifact) -> str:
    if row.value_sealed is None:
        raise NoSuchReference(row.id)
    return crypto.unseal("artifact", row.tenant_id, (TABLE, row.id, "value_sealed"), row.value_sealed)
