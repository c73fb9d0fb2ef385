"""The frozen values that cross the port.

One rule: nothing here is a vendor's type, and no instant is without a zone. A credential spans doors: a verb is called with
the doors of one lane (one gateway, one encoder, or the installation's one connection) and answers per door.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from .errors import CardKey, LockError
from .secrets import CardNumber, Pin, Token, VendorRef


class CredentialKind(StrEnum):
    """What the holder carries."""

    MOBILE_APP = "mobile_app"
    PIN_CODE = "pin_code"
    RFID_CARD = "rfid_card"
    QR_CODE = "qr_code"
    NFC_TAG = "nfc_tag"


class SuspendReason(StrEnum):
    """Why a key rests."""

    NO_SHOW = "no_show"
    FRAUD_REVIEW = "fraud_review"
    OVERDUE_PAYMENT = "overdue_payment"
    MANUAL = "manual"


class RevokeReason(StrEnum):
    """Why a key ended."""

    CHECKOUT = "checkout"
    CANCELLATION = "cancellation"
    SECURITY = "security"
    LOST = "lost"
    REPLACED = "replaced"


class Intent(StrEnum):
    """What an issue does to earlier keys at the door. On card systems `new` kills them; a wrong `new` locks a companion out."""

    NEW = "new"
    ADDITIONAL = "additional"
    REPLACEMENT = "replacement"


class Propagation(StrEnum):
    """How far the door itself is known to have followed."""

    CONFIRMED = "confirmed"
    PROPAGATING = "propagating"
    UNKNOWN = "unknown"


class Outcome(StrEnum):
    """What is known about one door after a call.

    DONE: the vendor confirmed. DEFERRED: accepted, the answer comes later (resume token). UNKNOWN: the answer was lost and
    could not be looked up; neither success nor failure. FAILED: refused, with the error.
    """

    DONE = "done"
    DEFERRED = "deferred"
    UNKNOWN = "unknown"
    FAILED = "failed"


class Area(StrEnum):
    """Shared areas a guest key may open."""

    LOBBY = "lobby"
    GYM = "gym"
    POOL = "pool"
    SPA = "spa"
    PARKING = "parking"


@dataclass(frozen=True, slots=True)
class LockCapabilities:
    """What a lock, or a vendor at best, can do, as last read."""

    mobile_key: bool = False
    card_encoding: bool = False
    pin: bool = False
    qr: bool = False
    nfc: bool = False
    remote_revoke: bool = False
    remote_issue: bool = False
    offline_issuance: bool = False
    scope_floors: bool = False
    scope_areas: bool = False

    def supports(self, kind: CredentialKind) -> bool:
        """Says whether this lock can carry the kind."""
        return {
            CredentialKind.MOBILE_APP: self.mobile_key,
            CredentialKind.PIN_CODE: self.pin,
            CredentialKind.RFID_CARD: self.card_encoding,
            CredentialKind.QR_CODE: self.qr,
            CredentialKind.NFC_TAG: self.nfc,
        }[kind]


@dataclass(frozen=True, slots=True)
class Window:
    """When a key opens: start included, end excluded, both aware UTC. Raises ValueError when inverted or without zone."""

    valid_from: datetime
    valid_until: datetime

    def __post_init__(self) -> None:
        if self.valid_from.tzinfo is None or self.valid_until.tzinfo is None:
            raise ValueError("a window needs instants with a time zone")
        if self.valid_until <= self.valid_from:
            raise ValueError("a window must end after it starts")

    def contains(self, instant: datetime) -> bool:
        """Says whether the instant lies inside."""
        return self.valid_from <= instant < self.valid_until


@dataclass(frozen=True, slots=True)
class Door:
    """One lock as a verb needs it. `external_id` is the vendor's id of the lock; `ref` what the vendor calls the credential
    there, None where nothing is known to be there. `gateway` names the serial lane, empty where the vendor has none.
    `digits` are the digits its keypad has. `has_remote` says whether a gateway or network reaches it. `has_other_stay` says
    that a guest of another stay has a key there, or may have one that still opens: what is asked of the room as a whole would
    change or end it. Told of the doors of a change, and of those that a key is taken from."""

    device_id: str
    external_id: str
    label: str = ""
    gateway: str = ""
    has_remote: bool = True
    digits: str = "0123456789"
    ref: VendorRef | None = None
    has_other_stay: bool = False


@dataclass(frozen=True, slots=True)
class Holder:
    """Who carries the key. Reaches a vendor only where it cannot do without (a mobile key's receiver). `phone_e164` is a number
    that was found to be one, as ITU-T E.164 writes it."""

    id: str
    display_name: str = field(default="", repr=False)
    email: str | None = field(default=None, repr=False)
    phone_e164: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Scope:
    """Beyond the rooms: floors and shared areas."""

    floors: tuple[str, ...] = ()
    areas: tuple[Area, ...] = ()


@dataclass(frozen=True, slots=True)
class CredentialHandle:
    """A credential as a verb needs it, the doors being those of one lane. Takes the place of the bare id of document 09 §4,
    since adapters keep no tables: the vendor's references travel in `doors`. `pin` and `card_number` are there where the
    vendor needs them to make the key anew (resume of a suspended PIN). `issue_key` is the idempotency key under which the key
    was issued: by it (its nonce) an adapter finds a key whose reference was lost with the answer."""

    credential_id: str
    kind: CredentialKind
    window: Window
    doors: tuple[Door, ...]
    pin: Pin | None = None
    card_number: CardNumber | None = None
    issue_key: str = ""


@dataclass(frozen=True, slots=True)
class CallMeta:
    """What every verb carries. `idempotency_key` is opaque and stays the same over retries of one intended effect.
    `attempt` counts from 1; above 1 an earlier call may have had its effect, so the adapter looks before it repeats.
    `priority` 0 (security) … 3 (bulk) decides who may use the reserved share of a rate limit. `deadline_s` bounds the call."""

    idempotency_key: str
    attempt: int = 1
    priority: int = 2
    deadline_s: float = 75.0


@dataclass(frozen=True, slots=True)
class IssueInput:
    """Give a key at these doors. The adapter takes the first of `preferred_kinds` that it and the doors support.
    `pin` is drawn by the service for PIN keys (the vendor may hand out its own where it must: see IssueResult.artifact).

    `overwrites` names the keys (CardKey.name) that may be lost from the card on the encoder: a person has confirmed it, or they
    are over. What a card carries is read before it is written, by `vendors.support.card_check`; any other live key on it is
    refused with Reason.CARD_IN_USE."""

    tenant_id: str
    property_id: str
    credential_id: str
    rooms: tuple[str, ...]
    window: Window
    holder: Holder
    preferred_kinds: tuple[CredentialKind, ...]
    doors: tuple[Door, ...]
    meta: CallMeta
    reservation_id: str | None = None
    intent: Intent = Intent.NEW
    replaces: CredentialHandle | None = None
    scope: Scope = Scope()
    pin: Pin | None = None
    card_number: CardNumber | None = None
    requested_by: str | None = None
    channel_hint: str | None = None
    time_zone: str = "UTC"
    overwrites: frozenset[str] = frozenset()


CARD_STALE = "CARD_MUST_BE_UPDATED"
"""Warning of an adapter: the change stands in the vendor's records; the card in the guest's pocket still says what it said."""
COMPANIONS_DIE = "COMPANIONS_NEED_NEW_CARDS"
"""Warning of an adapter that cannot name them: every other key of the stay at these rooms dies when this one is used."""


@dataclass(frozen=True, slots=True)
class UpdateInput:
    """Change a live key: the handle's doors get the handle's window, `added` doors are given the key first, and only then
    `removed` doors lose it. Start and end travel together in `handle.window`, since arrival can move too.

    `intent` is what the key does to earlier ones at `added` doors: a companion's (`additional`) joins there and kills nobody.
    `at_encoder` says that a person lays the card on the desk's encoder now, so that the card itself is written again. Only the
    card that carries this key may be written then; any other is refused."""

    handle: CredentialHandle
    meta: CallMeta
    added: tuple[Door, ...] = ()
    removed: tuple[Door, ...] = ()
    holder: Holder | None = None
    time_zone: str = "UTC"
    intent: Intent = Intent.NEW
    at_encoder: bool = False


@dataclass(frozen=True, slots=True)
class Warning:  # noqa: A001 - the contract calls it so
    """Something the holder or the desk should know; the code is stable, the detail is prose without secrets."""

    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class PinArtifact:
    """The digits to tell the guest."""

    value: Pin


@dataclass(frozen=True, slots=True)
class TokenArtifact:
    """What a phone exchanges or shows; `type` is `mobile_token`, `qr` or `nfc`."""

    type: str
    value: Token


@dataclass(frozen=True, slots=True)
class CardArtifact:
    """A card waits at this encoder or desk reader."""

    device_id: str


Artifact = PinArtifact | TokenArtifact | CardArtifact


@dataclass(frozen=True, slots=True)
class DoorResult:
    """What is known about one door after a call. `ref` is set when something is there now. `effective_not_after` bounds
    PROPAGATING. `error` is set when FAILED, and may explain UNKNOWN."""

    device_id: str
    outcome: Outcome
    ref: VendorRef | None = None
    propagation: Propagation = Propagation.CONFIRMED
    effective_not_after: datetime | None = None
    error: LockError | None = None


@dataclass(frozen=True, slots=True)
class CallResult:
    """The answer of a changing verb: one DoorResult per door asked about, in any order. `calls` counts the requests that left
    for the vendor. `resume_token` is there when any door is DEFERRED. `also_killed` names credentials the lock could not tell
    apart from the replaced one. `overwritten` are the keys that the card carried until this call wrote it."""

    doors: tuple[DoorResult, ...]
    warnings: tuple[Warning, ...] = ()
    calls: int = 0
    resume_token: str | None = None
    also_killed: tuple[str, ...] = ()
    overwritten: tuple[CardKey, ...] = ()


@dataclass(frozen=True, slots=True)
class IssueResult(CallResult):
    """The answer of an issue: also the kind taken and what the holder receives."""

    kind: CredentialKind = CredentialKind.PIN_CODE
    artifact: Artifact | None = None


@dataclass(frozen=True, slots=True)
class LockDevice:
    """A lock as the vendor lists it. `external_id` is the vendor's id; `battery_percent` 0 to 100. `utc_offset_s` is how far
    from UTC (east is positive) the vendor takes the lock's own clock to be; None where windows travel as instants. `refused`
    says why the vendor's door can be no lock of ours, such as a type nobody knows; it is not imported then. `deny_list_percent`
    is how full the list of cancelled cards is at the lock, 0 to 100; None where the vendor has none or does not tell."""

    external_id: str
    label: str
    online: bool
    capabilities: LockCapabilities
    gateway: str = ""
    has_remote: bool = False
    battery_percent: int | None = None
    firmware: str | None = None
    last_seen_at: datetime | None = None
    utc_offset_s: int | None = None
    refused: str = ""
    deny_list_percent: int | None = None


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """A lock's condition now. `clock_skew_ms` is lock minus true time; `utc_offset_s` as in LockDevice."""

    device_id: str
    online: bool
    battery_percent: int | None = None
    clock_skew_ms: int | None = None
    firmware: str | None = None
    checked_at: datetime | None = None
    utc_offset_s: int | None = None


@dataclass(frozen=True, slots=True)
class AdapterDescription:
    """What describeAdapter answers: the vendor's code and the best its locks can do."""

    vendor: str
    capabilities: LockCapabilities


@dataclass(frozen=True, slots=True)
class FoundKey:
    """A key found at the vendor: by look-up of ours or by inventory. `nonce` is our mark of the intended effect and `tag` that
    of the credential, both None on a stranger's. `window` is None where the key has no end. `label` is what the vendor calls
    it, and `pin` its digits where the vendor shows them. `is_resting`: it is there and told not to open. `is_stale`: the card
    carries less than the vendor's books say; None where the vendor cannot tell."""

    device_external_id: str
    ref: VendorRef
    kind: CredentialKind
    window: Window | None
    nonce: str | None = None
    tag: str | None = None
    label: str = field(default="", repr=False)
    pin: Pin | None = None
    is_resting: bool = False
    is_stale: bool | None = None


@dataclass(frozen=True, slots=True)
class FoundPage:
    """One page of an inventory; `next_cursor` is None on the last."""

    keys: tuple[FoundKey, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class AccessRecord:
    """Somebody tried a door. `external_event_id` is unique per vendor and lock. `outcome` is `granted` or `denied`."""

    external_event_id: str
    device_external_id: str
    outcome: str
    attempted_at: datetime
    deny_reason: str | None = None
    nonce: str | None = None
    kind: CredentialKind | None = None


class Reach(StrEnum):
    """How much a vendor's word about a condition covers: one lock, every lock behind a gateway, or all of the installation."""

    LOCK = "lock"
    GATEWAY = "gateway"
    INSTALLATION = "installation"


@dataclass(frozen=True, slots=True)
class DeviceRecord:
    """What a push says of locks; None where it does not say. `external_id` is the vendor's id of the lock or gateway, empty
    for a whole installation. `external_event_id` is the push's own id, None where the vendor gives none. `battery_percent`
    0 to 100; `clock_skew_ms` is lock minus true time."""

    reach: Reach
    external_id: str
    external_event_id: str | None = None
    online: bool | None = None
    battery_percent: int | None = None
    clock_skew_ms: int | None = None
