"""What the vendor's cloud remembers: applications, accounts, tokens, gateways, and its own view of each lock.

One rule: the cloud's view of a credential is only a record; whether a door opens is asked of `door.py`. Instants are
milliseconds since the epoch, true UTC; 0 means none.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .door import Door

NORMAL, ADDING, ADD_FAILED = 1, 4, 5
KEY_NORMAL, KEY_AWAITING, KEY_FROZEN, KEY_DELETED, KEY_RESET = 110401, 110402, 110405, 110408, 110410


@dataclass(slots=True)
class Callback:
    """The one URL an application has its pushes sent to, and how they are spoilt on request. Counters count down per push."""

    url: str = ""
    hmac_secret: str = ""
    signature_header: str = "X-Webhook-Signature"
    delay_ms: int = 0
    duplicate: int = 0
    drop: int = 0
    reorder: int = 0
    wrong_token: int = 0
    retries: int = 3


@dataclass(slots=True)
class Habits:
    """Where the vendor's behaviour is unverified or varies: each is a switch (README lists them)."""

    rotate_refresh: bool = False
    single_token: bool = False
    access_token_s: int = 7_776_000
    refresh_token_s: int = 315_360_000
    old_token_fields: bool = False
    numbers_as_strings: bool = False
    omit_optional: bool = False
    unknown_delete: int = -2009
    clamp_page_size: bool = False
    duplicate_cards: bool = True
    unique_names: bool = False
    same_window: str = "same_id"
    delete_by_code: str = "lock"
    absent_delete: int = 0


@dataclass(slots=True)
class Application:
    """A reviewed (or not) application of the developer portal. Limits are None where there is none."""

    client_id: str
    client_secrets: list[str]
    region: str = "eu"
    reviewed: bool = True
    client_credentials: bool = False
    prefix: str = "app"
    owner_uid: int = 0
    forbidden_paths: list[str] = field(default_factory=list)
    minute_limit: int | None = None
    month_limit: int | None = None
    month: str = ""
    month_count: int = 0
    habits: Habits = field(default_factory=Habits)
    callback: Callback = field(default_factory=Callback)


@dataclass(slots=True)
class Account:
    """Somebody who can sign in. `made_by` is the application that registered it, empty for a phone-app account."""

    uid: int
    username: str
    password_md5: str
    developer: bool = False
    made_by: str = ""
    tied: bool = False
    deleted: bool = False
    registered_at: int = 0


@dataclass(slots=True)
class Grant:
    """A token pair. `withdrawn` answers 10004; a grant that is gone answers 10003."""

    access: str
    refresh: str
    uid: int
    client_id: str
    expires_at: int
    refresh_expires_at: int
    withdrawn: bool = False


@dataclass(slots=True)
class Gateway:
    """A box that speaks BLE to the locks around it."""

    gateway_id: int
    owner_uid: int
    name: str
    mac: str
    version: int = 2
    network: str = "hotel"
    online: bool = True


@dataclass(slots=True)
class Wifi:
    """A lock's own network. A power-saving one sleeps and takes asynchronous commands only."""

    configured: bool = True
    online: bool = True
    power_save: bool = False
    fails: bool = False


@dataclass(slots=True)
class Passcode:
    """The cloud's record of a code."""

    passcode_id: int
    code: str
    name: str
    type: int
    start: int
    end: int
    sent_at: int
    custom: bool
    sender: str
    status: int = NORMAL
    nonce: str = ""
    window: str = ""


@dataclass(slots=True)
class Card:
    """The cloud's record of a card; the number is decimal."""

    card_id: int
    number: str
    name: str
    start: int
    end: int
    created_at: int
    sender: str
    type: int = 1
    cyclic: str = ""
    status: int = NORMAL
    nonce: str = ""


@dataclass(slots=True)
class PhoneCopy:
    """What the receiver's phone knew of its eKey when it last synchronised."""

    status: int
    start: int
    end: int


@dataclass(slots=True)
class EKey:
    """A phone key. `end` 1 means one-time; `used` then says that it is spent."""

    key_id: int
    uid: int
    username: str
    name: str
    start: int
    end: int
    sender: str
    sender_uid: int
    sent_at: int
    status: int = KEY_NORMAL
    right: int = 0
    remote: int = 2
    remarks: str = ""
    type: int = 1
    used: bool = False
    is_admin: bool = False
    phone: PhoneCopy | None = None
    nonce: str = ""


@dataclass(slots=True)
class QrCode:
    """The cloud's record of a QR code; `content` is what is rendered."""

    qr_id: int
    name: str
    type: int
    start: int
    end: int
    content: str
    created_at: int
    refresh_minutes: int = 0
    status: int = NORMAL


@dataclass(slots=True)
class Record:
    """An event as the cloud lists it. `lock_date` comes from the lock's clock."""

    record_id: int
    raw: int
    type: int
    success: int
    username: str
    typed: str
    lock_date: int
    server_date: int
    battery: int
    uid: int = 0


@dataclass(slots=True)
class Lock:
    """The cloud's view of a lock, with the lock itself in `door`. `gateway_ids` are in order of signal, best first.
    `withdrawn_windows` are those whose random code was deleted (-1026). `hour_floor` is `local` or `utc`. `admin_code` replaces
    the administrator's code that the lock was paired with.
    """

    lock_id: int
    owner_uid: int
    alias: str
    name: str
    mac: str
    timezone_raw_offset: int
    feature_value: str
    secret: str
    battery: int = 90
    battery_at: int = 0
    gateway_ids: list[int] = field(default_factory=list)
    wifi: Wifi | None = None
    nb_registered: bool = False
    remote_unlock: bool = True
    has_passcode_data: bool = True
    passcode_version: int = 4
    hour_floor: str = "local"
    group_id: int = 0
    auto_lock_s: int = 5
    bound_at: int = 0
    admin_code: str = ""
    passage_auto_unlock: int = 2
    passcodes: dict[int, Passcode] = field(default_factory=dict)
    cards: dict[int, Card] = field(default_factory=dict)
    ekeys: dict[int, EKey] = field(default_factory=dict)
    qr_codes: dict[int, QrCode] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    withdrawn_windows: list[str] = field(default_factory=list)
    door: Door = field(default_factory=Door)

    def has_feature(self, bit: int) -> bool:
        """Reads one bit of the hex feature value."""
        return bool(int(self.feature_value, 16) >> bit & 1)

    def wall_window(self, start: int, end: int) -> tuple[int, int]:
        """Turns a true window into the wall times the cloud sends to the lock; 0 stays 0."""
        offset = self.timezone_raw_offset
        return (start + offset if start else 0, end + offset if end else 0)


@dataclass(slots=True)
class State:
    """Everything that outlives a restart. `clock_ms` is where the moved clock was set at `clock_set_at` (real ms)."""

    next_id: int = 100_000
    clock_ms: int | None = None
    clock_set_at: int = 0
    clock_runs: bool = True
    applications: dict[str, Application] = field(default_factory=dict)
    accounts: dict[int, Account] = field(default_factory=dict)
    grants: dict[str, Grant] = field(default_factory=dict)
    gateways: dict[int, Gateway] = field(default_factory=dict)
    locks: dict[int, Lock] = field(default_factory=dict)
