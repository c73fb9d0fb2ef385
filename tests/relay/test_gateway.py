"""The gateway against desks that keep to nothing: who gets in, what they may say, and what becomes of their jobs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from devices import relay_desks, relay_jobs
from devices.gateway_session import MAX_OPEN
from devices.relay import RowRelay
from devices.relay_jobs import Site
from devices.relay_models import RelayDesk, RelayJobRow
from lockservice.core.tenancy import tenant
from sagas.housekeeping import tidy_tenant
from tests.flows.conftest import alerts
from tests.relay.conftest import House
from tests.relay.gateway import VENDOR, GatewayProcess, ScriptedDesk, token
from vendors.port.errors import CardEncoderOffline
from vendors.port.ids import new_id
from vendors.port.relay import JobState, Refusal, RelayJob


def relay_of(house: House) -> RowRelay:
    return RowRelay(Site(house.hotel.tenant_id, house.hotel.property_id, house.hotel.installation_id, VENDOR))


def job(key: str = "k1", **changes: Any) -> RelayJob:
    given: dict[str, Any] = {"credential_id": "key_1", "action": "encode", "body": {"card": "77"}, "timeout_s": 30.0}
    return RelayJob(key, **(given | changes))


def rows(house: House) -> list[RelayJobRow]:
    with tenant(house.hotel.tenant_id):
        return list(RelayJobRow.objects.filter(tenant_id=house.hotel.tenant_id).order_by("created_at"))


def presence(house: House) -> RelayDesk:
    with tenant(house.hotel.tenant_id):
        return RelayDesk.objects.get(tenant_id=house.hotel.tenant_id)


# --- who gets in


@pytest.mark.parametrize(
    ("bearer", "status"),
    [
        (lambda house: "", 401),
        (lambda house: "not.a.token", 401),
        (lambda house: house.token(role="front_desk"), 403),
        (lambda house: token(house.hotel.tenant_id, "*"), 403),
        (lambda house: token(house.hotel.tenant_id, house.hotel.property_id, new_id("ppt")), 403),
        (lambda house: token(house.hotel.tenant_id), 403),
    ],
    ids=["no token", "no such token", "a clerk's", "of every property", "of two properties", "of none"],
)
def test_only_a_desk_of_one_property_is_let_in(
    gateway: GatewayProcess, house: House, bearer: Callable[[House], str], status: int
) -> None:
    with pytest.raises(InvalidStatus) as caught:
        ScriptedDesk(gateway.url, bearer(house))
    assert caught.value.response.status_code == status
    with tenant(house.hotel.tenant_id):
        assert not RelayDesk.objects.filter(tenant_id=house.hotel.tenant_id).exists()


def test_nothing_is_at_another_path(gateway: GatewayProcess, house: House) -> None:
    with pytest.raises(InvalidStatus) as caught:
        ScriptedDesk(gateway.url.replace("/relay/v1", "/relay/v2"), house.token())
    assert caught.value.response.status_code == 404


def test_a_desk_of_another_version_is_told_so(gateway: GatewayProcess, house: House) -> None:
    desk = ScriptedDesk(gateway.url, house.token(), hello=False)
    desk.say("hello", version=2, program="x", vendors=[VENDOR], encoder="", holding=[])
    assert desk.closed() == 4426
    desk.close()


def test_a_token_that_ends_closes_the_connection(gateway: GatewayProcess, house: House) -> None:
    desk = ScriptedDesk(gateway.url, house.token(ttl_s=4))
    assert _closed_while_pinging(desk) == 4401
    desk.close()


# --- what it may say


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("{", "bad_json"),
        ("[]", "bad_json"),
        ('{"type":"result","type":"ping"}', "bad_json"),
        ('{"type":"result","jobId":"job_1","outcome":"done","detail":"","body":{"n":NaN}}', "bad_json"),
        ('{"type":"welcome","version":1,"deskId":"d","heartbeatS":1}', "unknown_type"),
        ('{"type":"ping"}', "missing_field"),
        ('{"type":"ping","encoderReady":1}', "bad_field"),
        ('{"type":"ping","encoderReady":true,"more":1}', "unknown_field"),
        ('{"type":"result","jobId":"job_1","outcome":"refused","detail":"","body":{}}', "bad_field"),
        ('{"type":"result","jobId":"j","outcome":"done","detail":"","body":' + '{"a":' * 9 + "1" + "}" * 9 + "}", "too_deep"),
        (b"\x00\x01", "binary_frame"),
    ],
)
def test_a_frame_that_is_none_is_refused_with_its_reason_and_ends_the_connection(
    scripted: Callable[..., ScriptedDesk], frame: str | bytes, code: str
) -> None:
    desk = scripted()
    desk.socket.send(frame)
    assert desk.hear("refusal")["code"] == code
    assert desk.closed() == 4400


def test_an_oversized_frame_ends_the_connection(scripted: Callable[..., ScriptedDesk]) -> None:
    desk = scripted()
    desk.socket.send(json.dumps({"type": "ping", "encoderReady": True, "x": "y" * 70_000}))
    assert desk.closed() == 1009


def test_a_silent_desk_is_closed_and_no_longer_counts(house: House, gateway: GatewayProcess) -> None:
    desk = ScriptedDesk(gateway.url, house.token())
    assert desk.closed(within_s=15) in (4408, 1011)
    assert presence(house).expires_at <= datetime.now(UTC)
    with pytest.raises(CardEncoderOffline) as caught:
        relay_of(house).submit(job())
    assert (caught.value.throttled, caught.value.retriable) == (True, True)
    assert rows(house) == []
    desk.close()


def test_a_desk_that_floods_holds_up_no_other(
    scripted: Callable[..., ScriptedDesk], house: House, gateway: GatewayProcess, encoder: Any
) -> None:
    flooding = scripted()
    for _ in range(3000):
        flooding.say("ping", encoderReady=True)
    neighbour = House(encoder)
    desk = ScriptedDesk(gateway.url, neighbour.token())
    relay_of(neighbour).submit(job())
    desk.done(desk.begin())
    assert desk.hear("taken")["jobId"]
    desk.close()


def test_the_newest_connection_of_a_desk_replaces_the_older(scripted: Callable[..., ScriptedDesk], house: House) -> None:
    older = scripted()
    newer = scripted()
    assert older.closed() == 4409
    relay_of(house).submit(job())
    assert newer.hear("offer")["action"] == "encode"


# --- what becomes of jobs


def test_a_job_is_offered_begun_and_done_once(scripted: Callable[..., ScriptedDesk], house: House) -> None:
    desk, relay = scripted(), relay_of(house)
    first = relay.submit(job())
    assert first.state is JobState.WAITING
    offer = desk.begin()
    assert (offer["jobId"], offer["body"]) == (first.job_id, {"card": "77"})
    assert relay.await_end(first.job_id, 0).state is JobState.AT_DESK
    desk.say("progress", jobId=offer["jobId"], stage="writing")
    desk.done(offer, uid="04AB")
    assert desk.hear("taken")["jobId"] == first.job_id
    ended = relay.await_end(first.job_id, 5)
    assert (ended.state, ended.result, ended.stage, ended.desk_id) == (JobState.DONE, {"uid": "04AB"}, "writing", "dev_desk")
    assert relay.submit(job()) == ended  # the same intention again meets the same job
    assert len(rows(house)) == 1
    assert desk.hears_nothing("offer")


def test_a_second_answer_changes_nothing(scripted: Callable[..., ScriptedDesk], house: House) -> None:
    desk, relay = scripted(), relay_of(house)
    job_id = relay.submit(job()).job_id
    offer = desk.begin()
    desk.done(offer, uid="first")
    desk.hear("taken")
    desk.done(offer, uid="second")
    desk.hear("taken")
    desk.say("result", jobId=job_id, outcome="unknown", detail="", body={})
    desk.hear("taken")
    standing = relay.await_end(job_id, 0)
    assert (standing.state, standing.result) == (JobState.DONE, {"uid": "first"})


def test_a_desk_answers_for_its_own_jobs_only(
    scripted: Callable[..., ScriptedDesk], house: House, gateway: GatewayProcess, encoder: Any
) -> None:
    desk, relay = scripted(), relay_of(house)
    job_id = relay.submit(job()).job_id
    offer = desk.begin()
    strangers = [
        ScriptedDesk(gateway.url, house.token(desk="dev_second")),
        ScriptedDesk(gateway.url, House(encoder).token()),
    ]
    for stranger in strangers:
        stranger.say("result", jobId=job_id, outcome="done", detail="", body={"uid": "forged"})
        assert stranger.hear("refusal", "taken") == {
            "type": "refusal", "code": "not_your_job", "detail": "this desk was given no such job", "jobId": job_id,
        }  # fmt: skip
        stranger.say("accept", jobId=new_id("job"))
        assert stranger.hear("refusal", "go")["code"] == "not_your_job"
        stranger.close()
    assert relay.await_end(job_id, 0).state is JobState.AT_DESK
    desk.done(offer, uid="true")
    desk.hear("taken")
    assert relay.await_end(job_id, 0).result == {"uid": "true"}


def test_a_job_called_off_before_it_was_begun_is_never_begun(scripted: Callable[..., ScriptedDesk], house: House) -> None:
    desk, relay = scripted(), relay_of(house)
    job_id = relay.submit(job()).job_id
    offer = desk.hear("offer")
    assert relay.cancel(job_id).state is JobState.CANCELLED
    desk.say("accept", jobId=offer["jobId"])
    assert desk.hear("go", "cancel") == {"type": "cancel", "jobId": job_id}


def test_a_job_called_off_after_it_was_begun_ends_by_the_desks_word(
    scripted: Callable[..., ScriptedDesk], house: House
) -> None:
    desk, relay = scripted(), relay_of(house)
    job_id = relay.submit(job()).job_id
    offer = desk.begin()
    assert relay.cancel(job_id).state is JobState.AT_DESK
    assert desk.hear("cancel")["jobId"] == job_id
    desk.done(offer, uid="too late")  # it had been written
    desk.hear("taken")
    assert relay.await_end(job_id, 5).state is JobState.DONE


def test_a_desk_that_vanished_after_it_began_is_asked_when_it_returns(
    scripted: Callable[..., ScriptedDesk], house: House
) -> None:
    desk, relay = scripted(), relay_of(house)
    job_id = relay.submit(job()).job_id
    desk.begin()
    desk.vanish()
    _wait(lambda: relay.await_end(job_id, 0).state is JobState.LOST)
    assert relay.submit(job()).state is JobState.LOST  # never resent
    back = scripted()
    assert back.hear("ask", "offer") == {"type": "ask", "jobId": job_id}
    back.say("result", jobId=job_id, outcome="done", detail="", body={"uid": "04"})
    back.hear("taken")
    assert relay.await_end(job_id, 0).state is JobState.DONE
    assert len(rows(house)) == 1


def test_a_desk_without_its_notes_proves_nothing(scripted: Callable[..., ScriptedDesk], house: House) -> None:
    desk, relay = scripted(), relay_of(house)
    job_id = relay.submit(job()).job_id
    desk.begin()
    desk.vanish()
    back = scripted()
    back.hear("ask")
    back.say("result", jobId=job_id, outcome="never_seen", detail="", body={})
    back.hear("taken")
    standing = relay.submit(job())
    assert (standing.job_id, standing.state) == (job_id, JobState.UNKNOWN)
    assert back.hears_nothing("offer")


def test_after_a_refusal_the_same_intention_gets_a_new_turn(scripted: Callable[..., ScriptedDesk], house: House) -> None:
    desk, relay = scripted(), relay_of(house)
    job_id = relay.submit(job()).job_id
    desk.begin()
    desk.say("result", jobId=job_id, outcome="refused", refusal="encoder_offline", detail="unplugged", body={})
    desk.hear("taken")
    ended = relay.await_end(job_id, 0)
    assert (ended.state, ended.refusal, ended.detail) == (JobState.REFUSED, Refusal.ENCODER_OFFLINE, "unplugged")
    again = relay.submit(job())
    assert again.job_id != job_id
    assert [row.turn for row in rows(house)] == [1, 2]


def test_an_offer_nobody_took_goes_to_the_next_connection(scripted: Callable[..., ScriptedDesk], house: House) -> None:
    desk, relay = scripted(), relay_of(house)
    job_id = relay.submit(job()).job_id
    desk.hear("offer")
    desk.vanish()
    back = scripted()
    assert back.hear("offer")["jobId"] == job_id
    assert len(rows(house)) == 1


def test_a_word_from_a_connection_that_was_replaced_begins_no_job(house: House) -> None:
    """Two gateways: the newer connection was asked what the desk had begun before the older one's word was read."""
    relay = relay_of(house)
    older, newer = (
        RelayDesk(
            tenant_id=house.hotel.tenant_id, desk_id="dev_desk", property_id=house.hotel.property_id, connection=name,
            vendors=[VENDOR],
        )
        for name in ("older", "newer")
    )  # fmt: skip
    with tenant(house.hotel.tenant_id):
        assert relay_desks.arrive(older, 20) == ""
    job_id = relay.submit(job()).job_id
    with tenant(house.hotel.tenant_id):
        assert [offer.job_id for offer in relay_jobs.offers(older, MAX_OPEN)] == [job_id]
        assert relay_desks.arrive(newer, 20) == "older"
        assert relay_jobs.held_by(newer) == []
        assert relay_jobs.accept(older, job_id) is False
        assert [offer.job_id for offer in relay_jobs.offers(newer, MAX_OPEN)] == [job_id]
        assert relay_jobs.accept(newer, job_id) is True


def test_a_job_no_desk_took_up_expires(scripted: Callable[..., ScriptedDesk], house: House) -> None:
    desk, relay = scripted(), relay_of(house)
    job_id = relay.submit(job(timeout_s=0.5)).job_id
    ended = relay.await_end(job_id, 5)
    assert (ended.state, ended.stage) == (JobState.EXPIRED, None)
    desk.say("accept", jobId=job_id)
    assert desk.hear("go", "cancel")["type"] == "cancel"


def test_a_job_whose_time_ends_at_the_desk_has_expired_and_was_not_called_off(
    scripted: Callable[..., ScriptedDesk], house: House
) -> None:
    desk, relay = scripted(), relay_of(house)
    job_id = relay.submit(job(timeout_s=4)).job_id
    desk.begin()
    assert desk.hear("cancel")["jobId"] == job_id
    desk.say("result", jobId=job_id, outcome="cancelled", detail="", body={})
    desk.hear("taken")
    assert relay.await_end(job_id, 0).state is JobState.EXPIRED


def test_a_desk_that_leaves_its_offers_unanswered_is_closed_as_silent_and_they_go_to_another(
    scripted: Callable[..., ScriptedDesk], house: House
) -> None:
    gateway, relay = GatewayProcess("--patience", "3"), relay_of(house)
    try:
        earlier = scripted()  # jobs are there before the silent desk comes, which hears of all of them at once
        wanted = {relay.submit(job(f"k{number}", timeout_s=120)).job_id for number in range(MAX_OPEN)}
        late = relay.submit(job("late", timeout_s=120)).job_id
        earlier.close()
        mute = ScriptedDesk(gateway.url, house.token())
        assert {mute.hear("offer")["jobId"] for _ in wanted} == wanted
        assert mute.closed_while_pinging() == (4408, "an offer was not answered")
        assert alerts(house.hotel) == [("DESK_SILENT", "warning")]
        other = ScriptedDesk(gateway.url, house.token(desk="dev_second"))
        taken = []
        for _ in range(MAX_OPEN):
            taken.append(other.hear("offer"))
            other.say("accept", jobId=taken[-1]["jobId"])
        for offer in taken:
            other.done(offer)
        last = other.begin()
        assert {offer["jobId"] for offer in taken} | {last["jobId"]} == wanted | {late}
        assert other.hears_nothing("no such kind", for_s=4)  # what it took up may last: nobody closes it for that
        other.done(last)
        _wait(lambda: {row.state for row in rows(house)} == {"done"})
        assert len(rows(house)) == MAX_OPEN + 1
        mute.close()
        other.close()
    finally:
        gateway.stop()


def test_a_killed_gateway_loses_no_job(house: House, tmp_path: Any) -> None:
    relay = relay_of(house)
    first = GatewayProcess()
    desk = ScriptedDesk(first.url, house.token())
    begun = relay.submit(job("begun")).job_id
    desk.begin()
    waiting = relay.submit(job("waiting")).job_id
    desk.hear("offer")
    first.kill()
    desk.close()
    second = GatewayProcess()
    try:
        back = ScriptedDesk(second.url, house.token())
        assert {back.hear("ask")["jobId"], back.hear("offer")["jobId"]} == {begun, waiting}
        back.say("result", jobId=begun, outcome="done", detail="", body={"uid": "04"})
        back.hear("taken")
        assert relay.await_end(begun, 0).state is JobState.DONE
        back.close()
    finally:
        second.stop()


def test_without_valkey_a_job_still_reaches_the_desk(house: House) -> None:
    deaf = GatewayProcess(LOCK_REDIS_URL="redis://127.0.0.1:1/0")
    try:
        desk = ScriptedDesk(deaf.url, house.token())
        started = time.monotonic()
        relay_of(house).submit(job())
        assert desk.hear("offer")["action"] == "encode"
        assert time.monotonic() - started < 10
        desk.close()
    finally:
        deaf.stop()


def test_running_numbers_rise_with_each_overriding_job_and_joiners_repeat_what_reached_a_card(
    scripted: Callable[..., ScriptedDesk], house: House
) -> None:
    desk, relay = scripted(), relay_of(house)
    until = datetime.now(UTC) + timedelta(days=1)

    def begun(key: str, credential: str, **numbers: Any) -> tuple[Any, dict[str, Any]]:
        standing = relay.submit(job(key, credential_id=credential, lasts_until=until, **numbers))
        return standing, desk.begin()

    first, offer = begun("a", "key_a", advance=("7",))
    assert offer["numbers"] == {"7": 1}
    desk.done(offer)
    desk.hear("taken")
    _, offer = begun("b", "key_b", keep=("7",))
    assert offer["numbers"] == {"7": 1}
    desk.done(offer)
    desk.hear("taken")
    second, offer = begun("c", "key_c", advance=("7",))
    assert (first.outranked, second.outranked) == ((), ("key_a", "key_b"))
    desk.say("result", jobId=offer["jobId"], outcome="refused", refusal="card_unusable", detail="", body={})
    desk.hear("taken")
    _, offer = begun("d", "key_d", keep=("7",))
    assert offer["numbers"] == {"7": 1}  # what was refused reached no card
    _, offer = begun("c", "key_c", advance=("7",))
    assert offer["numbers"] == {"7": 3}


def test_a_card_number_is_sealed_in_its_row(scripted: Callable[..., ScriptedDesk], house: House, connect_as: Any) -> None:
    scripted()
    relay_of(house).submit(job(body={"number": "3661413478"}))
    (row,) = rows(house)
    assert b"3661413478" not in bytes(row.body_sealed)
    stored = connect_as("owner").execute("SELECT j::text FROM devices_relayjobrow j WHERE id = %s", [row.id]).fetchone()
    assert "3661413478" not in str(stored)


def test_ended_jobs_are_forgotten_after_ninety_days_but_for_cards_that_still_open(
    scripted: Callable[..., ScriptedDesk], house: House
) -> None:
    desk, relay = scripted(), relay_of(house)
    now = datetime.now(UTC)
    for key, until in (("over", now - timedelta(days=1)), ("opens", now + timedelta(days=1)), ("young", None)):
        relay.submit(job(key, lasts_until=until))
        desk.done(desk.begin())
        desk.hear("taken")
    relay.submit(job("open"))
    with tenant(house.hotel.tenant_id):
        old = RelayJobRow.objects.filter(tenant_id=house.hotel.tenant_id).exclude(key="young")
        old.update(created_at=now - timedelta(days=91))
    tidy_tenant(house.hotel.tenant_id)
    assert {row.key for row in rows(house)} == {"opens", "young", "open"}


def _closed_while_pinging(desk: ScriptedDesk) -> int:
    ends = time.monotonic() + 15
    while time.monotonic() < ends:
        try:
            desk.say("ping", encoderReady=True)
            return desk.closed(within_s=0.4)
        except AssertionError:
            continue
    raise AssertionError("the connection stays open")


def _wait(is_so: Callable[[], bool], within_s: float = 20) -> None:
    ends = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < ends, "it did not come to be"
        time.sleep(0.05)
