"""Keys over the PMS protocol: bytes with meaning, and outcomes that got lost after ACK."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.vendors.salto.harness import ENCODER
from tests.vendors.salto.hotel import CARD, NOON, PHONE, PIN, H, Hotel, meta
from tests.vendors.salto.pms_lines import (
    ACK,
    ENQ,
    MARK,
    READ,
    cn,
    issue,
    order,
    read_answer,
    written_to,
)
from tests.vendors.salto.scripted_line import HANG_UP, ScriptedLine
from tests.vendors.site import new_key, request_for
from vendors.port.errors import (
    CardEncoderOffline,
    CredentialExpired,
    DeviceNotPaired,
    KeyIssueFailed,
    LockError,
    Reason,
    VendorUnreachable,
)
from vendors.port.protocol import Inventory, Lookup, Records, Resume, Webhook
from vendors.port.types import (
    CallMeta,
    Door,
    Intent,
    Outcome,
    Propagation,
    RevokeReason,
    UpdateInput,
    Window,
)
from vendors.salto.pms_client import PmsCall, PmsClient
from vendors.salto.pms_frames import encode
from vendors.salto.pms_words import parse_card, read_card
from vendors.salto.settings import read_settings

# --- bytes with meaning


def test_a_new_stay_is_these_bytes_in_the_propertys_time(pms: Hotel) -> None:
    line = written_to(cn(), ACK, encode(("CN1", "17")))
    result = issue(pms, order(pms), line)
    assert (result.doors[0].outcome, result.doors[0].propagation) == (Outcome.DONE, Propagation.CONFIRMED)
    assert (line.is_spent, line.is_closed, result.calls) == (True, True, 2)


def test_a_companions_card_is_a_copy(pms: Hotel) -> None:
    line = written_to(cn("CC1"), ACK, encode(("CC1", "18")))
    assert issue(pms, order(pms, intent=Intent.ADDITIONAL), line).doors[0].outcome is Outcome.DONE


def test_a_replacement_starts_a_new_generation_since_no_message_cancels_one_card(pms: Hotel) -> None:
    line = written_to(cn(), ACK, encode(("CN1", "19")))
    assert issue(pms, order(pms, intent=Intent.REPLACEMENT), line).doors[0].outcome is Outcome.DONE


def test_after_ack_and_a_broken_line_the_card_is_read_and_tells_that_it_was_written(pms: Hotel) -> None:
    broken = written_to(cn(), ACK, HANG_UP)
    reading = ScriptedLine((ENQ, [ACK]), (READ, [ACK, read_answer(MARK)]))
    result = issue(pms, order(pms), broken, reading)
    assert (result.doors[0].outcome, result.calls) == (Outcome.DONE, 3)
    assert result.warnings == ()


@pytest.mark.parametrize("answer", [encode(("EP", "Front desk")), encode(("LT", "Front desk", "LD"))], ids=["no card", "blank"])
def test_after_ack_and_a_broken_line_without_proof_the_outcome_is_unknown_and_nothing_is_repeated(
    pms: Hotel, answer: bytes
) -> None:
    broken = written_to(cn(), ACK, HANG_UP)
    reading = ScriptedLine((ENQ, [ACK]), (READ, [ACK, answer]))
    result = issue(pms, order(pms), broken, reading)
    (told,) = result.doors
    assert (told.outcome, told.propagation) == (Outcome.UNKNOWN, Propagation.UNKNOWN)
    assert [warning.code for warning in result.warnings] == ["CHECK_CARD_AT_DOOR"]
    assert told.error is not None
    assert told.error.retriable


def test_a_second_attempt_reads_the_card_first_and_makes_none_when_it_is_ours(pms: Hotel) -> None:
    reading = ScriptedLine((ENQ, [ACK]), (READ, [ACK, read_answer(MARK)]))
    result = issue(pms, order(pms, attempt=2), reading)
    assert (result.doors[0].outcome, result.calls) == (Outcome.DONE, 1)


def test_a_second_attempt_makes_the_card_when_the_one_on_the_encoder_is_not_ours_and_says_which_counts(pms: Hotel) -> None:
    reading = (ENQ, [ACK]), (READ, [ACK, read_answer("gk-ffffffffffffffff", "205")])
    making = (ENQ, [ACK]), (cn(), [ACK, encode(("CN1", "20"))])
    result = issue(pms, order(pms, attempt=2), ScriptedLine(*reading, *making))
    assert result.doors[0].outcome is Outcome.DONE
    assert [warning.code for warning in result.warnings] == ["USE_ONLY_LAST_CARD"]


def test_a_second_attempt_without_a_card_to_read_sends_no_new_stay(pms: Hotel) -> None:
    reading = ScriptedLine((ENQ, [ACK]), (READ, [ACK, encode(("ED", "Front desk"))]))
    result = issue(pms, order(pms, attempt=2), reading)
    assert result.doors[0].outcome is Outcome.UNKNOWN
    assert cn() not in reading.sent


def test_a_copy_is_harmless_to_repeat_and_is(pms: Hotel) -> None:
    line = written_to(cn("CC1"), ACK, encode(("CC1",)))
    assert issue(pms, order(pms, attempt=3, intent=Intent.ADDITIONAL), line).doors[0].outcome is Outcome.DONE


# --- the same at the simulated server


def test_an_answer_lost_after_the_card_was_written_ends_in_one_stay(pms: Hotel) -> None:
    pms.fault(command="CN", do="drop")
    key = pms.key()
    assert key.result.doors[0].outcome is Outcome.DONE
    assert key.opens(pms.doors[0])
    assert pms.generation(pms.doors[0]) == 1
    assert pms.calls() == ["PMS LT", "PMS CN1", "PMS LT"]


def test_an_answer_lost_with_the_reading_too_stays_unknown_and_the_next_attempt_looks(pms: Hotel) -> None:
    pms.fault(command="CN", do="drop")
    pms.fault(command="LT", do="drop", skip=1)
    first = pms.key()
    assert first.result.doors[0].outcome is Outcome.UNKNOWN
    again = pms.port.issue_credential(replace(first.request, meta=replace(first.request.meta, attempt=2)))
    assert again.doors[0].outcome is Outcome.DONE
    assert pms.generation(pms.doors[0]) == 1
    assert [call for call in pms.calls() if "CN" in call] == ["PMS CN1"]


def test_a_damaged_answer_is_settled_by_reading(pms: Hotel) -> None:
    pms.fault(command="CN", do="bad_lrc")
    assert pms.key().result.doors[0].outcome is Outcome.DONE
    assert pms.generation(pms.doors[0]) == 1


def test_a_new_stay_that_was_taken_and_never_made_is_not_repeated_while_nobody_can_tell(pms: Hotel) -> None:
    pms.by_hand()
    pms.place()
    pms.fault(command="CN", do="drop", written=False)
    first = pms.key()
    assert first.result.doors[0].outcome is Outcome.UNKNOWN
    assert pms.generation(pms.doors[0]) == 0
    pms.take()
    again = pms.port.issue_credential(replace(first.request, meta=replace(first.request.meta, attempt=2)))
    assert again.doors[0].outcome is Outcome.UNKNOWN
    assert pms.generation(pms.doors[0]) == 0
    card = pms.place()
    last = pms.port.issue_credential(replace(first.request, meta=replace(first.request.meta, attempt=3)))
    assert last.doors[0].outcome is Outcome.DONE
    assert pms.generation(pms.doors[0]) == 1
    assert pms.shown(pms.doors[0], card) == (True, "open")


def test_a_phones_new_stay_whose_answer_was_lost_is_never_sent_again(pms: Hotel) -> None:
    pms.fault(command="CNM", do="drop")
    first = pms.key(kind=PHONE)
    assert first.result.doors[0].outcome is Outcome.UNKNOWN
    again = pms.port.issue_credential(replace(first.request, meta=replace(first.request.meta, attempt=2)))
    assert again.doors[0].outcome is Outcome.UNKNOWN
    assert pms.generation(pms.doors[0]) == 1
    assert pms.calls() == ["PMS CNM"]


def test_a_server_that_is_not_ready_was_asked_nothing_so_no_attempt_is_counted(pms: Hotel) -> None:
    pms.fault(command="ENQ", do="unready", times=3)
    with pytest.raises(VendorUnreachable) as caught:
        pms.key()
    assert (caught.value.throttled, caught.value.retriable, caught.value.retry_after_s) == (True, True, 5.0)
    assert pms.generation(pms.doors[0]) == 0
    assert pms.key().result.doors[0].outcome is Outcome.DONE


def test_a_frame_refused_twice_is_taken_the_third_time(pms: Hotel) -> None:
    pms.fault(command="CN", do="nak", times=2)
    assert pms.key().result.doors[0].outcome is Outcome.DONE
    assert pms.generation(pms.doors[0]) == 1


def test_an_answer_in_single_bytes_is_read(pms: Hotel) -> None:
    pms.fault(command="CN", do="split")
    assert pms.key().result.doors[0].outcome is Outcome.DONE


def test_a_property_that_is_not_reached_was_asked_nothing(new_hotel: Callable[..., Hotel]) -> None:
    hotel = new_hotel(transport="pms", pms_address="127.0.0.1:9")
    with pytest.raises(VendorUnreachable) as caught:
        hotel.key()
    assert (caught.value.retriable, caught.value.throttled) == (True, False)


def test_commands_of_one_server_queue_for_its_one_connection(pms: Hotel) -> None:
    """Three threads and three adapters; the first waits for a card while the others stand behind it."""
    pms.simulator.post("/seed", {"property": pms.property, "encoderTimeoutS": 10})
    pms.by_hand()
    ports = [pms.build() for _ in range(3)]
    window = Window(NOON - H, NOON + H)
    requests = [request_for(pms, CARD, (door,), window=window) for door in pms.doors]
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(port.issue_credential, request) for port, request in zip(ports, requests, strict=True)]
        while not any("LT" in call for call in pms.calls()):
            time.sleep(0.01)
        fed = {"property": pms.property, "encoders": [{"name": ENCODER, "automatic": True}]}
        pms.simulator.post("/seed", fed)  # from now on each is handed a fresh card
        outcomes = [future.result(20).doors[0].outcome for future in waiting]
    assert outcomes == [Outcome.DONE] * 3
    assert [pms.generation(door) for door in pms.doors] == [1, 1, 1]


# --- the error table


@pytest.mark.parametrize(
    ("letters", "kind", "retriable"),
    [
        ("ES", KeyIssueFailed, False),
        ("NC", CardEncoderOffline, True),
        ("NF", VendorUnreachable, False),
        ("OV", CardEncoderOffline, True),
        ("EP", KeyIssueFailed, False),
        ("EF", KeyIssueFailed, False),
        ("TD", DeviceNotPaired, False),
        ("ED", KeyIssueFailed, False),
        ("EA", KeyIssueFailed, True),
        ("OS", KeyIssueFailed, False),
        ("EO", CardEncoderOffline, True),
        ("EG", KeyIssueFailed, True),
        ("ZZ", KeyIssueFailed, False),
    ],
)
def test_each_error_says_what_to_do(pms: Hotel, letters: str, kind: type[Exception], retriable: bool) -> None:
    line = written_to(cn(), ACK, encode((letters, "Front desk")))
    with pytest.raises(kind) as caught:
        issue(pms, order(pms), line)
    assert caught.value.retriable is retriable  # type: ignore[attr-defined]
    assert caught.value.device_id == "lck_101"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "answer",
    [("CO", "101"), ("MC", "101"), ("LT", "Front desk"), ("WO", "101"), ("",), ("cn1",), ("CN\xb3",), ("ERROR",)],
    ids=["CO", "MC", "LT", "WO", "empty", "small", "noise", "word"],
)
def test_an_answer_to_something_else_leaves_it_open_whether_the_card_was_written(pms: Hotel, answer: tuple[str, ...]) -> None:
    raw = b"\x02\xb3" + b"\xb3".join(field.encode("latin-1") for field in answer) + b"\xb3\x03\x0d"
    asked = written_to(cn(), ACK, raw)
    read = ScriptedLine((ENQ, [ACK]), (READ, [ACK, read_answer("somebody")]))
    result = issue(pms, order(pms), asked, read)
    if answer == ("CN\xb3",):  # the separator inside: the command's own name came back
        assert result.doors[0].outcome is Outcome.DONE
        return
    assert result.doors[0].outcome is Outcome.UNKNOWN
    assert [warning.code for warning in result.warnings] == ["CHECK_CARD_AT_DOOR"]


@pytest.mark.parametrize("letters", ["ES", "NC", "NF", "OV", "EP", "EF", "TD", "ED", "EA", "OS", "EO", "EG"])
def test_each_error_of_the_simulated_server_makes_no_stay_and_is_a_refusal(pms: Hotel, letters: str) -> None:
    pms.fault(command="CN", do="answer", code=letters)
    with pytest.raises(LockError) as caught:
        pms.key()
    assert not caught.value.throttled
    assert pms.generation(pms.doors[0]) == 0
    assert pms.key().opens(pms.doors[0])


def test_another_commands_answer_of_the_simulated_server_is_settled_by_reading(pms: Hotel) -> None:
    pms.fault(command="CN", do="answer", code="CO")
    assert pms.key().result.doors[0].outcome is Outcome.UNKNOWN
    assert pms.calls() == ["PMS LT", "PMS LT"]


def test_a_card_of_another_system_is_refused_and_starts_no_stay(pms: Hotel) -> None:
    pms.by_hand()
    card = pms.place(other="foreign")
    with pytest.raises(KeyIssueFailed) as caught:
        pms.key()
    assert (caught.value.retriable, "another system" in caught.value.vendor_message) == (False, True)
    assert pms.generation(pms.doors[0]) == 0
    assert pms.shown(pms.doors[0], card)[0] is False


def test_a_card_that_is_no_guests_any_more_proves_nothing_of_an_earlier_attempt(pms: Hotel) -> None:
    pms.by_hand()
    pms.place(other="LC")
    pms.fault(command="CN", do="drop", written=False)
    assert pms.key().result.doors[0].outcome is Outcome.UNKNOWN
    assert pms.generation(pms.doors[0]) == 0


def test_a_read_card_tells_its_shared_doors(pms: Hotel) -> None:
    pms.by_hand()
    pms.place()
    pms.key(doors=(pms.doors[0], pms.gym))
    client = PmsClient(read_settings(pms.context()), pms.context())
    card = parse_card(client.ask(PmsCall(meta()), read_card(ENCODER)).fields)
    assert (card.rooms, card.grants, card.is_current) == ((pms.doors[0].external_id,), "7", True)


def test_nobody_at_the_encoder_ends_in_time_and_makes_no_stay(pms: Hotel) -> None:
    pms.by_hand()
    with pytest.raises(KeyIssueFailed):
        pms.key()
    assert pms.generation(pms.doors[0]) == 0


def test_an_unknown_room_is_not_paired(pms: Hotel) -> None:
    with pytest.raises(DeviceNotPaired):
        pms.key(doors=(Door("lck_x", "no such room"),))


# --- what the protocol cannot do


def test_the_protocol_has_no_pin_and_no_questions(pms: Hotel) -> None:
    with pytest.raises(KeyIssueFailed) as caught:
        pms.key(kind=PIN)
    assert caught.value.reason is Reason.KIND_UNSUPPORTED
    assert isinstance(pms.port, Records)
    assert not any(isinstance(pms.port, kind) for kind in (Lookup, Inventory, Resume, Webhook))
    assert pms.port.list_devices("ppt_1") == ()
    assert not pms.port.describe_adapter().capabilities.pin
    assert pms.calls() == []


def test_a_free_room_that_is_only_added_needs_a_new_card_and_is_refused_alone(pms: Hotel) -> None:
    guest = pms.key()
    calls = len(pms.calls())
    result = pms.port.update_credential(UpdateInput(guest.handle(), meta(), added=(pms.doors[1],)))
    kept, added = result.doors
    assert (kept.outcome, added.outcome) == (Outcome.DONE, Outcome.FAILED)
    assert added.error is not None
    assert not added.error.retriable
    assert (result.warnings, len(pms.calls())) == ((), calls), "the card is as it was written"


def test_a_let_room_that_is_only_added_waits_for_the_card_which_joins_there(pms: Hotel) -> None:
    other = pms.key(doors=(pms.doors[1],))
    guest = pms.key()
    let = replace(pms.doors[1], has_other_stay=True)
    result = pms.port.update_credential(UpdateInput(guest.handle(), meta(), added=(let,)))
    assert [door.outcome for door in result.doors] == [Outcome.DONE, Outcome.DONE]
    assert [warning.code for warning in result.warnings] == ["CARD_MUST_BE_UPDATED"]
    assert not guest.opens(pms.doors[1])
    assert other.opens(pms.doors[1])


def test_a_start_cannot_move_and_the_warning_says_so(pms: Hotel) -> None:
    guest = pms.key()
    later = guest.handle(window=Window(NOON, NOON + 72 * H))
    codes = [warning.code for warning in pms.port.update_credential(UpdateInput(later, meta())).warnings]
    assert codes == ["CARD_MUST_BE_UPDATED", "START_NOT_CHANGED"]


def test_a_later_end_is_the_stays_and_the_warning_tells_what_that_means_for_a_lost_card(pms: Hotel) -> None:
    guest, lost = pms.key(), pms.key(Intent.ADDITIONAL)
    pms.port.revoke_credential(lost.handle(), RevokeReason.LOST, meta())
    longer = guest.handle(window=Window(NOON - H, NOON + 96 * H))
    codes = [warning.code for warning in pms.port.update_credential(UpdateInput(longer, meta())).warnings]
    assert codes == ["CARD_MUST_BE_UPDATED", "STAY_MOVES_TOGETHER"]
    pms.shown(pms.street, lost.value)
    pms.at(NOON + 80 * H)
    assert lost.opens(pms.doors[0]), "as warned"
    fresh = pms.key(Intent.REPLACEMENT, window=Window(NOON, NOON + 96 * H))
    assert fresh.opens(pms.doors[0])
    assert not lost.opens(pms.doors[0])


def test_a_move_whose_answer_was_lost_is_repeated_and_counts_as_done(pms: Hotel) -> None:
    guest, call = pms.key(), CallMeta(new_key())
    update = UpdateInput(guest.handle(doors=()), call, added=(pms.doors[1],), removed=guest.handle().doors)
    pms.fault(command="MC", do="drop")
    assert {door.outcome for door in pms.port.update_credential(update).doors} == {Outcome.UNKNOWN}
    again = pms.port.update_credential(replace(update, meta=replace(call, attempt=2)))
    assert {door.outcome for door in again.doors} == {Outcome.DONE}
    assert pms.generation(pms.doors[1]) == 1


def test_a_late_checkout_never_names_the_room_again_since_the_next_guest_may_be_in_it(pms: Hotel) -> None:
    guest = pms.key()
    following = pms.key()
    pms.port.revoke_credential(guest.handle(), RevokeReason.CHECKOUT, meta(attempt=2))
    assert [call for call in pms.calls() if "CO" in call] == []
    assert pms.key(Intent.ADDITIONAL).opens(pms.doors[0])
    assert following.opens(pms.doors[0])


def test_a_companion_who_leaves_first_checks_nobody_out(pms: Hotel) -> None:
    pms.key()
    companion = pms.key(Intent.ADDITIONAL)
    pms.port.revoke_credential(companion.handle(), RevokeReason.CHECKOUT, meta())
    assert [call for call in pms.calls() if "CO" in call] == []


def test_a_checkout_the_list_did_not_confirm_is_warned_and_the_bound_stands(pms: Hotel) -> None:
    guest = pms.key()
    pms.fault(command="CO", do="drop")
    result = pms.port.revoke_credential(guest.handle(), RevokeReason.CHECKOUT, meta())
    assert [warning.code for warning in result.warnings] == ["ROOM_STATUS_NOT_CONFIRMED"]
    assert result.doors[0].effective_not_after == NOON + 72 * H


def test_a_resumed_key_never_stopped_and_one_that_is_over_is_refused(pms: Hotel) -> None:
    guest = pms.key()
    assert pms.port.unsuspend_credential(guest.handle(), meta()).doors[0].outcome is Outcome.DONE
    with pytest.raises(CredentialExpired):
        pms.port.unsuspend_credential(guest.handle(window=Window(NOON - 3 * H, NOON - H)), meta())
