"""The frames between desk and gateway: every message reads back as it was, and nothing else is one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from desktop_bridge.protocol import messages
from desktop_bridge.protocol.messages import (
    Accept,
    Ask,
    Cancel,
    Go,
    Hello,
    Offer,
    Ping,
    Pong,
    Progressed,
    Refused,
    Result,
    Taken,
    Welcome,
)
from desktop_bridge.protocol.reading import MAX_FRAME_BYTES, BadFrame
from vendors.port.relay import DeskJob, DeskResult, Outcome, Refusal, Stage

JOB = DeskJob("job_1", "a-vendor", "encode", {"kind": "rfid_card", "doors": [{"door": 301}]}, {"301": 2}, True, 30.5)
FROM_DESK = [
    Hello(1, "desk", ("a-vendor",), "encoder", ("job_1", "job_2")),
    Accept("job_1"),
    Progressed("job_1", Stage.WRITING),
    Result("job_1", DeskResult(Outcome.DONE, None, "", {"uid": "04AB"})),
    Result("job_1", DeskResult(Outcome.REFUSED, Refusal.CARD_UNUSABLE, "worn", {})),
    Result("job_1", DeskResult(Outcome.NEVER_SEEN)),
    Ping(False),
]
FROM_GATEWAY = [
    Welcome(1, "dev_1", 5.0),
    Offer(JOB),
    Go("job_1"),
    Cancel("job_1"),
    Ask("job_1"),
    Taken("job_1"),
    Pong(),
    Refused("not_your_job", "no", "job_1"),
]


@pytest.mark.parametrize("message", FROM_DESK, ids=lambda m: type(m).__name__)
def test_what_a_desk_says_reads_back_and_is_no_word_of_a_gateway(message: messages.FromDesk) -> None:
    frame = messages.encode(message)
    assert messages.from_desk(frame) == message
    with pytest.raises(BadFrame) as caught:
        messages.from_gateway(frame)
    assert caught.value.code == "unknown_type"


@pytest.mark.parametrize("message", FROM_GATEWAY, ids=lambda m: type(m).__name__)
def test_what_a_gateway_says_reads_back_and_is_no_word_of_a_desk(message: messages.FromGateway) -> None:
    frame = messages.encode(message)
    assert messages.from_gateway(frame) == message
    with pytest.raises(BadFrame) as caught:
        messages.from_desk(frame)
    assert caught.value.code == "unknown_type"


@pytest.mark.parametrize("message", [*FROM_DESK, *FROM_GATEWAY], ids=lambda m: type(m).__name__)
def test_a_message_with_a_field_too_many_or_too_few_is_none(message: Any) -> None:
    read = messages.from_desk if message in FROM_DESK else messages.from_gateway
    document = json.loads(messages.encode(message))
    with pytest.raises(BadFrame) as caught:
        read(json.dumps(document | {"extra": 1}))
    assert caught.value.code == "unknown_field"
    optional = {"encoder", "detail", "refusal"} | ({"jobId"} if isinstance(message, Refused) else set())
    for name in set(document) - {"type"} - optional:
        with pytest.raises(BadFrame) as caught:
            read(json.dumps({key: value for key, value in document.items() if key != name}))
        assert caught.value.code == "missing_field"
        assert name in caught.value.detail


@given(st.text(max_size=200) | st.binary(max_size=50))
def test_whatever_comes_is_a_message_or_a_bad_frame(frame: str | bytes) -> None:
    with pytest.raises(BadFrame):
        messages.from_desk(frame)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
        max_leaves=8,
    ),
    st.sampled_from(["hello", "accept", "progress", "result", "ping"]),
)
def test_a_field_of_any_value_is_taken_or_named(value: Any, kind: str) -> None:
    good = {
        "hello": {"version": 1, "program": "p", "vendors": [], "encoder": "", "holding": []},
        "accept": {"jobId": "job_1"},
        "progress": {"jobId": "job_1", "stage": "writing"},
        "result": {"jobId": "job_1", "outcome": "done", "detail": "", "body": {}},
        "ping": {"encoderReady": True},
    }[kind]
    refused: list[tuple[str, BadFrame]] = []
    for name in good:
        try:
            messages.from_desk(json.dumps({"type": kind, **good, name: value}))
        except BadFrame as error:
            refused.append((name, error))
    for name, error in refused:
        assert error.code in {"bad_field", "bad_json", "too_deep"}
        assert error.code != "bad_field" or name in error.detail or "refusal" in error.detail


def test_an_error_names_the_field_and_never_the_value() -> None:
    with pytest.raises(BadFrame) as caught:
        messages.from_desk('{"type":"result","jobId":"3661413478\\n","outcome":"done","detail":"","body":{}}')
    assert caught.value.code == "bad_field"
    assert "3661413478" not in str(caught.value)


def test_a_frame_over_the_limit_is_refused_before_it_is_read() -> None:
    with pytest.raises(BadFrame) as caught:
        messages.from_desk('{"type":"ping","encoderReady":true}' + " " * MAX_FRAME_BYTES)
    assert caught.value.code == "too_large"


def test_a_deep_frame_costs_no_stack() -> None:
    with pytest.raises(BadFrame) as caught:
        messages.from_desk("[" * 30_000 + "]" * 30_000)
    assert caught.value.code == "bad_json"
