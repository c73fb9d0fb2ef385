"""What an envelope may look like, and what is said about one that may not."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sagas.events.envelope import Envelope, compose, decode, encode
from sagas.events.refusals import EventRefused, RefusalCode, UnknownSubject

AT = datetime(2026, 4, 30, 10, 13, 42, 117000, tzinfo=UTC)
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
DATA = {"userId": "usr_1"}
WIRE: dict[str, Any] = {
    "specVersion": "1.0",
    "id": "evt_1",
    "subject": "melmastoon.iam.user.deactivated.v1",
    "type": "melmastoon.iam.user.deactivated.v1",
    "source": "/services/iam-service",
    "time": "2026-04-30T10:13:42.117Z",
    "tenantId": "tnt_1",
    "data": DATA,
}


def on_the_wire(**changes: Any) -> bytes:
    document = {**WIRE, **changes}
    return json.dumps({name: value for name, value in document.items() if value is not ...}).encode()


def refusal(act: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(EventRefused) as caught:
        act()
    return caught.value.code.value, caught.value.detail


def test_bytes_are_compact_sorted_and_carry_subject_type_source_and_schema_address() -> None:
    event = compose(
        "lock.credential.failed.v1",
        {"b": 1, "a": "متن"},
        event_id="evt_1",
        time=AT.astimezone(timezone(timedelta(hours=4, minutes=30))),
        tenant_id="tnt_1",
        trace_id=TRACE,
        sequence=3,
        ordering_key="key_1",
    )
    assert encode(event).decode() == (
        '{"data":{"a":"متن","b":1},"id":"evt_1","orderingKey":"key_1",'
        '"schemaUrl":"https://schemas.melmastoon.ghasi.io/lock/credential.failed.v1.json","sequence":3,'
        '"source":"/services/lock-integration-service","specVersion":"1.0",'
        '"subject":"melmastoon.lock.credential.failed.v1","tenantId":"tnt_1","time":"2026-04-30T10:13:42.117Z",'
        f'"traceId":"{TRACE}","type":"melmastoon.lock.credential.failed.v1"}}'
    )


def test_the_ordering_key_of_a_credential_event_is_its_credential() -> None:
    event = compose(
        "melmastoon.lock.credential.suspended.v1",
        {"keyCredentialId": "key_9"},
        event_id="evt_1",
        time=AT,
        tenant_id="tnt_1",
        trace_id=TRACE,
    )
    assert event.ordering_key == "key_9"


def test_empty_causes_count_as_absent() -> None:
    event = Envelope("evt_1", WIRE["subject"], "/x", AT, "tnt_1", DATA, trace_id="", correlation_id="", causation_id="")
    decoded = decode(encode(event))
    assert (decoded.trace_id, decoded.correlation_id, decoded.causation_id) == (None, None, None)


def test_microseconds_survive() -> None:
    at = AT.replace(microsecond=117_001)
    event = Envelope("evt_1", WIRE["subject"], "/x", at, "tnt_1", DATA)
    assert decode(encode(event)).time == at


@pytest.mark.parametrize(
    ("alias", "canonical"),
    [
        ("reservation.confirmed.v1", "melmastoon.reservation.booking.confirmed.v1"),
        ("reservation.checkout.v1", "melmastoon.reservation.booking.checked_out.v1"),
        ("reservation.booking.no_show.v1", "melmastoon.reservation.booking.no_show.v1"),
        ("payment.captured.v1", "melmastoon.payment.captured.v1"),
    ],
)
def test_an_alias_becomes_canonical(alias: str, canonical: str) -> None:
    assert decode(on_the_wire(subject=alias, type=alias)).subject == canonical


def test_the_nested_form_is_read_as_well() -> None:
    head = {
        "eventId": "evt_1",
        "subject": WIRE["subject"],
        "version": 1,
        "occurredAt": "2026-04-30T10:13:42.117Z",
        "producer": "iam-service",
        "tenantId": "tnt_1",
        "traceId": TRACE,
    }
    event = decode(json.dumps({"envelope": head, "payload": DATA}).encode())
    assert event == Envelope("evt_1", WIRE["subject"], "/services/iam-service", AT, "tnt_1", DATA, trace_id=TRACE)


@pytest.mark.parametrize(
    "trace", ["00-...-01", "", "00-" + "0" * 32 + "-00f067aa0ba902b7-01", "ff" + TRACE[2:], TRACE.upper(), 7, ["x"]]
)
def test_a_broken_trace_is_dropped_and_the_event_taken(trace: object) -> None:
    assert decode(on_the_wire(traceId=trace)).trace_id is None


def test_a_broken_trace_of_ours_is_not_let_out() -> None:
    event = Envelope("evt_1", WIRE["subject"], "/x", AT, "tnt_1", DATA, trace_id="00-1-2-3")
    assert refusal(lambda: encode(event)) == ("INVALID_FIELD", "traceId: not a W3C traceparent")


def test_a_local_time_is_not_let_out() -> None:
    event = Envelope("evt_1", WIRE["subject"], "/x", AT.replace(tzinfo=None), "tnt_1", DATA)
    assert refusal(lambda: encode(event))[0] == "NO_TIME_ZONE"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"x", "\ud800", "a\x00b", object()])
def test_what_json_cannot_say_is_not_let_out(value: object) -> None:
    event = Envelope("evt_1", WIRE["subject"], "/x", AT, "tnt_1", {"x": value})
    assert refusal(lambda: encode(event))[0] == "INVALID_JSON"


def test_too_large_an_event_is_not_let_out() -> None:
    event = Envelope("evt_1", WIRE["subject"], "/x", AT, "tnt_1", {"x": "a" * 262_144})
    assert refusal(lambda: encode(event)) == ("PAYLOAD_TOO_LARGE", "more than 262144 bytes")


def test_exactly_the_largest_size_is_taken_and_one_byte_more_refused() -> None:
    raw = on_the_wire()
    assert decode(raw, max_bytes=len(raw)).id == "evt_1"
    assert refusal(lambda: decode(raw, max_bytes=len(raw) - 1)) == ("PAYLOAD_TOO_LARGE", f"more than {len(raw) - 1} bytes")


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "INVALID_JSON"),
        (b"\xff\xfe", "INVALID_UTF8"),
        (b'{"id":"\xc3\x28"}', "INVALID_UTF8"),
        (b"\xef\xbb\xbf{}", "INVALID_JSON"),
        (b"{}{}", "INVALID_JSON"),
        (b"{'id':1}", "INVALID_JSON"),
        (b'{"a":1,"a":1}', "INVALID_JSON"),
        (b'{"x":{"a":1,"b":2,"a":3}}', "INVALID_JSON"),
        (b'{"a":NaN}', "INVALID_JSON"),
        (b'{"a":-Infinity}', "INVALID_JSON"),
        (b'{"a":1e999}', "INVALID_JSON"),
        (b'{"a":' + b"9" * 20 + b"}", "INVALID_JSON"),
        (b'{"a":' + b"9" * 10_000 + b"}", "INVALID_JSON"),
        (b'{"a":"\\ud800"}', "INVALID_JSON"),
        (b'{"\\udfff":1}', "INVALID_JSON"),
        (b'{"a":["\\u0000"]}', "INVALID_JSON"),
        (b"[" * 200_000, "INVALID_JSON"),
        (b'{"a":' * 40_000, "INVALID_JSON"),
        (b"[" * 33 + b"]" * 33, "INVALID_JSON"),
        (b"[]", "INVALID_FIELD"),
        (b"null", "INVALID_FIELD"),
        (b'"text"', "INVALID_FIELD"),
        (b"{}", "MISSING_FIELD"),
    ],
)
def test_malformed_bytes_are_refused_with_their_reason(raw: bytes, code: str) -> None:
    assert refusal(lambda: decode(raw))[0] == code


def test_nesting_is_allowed_up_to_its_limit() -> None:
    deepest: Any = 1
    for _ in range(31):
        deepest = {"a": deepest}
    assert decode(on_the_wire(data=deepest)).data == deepest
    assert refusal(lambda: decode(on_the_wire(data={"a": deepest}))) == ("INVALID_JSON", "nested too deep")


def test_many_shallow_brackets_are_no_depth() -> None:
    assert len(decode(on_the_wire(data={"rooms": [[] for _ in range(500)]})).data["rooms"]) == 500


@pytest.mark.parametrize("name", ["specVersion", "id", "subject", "source", "time", "tenantId", "data"])
@pytest.mark.parametrize("absent", [..., None])
def test_a_missing_field_is_named(name: str, absent: object) -> None:
    assert refusal(lambda: decode(on_the_wire(**{name: absent}))) == ("MISSING_FIELD", name)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("specVersion", "2.0"),
        ("specVersion", 1.0),
        ("id", ""),
        ("id", "has blank"),
        ("id", "x" * 65),
        ("id", "evt_1\n"),
        ("tenantId", 7),
        ("tenantId", "tnt_\u06f1"),
        ("source", "a\x1bb"),
        ("correlationId", "x" * 65),
        ("causationId", ["evt_1"]),
        ("orderingKey", "x" * 129),
        ("sequence", 0),
        ("sequence", True),
        ("sequence", 1.5),
        ("sequence", "1"),
        ("data", []),
        ("data", "text"),
        ("time", 1777543342),
        ("time", "yesterday"),
        ("time", "2026-02-30T00:00:00Z"),
        ("time", "2026-04-30T10:13:42+25:00"),
        ("time", "0001-01-01T00:00:00+05:00"),
        ("time", "20260430T101342Z"),
    ],
)
def test_a_malformed_field_is_named_and_its_value_never_echoed(field: str, value: object) -> None:
    code, detail = refusal(lambda: decode(on_the_wire(**{field: value})))
    assert (code, detail.split(":")[0]) == ("INVALID_FIELD", field)
    assert len(str(value)) < 3 or str(value) not in detail.replace("specVersion: not 1.0", "")


def test_a_time_without_zone_is_refused_as_such() -> None:
    assert refusal(lambda: decode(on_the_wire(time="2026-04-30T10:13:42"))) == (
        "NO_TIME_ZONE",
        "time: an instant needs a zone",
    )


def test_other_zones_become_utc() -> None:
    event = decode(on_the_wire(time="2026-04-30T14:43:42.117+04:30"))
    assert (event.time, event.time.utcoffset()) == (AT, timedelta(0))


@pytest.mark.parametrize(
    ("subject", "code"),
    [
        ("melmastoon.unheard.of.v1", RefusalCode.UNKNOWN_SUBJECT),
        ("MELMASTOON.IAM.USER.DEACTIVATED.V1", RefusalCode.UNKNOWN_SUBJECT),
        ("reservation.checked_out.v1", RefusalCode.UNKNOWN_SUBJECT),
        ("melmastoon.iam.user.deactivated.v2", RefusalCode.UNKNOWN_VERSION),
    ],
)
def test_an_unknown_subject_is_told_from_an_unknown_version(subject: str, code: RefusalCode) -> None:
    with pytest.raises(UnknownSubject) as caught:
        decode(on_the_wire(subject=subject, type=...))
    assert (caught.value.code, caught.value.detail) == (code, "subject: not registered")


def test_a_type_that_differs_from_the_subject_is_refused() -> None:
    raw = on_the_wire(type="melmastoon.tenant.property.deactivated.v1")
    assert refusal(lambda: decode(raw)) == ("INVALID_FIELD", "type: differs from subject")


def test_an_envelope_prints_without_its_data() -> None:
    assert "usr_1" not in repr(decode(on_the_wire()))


@settings(deadline=None)
@given(st.binary(max_size=400))
@example(b'{"envelope":[],"payload":{}}')
@example(b'{"envelope":{},"payload":{}}')
def test_random_bytes_raise_nothing_but_a_refusal(raw: bytes) -> None:
    with contextlib.suppress(EventRefused):
        assert decode(raw).subject.startswith("melmastoon.")


texts = st.text(alphabet='aZ0_.-/:+ é\u06f1\u200f\x00\x1b\ud800\U0001f511"\\', max_size=12)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from([*WIRE, "traceId", "sequence", "envelope", "payload"]), json_values))
def test_random_documents_raise_nothing_but_a_refusal(changes: dict[str, Any]) -> None:
    raw = json.dumps({**WIRE, **changes}).encode("utf-8", "surrogatepass")
    try:
        event = decode(raw)
    except EventRefused:
        return
    assert decode(encode(event)).data == event.data


@settings(deadline=None)
@given(st.integers(0, len(on_the_wire()) - 1), st.integers(0, 255))
def test_one_changed_byte_raises_nothing_but_a_refusal(position: int, byte: int) -> None:
    raw = bytearray(on_the_wire())
    raw[position] = byte
    with contextlib.suppress(EventRefused):
        assert decode(bytes(raw)).subject.startswith("melmastoon.")
