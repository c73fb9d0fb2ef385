"""From the booking to the door through the desk: real API, sagas, gateway, desk program and simulated locks."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from credentials.models import KeyCredential
from desktop_bridge.journal import Journal
from devices.relay_models import RelayJobRow
from lockservice.core.tenancy import tenant
from sagas.models import OutboxEvent, Saga
from tests.relay.conftest import House, working
from tests.relay.gateway import VENDOR, GatewayProcess, ScriptedDesk, VirtualDesk
from tests.support.web_server import Caller
from vendors.port.ids import new_id
from vendors.port.relay import DeskJob

DAY = timedelta(days=1)


def booked(house: House, *rooms: str, **extra: Any) -> str:
    """A confirmed booking; returns its credential, which waits for the desk."""
    reservation = new_id("rsv")
    start = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
    data = house.hotel.booking(reservation, 1, rooms or ("101",), start=start, end=start + 2 * DAY, **extra)
    assert house.hotel.tell("booking.confirmed", data) == "applied"
    house.work()
    return key_of(house, reservation)


def key_of(house: House, reservation: str) -> str:
    with tenant(house.hotel.tenant_id):
        return KeyCredential.objects.filter(tenant_id=house.hotel.tenant_id, reservation_id=reservation).latest("id").id


def body(clerk: Caller, key: str) -> dict[str, Any]:
    answer = clerk.get(f"/lock/v1/credentials/{key}")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def until(clerk: Caller, key: str, state: str, within_s: float = 20) -> dict[str, Any]:
    ends = time.monotonic() + within_s
    while time.monotonic() < ends:
        found = body(clerk, key)
        if found["state"] == state:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{key} is {found['state']}, not {state}: {found}")


def encode(clerk: Caller, key: str) -> Any:
    return clerk.post(f"/lock/v1/credentials/{key}/encode", {})


def jobs(house: House) -> list[RelayJobRow]:
    with tenant(house.hotel.tenant_id):
        return list(RelayJobRow.objects.filter(tenant_id=house.hotel.tenant_id).order_by("created_at"))


def footprint(house: House) -> dict[str, int]:
    with tenant(house.hotel.tenant_id):
        models = (KeyCredential, Saga, OutboxEvent, RelayJobRow)
        return {model.__name__: model.objects.filter(tenant_id=house.hotel.tenant_id).count() for model in models}


def test_a_booking_waits_for_the_desk_and_opens_its_doors_once_a_card_was_encoded(
    house: House, clerk: Caller, virtual: VirtualDesk
) -> None:
    key = booked(house)
    waiting = body(clerk, key)
    assert (waiting["state"], waiting["waitingFor"], waiting["kind"]) == ("requested", "desk", "rfid_card")
    with working(house):
        assert encode(clerk, key).status_code == 202
        active = until(clerk, key, "active")
    assert {door["propagation"] for door in active["doors"]} == {"confirmed"}
    (card,) = house.cards()
    assert house.shown("101", card["uid"]) == "ok"
    assert house.shown("gym", card["uid"]) == "ok"
    assert house.shown("102", card["uid"]) == "wrong_door"
    assert house.shown("101", card["number"]) == "ok"


def test_without_a_desk_encode_is_refused_and_nothing_changed(house: House, clerk: Caller) -> None:
    key = booked(house)
    before = footprint(house)
    answer = encode(clerk, key)
    assert (answer.status_code, answer.json()["code"]) == (503, "MELMASTOON.LOCK.CARD_ENCODER_OFFLINE")
    assert answer.json()["retriable"] is True
    house.work()
    assert footprint(house) == before
    assert body(clerk, key)["waitingFor"] == "desk"
    assert house.cards() == []


def test_a_desk_of_another_property_is_no_desk(
    house: House, clerk: Caller, scripted: Callable[..., ScriptedDesk], gateway: Any
) -> None:
    from tests.relay.gateway import desk, token

    key = booked(house)
    with desk(gateway.url, token(house.hotel.tenant_id, new_id("ppt"))) as other:
        assert encode(clerk, key).status_code == 503
        assert other.hears_nothing("offer")


def test_nobody_lays_a_card_the_key_shows_waiting_and_then_fails_with_the_reason(
    encoder: Any, web: Any, gateway: Any, tmp_path: Any, database: str
) -> None:
    from tests.support.web_server import caller

    house = House(encoder, card_timeout_s=2)
    house.hand(automatic=False)
    clerk = caller(web, house.hotel.tenant_id, "front_desk_supervisor", properties=(house.hotel.property_id,))
    desk = VirtualDesk(gateway.url, encoder.url, house.code, house.token(), tmp_path / "slow")
    try:
        key = booked(house)
        with working(house):
            assert encode(clerk, key).status_code == 202
            assert until(clerk, key, "pending")["state"] == "pending"
            failed = until(clerk, key, "failed", within_s=60)
        assert house.cards() == []
        (job,) = jobs(house)
        assert (job.state, job.stage) == ("expired", "awaiting_card")
        assert failed["failureCode"] == "KEY_ISSUE_FAILED"
        with tenant(house.hotel.tenant_id):
            last = OutboxEvent.objects.filter(tenant_id=house.hotel.tenant_id, ordering_key=key).order_by("sequence")
            assert b'"no_card"' in b"".join(bytes(row.body) for row in last)
    finally:
        desk.stop()


def test_a_cancelled_stay_cancels_the_job_before_a_card_is_written(house: House, clerk: Caller, virtual: VirtualDesk) -> None:
    house.hand(automatic=False)
    key = booked(house)
    with working(house):
        assert encode(clerk, key).status_code == 202
        _until_stage(house, "awaiting_card")
        assert clerk.post(f"/lock/v1/credentials/{key}/revoke", {"reason": "cancellation"}).status_code in (200, 202)
        _until_state(house, "cancelled")
        uid = house.place()
        _until_settled(house, key)
    assert body(clerk, key)["state"] == "failed"
    assert house.cards() == []
    assert house.shown("101", uid) == "unknown_credential"


def test_a_desk_killed_while_it_writes_tells_on_its_return_and_one_card_was_made(
    house: House, clerk: Caller, virtual: VirtualDesk, encoder: Any, settings: Any
) -> None:
    settings.RETRY_SCALE = 0.3
    key = booked(house)
    encoder.post("/trouble", {"latencyMs": 400})
    try:
        with working(house):
            assert encode(clerk, key).status_code == 202
            _until_stage(house, "writing")
            virtual.kill()
            encoder.post("/trouble", {})
            _until_lost(house, clerk, key)
            virtual.start()
            # Its card is read back: whole, then the key is active; torn, then a fresh job writes another.
            active = until(clerk, key, "active", within_s=60)
    finally:
        encoder.post("/trouble", {})
    assert active["state"] == "active"
    opening = [card["uid"] for card in house.cards() if house.shown("101", card["uid"], dry=True) == "ok"]
    assert len(opening) == 1


def test_a_desk_restarted_while_a_card_is_awaited_asks_for_it_again(
    house: House, clerk: Caller, virtual: VirtualDesk, settings: Any
) -> None:
    settings.RETRY_SCALE = 0.3
    house.hand(automatic=False)
    key = booked(house)
    with working(house):
        assert encode(clerk, key).status_code == 202
        _until_stage(house, "awaiting_card")
        virtual.stop()
        virtual.start()
        _until_state(house, "refused")  # the first turn: nothing had been written
        _wait(lambda: len(jobs(house)) == 2, "it is not asked for again")
        uid = house.place()
        until(clerk, key, "active", within_s=40)
    assert [job.state for job in jobs(house)] == ["refused", "done"]
    assert house.shown("101", uid) == "ok"


def test_a_desk_cut_off_before_it_heard_go_says_that_nothing_was_begun_and_the_card_is_asked_for_again(
    house: House, clerk: Caller, gateway: GatewayProcess, encoder: Any, tmp_path: Path, settings: Any
) -> None:
    """The gateway wrote down that the desk may begin; the word itself was lost on the wire."""
    settings.RETRY_SCALE = 0.3
    key, folder = booked(house), tmp_path / "desk"
    folder.mkdir()
    deaf = ScriptedDesk(gateway.url, house.token())
    with working(house):
        assert encode(clerk, key).status_code == 202
        offer = deaf.begin()
        deaf.vanish()
        journal = Journal(folder / "journal.json")
        journal.take(DeskJob(offer["jobId"], VENDOR, offer["action"], offer["body"], offer["numbers"], offer["needsCard"]))
        desk = VirtualDesk(gateway.url, encoder.url, house.code, house.token(), folder)
        try:
            until(clerk, key, "active", within_s=40)
        finally:
            desk.stop()
    assert [job.state for job in jobs(house)] == ["refused", "done"]
    (card,) = house.cards()
    assert house.shown("101", card["uid"]) == "ok"
    assert Journal(folder / "journal.json").open_jobs() == ()


def test_a_card_that_was_written_and_still_lies_there_is_not_taken_for_the_next_key(
    house: House, clerk: Caller, virtual: VirtualDesk, settings: Any
) -> None:
    settings.RETRY_SCALE = 0.3
    house.hand(automatic=False)
    keys = booked(house, "101"), booked(house, "102")
    with working(house):
        for key in keys:
            assert encode(clerk, key).status_code == 202
        _wait(lambda: [job.stage for job in jobs(house)] == ["awaiting_card"] * 2, "no card is asked for")
        first = house.place()
        _wait(lambda: "done" in [job.state for job in jobs(house)], "the card is not written")
        assert sorted(job.state for job in jobs(house)) == ["accepted", "done"]
        second = house.place()
        for key in keys:
            until(clerk, key, "active", within_s=40)
    opens = {uid: {room for room in ("101", "102") if house.shown(room, uid) == "ok"} for uid in (first, second)}
    assert sorted(map(sorted, opens.values())) == [["101"], ["102"]]


def test_a_lost_card_is_dead_once_the_new_one_was_used_and_the_companion_is_named(
    house: House, clerk: Caller, virtual: VirtualDesk
) -> None:
    key = booked(house)
    with working(house):
        encode(clerk, key)
        until(clerk, key, "active")
        (lost,) = [card["uid"] for card in house.cards()]
        assert house.shown("101", lost) == "ok"
        answer = clerk.post(f"/lock/v1/credentials/{key}/replace", {})
        assert answer.status_code == 201, answer.text  # nothing is under way: it waits for the desk
        successor = answer.json()["id"]
        assert body(clerk, successor)["waitingFor"] == "desk"
        encode(clerk, successor)
        until(clerk, successor, "active")
    old = body(clerk, key)
    assert (old["state"], old["propagation"]) == ("revoked", "propagating")
    assert old["effectiveNotAfter"] is not None
    assert house.shown("101", lost, dry=True) == "ok"  # the lock has heard of nothing
    (fresh,) = [card["uid"] for card in house.cards() if card["uid"] != lost]
    assert house.shown("101", fresh) == "ok"
    assert house.shown("101", lost) == "superseded"
    assert house.shown("101", fresh) == "ok"


def test_a_longer_stay_needs_the_card_at_the_desk_and_opens_until_its_new_end(
    house: House, clerk: Caller, virtual: VirtualDesk
) -> None:
    key = booked(house)
    with working(house):
        encode(clerk, key)
        active = until(clerk, key, "active")
        end = datetime.fromisoformat(active["window"]["validUntil"])
        later = (end + timedelta(hours=20)).isoformat()
        longer = (end + DAY).isoformat()
        assert clerk.patch(f"/lock/v1/credentials/{key}", {"validUntil": longer}).status_code in (200, 202)
        _wait(lambda: body(clerk, key)["card"]["mustBeUpdated"], "the card is not stale")
        (card,) = [row["uid"] for row in house.cards()]
        assert house.shown("101", card, later) == "outside_window"
        assert body(clerk, key)["propagation"] == "propagating"
        assert encode(clerk, key).status_code == 202
        _wait(lambda: not body(clerk, key)["card"]["mustBeUpdated"], "the card stays stale")
    fresh = body(clerk, key)
    assert (fresh["state"], fresh["propagation"]) == ("active", "confirmed")
    assert fresh["card"]["desired"] == fresh["card"]["carried"]
    assert house.shown("101", card, later) == "ok"
    assert [row["uid"] for row in house.cards()] == [card]


def test_a_companion_whose_card_dies_with_a_lost_one_is_given_another(
    house: House, clerk: Caller, virtual: VirtualDesk
) -> None:
    key = booked(house)
    first = body(clerk, key)
    start, end = first["window"]["validFrom"], first["window"]["validUntil"]
    with working(house):
        encode(clerk, key)
        until(clerk, key, "active")
        asked = {
            "reservationId": first["reservationId"],
            "propertyId": house.hotel.property_id,
            "rooms": first["rooms"],
            "validFrom": start,
            "validUntil": end,
            "holderId": "gst_companion",
            "preferredKinds": ["rfid_card"],
        }
        answer = clerk.post("/lock/v1/credentials", asked)
        assert answer.status_code in (201, 202), answer.text
        companion = answer.json().get("credential", answer.json())["id"]
        encode(clerk, companion)
        until(clerk, companion, "active")
        both = [card["uid"] for card in house.cards()]
        assert [house.shown("101", uid) for uid in both] == ["ok", "ok"]
        successor = clerk.post(f"/lock/v1/credentials/{key}/replace", {}).json()["id"]
        encode(clerk, successor)
        until(clerk, successor, "active")
        _wait(lambda: body(clerk, companion)["replacedBy"] is not None, "the companion was forgotten")
        second = body(clerk, companion)["replacedBy"]
        assert body(clerk, second)["waitingFor"] == "desk"
        encode(clerk, second)
        until(clerk, second, "active")
    fresh = [card["uid"] for card in house.cards() if card["uid"] not in both]
    assert [house.shown("101", uid) for uid in fresh] == ["ok", "ok"]
    assert [house.shown("101", uid) for uid in both] == ["superseded", "superseded"]


def _until_stage(house: House, stage: str) -> None:
    _wait(lambda: any(job.stage == stage for job in jobs(house)), f"no job reaches {stage}")


def _until_state(house: House, state: str) -> None:
    _wait(lambda: any(job.state == state for job in jobs(house)), f"no job is {state}")


def _until_settled(house: House, key: str) -> None:
    def settled() -> bool:
        with tenant(house.hotel.tenant_id):
            return not Saga.objects.filter(
                tenant_id=house.hotel.tenant_id, credential_id=key, status__in=["due", "running", "retry"]
            ).exists()

    _wait(settled, "work stays open")


def _until_lost(house: House, clerk: Caller, key: str) -> None:
    """The gateway misses the desk, and the key is in doubt for as long."""
    from devices.relay_models import RelayDesk

    def gone() -> bool:
        with tenant(house.hotel.tenant_id):
            desk = RelayDesk.objects.get(tenant_id=house.hotel.tenant_id)
            return desk.expires_at < datetime.now(UTC)

    _wait(gone, "the desk still counts as connected")
    assert body(clerk, key)["state"] == "pending"


def _wait(is_so: Callable[[], bool], otherwise: str, within_s: float = 30) -> None:
    ends = time.monotonic() + within_s
    while not is_so():
        if time.monotonic() > ends:
            pytest.fail(otherwise)
        time.sleep(0.05)
