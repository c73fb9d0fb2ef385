"""Conversations of the PMS protocol, byte by byte, with the server's part read from a transcript."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tests.vendors.salto.scripted_line import HANG_UP, SILENCE, ScriptedLine
from vendors.salto.pms_driver import NotTaken, OutcomeUnknown, PmsDriver
from vendors.salto.pms_frames import BadText, encode
from vendors.salto.pms_words import check_out

ENQ, ACK, NAK = b"\x05", b"\x06", b"\x15"
CO = bytes.fromhex("02b3434fb330b3313031b3030f")
DONE = encode(("CO", "101"))


def driver(line: ScriptedLine, slept: list[float] | None = None, tick: Callable[[], float] | None = None) -> PmsDriver:
    return PmsDriver(line, (slept if slept is not None else []).append, tick or (lambda: 0.0))


def hurried() -> Callable[[], float]:
    """A clock on which every look costs a second, so that waits end."""
    seconds = itertools.count()
    return lambda: float(next(seconds))


def test_ask_be_taken_and_answered() -> None:
    line = ScriptedLine((ENQ, [ACK]), (CO, [ACK, DONE]))
    assert driver(line).ask(check_out("101"), 30).fields == ("CO", "101")
    assert line.is_spent


def test_an_error_answer_is_an_answer() -> None:
    line = ScriptedLine((ENQ, [ACK]), (CO, [ACK, bytes.fromhex("02b35444b331b30391")]))
    assert driver(line).ask(check_out("101"), 30).fields == ("TD", "1")


def test_a_server_that_gets_ready_late_is_asked_again_after_a_fifth_of_a_second() -> None:
    slept: list[float] = []
    line = ScriptedLine((ENQ, [NAK]), (ENQ, [NAK]), (ENQ, [ACK]), (CO, [ACK, DONE]))
    driver(line, slept).ask(check_out("101"), 30)
    assert slept == [0.2, 0.2]


def test_a_server_that_is_not_ready_gets_no_command() -> None:
    line = ScriptedLine((ENQ, [NAK]), (ENQ, [NAK]), (ENQ, [NAK]))
    with pytest.raises(NotTaken):
        driver(line).ask(check_out("101"), 30)
    assert CO not in line.sent


def test_a_line_that_breaks_before_the_command_carried_nothing() -> None:
    line = ScriptedLine((ENQ, [HANG_UP]))
    with pytest.raises(NotTaken):
        driver(line).ask(check_out("101"), 30)
    assert CO not in line.sent


def test_a_refused_frame_is_sent_again_until_it_is_taken() -> None:
    line = ScriptedLine((ENQ, [ACK]), (CO, [NAK]), (CO, [NAK]), (CO, [ACK, DONE]))
    assert driver(line).ask(check_out("101"), 30).fields == ("CO", "101")


def test_a_frame_refused_three_times_did_nothing() -> None:
    line = ScriptedLine((ENQ, [ACK]), (CO, [NAK]), (CO, [NAK]), (CO, [NAK]))
    with pytest.raises(NotTaken):
        driver(line).ask(check_out("101"), 30)
    assert line.sent.count(CO) == 3


@pytest.mark.parametrize("fate", [HANG_UP, SILENCE, DONE[:-1] + bytes([DONE[-1] ^ 1])], ids=["hang up", "silence", "bad LRC"])
def test_after_ack_a_lost_or_damaged_answer_is_unknown_and_nothing_is_sent_again(fate: bytes | str) -> None:
    line = ScriptedLine((ENQ, [ACK]), (CO, [ACK, *[fate] * 40]))
    with pytest.raises(OutcomeUnknown):
        driver(line, tick=hurried()).ask(check_out("101"), 30)
    assert line.sent.count(CO) == 1


def test_silence_after_the_frame_is_unknown_too_since_the_ack_may_be_what_was_lost() -> None:
    line = ScriptedLine((ENQ, [ACK]), (CO, [SILENCE] * 40))
    with pytest.raises(OutcomeUnknown):
        driver(line, tick=hurried()).ask(check_out("101"), 30)
    assert line.sent.count(CO) == 1


def test_a_refusal_that_may_be_an_earlier_questions_is_none_and_the_command_is_not_sent_again() -> None:
    """The first question's NAK comes late, after the command was taken: sent again, it would start a second stay."""
    line = ScriptedLine((ENQ, [SILENCE]), (ENQ, [ACK]), (CO, [NAK, ACK, DONE]))
    with pytest.raises(OutcomeUnknown):
        driver(line, tick=hurried()).ask(check_out("101"), 60)
    assert line.sent.count(CO) == 1


def test_a_question_left_without_answer_hinders_no_command_that_is_taken() -> None:
    line = ScriptedLine((ENQ, [SILENCE]), (ENQ, [ACK]), (CO, [ACK, DONE]))
    assert driver(line, tick=hurried()).ask(check_out("101"), 60).fields == ("CO", "101")


def test_an_answer_that_drips_in_glued_to_its_ack_is_read() -> None:
    line = ScriptedLine((ENQ, [ACK]), (CO, [ACK + DONE[:1], *[bytes([b]) for b in DONE[1:]]]))
    assert driver(line).ask(check_out("101"), 30).fields == ("CO", "101")


def test_what_the_wire_cannot_carry_is_refused_before_a_byte_is_sent() -> None:
    line = ScriptedLine()
    with pytest.raises(BadText):
        driver(line).ask(("CO", "0", "اتاق"), 30)
    assert line.sent == []
