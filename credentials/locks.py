"""The locking queries of this room, in key order and really evaluated.

One rule: rows are locked reservation first, then credentials by id, then doors; never the other way round.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from django.db import connection

from credentials.models import CredentialDoor, KeyCredential, Reservation


def lock_reservation(tenant_id: str, reservation_id: str) -> Reservation | None:
    """Locks and returns a reservation's projection; None if there is none."""
    rows = Reservation.objects.select_for_update().filter(tenant_id=tenant_id, reservation_id=reservation_id)
    return next(iter(rows), None)


def open_properties(tenant_id: str, property_ids: Iterable[str]) -> set[str]:
    """Returns those of the properties that are in operation, and keeps them so until the transaction ends: a property that is
    deactivated meanwhile waits, and then finds the keys that were given here."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT property_id FROM core_property WHERE tenant_id = %s AND property_id = ANY(%s) AND active"
            " ORDER BY property_id FOR SHARE",
            [tenant_id, sorted(set(property_ids))],
        )
        return {row[0] for row in cursor.fetchall()}


def lock_reservations(tenant_id: str, reservation_ids: Iterable[str]) -> dict[str, Reservation]:
    """Locks and returns projections by reservation, in key order."""
    wanted = sorted(set(reservation_ids))
    if not wanted:
        return {}
    rows = Reservation.objects.select_for_update().filter(tenant_id=tenant_id, reservation_id__in=wanted)
    return {row.reservation_id: row for row in rows.order_by("reservation_id")}


def lock_credentials(tenant_id: str, ids: Iterable[str]) -> dict[str, KeyCredential]:
    """Locks and returns credentials by id."""
    rows = KeyCredential.objects.select_for_update().filter(tenant_id=tenant_id, id__in=sorted(set(ids))).order_by("id")
    return {row.id: row for row in rows}


def lock_stays(tenant_id: str, reservation_ids: Iterable[str]) -> dict[str, KeyCredential]:
    """Locks and returns all credentials of reservations whose projections are locked, by id."""
    rows = KeyCredential.objects.select_for_update().filter(
        tenant_id=tenant_id, reservation_id__in=sorted(set(reservation_ids))
    )
    return {row.id: row for row in rows.order_by("id")}


def doors_of(tenant_id: str, credential_ids: Iterable[str]) -> dict[str, list[CredentialDoor]]:
    """Returns the doors of locked credentials, by credential, in a stable order. The credential's lock covers them."""
    doors: dict[str, list[CredentialDoor]] = defaultdict(list)
    rows = CredentialDoor.objects.filter(tenant_id=tenant_id, credential_id__in=sorted(set(credential_ids)))
    for row in rows.order_by("id"):
        doors[row.credential_id].append(row)
    return doors
