"""What the keys of a stay could not be given: rooms without a lock, doors that carry no kind of key.

One rule: what is missing costs only itself. The rest of the booking is followed, and what is missing is given once it can be.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from credentials import stay_notices
from credentials.house import House
from credentials.models import Reservation
from credentials.services import KeyBatch
from sagas.alerts import NewAlert


def tell_rooms(batch: KeyBatch, place: House, row: Reservation, rooms: Sequence[str], *, has_locks: bool) -> None:
    """Keeps with a locked stay which of its rooms have no lock, and tells it once; none of them takes the warning off.

    `has_locks` False means that the property has no lock system at all, which is told once for the property.
    """
    if not rooms:
        stay_notices.clear(row, [stay_notices.ROOM_WITHOUT_LOCK])
        return
    named = ", ".join(stay_notices.room_names(batch.tenant_id, rooms)[: stay_notices.ROOMS_SHOWN])
    what = f"no lock is known for room {named}; the guest needs an escort there, or another room"
    if not stay_notices.warn(row, stay_notices.ROOM_WITHOUT_LOCK, what):
        return
    if not has_locks:
        detail = f"{place.place.name}: no lock system is installed; its guests get no keys"
        batch.alerts.append(
            NewAlert(
                f"no-locks:{place.property_id}", "ROOM_WITHOUT_LOCK", "warning", detail, stay_notices.RUNBOOK, place.property_id
            )
        )
        return
    name = stay_notices.name_of(row)
    batch.alerts.append(
        stay_notices.stay_alert(name, stay_notices.ROOM_WITHOUT_LOCK, "critical", what, f"{row.version}:{_digest(rooms)}")
    )


def tell_kinds(batch: KeyBatch, row: Reservation, rooms: Sequence[str]) -> None:
    """Keeps with a locked stay at which of its rooms no kind of key fits, and tells it once; none takes the warning off."""
    if not rooms:
        stay_notices.clear(row, [stay_notices.NO_KIND_FITS])
        return
    named = ", ".join(stay_notices.room_names(batch.tenant_id, rooms)[: stay_notices.ROOMS_SHOWN])
    what = f"no kind of key that is allowed fits the locks of room {named}; change the key policy, or give the guest an escort"
    if stay_notices.warn(row, stay_notices.NO_KIND_FITS, what):
        name = stay_notices.name_of(row)
        batch.alerts.append(
            stay_notices.stay_alert(name, stay_notices.NO_KIND_FITS, "critical", what, f"{row.version}:{_digest(rooms)}")
        )


def _digest(rooms: Sequence[str]) -> str:
    return hashlib.sha256("\x1f".join(sorted(rooms)).encode()).hexdigest()[:16]
