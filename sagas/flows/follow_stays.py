"""Follow stays once more without a new version, because what their keys follow from has changed.

| what changed | stays |
|---|---|
| the property's hours, zone or key policy | those given as days, and those that could not be given something |
| its locks | those that could not be given something |

One rule: the window of a stay given as days is worked out anew from its days; one given as instants is never moved.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Q

from credentials import house as houses
from credentials import locks, stay_notices
from credentials.house import house
from credentials.models import Reservation
from credentials.reservations import ENDED, UnusableBooking, time_of, window_of_days
from credentials.services import KeyBatch
from devices import selectors
from devices.registration import STAYS_AGAIN
from lockservice.core import clock
from lockservice.core.places import Property
from sagas.flows import follow_booking
from sagas.intake import PRIORITY_BULK, Start, internal_lane, own_key
from sagas.steps import Work

FLOW: Final = STAYS_AGAIN
PAGE: Final = 25
ROUNDS: Final = 2
"""Another process may know the property as it was for two seconds more: a second walk finds what it did by that."""
PAUSE_S: Final = 10
OVER: Final = timedelta(days=2)
"""A stay that ended longer ago is left alone: no hours of a day make it run again."""


def start_of(tenant_id: str, property_id: str | None, occasion: str) -> Start:
    """Returns what starts the walk over a property's stays, or all of the tenant's; `occasion` makes it one."""
    return Start(
        flow=FLOW,
        key=own_key("stays-again", property_id or "", occasion),
        lane=internal_lane(tenant_id),
        priority=PRIORITY_BULK,
        args={"property": property_id or ""},
    )


def next_page(tenant_id: str, args: dict[str, Any]) -> list[str]:
    """Locks the next stays concerned and returns their ids, in order. `args` names property (empty for all)."""
    rows = Reservation.objects.filter(
        Q(check_in__isnull=False) | ~Q(warnings=[]),
        tenant_id=tenant_id,
        reservation_id__gt=args.get("after", ""),
        valid_until__gt=clock.now() - OVER,
    ).exclude(status__in=sorted(ENDED))
    if args["property"]:
        rows = rows.filter(property_id=args["property"])
    ids = list(rows.order_by("reservation_id").values_list("reservation_id", flat=True)[:PAGE])
    return list(locks.lock_reservations(tenant_id, ids))


def run_page(batch: KeyBatch, work: Work) -> None:
    """Follows the locked stays of one page; their keys are in the batch."""
    houses.forget()
    selectors.forget()
    rows = locks.lock_reservations(batch.tenant_id, work.args["page"])
    in_operation = locks.open_properties(batch.tenant_id, [row.property_id for row in rows.values()])
    again = f"{work.id}:{work.args.get('round', 1)}"
    for row in rows.values():
        was = time_of(row)
        if row.status in ENDED or not (_moves(row, batch.now) or stay_notices.lacks_something(row)):
            continue
        is_open = row.property_id in in_operation
        follow_booking.follow(batch, row, row.status, again, work.cause, is_open=is_open, again=again, was=was)


def _moves(row: Reservation, now: datetime) -> bool:
    """Works the window of a stay given as days out anew; False where it stays as it was."""
    if row.check_in is None or row.check_out is None:
        return False
    try:
        start, end = window_of_days(house(row.tenant_id, row.property_id), row.check_in, row.check_out)
    except (UnusableBooking, Property.DoesNotExist):
        return False  # hours that leave no stay: the window it was booked for stands
    if (start, end) == (row.valid_from, row.valid_until):
        return False
    row.valid_from, row.valid_until, row.updated_at = start, end, now
    row.save(update_fields=["valid_from", "valid_until", "updated_at"])
    return True
