"""Keys over the PMS protocol: bytes with meaning, and outcomes that got lost after ACK."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.vendors.salto.harness import ENCODER
from tests.vendors.salto.hotel import CARD, NOON, PHONE, PIN, H, Hotel, meta
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
    IssueInput,
    IssueResult,
    Outcome,
    Propagation,
    RevokeReason,
    UpdateInput,
    Window,
)
from vendors.salto.pms_adapter import SaltoPmsPort
from vendors.salto.pms_client import PmsCall, PmsClient
from vendors.salto.pms_frames import encode
from vendors.salto.pms_words import parse_card, read_card
from vendors.salto.settings import read_settings

ENQ, ACK = b"\x05", b"\x06"
KEY = "0123456789abcdef" * 4
MARK = "gk-0123456789abcdef"
ROOM = Door("lck_101", "101", label="101")
STAY = Window(datetime(2026, 1, 1, 10, 0, tzinfo=UTC), datetime(2026, 1, 3, 6, 30, tzinfo=UTC))
"""14:30 on the 1st to 11:00 on the 3rd in Kabul."""


def cn(command: str = "CN1") -> bytes:
    fields = (command, "Front desk", "E", "101", "", "", "", "", "", "1430010126", "1100030126", MARK, "", "", "", "1")
    return encode(fields)


def read_answer(operator: str, room: str = "101") -> bytes:
    return encode(("LT", "Front desk", room, "", "", "", "CI", "0", "", "1430010126", "1100030126", operator))


READ = encode(("LT", "Front desk", "R"))
BLANK = encode(("LT", "Front desk", "LD"))
LAID = ((ENQ, [ACK]), (READ, [ACK, BLANK]))
"""A blank card lies on the encoder, which is read before it is written."""


def written_to(command: bytes, *answers: bytes | str) -> ScriptedLine:
    """A blank card that is read and, over the same connection, ordered to be written."""
    return ScriptedLine(*LAID, (ENQ, [ACK]), (command, list(answers)))


def scripted(hotel: Hotel, *lines: ScriptedLine) -> SaltoPmsPort:
    waiting = list(lines)
    return SaltoPmsPort(read_settings(hotel.context()), hotel.context(), lambda limit_s: waiting.pop(0))


def order(hotel: Hotel, attempt: int = 1, **changes: object) -> IssueInput:
    request = request_for(hotel, CARD, (ROOM,), window=STAY, meta=CallMeta(KEY, attempt), **changes)
    return replace(request, time_zone="Asia/Kabul")


def issue(hotel: Hotel, request: IssueInput, *lines: ScriptedLine) -> IssueResult:
    return scripted(hotel, *lines).issue_credential(request)


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


def test_a_room_that_is_only_added_needs_the_card_and_is_refused_alone(pms: Hotel) -> None:
    guest = pms.key()
    result = pms.port.update_credential(UpdateInput(guest.handle(), meta(), added=(pms.doors[1],)))
    kept, added = result.doors
    assert (kept.outcome, added.outcome) == (Outcome.DONE, Outcome.FAILED)
    assert added.error is not None
    assert not added.error.retriable


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


# --- the log, health


def test_the_log_arrives_with_the_card_that_carried_it(pms: Hotel) -> None:
    door, guest = pms.doors[0], pms.key()
    span = (NOON - H, NOON + 100 * H)
    assert guest.opens(door)
    pms.at(NOON + 80 * H)
    assert not guest.opens(door)
    assert pms.port.list_records(door, *span) == ()
    pms.shown(pms.street, guest.value)
    records = pms.port.list_records(door, *span)
    assert [(r.outcome, r.deny_reason, r.attempted_at) for r in records] == [
        ("granted", None, NOON),
        ("denied", "expired", NOON + 80 * H),
    ]
    assert len({record.external_event_id for record in records}) == 2
    assert records == pms.port.list_records(door, *span)


def test_a_log_without_years_is_dated_over_the_turn_of_the_year(new_hotel: Callable[..., Hotel]) -> None:
    hotel = new_hotel(transport="pms")
    eve = datetime(2026, 12, 31, 19, 0, tzinfo=UTC)
    hotel.at(eve)
    guest = hotel.key(window=Window(eve - H, eve + 48 * H))
    assert guest.opens(hotel.doors[0])
    hotel.at(eve + timedelta(hours=6))
    hotel.shown(hotel.street, guest.value)
    (record,) = hotel.port.list_records(hotel.doors[0], eve - H, eve + H)
    assert record.attempted_at == eve


def log_line(door: Door, *rows: tuple[str, str]) -> ScriptedLine:
    """A conversation for each line of a log, and one for its end, all over one connection."""
    told = [("WF", door.external_id, day, minute, "0", "0", "101", "#0") for day, minute in rows]
    answers = [*told, ("WO", door.external_id)]
    asked = ["WF", *["WN"] * len(rows)]
    steps = [
        ((ENQ, [ACK]), (encode((which, door.external_id)), [ACK, encode(answer)]))
        for which, answer in zip(asked, answers, strict=True)
    ]
    return ScriptedLine(*(part for step in steps for part in step))


def test_a_line_of_the_log_whose_time_makes_no_sense_leaves_the_others_readable(pms: Hotel) -> None:
    rows = [("30/11", "10:00"), ("31/02", "10:00"), ("x", "10:00"), ("30/11", "25:61"), ("", ""), ("30/11", "10:05")]
    line = log_line(pms.doors[0], *rows)
    records = scripted(pms, line).list_records(pms.doors[0], NOON - 48 * H, NOON)
    assert [f"{record.attempted_at:%d %H:%M}" for record in records] == ["30 05:30", "30 05:35"]
    assert (line.is_spent, line.is_closed) == (True, True)


def test_a_log_longer_than_five_hundred_lines_is_read_to_its_newest(pms: Hotel) -> None:
    rows = [(f"{1 + index // 60:02d}/11", f"10:{index % 60:02d}") for index in range(600)] + [("01/12", "12:00")]
    records = scripted(pms, log_line(pms.doors[0], *rows)).list_records(pms.doors[0], NOON - 24 * H, NOON)
    assert [f"{record.attempted_at:%d %H:%M}" for record in records] == ["01 07:30"]


def test_a_log_without_end_is_given_up(pms: Hotel) -> None:
    told = [ACK, encode(("WF", "101", "30/11", "10:00", "0"))]
    which = itertools.chain(["WF"], itertools.repeat("WN", 3100))
    steps = [((ENQ, [ACK]), (encode((command, "101")), list(told))) for command in which]
    line = ScriptedLine(*(part for step in steps for part in step))
    port = scripted(pms, line)
    with pytest.raises(VendorUnreachable, match="timeout"):
        port.list_records(ROOM, NOON - H, NOON)


def test_a_server_that_writes_the_month_first_is_read_so(new_hotel: Callable[..., Hotel]) -> None:
    hotel = new_hotel(transport="pms", log_dates="mm/dd")
    hotel.simulator.post("/seed", {"property": hotel.property, "monthFirst": True})
    guest = hotel.key()
    assert guest.opens(hotel.doors[0])
    hotel.shown(hotel.street, guest.value)
    (record,) = hotel.port.list_records(hotel.doors[0], NOON - H, NOON + H)
    assert record.attempted_at == NOON
    hotel.extra["log_dates"] = "yyyy"
    with pytest.raises(ValueError, match="log_dates"):
        hotel.build()


def test_health_is_whether_the_server_answers_and_asks_for_no_log(pms: Hotel) -> None:
    health = pms.port.health_check(pms.doors[0])
    assert (health.online, health.battery_percent, health.clock_skew_ms) == (True, None, None)
    assert pms.calls() == ["PMS INFO"]


@pytest.mark.parametrize(("letters", "online"), [("ES", True), ("NF", False)])
def test_an_interface_that_does_not_know_the_question_answers_all_the_same(pms: Hotel, letters: str, online: bool) -> None:
    line = ScriptedLine((ENQ, [ACK]), (encode(("INFO",)), [ACK, encode((letters,))]))
    if online:
        assert scripted(pms, line).health_check(ROOM).online
        return
    with pytest.raises(VendorUnreachable):
        scripted(pms, line).health_check(ROOM)


@pytest.mark.parametrize("by_connection", [False, True], ids=["place kept by server", "place kept by connection"])
def test_a_log_is_read_whole_while_health_is_asked_for(pms: Hotel, by_connection: bool) -> None:
    pms.simulator.post("/seed", {"property": pms.property, "logPlaceByConnection": by_connection})
    guest = pms.key()
    for minute in range(6):
        pms.at(NOON + timedelta(minutes=minute))
        assert guest.opens(pms.doors[0])
    pms.shown(pms.street, guest.value)
    span = (NOON - H, NOON + H)
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(pms.build().health_check, pms.doors[0]) for _ in range(6)]
        reading = [pool.submit(pms.build().list_records, pms.doors[0], *span) for _ in range(3)]
        assert all(answer.result(30).online for answer in asked)
        told = [[record.attempted_at for record in answer.result(30)] for answer in reading]
    assert told == [[NOON + timedelta(minutes=minute) for minute in range(6)]] * 3


def test_a_log_whose_line_breaks_tells_nothing_instead_of_a_part(pms: Hotel) -> None:
    first = ((ENQ, [ACK]), (encode(("WF", "101")), [ACK, encode(("WF", "101", "30/11", "10:00", "0", "0", "101", "#0"))]))
    line = ScriptedLine(*first, (ENQ, [HANG_UP]))
    with pytest.raises(VendorUnreachable) as caught:
        scripted(pms, line).list_records(ROOM, NOON - 48 * H, NOON)
    assert caught.value.throttled, "nothing was lost by asking: it is asked again, from the first line"


def test_an_opening_by_a_button_or_from_a_computer_is_no_cards(pms: Hotel) -> None:
    for how in ("button", "pc"):
        pms.simulator.post("/door", {"property": pms.property, "device": pms.street.external_id, "opened": how})
    guest = pms.key(doors=(pms.doors[0], pms.street))
    assert guest.opens(pms.street)
    records = pms.port.list_records(pms.street, NOON - H, NOON + H)
    assert [(record.outcome, record.kind) for record in records] == [("granted", None), ("granted", None), ("granted", CARD)]


# --- what lies on the encoder


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
