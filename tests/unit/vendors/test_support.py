"""Limits, tokens, marks, scrubbing, signatures and the order of doors, without sockets."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from vendors.port.clock import FixedClock
from vendors.port.errors import KeyIssueFailed, LockError, Reason, VendorUnreachable
from vendors.port.secrets import MASK, Token
from vendors.port.types import Door, DoorResult, Outcome
from vendors.support.effects import Effects
from vendors.support.limits import Bucket, Rate, full, seconds_to_next_month, take
from vendors.support.marks import key_name, mark_in, mark_of, tag_in, tag_of
from vendors.support.per_door import Deadline, each_door, settle
from vendors.support.scrub import scrub
from vendors.support.signatures import is_signed, sign
from vendors.support.tokens import Grant, RefreshRefused, TokenKeeper

NOON = datetime(2026, 4, 30, 12, tzinfo=UTC)


class TestBucket:
    rate = Rate(per_minute=100)

    def test_a_full_bucket_gives_eighty_of_a_hundred_to_ordinary_calls(self) -> None:
        bucket, granted = full(self.rate, 0), 0
        while (taken := take(bucket, self.rate, 1, 2, 0)).granted:
            bucket, granted = taken.bucket, granted + 1
        assert granted == 80

    def test_the_last_fifth_is_for_security(self) -> None:
        bucket, granted = Bucket(20, 0), 0
        assert not take(bucket, self.rate, 1, 1, 0).granted
        while (taken := take(bucket, self.rate, 1, 0, 0)).granted:
            bucket, granted = taken.bucket, granted + 1
        assert granted == 20

    def test_waiting_as_long_as_told_is_enough_and_less_is_not(self) -> None:
        bucket = Bucket(20.0, 0)
        wait = take(bucket, self.rate, 1, 2, 0).wait_s
        assert wait == pytest.approx(0.6)
        assert not take(bucket, self.rate, 1, 2, wait - 0.01).granted
        assert take(bucket, self.rate, 1, 2, wait).granted

    def test_a_minute_never_gives_more_than_the_minutes_calls(self) -> None:
        bucket, granted = Bucket(0, 0), 0
        for tick in range(60_000):
            taken = take(bucket, self.rate, 1, 0, tick / 1000)
            bucket, granted = taken.bucket, granted + taken.granted
        assert granted == 99

    def test_a_clock_that_runs_backwards_refills_nothing(self) -> None:
        taken = take(Bucket(50, 1000), self.rate, 1, 0, 10)
        assert taken.bucket == Bucket(49, 1000)

    def test_more_than_the_bucket_can_hold_is_refused_at_once(self) -> None:
        with pytest.raises(ValueError, match="never fit"):
            take(full(self.rate, 0), self.rate, 81, 2, 0)

    def test_the_month_ends_in_beijing(self) -> None:
        assert seconds_to_next_month(NOON, 8) == 4 * 3600
        assert seconds_to_next_month(datetime(2026, 12, 31, 23, 59, tzinfo=UTC)) == 60


class Account:
    """A token source that counts."""

    def __init__(self) -> None:
        self.logins = self.refreshes = 0
        self.error: LockError | None = None
        self.refresh_token: Token | None = Token("refresh")
        self.refresh_works = True

    def login(self, timeout_s: float) -> Grant:
        self.logins += 1
        if self.error:
            raise self.error
        return Grant(Token(f"login-{self.logins}"), 100, self.refresh_token)

    def refresh(self, refresh_token: Token, timeout_s: float) -> Grant:
        self.refreshes += 1
        if not self.refresh_works:
            raise RefreshRefused
        return Grant(Token(f"refreshed-{self.refreshes}"), 100)


class TestTokenKeeper:
    def setup_method(self) -> None:
        self.clock, self.account = FixedClock(NOON), Account()
        self.keeper = TokenKeeper(self.account, self.clock)

    def current(self) -> str:
        return self.keeper.current(5).reveal()

    def test_a_token_serves_until_four_fifths_of_its_life(self) -> None:
        assert self.current() == "login-1"
        self.clock.set(NOON + timedelta(seconds=79))
        assert self.current() == "login-1"
        self.clock.set(NOON + timedelta(seconds=80))
        assert self.current() == "refreshed-1"
        assert (self.account.logins, self.account.refreshes) == (1, 1)

    def test_a_refresh_token_goes_on_when_no_new_one_comes(self) -> None:
        self.current()
        for n in (1, 2, 3):
            self.clock.set(NOON + timedelta(seconds=200 * n))
            assert self.current() == f"refreshed-{n}"
        assert self.account.logins == 1

    def test_a_dead_refresh_token_leads_to_one_login(self) -> None:
        self.current()
        self.account.refresh_works = False
        self.clock.set(NOON + timedelta(seconds=90))
        assert self.current() == "login-2"

    def test_many_threads_make_one_login(self) -> None:
        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(lambda _: self.current(), range(50))) == {"login-1"}
        assert self.account.logins == 1

    def test_many_threads_with_one_rejected_token_make_one_refresh(self) -> None:
        rejected = self.keeper.current(5)
        with ThreadPoolExecutor(8) as pool:
            got = set(pool.map(lambda _: self.keeper.replace(rejected, 5).reveal(), range(50)))
        assert got == {"refreshed-1"}
        assert self.account.refreshes == 1

    def test_after_a_refusal_nobody_asks_for_a_minute(self) -> None:
        self.account.error = VendorUnreachable("v", reason=Reason.SETTINGS, retriable=False)
        for _ in range(3):
            with pytest.raises(VendorUnreachable) as caught:
                self.current()
        assert caught.value.throttled
        assert self.account.logins == 1
        self.account.error = None
        self.clock.set(NOON + timedelta(seconds=60))
        assert self.current() == "login-2"

    def test_a_vendor_that_is_down_is_asked_again_at_once(self) -> None:
        self.account.error = VendorUnreachable("v")
        for _ in range(2):
            with pytest.raises(VendorUnreachable):
                self.current()
        assert self.account.logins == 2


class TestMarks:
    def test_a_sha256_key_gives_its_head(self) -> None:
        assert mark_of("1f3a9c0d2b4e5f60" + "0" * 48) == "gk-1f3a9c0d2b4e5f60"

    def test_any_other_key_is_hashed_first(self) -> None:
        assert mark_of("retry please") == mark_of("retry please") != mark_of("retry pleasE")
        assert len(mark_of("")) == 19

    def test_mark_and_tag_are_found_in_a_name_among_other_words(self) -> None:
        name = key_name("k", "key_1")
        assert (mark_in(f"Room 204 {name}!"), tag_in(name)) == (mark_of("k"), tag_of("key_1"))
        assert len(name) == 38
        assert name.isascii()

    @pytest.mark.parametrize("name", [None, "", "gk-", "gk-123", "Ahmad", "GK-1F3A9C0D2B4E5F60"])
    def test_a_strangers_name_has_none(self, name: str | None) -> None:
        assert mark_in(name) is None
        assert tag_in(name) is None


@pytest.mark.parametrize(
    ("message", "left"),
    [
        ("pin 048291 exists", f"pin {MASK} exists"),
        ("رمز ۰۴۸۲۹۱ تکراری", f"رمز {MASK} تکراری"),
        ("call guest@example.org", f"call {MASK}"),
        ("call +93 700 123 456 now", f"call {MASK} now"),
        ("accessToken=abc123 refused", f"{MASK} refused"),
        ('{"password": "hunter2"}', f'{{"{MASK}"}}'),
        ("Bearer abc.def refused", f"{MASK} refused"),
        ("key 5f4dcc3b5aa765d61d8327deb882cf99 bad", f"key {MASK} bad"),
        ("line\nfeed\x00", "line feed "),
        ("gateway busy", "gateway busy"),
        ("room 204", "room 204"),
    ],
)
def test_what_looks_like_a_secret_is_masked(message: str, left: str) -> None:
    assert scrub(message) == left


def test_known_secrets_are_masked_wherever_they_stand() -> None:
    assert scrub("the word is swordfish.", [Token("swordfish"), None, ""]) == f"the word is {MASK}."
    assert len(scrub("word " * 500)) == 300


class TestSignature:
    secret = Token("whsec_test_melmastoon")
    body = b'{"eventId":"ve_1","type":"access.granted"}'
    at = datetime.fromtimestamp(1777543342, UTC)

    def test_the_published_vector_holds(self) -> None:
        mac = "32d18b802fb4e8c4dd10598e9c570f7c3ad174249a15a843eab5836501ef4bc5"
        assert sign(self.secret, self.body, self.at) == f"t=1777543342,v1={mac}"

    def test_either_secret_of_a_rotation_is_taken(self) -> None:
        old = sign(Token("old"), self.body, self.at)
        assert is_signed(old, self.body, [Token("new"), Token("old")], self.at)

    @pytest.mark.parametrize("seconds", [-301, 301, 10**6])
    def test_another_time_is_refused(self, seconds: int) -> None:
        header = sign(self.secret, self.body, self.at)
        assert not is_signed(header, self.body, [self.secret], self.at + timedelta(seconds=seconds))

    @pytest.mark.parametrize("seconds", [-300, 0, 300])
    def test_five_minutes_are_forgiven(self, seconds: int) -> None:
        header = sign(self.secret, self.body, self.at)
        assert is_signed(header, self.body, [self.secret], self.at + timedelta(seconds=seconds))

    def test_malformed_headers_are_refused(self) -> None:
        good = sign(self.secret, self.body, self.at)
        mac = good.partition(",")[2]
        bad = [None, "", "t=1777543342", mac, f"t=1777543342,{good}", f"t=x,{mac}", f"t=-1,{mac}", f"t=١٢,{mac}"]
        bad += [good.replace("v1", "v0"), f"t={'9' * 400},{mac}", "v1=" + "a" * 5000, "t=1777543342,v1=ü"]
        assert [h for h in bad if is_signed(h, self.body, [self.secret], self.at)] == []

    def test_a_changed_byte_and_a_missing_secret_are_refused(self) -> None:
        header = sign(self.secret, self.body, self.at)
        assert not is_signed(header, self.body + b" ", [self.secret], self.at)
        assert not is_signed(header, self.body, [], self.at)


class TestDoors:
    doors = tuple(Door(f"lck_{n}", str(n)) for n in range(3))

    def setup_method(self) -> None:
        self.effects = Effects()

    def run(self, act: Callable[[Door], DoorResult], attempt: int = 1, seconds: float = 60) -> tuple[DoorResult, ...]:
        return each_door(self.doors, act, vendor="v", attempt=attempt, deadline=Deadline(seconds), effects=self.effects)

    def test_later_attempts_start_at_another_door(self) -> None:
        seen: list[str] = []

        def act(door: Door) -> DoorResult:
            seen.append(door.device_id)
            return DoorResult(door.device_id, Outcome.DONE)

        for attempt in (1, 2, 4):
            self.run(act, attempt)
        assert seen == ["lck_0", "lck_1", "lck_2", "lck_1", "lck_2", "lck_0", "lck_0", "lck_1", "lck_2"]

    def test_a_limit_at_a_door_where_something_was_changed_leaves_its_outcome_open_and_the_others_unasked(self) -> None:
        seen: list[str] = []

        def act(door: Door) -> DoorResult:
            seen.append(door.device_id)
            if door.device_id == "lck_1":
                with self.effects.noted(LookupError):
                    pass
                raise VendorUnreachable("v", "too fast", reason=Reason.RATE, retry_after_s=7.0, throttled=True)
            return DoorResult(door.device_id, Outcome.DONE)

        results = self.run(act)
        assert seen == ["lck_0", "lck_1"]
        assert [r.outcome for r in results] == [Outcome.DONE, Outcome.UNKNOWN, Outcome.FAILED]
        told = [(r.error.throttled, r.error.reason, r.error.retry_after_s, r.error.device_id) for r in results[1:]]
        assert told == [(False, Reason.RATE, 7.0, "lck_1"), (True, Reason.RATE, 7.0, "lck_1")]

    def test_a_request_that_was_refused_or_only_read_changes_nothing_and_one_whose_answer_was_lost_may_have(self) -> None:
        with self.effects.noted(LookupError, changes=False):
            pass
        with pytest.raises(ValueError, match="refused"), self.effects.noted(LookupError):
            raise ValueError("refused")
        assert self.effects.count == 0
        with pytest.raises(LookupError), self.effects.noted(LookupError):
            raise LookupError("lost")
        assert self.effects.count == 1
        limit = VendorUnreachable("v", "too fast", reason=Reason.RATE, throttled=True)
        assert self.effects.weighed(limit, since=1) is limit
        assert not self.effects.weighed(limit).throttled
        assert limit.throttled

    def test_no_door_is_asked_when_no_time_is_left(self) -> None:
        times = iter([0.0, 0.5, 70.0, 70.0, 70.0])
        deadline = Deadline(60, lambda: next(times))

        def act(door: Door) -> DoorResult:
            deadline.left_s  # noqa: B018 - the door takes its time
            return DoorResult(door.device_id, Outcome.DONE)

        results = each_door(self.doors, act, vendor="v", attempt=1, deadline=deadline, effects=Effects())
        assert [r.outcome for r in results] == [Outcome.DONE, Outcome.FAILED, Outcome.FAILED]
        assert all(r.error.throttled and r.error.retriable for r in results[1:])

    def test_of_all_failures_the_one_that_asks_most_is_raised(self) -> None:
        errors = [
            KeyIssueFailed("v", retriable=False),
            VendorUnreachable("v"),
            KeyIssueFailed("v", retriable=False, reason=Reason.PIN_REFUSED),
        ]
        failures = tuple(DoorResult(f"lck_{n}", Outcome.FAILED, error=e) for n, e in enumerate(errors))
        with pytest.raises(KeyIssueFailed) as caught:
            settle(failures)
        assert caught.value is errors[2]
        with pytest.raises(VendorUnreachable):
            settle(failures[:2])
        mixed = (*failures[:2], replace(failures[2], outcome=Outcome.UNKNOWN))
        assert settle(mixed) == mixed
