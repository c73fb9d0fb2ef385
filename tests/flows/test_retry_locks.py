"""An act by hand on a key whose saga a runner takes up at the same instant: neither waits for the other for ever."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, connections

from credentials.models import CredentialDoor, KeyCredential
from credentials.services import KeyBatch
from lockservice.core import tenancy
from sagas import acts
from sagas.models import Saga
from tests.flows.conftest import keys
from tests.support.hotel import Hotel
from vendors.port.ids import new_id

Settle = Callable[..., int]
CLERK = acts.Actor("usr_clerk")


def _retry_key(hotel: Hotel, key_id: str, saga_id: str) -> None:
    acts.retry(hotel.tenant_id, key_id, CLERK, acts.new_act_id())


def _retry_saga(hotel: Hotel, key_id: str, saga_id: str) -> None:
    acts.retry_saga(hotel.tenant_id, saga_id)


def _move(hotel: Hotel, key_id: str, saga_id: str) -> None:
    now = datetime.now(UTC)
    acts.update(
        hotel.tenant_id, key_id, CLERK, "move", valid_from=now + timedelta(days=9), valid_until=now + timedelta(days=10)
    )


@pytest.mark.parametrize(
    ("act", "status"), [(_retry_key, "retry"), (_retry_saga, "retry"), (_move, "timer")], ids=["key", "saga", "window"]
)
def test_what_a_runner_takes_up_at_this_moment_is_not_waited_for(
    act: Callable[[Hotel, str, str], None], status: str, hotel: Hotel, settle: Settle
) -> None:
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    if status == "retry":
        settle(hotel)
    (key,) = keys(hotel, stay)
    with tenancy.tenant(hotel.tenant_id):
        saga = Saga.objects.get(tenant_id=hotel.tenant_id, credential_id=key.id)
        saga.status, saga.due_at, saga.hotel_due_at = status, None, None
        saga.save()
        if status == "retry":  # there must be something to try again
            CredentialDoor.objects.filter(tenant_id=hotel.tenant_id, credential_id=key.id).update(state="none")
            KeyCredential.objects.filter(tenant_id=hotel.tenant_id, id=key.id).update(open_work=True)
    with ThreadPoolExecutor(1) as pool:
        with tenancy.queues(), connection.cursor() as cursor:
            cursor.execute("UPDATE sagas_saga SET status = 'running' WHERE id = %s", [saga.id])  # the claim: saga first
            doing = pool.submit(_in_thread, act, hotel, key.id, saga.id)
            while not (doing.done() or _waits_for_us(doing)):
                pass
            tenancy.switch_to_tenant(hotel.tenant_id)
            assert set(KeyBatch.load(hotel.tenant_id, [key.id], datetime.now(UTC)).keys) == {key.id}  # and its key then
            cursor.execute("SELECT status FROM sagas_saga WHERE id = %s", [saga.id])
            assert cursor.fetchone() == ("running",)
        doing.result()
    with tenancy.tenant(hotel.tenant_id):
        assert Saga.objects.get(tenant_id=hotel.tenant_id, id=saga.id).status == "running"


def _in_thread(act: Callable[[Hotel, str, str], None], hotel: Hotel, key_id: str, saga_id: str) -> None:
    try:
        act(hotel, key_id, saga_id)
    finally:
        connections.close_all()


def _waits_for_us(doing: Future[None]) -> bool:
    """Says whether some session waits for this one's locks; gives the other thread a moment first."""
    wait([doing], timeout=0.05)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))")
        return bool(cursor.fetchone()[0])
