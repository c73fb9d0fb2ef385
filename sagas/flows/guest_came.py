"""A guest who has come is no no-show: what shows it is noted, and where the booking says otherwise somebody is told.

| when the sign comes | her key | told |
|---|---|---|
| before the no-show, or within its delay | is kept | alert: booking and door disagree |
| after her key was suspended | stays suspended until a person or the booking resumes it | critical alert with the next step |

One rule: a sign never moves a key; it only keeps one from being suspended.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from credentials import arrival_signs, stay_notices
from credentials.arrival_signs import Sign
from credentials.lifecycle import State
from credentials.models import Reservation
from credentials.reservations import NO_SHOW
from credentials.services import KeyBatch
from sagas import intake
from sagas.flows import old_rooms
from sagas.intake import PRIORITY_CHECKOUT, Start, internal_lane, own_key
from sagas.outbox import Cause
from vendors.port.types import SuspendReason

FLOW = "guest_came"


def note(tenant_id: str, signs: Sequence[Sign], now: datetime, cause: Cause) -> None:
    """Writes signs, and has those looked at whose booking says that the guest did not come. In the caller's transaction."""
    fresh = arrival_signs.add(tenant_id, signs, now)
    named = {sign.reservation_id for sign in fresh}
    rows = Reservation.objects.filter(tenant_id=tenant_id, reservation_id__in=named, status=NO_SHOW)
    absent = set(rows.values_list("reservation_id", flat=True)) if named else set()
    starts = [(_start(tenant_id, sign), cause) for sign in fresh if sign.reservation_id in absent]
    intake.start(tenant_id, starts, now)


def run(batch: KeyBatch, row: Reservation | None) -> None:
    """Tells, under the stay's lock, that booking and door disagree, where they still do; who has left her room loses it now."""
    if row is not None and row.status == NO_SHOW:
        tell(batch, row)
        old_rooms.wake_left(row)


def tell(batch: KeyBatch, row: Reservation) -> bool:
    """Tells that the guest of a locked no-show stay has come; False where nothing shows it. Inside the tenant's block."""
    signs = arrival_signs.of_stay(batch.tenant_id, row.reservation_id, row.incarnation)
    if not signs:
        return False
    seen = arrival_signs.in_words(signs[0])
    stay = [key for key in batch.of_stay(row.reservation_id) if key.incarnation == row.incarnation]
    shut = [key for key in stay if key.state == State.SUSPENDED and key.suspend_reason == SuspendReason.NO_SHOW]
    shut = [key for key in shut if not key.resuming]
    if stay_notices.warn(row, stay_notices.NO_SHOW_CONTRADICTED, f"the booking says no-show, but {seen}"):
        stay_notices.save(row)
    name = stay_notices.name_of(row)
    if shut:
        what = f"the booking says no-show and her key is suspended, but {seen}: resume the key if she is the guest"
        alert = stay_notices.stay_alert(
            name, stay_notices.NO_SHOW_CONTRADICTED, "critical", what, f"{row.version}:suspended", credential_id=shut[0].id
        )
    else:
        what = f"the booking says no-show, but {seen}: her key is kept, correct the booking"
        alert = stay_notices.stay_alert(name, stay_notices.NO_SHOW_CONTRADICTED, "warning", what, str(row.version))
    batch.alerts.append(alert)
    return True


def _start(tenant_id: str, sign: Sign) -> Start:
    return Start(
        flow=FLOW,
        key=own_key("guest-came", sign.reservation_id, str(sign.incarnation), sign.kind.value),
        lane=internal_lane(tenant_id),
        reservation_id=sign.reservation_id,
        priority=PRIORITY_CHECKOUT,
    )
