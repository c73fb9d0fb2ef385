"""The lock itself: its clock, its memory and its judgement of what somebody presents.

One rule: nothing here sees the cloud. What the lock was not told by radio it does not know, with one exception that is the
vendor's own: the random codes, which lock and cloud compute alike (`learn_random`).

All times inside are *wall* milliseconds: what the lock's own clock shows, counted as if it were UTC. A lock has a fixed offset
from UTC and no rule for summer time (README, evidence B). Start is included, end excluded (assumed).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

MINUTE_MS = 60_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
FIRST_USE_MS = DAY_MS
FIRST_USE_ONCE_MS = 6 * HOUR_MS
LOCKOUT_MS = 5 * MINUTE_MS
UNLOCKED_FOR_MS = 5_000
LOG_SIZE = 500

ONCE, PERMANENT, PERIOD, ERASE = 1, 2, 3, 4
WEEKDAYS: dict[int, frozenset[int]] = {
    5: frozenset({5, 6}),
    6: frozenset(range(7)),
    7: frozenset(range(5)),
    **{8 + day: frozenset({day}) for day in range(7)},
}


class Why(StrEnum):
    """The reason word of an attempt; the first three open the door."""

    VALID = "valid"
    PASSAGE_MODE = "passage_mode"
    REMOTE = "remote"
    UNKNOWN_CREDENTIAL = "unknown_credential"
    NOT_YET_VALID = "not_yet_valid"
    EXPIRED = "expired"
    FIRST_USE_MISSED = "first_use_missed"
    ALREADY_USED = "already_used"
    BLACKLISTED = "blacklisted"
    DIGIT_NOT_ON_KEYPAD = "digit_not_on_keypad"
    ERASED_CODES = "erased_codes"
    FROZEN = "frozen"
    PRIVACY_LOCK = "privacy_lock"
    LOCKED_OUT = "locked_out"
    KEY_FROZEN = "key_frozen"
    KEY_DELETED = "key_deleted"
    PHONE_NEVER_SYNCED = "phone_never_synced"
    WRONG_HOURS = "wrong_hours"


OPENING = frozenset({Why.VALID, Why.PASSAGE_MODE, Why.REMOTE})


@dataclass(slots=True)
class StoredKey:
    """A custom code, card or QR in the lock's memory. 0 and 0 is permanent."""

    value: str
    start: int
    end: int

    def judge(self, wall: int) -> Why:
        """Says whether the window holds at this wall time."""
        if self.start and wall < self.start:
            return Why.NOT_YET_VALID
        if self.end and wall >= self.end:
            return Why.EXPIRED
        return Why.VALID


@dataclass(slots=True)
class RandomCode:
    """A code that lock and cloud compute alike. `used_at` is the wall time of its first use, 0 before."""

    value: str
    type: int
    start: int
    end: int
    used_at: int = 0
    blacklisted: bool = False

    def judge(self, wall: int) -> Why:
        """Applies window, first-use rule (24 h; one-time 6 h) and blacklist."""
        if self.blacklisted:
            return Why.BLACKLISTED
        if self.type in WEEKDAYS:
            return _judge_weekly(self, wall)
        if wall < self.start:
            return Why.NOT_YET_VALID
        if self.type == PERIOD and wall >= self.end:
            return Why.EXPIRED
        return self._judge_first_use(wall)

    def _judge_first_use(self, wall: int) -> Why:
        if self.used_at:
            return Why.ALREADY_USED if self.type == ONCE else Why.VALID
        grace = FIRST_USE_ONCE_MS if self.type == ONCE else FIRST_USE_MS
        return Why.VALID if wall < self.start + grace else Why.FIRST_USE_MISSED


def _judge_weekly(code: RandomCode, wall: int) -> Why:
    if weekday(wall) not in WEEKDAYS[code.type]:
        return Why.WRONG_HOURS
    return Why.VALID if code.start % DAY_MS <= wall % DAY_MS < code.end % DAY_MS else Why.WRONG_HOURS


def weekday(wall: int) -> int:
    """Return the day of a wall time, Monday being 0. Day 0 of the epoch was a Thursday."""
    return (wall // DAY_MS + 3) % 7


@dataclass(slots=True)
class PassageHours:
    """When passage mode holds the door open: minutes after midnight on some days (Monday is 1), or all day long."""

    start: int = 0
    end: int = 0
    days: list[int] = field(default_factory=lambda: [1, 2, 3, 4, 5, 6, 7])
    all_day: bool = True

    def holds(self, wall: int) -> bool:
        """Say whether the hours hold at this wall time."""
        if weekday(wall) + 1 not in self.days:
            return False
        return self.all_day or self.start * MINUTE_MS <= wall % DAY_MS < self.end * MINUTE_MS


@dataclass(slots=True)
class LogLine:
    """One line of the lock's own log. `raw` is the vendor's recordTypeFromLock; `cloud` its recordType."""

    raw: int
    cloud: int
    success: int
    wall: int
    typed: str = ""
    username: str = ""
    uid: int = 0


@dataclass(slots=True)
class Door:
    """The lock's own state. `drift_ppm` moves its clock from `drift_since` (true ms) on. `grain_ms` is how finely it stores
    windows: a minute, or an hour on some models. `lockout_after` wrong codes in a row it refuses for five minutes; 0 never.
    """

    wall_offset_ms: int = 0
    clock_offset_ms: int = 0
    drift_ppm: int = 0
    drift_since: int = 0
    digits: str = "0123456789"
    code_capacity: int = 250
    card_capacity: int = 1000
    grain_ms: int = MINUTE_MS
    lockout_after: int = 0
    codes: dict[str, StoredKey] = field(default_factory=dict)
    random_codes: dict[str, RandomCode] = field(default_factory=dict)
    cards: dict[str, StoredKey] = field(default_factory=dict)
    qr_codes: dict[str, StoredKey] = field(default_factory=dict)
    frozen: bool = False
    passage_mode: bool = False
    passage_hours: list[PassageHours] = field(default_factory=list)
    double_locked: bool = False
    wrong_count: int = 0
    locked_out_until: int = 0
    unlocked_until: int = 0
    log: list[LogLine] = field(default_factory=list)

    # -- clock

    def skew_ms(self, now: int) -> int:
        """Returns lock clock minus true time, in ms, without the zone offset."""
        drift = self.drift_ppm * (now - self.drift_since) // 1_000_000 if self.drift_ppm else 0
        return self.clock_offset_ms + drift

    def wall(self, now: int) -> int:
        """Returns what the lock's clock shows at a true instant."""
        return now + self.skew_ms(now) + self.wall_offset_ms

    def true_instant(self, wall: int, now: int) -> int:
        """Returns the true instant at which the clock shows this, with today's skew; 0 stays 0 (no limit)."""
        return wall - self.wall_offset_ms - self.skew_ms(now) if wall else 0

    def set_clock(self, now: int, wall_offset_ms: int) -> None:
        """Sets the clock right, and the offset with it."""
        self.wall_offset_ms = wall_offset_ms
        self.clock_offset_ms = 0
        self.drift_since = now

    # -- memory

    def floor(self, wall: int) -> int:
        """Cuts a wall time to what the lock can store."""
        return wall - wall % self.grain_ms

    def stored(self, value: str, start: int, end: int) -> StoredKey:
        """Makes a memory entry of a wall window, cut to the lock's grain."""
        return StoredKey(value, self.floor(start), self.floor(end))

    def holds_code(self, code: str) -> bool:
        """Says whether these digits mean anything here, in whatever window."""
        return code in self.codes or code in self.random_codes

    def learn_random(self, code: RandomCode) -> None:
        """Stands for the algorithm shared with the cloud: needs no radio."""
        self.random_codes[code.value] = code

    def erase_codes(self) -> None:
        """Forgets every code, as the erase code and the phone app's reset do."""
        self.codes.clear()
        self.random_codes.clear()

    # -- judgement

    def holds_open(self, wall: int) -> bool:
        """Say whether passage mode holds the door open for everybody at this wall time. Without hours it always does."""
        return self.passage_mode and (not self.passage_hours or any(hours.holds(wall) for hours in self.passage_hours))

    def judge_code(self, digits: str, now: int) -> Why:
        """Says what the keypad would do, without doing it."""
        wall = self.wall(now)
        if self.holds_open(wall):
            return Why.PASSAGE_MODE
        if any(digit not in self.digits for digit in digits):
            return Why.DIGIT_NOT_ON_KEYPAD
        if self.frozen:
            return Why.FROZEN
        if wall < self.locked_out_until:
            return Why.LOCKED_OUT
        custom = self.codes.get(digits)
        known = custom or self.random_codes.get(digits)
        return self._guest(known.judge(wall) if known else Why.UNKNOWN_CREDENTIAL)

    def judge_stored(self, memory: dict[str, StoredKey], value: str, now: int) -> Why:
        """Says what the card or QR reader would do, without doing it."""
        wall = self.wall(now)
        if self.holds_open(wall):
            return Why.PASSAGE_MODE
        if self.frozen:
            return Why.FROZEN
        known = memory.get(value)
        return self._guest(known.judge(wall) if known else Why.UNKNOWN_CREDENTIAL)

    def judge_phone(self, is_admin: bool, now: int) -> Why:
        """Says whether a phone with a valid eKey is let in."""
        if self.holds_open(self.wall(now)):
            return Why.PASSAGE_MODE
        if self.frozen:
            return Why.FROZEN
        return Why.VALID if is_admin else self._guest(Why.VALID)

    def _guest(self, why: Why) -> Why:
        return Why.PRIVACY_LOCK if self.double_locked and why is Why.VALID else why

    # -- acts

    def enter_code(self, digits: str, now: int) -> Why:
        """Somebody types digits: judges, remembers the first use, writes the lock's log."""
        why = self.judge_code(digits, now)
        wall = self.wall(now)
        random_code = self.random_codes.get(digits)
        if why is Why.VALID:
            self.wrong_count = 0
            if random_code and digits not in self.codes:
                random_code.used_at = random_code.used_at or wall
                if random_code.type == ERASE:
                    self.erase_codes()
                    self._write(LogLine(10, 4, 1, wall, digits))
                    return Why.ERASED_CODES
        elif why is Why.UNKNOWN_CREDENTIAL:
            self._count_wrong(wall)
        raw = _CODE_RAW.get(why)
        if raw:
            self._write(LogLine(raw, 4, int(why is Why.VALID), wall, digits))
        self._unlock_if(why, wall)
        return why

    def show_card(self, number: str, now: int) -> Why:
        """Somebody holds a card to the reader."""
        why = self.judge_stored(self.cards, number, now)
        return self._shown(why, _CARD_RAW, 7, number, now)

    def show_qr(self, content: str, now: int) -> Why:
        """Somebody shows a QR code."""
        why = self.judge_stored(self.qr_codes, content, now)
        raw = _QR_RAW.get(why)
        if raw:
            self._write(LogLine(raw, raw, int(why is Why.VALID), self.wall(now), content))
        self._unlock_if(why, self.wall(now))
        return why

    def open_by_phone(self, is_admin: bool, username: str, uid: int, now: int) -> Why:
        """A phone whose eKey is valid asks over BLE."""
        why = self.judge_phone(is_admin, now)
        if why in (Why.VALID, Why.PRIVACY_LOCK):
            raw = 1 if why is Why.VALID else 41
            self._write(LogLine(raw, 1, int(why is Why.VALID), self.wall(now), username=username, uid=uid))
        self._unlock_if(why, self.wall(now))
        return why

    def open_remotely(self, username: str, uid: int, now: int) -> None:
        """The gateway unlocks."""
        self._write(LogLine(28, 12, 1, self.wall(now), username=username, uid=uid))
        self._unlock_if(Why.REMOTE, self.wall(now))

    def is_unlocked(self, now: int) -> bool:
        """Says whether the bolt is drawn at this instant."""
        wall = self.wall(now)
        return self.holds_open(wall) or wall < self.unlocked_until

    def _shown(self, why: Why, raws: dict[Why, int], cloud: int, value: str, now: int) -> Why:
        raw = raws.get(why)
        if raw:
            self._write(LogLine(raw, 51 if raw == 51 else cloud, int(why is Why.VALID), self.wall(now), value))
        self._unlock_if(why, self.wall(now))
        return why

    def _count_wrong(self, wall: int) -> None:
        self.wrong_count += 1
        if self.lockout_after and self.wrong_count >= self.lockout_after:
            self.wrong_count = 0
            self.locked_out_until = wall + LOCKOUT_MS
            self._write(LogLine(48, 48, 0, wall))

    def _unlock_if(self, why: Why, wall: int) -> None:
        if why in OPENING:
            self.unlocked_until = wall + UNLOCKED_FOR_MS

    def _write(self, line: LogLine) -> None:
        self.log.append(line)
        del self.log[:-LOG_SIZE]


_CODE_RAW = {
    Why.VALID: 4,
    Why.UNKNOWN_CREDENTIAL: 7,
    Why.NOT_YET_VALID: 11,
    Why.EXPIRED: 11,
    Why.FIRST_USE_MISSED: 11,
    Why.ALREADY_USED: 11,
    Why.WRONG_HOURS: 11,
    Why.BLACKLISTED: 13,
    Why.PRIVACY_LOCK: 38,
}
_CARD_RAW = {
    Why.VALID: 17,
    Why.UNKNOWN_CREDENTIAL: 91,
    Why.NOT_YET_VALID: 25,
    Why.EXPIRED: 25,
    Why.BLACKLISTED: 51,
    Why.PRIVACY_LOCK: 39,
}
_QR_RAW = {
    Why.VALID: 57,
    Why.UNKNOWN_CREDENTIAL: 58,
    Why.NOT_YET_VALID: 58,
    Why.EXPIRED: 58,
    Why.PRIVACY_LOCK: 62,
}
