"""Work that waits for other work stands in nobody's way, however many wait and however slow the machine is."""

from __future__ import annotations

from collections.abc import Callable

from lockservice.core.tenancy import queues, tenant
from sagas import claims
from sagas.intake import Start, start
from sagas.models import Saga
from sagas.outbox import Cause
from sagas.runner import FAIR_TURN, Runner
from tests.support.hotel import Hotel
from vendors.port.ids import new_id

Settle = Callable[..., int]


def test_a_saga_that_waited_goes_behind_what_is_due_by_then(hotel: Hotel) -> None:
    lane = f"{hotel.installation_id}:waits"
    with tenant(hotel.tenant_id):
        begin = [Start(flow="update", key=new_id("evt"), lane=lane, args=args) for args in ({claims.WAITS: True}, {}, {})]
        order = [start(hotel.tenant_id, [(item, Cause())], hotel.opened_at)[item.key] for item in begin]
        Saga.objects.filter(id__in=order[:2]).update(status="retry", due_at=hotel.opened_at)
    with queues():
        claims.wake_due()
        ((token, _),) = claims.claim_lanes("me", 1, [], [lane]).values()
        turns = [claims.claim_sagas({lane: (token, 1)})[0].id for _ in range(3)]
        claims.release("me", {lane: token})
    assert turns == [order[1], order[2], order[0]]  # a failed try keeps its place, one that only waited does not


def test_a_flood_of_urgent_work_leaves_a_turn_in_eight_to_the_rest(hotel: Hotel) -> None:
    lane = f"{hotel.installation_id}:flood"
    runner = Runner(only=[lane])
    with tenant(hotel.tenant_id):
        urgent = [Start(flow="update", key=new_id("evt"), lane=lane, priority=0) for _ in range(2 * FAIR_TURN)]
        late = [Start(flow="update", key=new_id("evt"), lane=lane, priority=priority) for priority in (2, 3)]
        made = start(hotel.tenant_id, [(item, Cause()) for item in (*urgent, *late)], hotel.opened_at)
    with queues():
        ((token, _),) = claims.claim_lanes("me", 1, [], [lane]).values()
        turns = [
            claims.claim_sagas({lane: (token, 1)}, (), runner._from_priority([lane]))[0].priority for _ in range(2 * FAIR_TURN)
        ]
        claims.release("me", {lane: token})
    assert len(made) == 2 * FAIR_TURN + 2
    assert [number for number, priority in enumerate(turns, start=1) if priority] == [FAIR_TURN, 2 * FAIR_TURN]
