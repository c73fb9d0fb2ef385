"""Bodies of messages as the console shows them: readable, without secrets, whatever the bytes are."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from lockservice.console.masking import SHOWN_BYTES, readable, readable_line


def test_names_contacts_and_secrets_are_hidden_and_the_rest_stays() -> None:
    body = {
        "data": {
            "reservationId": "rsv_1",
            "guest": {"id": "gst_1", "displayName": "Guest Name", "contact": {"email": "a@b.example"}},
            "delivery": {"artifact": {"type": "pin", "opaqueRef": "tk_secret"}},
            "pin": "481516",
            "note": "write to c@d.example",
        }
    }
    shown = readable(json.dumps(body).encode())
    for secret in ("Guest Name", "a@b.example", "tk_secret", "481516", "c@d.example"):
        assert secret not in shown
    for kept in ("rsv_1", "gst_1", '"type": "pin"'):
        assert kept in shown


def test_the_name_is_shown_to_who_may_read_it_but_never_the_contact() -> None:
    body = json.dumps({"guest": {"displayName": "Guest Name", "contact": {"phoneE164": "+93700123456"}}}).encode()
    shown = readable(body, with_guest=True)
    assert "Guest Name" in shown
    assert "+93700123456" not in shown


def test_what_is_no_json_is_shown_as_text_without_numbers_and_addresses() -> None:
    shown = readable(b'{"pin": 481516, broken a@b.example +93 700 123 456 \xff\x00')
    assert "481516" not in shown
    assert "a@b.example" not in shown
    assert "700" not in shown
    assert "\x00" not in shown


def test_a_huge_body_is_cut() -> None:
    assert len(readable(b"x" * (SHOWN_BYTES * 4))) <= 2_000


def test_direction_marks_are_made_visible() -> None:
    assert readable_line("abc\u202edef") == "abc\\u202edef"


@given(st.binary(max_size=4_000))
def test_any_bytes_give_printable_text(body: bytes) -> None:
    shown = readable(body)
    assert not any(ord(letter) < 32 and letter not in "\n\t" for letter in shown)


@given(st.recursive(st.none() | st.integers() | st.text(max_size=20), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3), max_leaves=20), st.text(alphabet="0123456789", min_size=12, max_size=12))  # fmt: skip
def test_a_pin_is_hidden_at_any_depth(around: object, pin: str) -> None:
    for name in ("pin", "PIN", "door_pin_code", "keyboardPwd", "opaqueRef", "vendorRef"):
        body = json.dumps({"a": [around, {"b": {name: f"secret{pin}"}}]}).encode()
        assert f"secret{pin}" not in readable(body)
