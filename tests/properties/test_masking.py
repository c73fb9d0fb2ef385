"""Whatever the secret, no text made of it shows it."""

from __future__ import annotations

import copy
import json
import logging
import pickle
import traceback
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vendors.port.errors import ALL_ERRORS, LockError, Reason
from vendors.port.secrets import MASK, CardNumber, Pin, Secret, Token, VendorRef
from vendors.port.types import (
    CallMeta,
    CredentialHandle,
    CredentialKind,
    Door,
    DoorResult,
    FoundKey,
    Holder,
    IssueInput,
    IssueResult,
    Outcome,
    PinArtifact,
    TokenArtifact,
    Window,
)
from vendors.support.scrub import scrub

NOON = datetime(2026, 4, 30, 12, tzinfo=UTC)
TYPES = st.sampled_from([Pin, VendorRef, Token, CardNumber])
DIGITS = st.text("0123456789", min_size=5, max_size=9).filter(lambda t: len(set(t)) > 2)
VALUES = st.one_of(
    DIGITS,
    st.text("abcdefghkmnpqrstuvwxyz0123456789", min_size=12, max_size=40),
    st.text("۰۱۲۳۴۵۶۷۸۹", min_size=5, max_size=9),
)


@given(TYPES, VALUES)
def test_no_text_form_of_a_secret_shows_it(cls: type[Secret], value: str) -> None:
    secret = cls(value)
    texts = [
        repr(secret),
        str(secret),
        f"{secret}",
        f"{secret!r:>40}",
        "".join(("x", f"{secret!s}")),
        repr([secret, {1: secret}]),
    ]
    assert all(value not in text and MASK in text for text in texts)
    assert secret.reveal() == value


@given(TYPES, VALUES)
def test_a_secret_does_not_travel(cls: type[Secret], value: str) -> None:
    for travel in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError) as caught:
            travel(cls(value))
        assert value not in str(caught.value)
    with pytest.raises(TypeError) as caught:
        json.dumps({"secret": cls(value)})
    assert value not in str(caught.value)


@given(TYPES, TYPES, VALUES)
def test_secrets_of_two_types_are_never_equal_and_of_one_type_by_value(
    one: type[Secret], two: type[Secret], value: str
) -> None:
    assert (one(value) == two(value)) is (one is two)
    assert one(value) != value
    assert one(value) != one(value + "x")
    assert hash(one(value)) == hash(one(value))


@given(pin=DIGITS, card=DIGITS, token=st.text("abcdefgh0123456789", min_size=12, max_size=40))
def test_no_value_of_the_port_shows_the_secrets_in_it(pin: str, card: str, token: str) -> None:
    window = Window(NOON, NOON + timedelta(days=1))
    door = Door("lck_x", "ext", ref=VendorRef(f"ttl:1:pin:{pin}"))
    meta = CallMeta("key")
    values = [
        IssueInput(
            "tnt_x", "ppt_x", "key_x", ("rmu_x",), window,
            Holder("gst_x", f"name {token}", f"{token}@example.org", f"+{card}"),
            (CredentialKind.PIN_CODE,), (door,), meta, pin=Pin(pin), card_number=CardNumber(card),
        ),
        CredentialHandle("key_x", CredentialKind.PIN_CODE, window, (door,), Pin(pin), CardNumber(card)),
        IssueResult((DoorResult("lck_x", Outcome.DONE, VendorRef(pin)),), artifact=PinArtifact(Pin(pin))),
        IssueResult((), artifact=TokenArtifact("qr", Token(token))),
        FoundKey("ext", VendorRef(token), CredentialKind.PIN_CODE, window),
    ]  # fmt: skip
    texts = [f"{value!r} {value}" for value in values]
    assert [s for s in (pin, card, token) for text in texts if s in text] == []


@given(st.sampled_from(ALL_ERRORS), DIGITS, st.sampled_from(list(Reason)))
def test_no_text_of_an_error_shows_what_was_scrubbed(cls: type[LockError], pin: str, reason: Reason) -> None:
    message = scrub(f"lock says passcode {pin} exists, keyboardPwd={pin}", [Pin(pin)])
    try:
        raise cls("ttlock", message, reason=reason) from None
    except cls as error:
        texts = [str(error), repr(error), error.vendor_message, "".join(traceback.format_exception(error))]
    assert [text for text in texts if pin in text] == []


@given(VALUES, st.text(max_size=30), st.text(max_size=30))
def test_a_known_secret_is_scrubbed_from_any_surrounding(value: str, before: str, after: str) -> None:
    assert value not in scrub(f"{before} {value} {after}", [Token(value)])


@given(st.text(max_size=1000))
def test_scrubbing_takes_any_text_and_gives_a_short_printable_one(text: str) -> None:
    left = scrub(text)
    assert len(left) <= 300
    assert left.isprintable()


@given(TYPES, VALUES)
def test_a_log_line_shows_no_secret(cls: type[Secret], value: str) -> None:
    record = logging.LogRecord("x", logging.INFO, "f", 1, "key %s at %r", (cls(value), {"ref": cls(value)}), None)
    assert value not in logging.Formatter().format(record)


def test_a_dataclass_cannot_be_taken_apart_with_its_secrets() -> None:
    with pytest.raises(TypeError):
        asdict(PinArtifact(Pin("482913")))
