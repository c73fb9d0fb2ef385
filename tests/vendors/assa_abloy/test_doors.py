"""Who gets in, and when: locks off the network, asked themselves, against what the port said about them.

Each test runs for both products; the locks are the same. Cards are laid on the desk's second encoder by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.vendors.assa_abloy.conftest import NewHouse, StandaloneVisionline, StandaloneVostio
from tests.vendors.assa_abloy.harness import AssaSite
from tests.vendors.site import GUEST, handle_for, new_key, request_for, stay
from vendors.port.types import (
    CallMeta,
    CredentialHandle,
    CredentialKind,
    Door,
    Intent,
    IssueInput,
    IssueResult,
    Outcome,
    Propagation,
    RevokeReason,
    UpdateInput,
)
from vendors.support.marks import tag_of

CARD, PHONE = CredentialKind.RFID_CARD, CredentialKind.MOBILE_APP


class Guest:
    """A key in somebody's hand."""

    def __init__(self, site: AssaSite, request: IssueInput, result: IssueResult) -> None:
        self.site, self.request, self.result = site, request, result
        self.value = site.presented(result, request)

    @property
    def handle(self) -> CredentialHandle:
        return handle_for(self.request, self.result)

    def tries(self, door: Door, at: datetime | None = None) -> str:
        return self.site.tried(door, self.result.kind, self.value, at)


def check_in(site: AssaSite, intent: Intent = Intent.NEW, kind: CredentialKind = CARD, **changes: Any) -> Guest:
    request = request_for(site, kind, changes.pop("doors", site.doors[:1]), intent=intent, **changes)
    result = site.port.issue_credential(request)
    assert [row.outcome for row in result.doors] == [Outcome.DONE] * len(request.doors)
    return Guest(site, request, result)


def meta() -> CallMeta:
    return CallMeta(new_key())


@pytest.fixture(params=[StandaloneVisionline, StandaloneVostio], ids=["visionline", "vostio"])
def site(request: pytest.FixtureRequest, new_house: NewHouse) -> Iterator[AssaSite]:
    return new_house(request.param)


# --- a new guest


def test_the_last_guests_card_opens_until_the_new_guests_is_used(site: AssaSite) -> None:
    room = site.doors[0]
    before = check_in(site)
    assert before.tries(room) == "granted"
    after = check_in(site)
    assert before.tries(room) == "granted"  # issuing alone changes nothing at the lock
    assert after.tries(room) == "granted"
    assert before.tries(room) == "overridden"
    assert after.tries(room) == "granted"


def test_a_new_key_is_confirmed_since_its_holder_can_walk_in(site: AssaSite) -> None:
    guest = check_in(site)
    assert [(row.propagation, row.effective_not_after) for row in guest.result.doors] == [(Propagation.CONFIRMED, None)]
    assert guest.tries(site.doors[1]) == "unknown_credential"


# --- the companion's card


def test_a_companions_card_shuts_nobody_out(site: AssaSite) -> None:
    room = site.doors[0]
    guest = check_in(site)
    companion = check_in(site, Intent.ADDITIONAL)
    assert [g.tries(room) for g in (companion, guest, companion)] == ["granted"] * 3


def test_a_companion_who_arrives_first_gets_in_and_the_last_guest_no_more(site: AssaSite) -> None:
    room = site.doors[0]
    before = check_in(site)
    assert before.tries(room) == "granted"
    guest = check_in(site)
    companion = check_in(site, Intent.ADDITIONAL)
    assert companion.tries(room) == "granted"
    assert before.tries(room) == "overridden"
    assert guest.tries(room) == "granted"


def test_a_companion_of_nobody_is_refused(site: AssaSite) -> None:
    with pytest.raises(Exception, match="KEY_ISSUE_FAILED") as caught:
        check_in(site, Intent.ADDITIONAL)
    assert caught.value.retriable is False  # type: ignore[attr-defined]
    assert site.keys_at(site.doors[0]) == 0


# --- a lost card


def test_a_lost_card_opens_until_its_replacement_is_used_and_the_port_says_so(site: AssaSite) -> None:
    room = site.doors[0]
    lost = check_in(site)
    companion = check_in(site, Intent.ADDITIONAL)
    assert [lost.tries(room), companion.tries(room)] == ["granted", "granted"]

    found = check_in(site, Intent.REPLACEMENT, replaces=lost.handle)
    assert found.result.also_killed == (tag_of(companion.request.credential_id),)

    revoked = site.port.revoke_credential(lost.handle, RevokeReason.LOST, meta())
    (row,) = revoked.doors
    assert (row.outcome, row.ref, row.propagation) == (Outcome.DONE, None, Propagation.PROPAGATING)
    assert row.effective_not_after == lost.request.window.valid_until
    assert lost.tries(room) == "granted"  # in between the finder gets in, and the port said that it may be so
    assert lost.tries(room, row.effective_not_after) == "outside_validity"

    assert found.tries(room) == "granted"
    assert [lost.tries(room), companion.tries(room)] == ["overridden", "overridden"]

    again = check_in(site, Intent.ADDITIONAL)  # the companion is issued anew
    assert [again.tries(room), found.tries(room), lost.tries(room)] == ["granted", "granted", "overridden"]


def test_a_lost_card_nobody_shared_kills_nobody_else(site: AssaSite) -> None:
    lost = check_in(site)
    found = check_in(site, Intent.REPLACEMENT, replaces=lost.handle)
    assert found.result.also_killed == ()


# --- a room move


def test_a_room_move_waits_for_the_card_and_the_port_says_so(site: AssaSite) -> None:
    old, new, _ = site.doors
    guest = check_in(site)
    assert guest.tries(old) == "granted"
    change = UpdateInput(replace(guest.handle, doors=()), meta(), added=(new,), removed=guest.handle.doors)
    moved = site.port.update_credential(change)
    rows = {row.device_id: row for row in moved.doors}
    until = guest.request.window.valid_until
    assert {r.outcome for r in rows.values()} == {Outcome.DONE}
    assert {(r.propagation, r.effective_not_after) for r in rows.values()} == {(Propagation.PROPAGATING, until)}
    assert [w.code for w in moved.warnings] == ["CARD_MUST_BE_UPDATED"]
    assert [guest.tries(old), guest.tries(new)] == ["granted", "unknown_credential"]


def test_a_room_move_with_a_card_written_anew_opens_the_new_room_and_leaves_the_old_to_the_next(site: AssaSite) -> None:
    old, new, _ = site.doors
    stranger = check_in(site, doors=(new,))
    assert stranger.tries(new) == "granted"
    guest = check_in(site)
    assert guest.tries(old) == "granted"
    moved = check_in(site, doors=(new,))
    site.port.revoke_credential(guest.handle, RevokeReason.REPLACED, meta())
    assert [moved.tries(new), stranger.tries(new)] == ["granted", "overridden"]
    assert guest.tries(old) == "granted"  # until somebody moves in there
    successor = check_in(site)
    assert [successor.tries(old), guest.tries(old)] == ["granted", "overridden"]
    assert moved.tries(old) == "unknown_credential"


def test_a_phone_moves_at_once_while_it_has_a_network(site: AssaSite) -> None:
    old, new, _ = site.doors
    guest = check_in(site, kind=PHONE)
    assert guest.tries(old) == "granted"
    change = UpdateInput(replace(guest.handle, doors=()), meta(), added=(new,), removed=guest.handle.doors)
    moved = site.port.update_credential(change)
    assert [row.outcome for row in moved.doors] == [Outcome.DONE, Outcome.DONE]
    assert moved.warnings == ()
    assert [guest.tries(old), guest.tries(new)] == ["unknown_credential", "granted"]


# --- an early checkout


def test_after_an_early_checkout_the_card_opens_until_the_next_guest_or_its_own_end(site: AssaSite) -> None:
    room = site.doors[0]
    guest = check_in(site, window=stay(-20, 72))
    companion = check_in(site, Intent.ADDITIONAL, window=stay(-20, 72))
    assert [guest.tries(room), companion.tries(room)] == ["granted", "granted"]
    for one in (guest, companion):
        (row,) = site.port.revoke_credential(one.handle, RevokeReason.CHECKOUT, meta()).doors
        assert (row.outcome, row.propagation) == (Outcome.DONE, Propagation.PROPAGATING)
        assert row.effective_not_after == guest.request.window.valid_until
    assert [guest.tries(room), companion.tries(room)] == ["granted", "granted"]
    assert site.keys_at(room) == 0  # the vendor's books say otherwise
    successor = check_in(site)
    assert successor.tries(room) == "granted"
    assert [guest.tries(room), companion.tries(room)] == ["overridden", "overridden"]
    assert guest.tries(room, guest.request.window.valid_until) == "outside_validity"


def test_a_stay_shortened_before_checkout_is_propagating_until_the_end_the_card_carries(site: AssaSite) -> None:
    room = site.doors[0]
    guest = check_in(site, window=stay(-20, 72))
    carried = guest.request.window.valid_until
    shorter = replace(guest.handle, window=stay(-20, 24))
    changed = site.port.update_credential(UpdateInput(shorter, meta()))
    assert [(r.propagation, r.effective_not_after) for r in changed.doors] == [(Propagation.PROPAGATING, carried)]
    after = replace(shorter, doors=tuple(replace(d, ref=r.ref) for d, r in zip(shorter.doors, changed.doors, strict=True)))
    (row,) = site.port.revoke_credential(after, RevokeReason.CHECKOUT, meta()).doors
    assert row.effective_not_after == carried
    assert guest.tries(room, carried - timedelta(minutes=1)) == "granted"
    assert guest.tries(room, carried) == "outside_validity"


def test_a_phone_without_a_network_opens_until_its_key_ends_and_one_with_a_network_at_once_no_more(site: AssaSite) -> None:
    room = site.doors[0]
    guest = check_in(site, kind=PHONE)
    endpoint = guest.value.partition("#")[0]
    site.simulator.post("/phones", {"endpointId": endpoint, "offline": True})
    (row,) = site.port.revoke_credential(guest.handle, RevokeReason.CHECKOUT, meta()).doors
    assert (row.propagation, row.effective_not_after) == (Propagation.PROPAGATING, guest.request.window.valid_until)
    assert guest.tries(room) == "granted"
    site.simulator.post("/phones", {"endpointId": endpoint, "offline": False})
    assert guest.tries(room) == "unknown_credential"


def test_a_phone_that_has_not_redeemed_its_invitation_has_no_key_yet(site: AssaSite) -> None:
    room = site.doors[0]
    request = request_for(site, PHONE, (room,), holder=replace(GUEST, phone_e164="+93700000001"))
    result = site.port.issue_credential(request)
    assert [w.code for w in result.warnings] == ["APP_INVITATION"]
    assert [r.propagation for r in result.doors] == [Propagation.PROPAGATING]
    endpoint = site.dump()["phones"][-1]["endpointId"]
    assert site.tried(room, PHONE, endpoint) == "unknown_credential"
    assert site.tried(room, PHONE, site.presented(result, request)) == "granted"


# --- networked locks hear at once


def test_a_networked_lock_refuses_a_revoked_card_at_once_and_the_port_says_so(new_house: NewHouse, site: AssaSite) -> None:
    kind = type(site).__mro__[1]
    online = new_house(kind)
    guest = check_in(online)
    assert guest.tries(online.doors[0]) == "granted"
    (row,) = online.port.revoke_credential(guest.handle, RevokeReason.LOST, meta()).doors
    assert (row.propagation, row.effective_not_after) == (Propagation.CONFIRMED, None)
    assert guest.tries(online.doors[0]) == "cancelled"


def test_a_wrong_clock_of_the_lock_shifts_the_window_and_nothing_else(site: AssaSite) -> None:
    room = site.doors[0]
    guest = check_in(site, window=stay(1, 20))
    start = guest.request.window.valid_from
    site.simulator.post("/doors", {"device": room.external_id, "clockSkewS": -1800})
    opens = [guest.tries(room, start + timedelta(minutes=m)) for m in (0, 29, 30)]
    assert opens == ["outside_validity", "outside_validity", "granted"]
    assert datetime.now(UTC) < start
