"""What lies on the encoder is read over the PMS protocol before it is written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.vendors.salto.hotel import NOON, H, Hotel, meta
from tests.vendors.salto.pms_lines import (
    ACK,
    ENQ,
    LAID,
    READ,
    cn,
    issue,
    order,
)
from tests.vendors.salto.scripted_line import ScriptedLine
from vendors.port.errors import (
    KeyIssueFailed,
    Reason,
)
from vendors.port.types import (
    Intent,
    Outcome,
    Propagation,
    UpdateInput,
    Window,
)
from vendors.salto.pms_frames import encode


def test_a_card_that_carries_another_guests_key_is_not_written_until_that_key_is_confirmed(pms: Hotel) -> None:
    pms.by_hand()
    card = pms.place()
    first = pms.key()
    with pytest.raises(KeyIssueFailed) as caught:
        pms.key(doors=pms.doors[1:2])
    error = caught.value
    assert (error.reason, error.retriable) == (Reason.CARD_IN_USE, False)
    assert error.on_card is not None
    assert (error.on_card.nonce, error.on_card.valid_until) == (f"gk-{first.request.meta.idempotency_key[:16]}", NOON + 72 * H)
    assert [pms.shown(door, card)[0] for door in pms.doors[:2]] == [True, False]
    assert [call for call in pms.calls() if "CN" in call] == ["PMS CN1"]
    other = pms.key(doors=pms.doors[1:2], overwrites=frozenset({error.on_card.name}))
    assert [key.name for key in other.result.overwritten] == [error.on_card.name]
    assert [pms.shown(door, card)[0] for door in pms.doors[:2]] == [False, True]


def test_what_was_confirmed_is_one_key_and_no_other(pms: Hotel) -> None:
    pms.by_hand()
    pms.place()
    pms.key()
    with pytest.raises(KeyIssueFailed) as caught:
        pms.key(doors=pms.doors[1:2])
    assert caught.value.on_card is not None
    named = frozenset({caught.value.on_card.name})
    second = pms.place()
    pms.key(doors=pms.doors[2:3])
    with pytest.raises(KeyIssueFailed) as refused:
        pms.key(doors=pms.doors[1:2], overwrites=named)
    assert refused.value.reason is Reason.CARD_IN_USE
    assert pms.shown(pms.doors[2], second)[0]


@pytest.mark.parametrize("intent", list(Intent))
def test_a_companions_card_and_a_lost_ones_successor_are_read_first_too(pms: Hotel, intent: Intent) -> None:
    pms.by_hand()
    card = pms.place()
    pms.key()
    with pytest.raises(KeyIssueFailed) as caught:
        pms.key(intent)
    assert caught.value.reason is Reason.CARD_IN_USE
    assert pms.shown(pms.doors[0], card)[0]


def test_a_repeat_finds_somebody_elses_card_on_the_encoder_and_leaves_it(pms: Hotel) -> None:
    pms.by_hand()
    pms.place()
    pms.fault(command="CN", do="drop", written=False)
    unknown = pms.key()
    card = pms.place()
    pms.key(doors=pms.doors[1:2])
    with pytest.raises(KeyIssueFailed) as caught:
        pms.port.issue_credential(replace(unknown.request, meta=replace(unknown.request.meta, attempt=2)))
    assert caught.value.reason is Reason.CARD_IN_USE
    assert pms.shown(pms.doors[1], card)[0]


@pytest.mark.parametrize("letters", ["LM", "LR"])
def test_a_staff_card_or_a_spare_one_is_in_use(pms: Hotel, letters: str) -> None:
    pms.by_hand()
    pms.place(other=letters)
    with pytest.raises(KeyIssueFailed) as caught:
        pms.key()
    assert caught.value.reason is Reason.CARD_IN_USE
    assert pms.generation(pms.doors[0]) == 0


def test_a_card_whose_key_is_over_is_written(pms: Hotel) -> None:
    pms.by_hand()
    card = pms.place()
    pms.key()
    pms.at(NOON + 73 * H)
    pms.key(doors=pms.doors[1:2], window=Window(NOON + 73 * H, NOON + 96 * H))
    assert pms.shown(pms.doors[1], card)[0]


def test_a_change_is_written_on_the_guests_own_card_and_on_no_other(pms: Hotel) -> None:
    pms.by_hand()
    own = pms.place()
    guest = pms.key()
    other = pms.place()
    pms.key(doors=pms.doors[1:2])
    longer = guest.handle(window=Window(NOON - H, NOON + 96 * H))
    for laid in (other, None):  # another guest's, and a blank one
        pms.place(laid)
        with pytest.raises(KeyIssueFailed):
            pms.port.update_credential(UpdateInput(longer, meta(), at_encoder=True))
    assert pms.shown(pms.doors[1], other)[0]
    pms.place(own)
    written = pms.port.update_credential(UpdateInput(longer, meta(), at_encoder=True))
    assert {door.propagation for door in written.doors} == {Propagation.CONFIRMED}
    pms.at(NOON + 90 * H)
    assert pms.shown(pms.doors[0], own)[0]


def test_a_card_without_a_start_is_read_all_the_same(pms: Hotel) -> None:
    pms.simulator.post("/seed", {"property": pms.property, "readsWithoutStart": True})
    pms.by_hand()
    pms.place()
    first = pms.key()
    with pytest.raises(KeyIssueFailed) as caught:
        pms.key(doors=pms.doors[1:2])
    assert caught.value.reason is Reason.CARD_IN_USE
    again = pms.port.issue_credential(replace(first.request, meta=replace(first.request.meta, attempt=2)))
    assert again.doors[0].outcome is Outcome.DONE
    assert pms.generation(pms.doors[0]) == 1


def test_a_card_without_a_start_that_is_not_ours_lets_a_repeat_go_on(pms: Hotel) -> None:
    without = encode(("LT", "Front desk", "205", "", "", "", "CO", "0", "", "", "1100030126", "front1"))
    line = ScriptedLine((ENQ, [ACK]), (READ, [ACK, without]), (ENQ, [ACK]), (cn(), [ACK, encode(("CN1", "20"))]))
    result = issue(pms, order(pms, attempt=2), line)
    assert (result.doors[0].outcome, [w.code for w in result.warnings]) == (Outcome.DONE, ["USE_ONLY_LAST_CARD"])


def test_a_server_that_says_at_once_that_no_card_lies_there_is_asked_again(pms: Hotel) -> None:
    none = [ACK, encode(("EP", "Front desk"))]
    line = ScriptedLine((ENQ, [ACK]), (READ, none), *LAID, (ENQ, [ACK]), (cn(), [ACK, encode(("CN1", "17"))]))
    assert issue(pms, order(pms), line).doors[0].outcome is Outcome.DONE


def test_a_server_that_hangs_up_after_each_answer_still_writes_cards(pms: Hotel) -> None:
    pms.simulator.post("/seed", {"property": pms.property, "hangsUp": True})
    assert pms.key().opens(pms.doors[0])
