"""TTLock's tables and arithmetic, against the vectors of its documentation."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode

import pytest

from vendors.port.clock import FixedClock
from vendors.port.errors import KeyIssueFailed, KeyRevokeFailed, Reason
from vendors.port.manifest import AdapterContext
from vendors.port.secrets import Token, VendorRef
from vendors.port.types import AccessRecord, CredentialKind, Window
from vendors.ttlock.devices import capabilities_of, read_features
from vendors.ttlock.errors import TABLE, translate
from vendors.ttlock.pins import whole_hours
from vendors.ttlock.records import read_push, read_record
from vendors.ttlock.refs import Ref, read_ref
from vendors.ttlock.settings import read_settings

NOON = datetime(2026, 4, 30, 12, tzinfo=UTC)
SECRETS = {"client_secret": "s3cret", "username": "owner", "password_md5": "a" * 32}
SETTINGS = {"base_url": "https://euapi.ttlock.com", "client_id": "app"}


def context(settings: dict[str, object], secrets: dict[str, str]) -> AdapterContext:
    return AdapterContext(
        "tnt_1", "vad_1", settings, {k: Token(v) for k, v in secrets.items()},
        FixedClock(NOON), random.Random(1), lambda s: None,
    )  # fmt: skip


def test_the_documented_feature_value_has_its_bits() -> None:
    bits = {0, 1, 4, 5, 6, 7, 8, 12, 13, 14, 15, 18, 19, 22, 24, 26, 28, 29, 34, 38, 40, 41, 42, 43, 45, 50, 51}
    assert read_features("C2F44354CF1F3") == bits


@pytest.mark.parametrize("value", [None, "", "zz", "-1", "0"])
def test_an_unreadable_feature_value_has_no_bits(value: object) -> None:
    assert read_features(value) == frozenset()


def test_bits_beyond_sixty_four_are_read() -> None:
    assert read_features(f"{1 << 108 | 1:X}") == {0, 108}


@pytest.mark.parametrize(
    ("bits", "gateway", "revoke"),
    [({0, 1}, True, True), ({0, 1}, False, False), ({0, 56}, False, True), ({0, 16}, False, True)],
)
def test_taking_back_from_afar_needs_a_network(bits: set[int], gateway: bool, revoke: bool) -> None:
    can = capabilities_of(frozenset(bits), gateway)
    assert can.remote_revoke is revoke
    assert can.remote_issue
    assert can.pin
    assert can.card_encoding is (1 in bits)


@pytest.mark.parametrize(
    ("offset_min", "start", "end", "wide_start", "wide_end"),
    [
        (0, "12:20", "14:10", "12:00", "15:00"),
        (0, "13:00", "15:00", "13:00", "15:00"),
        (270, "14:10", "16:00", "13:30", "16:30"),  # +4:30
        (210, "14:10", "16:00", "13:30", "16:30"),  # +3:30
        (330, "14:30", "16:30", "14:30", "16:30"),  # +5:30, whole hours already
        (345, "14:10", "16:00", "13:15", "16:15"),  # +5:45
        (-210, "14:10", "16:00", "13:30", "16:30"),  # -3:30
    ],
)
def test_a_random_codes_window_is_widened_to_whole_local_hours(
    offset_min: int, start: str, end: str, wide_start: str, wide_end: str
) -> None:
    def at(clock: str) -> datetime:
        return datetime.fromisoformat(f"2026-04-30T{clock}:00+00:00")

    now = NOON - timedelta(hours=3)
    got = whole_hours(Window(at(start), at(end)), now, timedelta(minutes=offset_min))
    assert got == (at(wide_start), at(wide_end))


def test_a_random_code_of_a_running_stay_starts_this_hour() -> None:
    window = Window(NOON - timedelta(days=2), NOON + timedelta(days=1))
    start, end = whole_hours(window, NOON + timedelta(minutes=40), timedelta())
    assert (start, end) == (NOON, window.valid_until)


def test_a_random_code_asked_for_after_the_stay_still_has_a_window() -> None:
    window = Window(NOON - timedelta(days=2), NOON)
    start, end = whole_hours(window, NOON + timedelta(days=1), timedelta())
    assert start < end == NOON


def test_the_table_holds_every_documented_number() -> None:
    numbers = {1, -1, -3, 20000, 20001, 20002, 20003, 20004, 20006, 20007, 80000, 80002, 90000}
    numbers |= {10000, 10001, 10002, 10003, 10004, 10005, 10006, 10007, 10008, 10009, 10010, 10011}
    numbers |= set(range(30001, 30009))
    numbers |= {-1003, -1007, -1008, -1016, -1018, -1021, -1023, -1026, -1027}
    numbers |= {-2009, -2012, -2018, -2019, -2020, -2023, -2025, -2032}
    numbers |= {-3002, -3003, -3006, -3007, -3008, -3009, -3011, -3016, -3034, -3035, -3036, -3037, -3039, -3046}
    numbers |= {-4037, -4043, -4056, -4063, -4064, -4067, -4082}
    assert set(TABLE) == numbers


@pytest.mark.parametrize("code", sorted(TABLE))
def test_every_number_becomes_one_of_the_six_errors_with_its_meaning(code: int) -> None:
    error = translate(code, "code 048291", revoking=False, now=NOON, rng=random.Random(1))
    assert error.vendor == "ttlock"
    assert TABLE[code].meaning in error.vendor_message
    assert str(code) in error.vendor_message
    assert "048291" not in error.vendor_message
    assert error.reason is TABLE[code].reason


def test_what_refuses_an_issue_for_good_is_tried_again_for_a_revoke() -> None:
    issue = translate(-3008, "", revoking=False, now=NOON, rng=random.Random(1))
    revoke = translate(-3008, "", revoking=True, now=NOON, rng=random.Random(1))
    assert (type(issue), issue.retriable) == (KeyIssueFailed, False)
    assert (type(revoke), revoke.retriable) == (KeyRevokeFailed, True)


def test_the_quota_waits_for_the_first_in_beijing() -> None:
    error = translate(30007, "", revoking=False, now=NOON, rng=random.Random(1))
    assert (error.reason, error.retry_after_s, error.throttled) == (Reason.QUOTA, 4 * 3600, True)


def test_references_round_trip_and_strangers_are_none() -> None:
    ref = Ref("4711", "pin", 99)
    assert ref.text.reveal() == "ttl:4711:pin:99"
    assert read_ref(ref.text) == ref
    for text in ("", "ttl:4711:pin:", "ttl:4711:pin:x", "ttl:4711:face:1", "mock:4711", "ttl:4711:pin:1:2"):
        assert read_ref(VendorRef(text)) is None
    assert read_ref(None) is None


class TestSettings:
    def test_a_complete_installation_is_read(self) -> None:
        settings = read_settings(context(SETTINGS, SECRETS))
        assert (settings.timeout_s, settings.cloud_timeout_s, settings.reverse_cards) == (65.0, 20.0, False)
        assert "s3cret" not in repr(settings)

    @pytest.mark.parametrize(
        ("settings", "secrets", "message"),
        [
            ({"base_url": ""}, {}, "base_url is missing"),
            ({"client_id": None}, {}, "client_id is missing"),
            ({"base_url": "http://euapi.ttlock.com"}, {}, "must be https"),
            ({"region": "china"}, {}, "no"),
            ({"region": "moon"}, {}, "region must be one of"),
            ({"grant": "implicit"}, {}, "grant must be one of"),
            ({"timeout_s": "soon"}, {}, "timeout_s must be a number"),
            ({"timeout_s": 0}, {}, "timeout_s must lie between"),
            ({"reader_byte_order": "up"}, {}, "reader_byte_order must be one of"),
            ({}, {"client_secret": ""}, "client_secret is missing"),
            ({}, {"password_md5": "Hunter2Hunter2"}, "password_md5 must be 32"),
        ],
    )
    def test_what_cannot_work_is_refused_by_name(
        self, settings: dict[str, object], secrets: dict[str, str], message: str
    ) -> None:
        with pytest.raises(ValueError, match=message) as caught:
            read_settings(context({**SETTINGS, **settings}, {**SECRETS, **secrets}))
        assert "Hunter2" not in str(caught.value)

    def test_client_credentials_need_no_account(self) -> None:
        settings = read_settings(context({**SETTINGS, "grant": "client_credentials"}, {"client_secret": "s"}))
        assert settings.username is None


PUSHED = (
    '[{"lockId":1000001,"lockMac":"AA:BB:CC:00:00:01","electricQuantity":82,"recordTypeFromLock":4,"recordType":4,'
    '"success":1,"keyboardPwd":"048291","username":"gk-1f3a9c0d2b4e5f60","lockDate":1777644000000,'
    '"serverDate":1777644004000}]'
)
KEY = Token("record key")


def push(**fields: str) -> bytes:
    form = {"lockId": "1000001", "notifyType": "1", "records": PUSHED, "admin": "owner", "lockMac": "AA:BB"}
    return urlencode(form | fields).encode()


class TestPush:
    def read(self, body: bytes) -> list[AccessRecord | None]:
        lock_id, rows = read_push(body)
        return [read_record("vad_1", KEY, lock_id, row) for row in rows]

    def test_a_documented_push_is_an_opening_with_our_mark_and_without_the_digits(self) -> None:
        (record,) = self.read(push())
        assert (record.outcome, record.kind, record.nonce) == ("granted", CredentialKind.PIN_CODE, "gk-1f3a9c0d2b4e5f60")
        assert record.attempted_at == datetime(2026, 5, 1, 14, 0, tzinfo=UTC)
        assert record.device_external_id == "1000001"
        assert "048291" not in repr(record)

    def test_two_wrong_codes_of_one_second_are_two_attempts(self) -> None:
        rows = PUSHED.replace('"success":1', '"success":0').replace('FromLock":4', 'FromLock":7')
        both = f"[{rows[1:-1]},{rows[1:-1].replace('048291', '048292')}]"
        first, second = self.read(push(records=both))
        assert (first.outcome, first.deny_reason) == ("denied", "unknown_credential")
        assert first.external_event_id != second.external_event_id

    def test_the_same_attempt_has_the_same_id_in_numbers_and_in_texts(self) -> None:
        texts = PUSHED.replace("1777644000000", '"1777644000000"').replace('"success":1', '"success":"1"')
        assert self.read(push())[0].external_event_id == self.read(push(records=texts))[0].external_event_id

    def test_another_key_gives_another_id(self) -> None:
        lock_id, rows = read_push(push())
        ids = {read_record("vad_1", Token(k), lock_id, rows[0]).external_event_id for k in ("a", "b")}
        assert len(ids) == 2

    @pytest.mark.parametrize(
        ("raw", "why"),
        [(7, "unknown_credential"), (11, "outside_validity"), (13, "revoked"), (38, "privacy_lock"), (99, "unspecified")],
    )
    def test_a_refusal_says_why(self, raw: int, why: str) -> None:
        rows = PUSHED.replace('"success":1', '"success":0').replace('FromLock":4', f'FromLock":{raw}')
        assert self.read(push(records=rows))[0].deny_reason == why

    @pytest.mark.parametrize("record_type", [11, 30, 32, 44, 45, 64, 9999])
    def test_what_is_no_attempt_to_get_in_is_left_out(self, record_type: int) -> None:
        rows = PUSHED.replace('"recordType":4', f'"recordType":{record_type}')
        assert self.read(push(records=rows)) == [None]

    def test_records_that_lack_parts_are_read_as_far_as_they_go(self) -> None:
        (record,) = self.read(push(records='[{"recordType":"4","success":"0","lockDate":"1777644000000"}]'))
        assert (record.outcome, record.deny_reason, record.nonce) == ("denied", "unspecified", None)
        assert self.read(push(records='[{"recordType":4}, 5, null]')) == [None]

    @pytest.mark.parametrize("kind", ["2", "3", "4", "7", "99"])
    def test_other_notifications_hold_no_openings(self, kind: str) -> None:
        assert self.read(push(notifyType=kind)) == []

    @pytest.mark.parametrize(
        "body", [b"", b"hello", b"\xff\xfe", push(records="[{"), push(records="{}"), b"&".join([b"a=1"] * 99)]
    )
    def test_what_is_no_push_is_refused(self, body: bytes) -> None:
        with pytest.raises(ValueError):
            read_push(body)


def test_no_door_is_ever_wiped_and_no_lock_unbound() -> None:
    """Calls that destroy what is not ours are not even spelled in the adapter."""
    folder = Path(__file__).parents[3] / "vendors" / "ttlock"
    text = "".join(path.read_text() for path in folder.glob("*.py"))
    for call in ("lock/delete", "identityCard/clear", "lockRecord/clear", "lockRecord/delete", "lock/transfer"):
        assert call not in text
