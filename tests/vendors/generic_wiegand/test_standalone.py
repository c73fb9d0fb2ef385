"""Stand-alone locks: the card is the database, and a lock learns only from cards that are shown to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.vendors.generic_wiegand.harness import WiegandSite
from tests.vendors.proxy import Proxy
from tests.vendors.site import Simulator, Trouble, handle_for, new_key, request_for, stay, with_ref
from vendors.port.errors import CardEncoderOffline, CredentialExpired, KeyIssueFailed, Reason
from vendors.port.protocol import Inventory, Resume
from vendors.port.relay import JobState
from vendors.port.types import (
    CARD_STALE,
    CallMeta,
    CallResult,
    CardArtifact,
    CredentialKind,
    Door,
    Intent,
    IssueInput,
    IssueResult,
    Outcome,
    Propagation,
    RevokeReason,
    SuspendReason,
    UpdateInput,
)

CARD = CredentialKind.RFID_CARD


class LockSite(WiegandSite):
    """A house of battery locks; its third door is shared."""

    has_controller = False

    def seed_body(self) -> dict[str, Any]:
        body = super().seed_body()
        body["doors"][2]["shared"] = True
        self.doors = (*self.doors[:2], replace(self.doors[2], external_id=f"area:{self.numbers[2]}"))
        return body

    def settings(self) -> dict[str, object]:
        return {"locks": "standalone", "property_number": self.property_number, "wait_s": 0.2}

    def cards(self) -> list[str]:
        return [card["uid"] for card in self.dump()["cards"] if card["records"]]


@pytest.fixture(scope="module")
def process() -> Iterator[tuple[Simulator, Proxy]]:
    simulator = Simulator.start("generic-wiegand")
    proxy = Proxy(simulator.url)
    yield simulator, proxy
    proxy.stop()
    simulator.stop()


@pytest.fixture
def site(process: tuple[Simulator, Proxy]) -> LockSite:
    return LockSite(*process)


def issue(site: LockSite, *doors: Door, **changes: Any) -> tuple[IssueInput, IssueResult, str]:
    """Issues a card and returns its UID as well."""
    before = set(site.cards())
    request = request_for(site, CARD, doors or site.doors, card_number=None, **changes)
    result = site.port.issue_credential(request)
    assert {r.outcome for r in result.doors} == {Outcome.DONE}
    (uid,) = set(site.cards()) - before
    return request, result, uid


def meta() -> CallMeta:
    return CallMeta(new_key())


def test_a_card_opens_its_doors_and_no_other_from_its_start_to_its_end(site: LockSite) -> None:
    request, result, uid = issue(site, site.doors[0], site.doors[2], window=stay(2, 20))
    assert result.artifact == CardArtifact("dev_desk")
    second, start, end = timedelta(seconds=1), request.window.valid_from, request.window.valid_until
    room, other, gym = site.doors
    assert [site.tried(room, CARD, uid, at) for at in (start - second, start, end - second, end)] == [
        "outside_window", "ok", "ok", "outside_window",
    ]  # fmt: skip
    assert site.tried(gym, CARD, uid, start) == "ok"
    assert site.tried(other, CARD, uid, start) == "wrong_door"


def test_a_lock_judges_by_its_own_clock(site: LockSite) -> None:
    _, _, uid = issue(site, site.doors[0], window=stay(-1, 2))
    site.simulator.post("/door", {"device": site.doors[0].external_id, "house": site.house, "clockSkewS": 3600 * 3})
    assert site.tried(site.doors[0], CARD, uid) == "outside_window"


def test_a_new_guests_card_ends_the_last_ones_when_it_is_used_and_not_before(site: LockSite) -> None:
    room, _, gym = site.doors
    _, _, first = issue(site, room, gym)
    _, _, second = issue(site, room, gym)
    assert site.tried(room, CARD, first) == "ok"
    assert site.tried(room, CARD, second) == "ok"
    assert site.tried(room, CARD, first) == "superseded"
    assert site.tried(gym, CARD, first) == "ok"  # a shared door is nobody's to take over


def test_a_companions_card_joins_and_ends_nothing(site: LockSite) -> None:
    room = site.doors[0]
    _, _, first = issue(site, room)
    _, _, companion = issue(site, room, intent=Intent.ADDITIONAL)
    assert [site.tried(room, CARD, uid) for uid in (first, companion, first)] == ["ok", "ok", "ok"]


def test_a_replacement_names_whom_it_ends_as_well(site: LockSite) -> None:
    room = site.doors[0]
    lost, _, lost_uid = issue(site, room)
    companion, _, companion_uid = issue(site, room, intent=Intent.ADDITIONAL)
    _, result, fresh = issue(site, room, intent=Intent.REPLACEMENT)
    assert result.also_killed == (lost.credential_id, companion.credential_id)
    assert [site.tried(room, CARD, uid) for uid in (lost_uid, companion_uid)] == ["ok", "ok"]
    assert site.tried(room, CARD, fresh) == "ok"
    assert [site.tried(room, CARD, uid) for uid in (lost_uid, companion_uid)] == ["superseded", "superseded"]


def test_a_job_that_reached_no_card_leaves_joiners_where_they_were(site: LockSite) -> None:
    room = site.doors[0]
    _, _, first = issue(site, room)
    site.simulator.post("/encoder", {"house": site.house, "online": False})
    with pytest.raises(CardEncoderOffline) as caught:
        site.port.issue_credential(request_for(site, CARD, (room,), intent=Intent.REPLACEMENT))
    assert (caught.value.retriable, caught.value.throttled) == (True, False)
    site.simulator.post("/encoder", {"house": site.house, "online": True})
    _, _, companion = issue(site, room, intent=Intent.ADDITIONAL)
    assert [site.tried(room, CARD, uid) for uid in (companion, first)] == ["ok", "ok"]


def test_a_revoked_card_is_told_with_its_bound_and_opens_until_then(site: LockSite) -> None:
    room = site.doors[0]
    request, result, uid = issue(site, room)
    gone = site.port.revoke_credential(handle_for(request, result), RevokeReason.SECURITY, meta())
    (door,) = gone.doors
    assert (door.outcome, door.ref, door.propagation) == (Outcome.DONE, None, Propagation.PROPAGATING)
    assert door.effective_not_after == request.window.valid_until
    assert site.tried(room, CARD, uid) == "ok"
    assert site.tried(room, CARD, uid, request.window.valid_until) == "outside_window"


def test_a_revoke_after_the_end_is_confirmed(site: LockSite) -> None:
    request, result, _ = issue(site, site.doors[0], window=stay(-3, 2))
    (door,) = site.port.revoke_credential(handle_for(request, result), RevokeReason.CHECKOUT, meta()).doors
    assert (door.propagation, door.effective_not_after) == (Propagation.CONFIRMED, None)


def test_a_suspension_says_that_it_changes_nothing_at_the_door(site: LockSite) -> None:
    request, result, uid = issue(site, site.doors[0])
    handle = handle_for(request, result)
    rested = site.port.suspend_credential(handle, SuspendReason.NO_SHOW, meta())
    assert [warning.code for warning in rested.warnings] == ["SUSPEND_NOT_EFFECTIVE_OFFLINE"]
    assert rested.doors[0].effective_not_after == request.window.valid_until
    assert site.tried(site.doors[0], CARD, uid) == "ok"
    assert site.port.unsuspend_credential(handle, meta()).doors[0].outcome is Outcome.DONE
    with pytest.raises(CredentialExpired):
        site.port.unsuspend_credential(replace(handle, window=stay(-50, 2)), meta())


def test_a_changed_card_is_stale_until_it_lies_on_the_encoder_again(site: LockSite) -> None:
    first, second, gym = site.doors
    request, result, uid = issue(site, first, gym)
    handle = handle_for(request, result, window=stay(-1, 90))
    later = request.window.valid_until + timedelta(hours=1)
    change = UpdateInput(handle, meta())
    submitted = site.relay.submitted
    told = site.port.update_credential(change)
    assert [warning.code for warning in told.warnings] == [CARD_STALE]
    assert {(r.outcome, r.propagation) for r in told.doors} == {(Outcome.DONE, Propagation.PROPAGATING)}
    assert site.relay.submitted == submitted  # nobody at the desk was bothered
    assert site.tried(first, CARD, uid, later) == "outside_window"
    written = site.port.update_credential(replace(change, meta=meta(), at_encoder=True))
    assert written.warnings == ()
    assert {(r.outcome, r.propagation) for r in written.doors} == {(Outcome.DONE, Propagation.CONFIRMED)}
    assert [site.tried(door, CARD, uid, later) for door in (first, gym, second)] == ["ok", "ok", "wrong_door"]
    assert len(site.cards()) == 1


def test_a_room_move_on_the_encoder_gives_the_new_room_and_takes_the_old(site: LockSite) -> None:
    first, second, gym = site.doors
    request, result, uid = issue(site, first, gym)
    handle = handle_for(request, result)
    moved = site.port.update_credential(
        UpdateInput(
            replace(handle, doors=(handle.doors[1],)), meta(), added=(second,), removed=(handle.doors[0],), at_encoder=True
        )
    )
    assert {r.device_id: (r.outcome, r.ref is not None) for r in moved.doors} == {
        gym.device_id: (Outcome.DONE, True),
        second.device_id: (Outcome.DONE, True),
        first.device_id: (Outcome.DONE, False),
    }
    assert [site.tried(door, CARD, uid) for door in (first, second, gym)] == ["wrong_door", "ok", "ok"]


def test_another_card_is_left_alone_when_a_certain_one_is_to_be_written(site: LockSite) -> None:
    request, result, uid = issue(site, site.doors[0])
    site.simulator.post("/encoder", {"house": site.house, "automatic": False})
    stranger = site.simulator.post("/place", {"house": site.house})["uid"]
    site.relay.is_held = True
    handle = handle_for(request, result, window=stay(-1, 90))
    waiting = site.port.update_credential(UpdateInput(handle, meta(), at_encoder=True))
    assert {r.outcome for r in waiting.doors} == {Outcome.DEFERRED}
    work = site.relay.works[-1]
    work.desk_job = replace(work.desk_job, expires_in_s=0.5)
    site.relay.do(work)
    assert work.standing.state is JobState.EXPIRED
    port = site.port
    assert isinstance(port, Resume)
    (ended,) = port.resume(handle, str(waiting.resume_token), meta()).doors
    assert (ended.outcome, ended.error.reason, ended.error.retriable) == (Outcome.FAILED, Reason.NO_CARD, False)
    assert site.cards() == [uid]
    assert stranger not in site.cards()


def test_a_card_that_is_still_waited_for_is_called_off_by_a_revoke(site: LockSite) -> None:
    site.relay.is_held = True
    request = request_for(site, CARD, site.doors[:1])
    waiting = site.port.issue_credential(request)
    assert [r.outcome for r in waiting.doors] == [Outcome.DEFERRED]
    (door,) = site.port.revoke_credential(handle_for(request, CallResult(())), RevokeReason.CANCELLATION, meta()).doors
    assert (door.outcome, door.propagation) == (Outcome.DONE, Propagation.CONFIRMED)
    assert site.relay.works[-1].standing.state is JobState.CANCELLED
    assert site.cards() == []


@pytest.mark.parametrize("torn_after", range(5))
def test_a_torn_card_opens_nothing_and_its_job_is_unknown_until_the_card_is_read(site: LockSite, torn_after: int) -> None:
    room = site.doors[0]
    _, _, old = issue(site, room)
    request = request_for(site, CARD, (room,), card_number=None)
    calls = {"n": 0}
    forward = site.proxy

    def matches(path: str) -> bool:
        calls["n"] += path.startswith("/encoder/block")
        return path.startswith("/encoder/block") and calls["n"] > torn_after

    forward._matches, before = matches, forward._matches
    try:
        site.trouble(Trouble.RESET_BEFORE, 99)
        outcome = site.port.issue_credential(request)
    finally:
        forward._matches = before
        forward.heal()
    states = {r.outcome for r in outcome.doors}
    fresh = [uid for uid in site.cards() if uid != old]
    opens = [uid for uid in fresh if site.tried(room, CARD, uid) == "ok"]
    if torn_after >= 3:  # blocks 0, 1 and the MAC of a blank card were written
        assert states == {Outcome.DONE}
        assert len(opens) == 1
        return
    assert states == {Outcome.UNKNOWN}
    assert opens == []
    again: Callable[[], IssueResult] = lambda: site.port.issue_credential(  # noqa: E731
        replace(request, meta=replace(request.meta, attempt=2))
    )
    with pytest.raises(KeyIssueFailed) as caught:  # the card is read back: it does not hold the key
        again()
    assert caught.value.retriable
    assert {r.outcome for r in again().doors} == {Outcome.DONE}
    assert site.tried(room, CARD, site.cards()[-1]) == "ok"


def test_half_a_card_is_made_void_before_it_is_said_that_none_was_made(site: LockSite) -> None:
    doors = site.doors[:2]
    request = request_for(site, CARD, doors, card_number=None)
    written = {"n": 0}
    forward = site.proxy

    def matches(path: str) -> bool:
        written["n"] += path.startswith("/encoder/block")
        return path.startswith("/encoder/block") and written["n"] > 4  # the first door's record is whole, the second is torn

    forward._matches, before = matches, forward._matches
    try:
        site.trouble(Trouble.RESET_BEFORE, 99)
        outcome = site.port.issue_credential(request)
    finally:
        forward._matches = before
        forward.heal()
    assert {r.outcome for r in outcome.doors} == {Outcome.UNKNOWN}
    (card,) = site.cards()
    with pytest.raises(KeyIssueFailed):
        site.port.issue_credential(replace(request, meta=replace(request.meta, attempt=2)))
    assert [site.tried(door, CARD, card) == "ok" for door in doors] == [False, False]


def test_a_desk_that_is_gone_leaves_the_key_unknown_and_nothing_is_sent_again(site: LockSite) -> None:
    site.relay.is_held = True
    request = request_for(site, CARD, site.doors[:1])
    site.port.issue_credential(request)
    work = site.relay.works[-1]
    work.standing = replace(work.standing, state=JobState.LOST)
    result = site.port.issue_credential(replace(request, meta=replace(request.meta, attempt=2)))
    (door,) = result.doors
    assert (door.outcome, type(door.error), door.error.retriable) == (Outcome.UNKNOWN, CardEncoderOffline, True)
    (revoked,) = site.port.revoke_credential(handle_for(request, CallResult(())), RevokeReason.SECURITY, meta()).doors
    assert revoked.outcome is Outcome.UNKNOWN
    assert len(site.relay.works) == 1


def test_without_a_desk_nothing_is_handed_over_and_it_counts_as_no_attempt(site: LockSite) -> None:
    site.relay.is_connected = False
    with pytest.raises(CardEncoderOffline) as caught:
        site.port.issue_credential(request_for(site, CARD))
    assert (caught.value.throttled, caught.value.retriable) == (True, True)
    assert site.relay.works == []


def test_a_card_holds_as_many_doors_as_it_has_room_for(site: LockSite) -> None:
    doors = tuple(Door(f"lck_{n}", str(n)) for n in range(1, 17))
    for kind, most in ((CARD, 15), (CredentialKind.NFC_TAG, 3)):
        with pytest.raises(KeyIssueFailed) as caught:
            site.port.issue_credential(request_for(site, kind, doors[: most + 1]))
        assert (caught.value.reason, caught.value.retriable) == (Reason.KIND_UNSUPPORTED, False)
    assert site.relay.works == []


def test_what_nobody_can_ask_of_a_battery_lock_is_not_pretended(site: LockSite) -> None:
    assert site.port.list_devices("ppt_test") == ()
    assert site.port.health_check(site.doors[0]).online is False
    assert not isinstance(site.port, Inventory)
    assert site.relay.works == []


def test_a_ref_tells_the_service_nothing_but_is_enough_to_find_the_card(site: LockSite) -> None:
    request, result, uid = issue(site, site.doors[0])
    ref = result.doors[0].ref
    assert uid not in repr(result)
    assert site.tried(site.doors[0], CARD, ref.reveal()) == "ok"
    found = site.port.find(handle_for(request, result), meta())  # type: ignore[attr-defined]
    assert [(f.device_external_id, f.ref) for f in found] == [(site.doors[0].external_id, ref)]
    assert found[0].window.valid_until == request.window.valid_until
    assert with_ref(site.doors[0], ref).ref == ref
    assert datetime.now(UTC) < request.window.valid_until
