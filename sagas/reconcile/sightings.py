"""Keys seen at a door, as values and as rows of a running comparison.

One rule: a vendor's reference, a name at the vendor and digits are sealed before they are written, and compared by blind
indexes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lockservice.core import crypto
from sagas.models import Finding, KeySighting
from sagas.reconcile.compare import Seen
from sagas.reconcile.ledger import fingerprint
from vendors.port.secrets import Pin, VendorRef
from vendors.port.types import FoundKey, Window

LABEL_MAX = 200
REF, LABEL, PIN = "ref_sealed", "label_sealed", "pin_sealed"
_PURPOSES = {REF: "vendor-ref", LABEL: "guest-pii", PIN: "artifact"}


@dataclass(frozen=True, slots=True)
class Sighting:
    """A key at a door. `label` and `pin` are kept only of keys that are not ours; `pin_index` of every PIN shown."""

    seen: Seen
    ref: VendorRef
    label: str = field(default="", repr=False)
    pin: Pin | None = None
    pin_index: bytes | None = field(default=None, repr=False)


def sighted(tenant_id: str, device_id: str, key: FoundKey) -> Sighting:
    """Makes a sighting of what a vendor told."""
    is_ours = key.tag is not None or key.nonce is not None
    seen = Seen(
        fingerprint=fingerprint(tenant_id, device_id, key.ref.reveal()),
        kind=key.kind.value,
        tag=key.tag or "",
        is_ours=is_ours,
        window=key.window,
        is_resting=key.is_resting,
        is_stale=key.is_stale,
    )
    index = crypto.blind_index("artifact", tenant_id, key.pin.reveal()) if key.pin is not None else None
    return Sighting(seen, key.ref, "" if is_ours else key.label[:LABEL_MAX], None if is_ours else key.pin, index)


def keep(tenant_id: str, run_id: int, device_id: str, sightings: Iterable[Sighting]) -> int:
    """Writes a page's keys and returns how many are new; one seen before in this run stays as it was first seen. Inside the
    tenant's block."""
    rows = [_row(tenant_id, run_id, device_id, item) for item in sightings]
    marks = {row.fingerprint for row in rows}
    here = KeySighting.objects.filter(tenant_id=tenant_id, run_id=run_id, device_id=device_id)
    known_count = here.filter(fingerprint__in=sorted(marks)).count() if marks else 0
    KeySighting.objects.bulk_create(rows, ignore_conflicts=True)
    return len(marks) - known_count


def kept(tenant_id: str, run_id: int, device_id: str) -> list[Sighting]:
    """Reads what a run has seen at a door so far. Inside the tenant's block."""
    rows = KeySighting.objects.filter(tenant_id=tenant_id, run_id=run_id, device_id=device_id).order_by("id")
    return [_sighting(row) for row in rows]


def forget(tenant_id: str, run_id: int, device_id: str | None = None) -> None:
    """Drops the sightings of a door, or of a whole run. Inside the tenant's block."""
    rows = KeySighting.objects.filter(tenant_id=tenant_id, run_id=run_id)
    (rows.filter(device_id=device_id) if device_id is not None else rows).delete()


def seal(tenant_id: str, device_id: str, mark: str, column: str, plain: str) -> bytes:
    """Seals one of a found key's secrets; sightings and findings of the same key at the same door open the same seal."""
    return crypto.seal(_PURPOSES[column], tenant_id, _place(device_id, mark, column), plain)


def unseal(row: Finding | KeySighting, column: str) -> str | None:
    """Opens one of a found key's secrets; None where there is none. Raises lockservice.core.crypto.SealBroken."""
    sealed = getattr(row, column)
    if sealed is None:
        return None
    place = _place(row.device_id, row.fingerprint, column)
    return crypto.unseal(_PURPOSES[column], row.tenant_id, place, sealed)


def _place(device_id: str, mark: str, column: str) -> tuple[str, str, str]:
    return ("sagas_finding", f"{device_id}\x1f{mark}", column)


def _row(tenant_id: str, run_id: int, device_id: str, item: Sighting) -> KeySighting:
    seen, mark = item.seen, item.seen.fingerprint
    return KeySighting(
        tenant_id=tenant_id,
        run_id=run_id,
        device_id=device_id,
        fingerprint=mark,
        kind=seen.kind,
        tag=seen.tag,
        is_ours=seen.is_ours,
        valid_from=seen.window.valid_from if seen.window else None,
        valid_until=seen.window.valid_until if seen.window else None,
        is_resting=seen.is_resting,
        is_stale=seen.is_stale,
        pin_index=item.pin_index,
        ref_sealed=seal(tenant_id, device_id, mark, REF, item.ref.reveal()),
        label_sealed=seal(tenant_id, device_id, mark, LABEL, item.label) if item.label else None,
        pin_sealed=seal(tenant_id, device_id, mark, PIN, item.pin.reveal()) if item.pin is not None else None,
    )


def _sighting(row: KeySighting) -> Sighting:
    window = Window(row.valid_from, row.valid_until) if row.valid_from and row.valid_until else None
    pin = unseal(row, PIN)
    return Sighting(
        Seen(row.fingerprint, row.kind, row.tag, row.is_ours, window, row.is_resting, row.is_stale),
        VendorRef(unseal(row, REF) or ""),
        unseal(row, LABEL) or "",
        Pin(pin) if pin is not None else None,
        bytes(row.pin_index) if row.pin_index is not None else None,
    )
