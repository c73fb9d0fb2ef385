"""Houses with a past: tenants full of stays, keys and everything that keys leave behind, written by COPY.

| name | what it is |
|---|---|
| `Size` | how many tenants, rooms and stays |
| `fill` | writes them into the database this process is turned to; returns an `Estate` |
| `Estate` | its houses, and how many rows each table was given |

One rule: rows have the shapes the service itself leaves, events and sealed columns included, and nothing in them is due: whoever
works on an estate finds no work but what the test adds.

Row-level security refuses COPY, and the guard of a credential's moves refuses a key that begins as revoked. So the rows are
written by the superuser as a replica would write them, without triggers. Databases that others share are the wrong place.
"""

from __future__ import annotations

import json
import os
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import psycopg
from django.apps import apps
from django.db import connection, models
from psycopg import sql

from credentials import event_data
from credentials.models import KeyCredential
from devices import adapters, selectors
from devices.models import AccessAttempt, LockDevice, VendorInstallation
from lockservice.core import crypto
from lockservice.core.places import Property, Room, Tenant
from lockservice.core.tenancy import tenant
from lockservice.embedded import postgres
from lockservice.embedded.local import LocalDirectory
from sagas import outbox
from sagas.dispatch import CONSUMER
from sagas.events import envelope, registry
from sagas.flows import note_attempts
from sagas.intake import own_key, sha256_key
from sagas.models import InboxMessage
from tests.support.hotel import ALL_KINDS
from vendors.port.ids import new_id

NIGHTS = timedelta(days=2)
TURN = timedelta(days=3)
"""Stays of one room begin so far apart."""
GRACE = timedelta(hours=2)
LEAD = timedelta(hours=24)
PIN_KEPT = timedelta(days=30)
GATEWAY_ROOMS = 10
READ_EVERY = timedelta(hours=6)
READINGS_DAYS = 10
VENDOR = "mock"
NOBODY = "mock://127.0.0.1:9"
CHRONOLOGICAL = "sagas_inboxmessage"
"""The table whose order on disk counts: its index by age summarises neighbouring rows."""
CARDS = frozenset("0123456789")
"""Last letters of keys that are on a card too: a third of them."""
GUESTS = ("زهرا احمدی", "Мадина Каримзода", "Karim Nazari", "Zahra Ahmadi")


@dataclass(frozen=True, slots=True)
class Size:
    """How much there is of each tenant, which has one house. `past` are stays that are over; two of three rooms are let now, and
    each room has one stay to come. `waiting` are cancelled stays whose keys a door has not given back: their sagas wait for a
    retry in an hour."""

    tenants: int = 4
    rooms: int = 40
    past: int = 400
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class House:
    """One house of the estate. `devices` maps room id, and `lobby`, to the lock's id; `keys` are live keys by reservation."""

    tenant_id: str
    property_id: str
    installation_id: str
    rooms: tuple[str, ...]
    devices: Mapping[str, str]
    external: Mapping[str, str]
    gateways: Mapping[str, str]
    keys: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Estate:
    """What was written: houses, rows by table, and the instant that counts as now."""

    now: datetime
    houses: tuple[House, ...]
    rows: Mapping[str, int]

    @property
    def total(self) -> int:
        """All rows."""
        return sum(self.rows.values())


def fill(
    local: LocalDirectory, size: Size | None = None, *, now: datetime | None = None, seed: int = 1, url: str = NOBODY
) -> Estate:
    """Write an estate into the database that this process is turned to, and bring the planner's statistics up to date.

    `url` is where its locks' vendor, the mock, listens; nobody does unless it is given.
    """
    size = size or Size()
    now = now or datetime.now(UTC).replace(second=0, microsecond=0)
    chance = random.Random(seed)
    dsn = postgres.endpoint(local).superuser_dsn(str(connection.settings_dict["NAME"]))
    rows: dict[str, int] = defaultdict(int)
    houses = []
    inbox = _Table(InboxMessage)
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute("SET session_replication_role = replica")
        for _ in range(size.tenants):
            house = _build_house(size.rooms, url)
            tables = _Tables()
            past = _House(house, tables, now, chance)
            past.write(size)
            inbox.lines += tables.pop(CHRONOLOGICAL).lines
            for name, count in tables.copy(admin).items():
                rows[name] += count
            admin.execute(
                "UPDATE devices_lockdevice d SET event_sequence = v.n FROM unnest(%s::text[], %s::int[]) AS v(id, n)"
                " WHERE d.id = v.id", [list(past.sequences), list(past.sequences.values())],
            )  # fmt: skip
            houses.append(house)
        inbox.lines.sort(key=lambda line: line.rpartition("\t")[2])
        rows[CHRONOLOGICAL] = inbox.copy(admin)
        for name in rows:
            admin.execute(sql.SQL("ANALYZE {}").format(sql.Identifier(name)))
        admin.execute("ANALYZE devices_lockdevice, devices_vendorinstallation, core_room, core_property, core_tenant")
    return Estate(now, tuple(houses), dict(rows))


def _build_house(rooms: int, url: str) -> House:
    """Make tenant, property and locks through the models: there are few of them, and an installation has its own data key."""
    tenant_id, property_id = new_id("tnt"), new_id("ppt")
    row = VendorInstallation(id=new_id("vad"), tenant_id=tenant_id, property_id=property_id, vendor=VENDOR, label="Mock locks")
    labels = [str(101 + number) for number in range(rooms)]
    room_ids = {label: new_id("rmu") for label in labels}
    locks = {place: new_id("lck") for place in (*labels, "lobby")}
    gateways = {place: f"gw-{number // GATEWAY_ROOMS}" for number, place in enumerate(locks)}
    with tenant(tenant_id):
        Tenant.objects.create(tenant_id=tenant_id, name="Silk Road Stays")
        Property.objects.create(tenant_id=tenant_id, property_id=property_id, name="Hotel Silk", time_zone="Asia/Kabul")
        Room.objects.bulk_create(
            Room(tenant_id=tenant_id, property_id=property_id, room_id=room_ids[label], label=label, floor=label[:1])
            for label in labels
        )
    adapters.seal_installation(row, {"url": url}, {})
    with tenant(tenant_id):
        LockDevice.objects.bulk_create(
            LockDevice(
                id=lock, tenant_id=tenant_id, property_id=property_id, installation=row, external_id=new_id("lck"), label=place,
                gateway=gateways[place], capabilities=ALL_KINDS, shared=place == "lobby",
                areas=["lobby"] if place == "lobby" else [], rooms=[] if place == "lobby" else [room_ids[place]],
            )
            for place, lock in locks.items()
        )  # fmt: skip
        external = dict(LockDevice.objects.filter(tenant_id=tenant_id).values_list("id", "external_id"))
    selectors.forget()
    by_room = {room_ids.get(place, place): lock for place, lock in locks.items()}
    return House(
        tenant_id, property_id, row.id, tuple(room_ids.values()), by_room, external,
        {lock: gateways[place] for place, lock in locks.items()},
    )  # fmt: skip


# --- Rows as COPY takes them ------------------------------------------------------------------


def _text(value: Any) -> str:
    """Return a value as COPY's text format has it. A list of texts is an array; other lists and mappings are JSON."""
    match value:
        case None:
            text = r"\N"
        case bool():
            text = "t" if value else "f"
        case bytes():
            text = "\\\\x" + value.hex()
        case datetime():
            text = value.isoformat()
        case list() if all(isinstance(item, str) for item in value):
            text = "{" + ",".join(value) + "}"
        case dict() | list():
            text = json.dumps(value, ensure_ascii=False).replace("\\", "\\\\")
        case _:
            text = str(value)
    return text


class _Table:
    """The rows of one table to be copied. Columns that are not given have the model's default."""

    def __init__(self, model: type[models.Model]) -> None:
        self.name = model._meta.db_table
        fields = [item for item in model._meta.concrete_fields if item.get_internal_type() not in ("BigAutoField", "AutoField")]
        self._defaults = {str(item.column): _default(item) for item in fields}
        self.lines: list[str] = []

    def add(self, **values: Any) -> None:
        row = self._defaults | {name: value if type(value) is str else _text(value) for name, value in values.items()}
        assert len(row) == len(self._defaults), set(row) - set(self._defaults)
        self.lines.append("\t".join(row.values()))

    def copy(self, admin: psycopg.Connection[Any]) -> int:
        columns = sql.SQL(", ").join(map(sql.Identifier, self._defaults))
        statement = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(self.name), columns)
        with admin.cursor() as cursor, cursor.copy(statement) as copy:
            copy.write("\n".join([*self.lines, ""]))
        return len(self.lines)


def _default(item: models.Field[Any, Any]) -> str:
    value = item.get_default()
    if item.get_internal_type() == "JSONField":
        return json.dumps(value)
    return "{}" if value == [] else _text(value)


class _Tables:
    """The tables by their name, made when first written to."""

    def __init__(self) -> None:
        self._models = {model._meta.db_table: model for model in apps.get_models()}
        self._made: dict[str, _Table] = {}

    def __getitem__(self, name: str) -> _Table:
        if name not in self._made:
            self._made[name] = _Table(self._models[name])
        return self._made[name]

    def pop(self, name: str) -> _Table:
        return self._made.pop(name)

    def copy(self, admin: psycopg.Connection[Any]) -> dict[str, int]:
        """Write all rows in one transaction."""
        with admin.transaction():
            return {name: table.copy(admin) for name, table in self._made.items()}


# --- Ids of an instant ------------------------------------------------------------------------

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [first + second for first in _CROCKFORD for second in _CROCKFORD]


def _id(prefix: str, at: datetime) -> str:
    """Return an id as `new_id` makes it, of an instant."""
    return f"{prefix}_{_head(int(at.timestamp() * 1000))}{_letters(int.from_bytes(os.urandom(10), 'big'), 80)}"


@lru_cache(maxsize=1024)
def _head(milliseconds: int) -> str:
    return _letters(milliseconds, 50)


def _letters(number: int, bits: int) -> str:
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(bits - 10, -1, -10)])


# --- Events -----------------------------------------------------------------------------------

_MARKS = {
    "tenant": "tnt_MARK00000000000000000000T", "event": "evt_MARK00000000000000000000E", "key": "key_MARK00000000000000000000K",
    "stay": "rsv_MARK00000000000000000000R", "guest": "gst_MARK00000000000000000000G", "room": "rmu_MARK00000000000000000000M",
    "house": "ppt_MARK00000000000000000000H", "door": "lck_MARK00000000000000000000D", "issue": "sha256:" + "f" * 63 + "e",
    "attempt": "kca_MARK00000000000000000000A", "record": "rec-MARK0000-0",
}  # fmt: skip
_AT, _FROM, _UNTIL = (datetime(2001, 2, 3, 4, 5, second, tzinfo=UTC) for second in (6, 7, 8))
_SEQUENCE = 987_654_321


class _Events:
    """Bodies of events as the service encodes them, made once for each subject and then filled in."""

    def __init__(self) -> None:
        key = KeyCredential(
            id=_MARKS["key"], tenant_id=_MARKS["tenant"], property_id=_MARKS["house"], reservation_id=_MARKS["stay"],
            vendor=VENDOR, kind="pin_code", preferred_kinds=["pin_code"], rooms=[_MARKS["room"]], areas=["lobby"],
            valid_from=_FROM, valid_until=_UNTIL, holder_id=_MARKS["guest"], issue_key=_MARKS["issue"],
            revoke_reason="checkout",
        )  # fmt: skip
        device = LockDevice(id=_MARKS["door"], tenant_id=_MARKS["tenant"], property_id=_MARKS["house"])
        attempt = AccessAttempt(
            id=_MARKS["attempt"], tenant_id=_MARKS["tenant"], property_id=_MARKS["house"], device_id=_MARKS["door"],
            credential_id=_MARKS["key"], credential_state="active", outcome="granted", vendor=VENDOR, external_event_id=_MARKS["record"],
            kind="pin_code", attempted_at=_AT, ingested_at=_AT,
        )  # fmt: skip
        told = note_attempts._told(device, attempt)
        data = {
            event_data.subject("requested"): event_data.requested(key),
            event_data.subject("pending"): event_data.pending(key, 1, _AT),
            event_data.subject("issued"): event_data.issued(key, None, _AT),
            event_data.subject("revoked"): event_data.revoked(key, vendor_ok=False, trigger="window_ended", at=_AT),
            str(told.subject): told.data,
        }
        self.attempt_subject = str(told.subject)
        self.topics = {subject: registry.spec(subject).topic for subject in data}
        self._bodies = {subject: self._template(subject, payload) for subject, payload in data.items()}

    def body(self, subject: str, values: Mapping[str, str]) -> bytes:
        return (self._bodies[subject] % values).encode()

    def _template(self, subject: str, data: Mapping[str, Any]) -> str:
        is_attempt = "attempt" in subject
        body = envelope.encode(
            envelope.Envelope(
                id=_MARKS["event"], subject=subject, source=outbox.SOURCE, time=_AT, tenant_id=_MARKS["tenant"], data=data,
                correlation_id=_MARKS["door"] if is_attempt else _MARKS["stay"],
                ordering_key=_MARKS["door"] if is_attempt else _MARKS["key"], sequence=_SEQUENCE,
            )
        ).decode()  # fmt: skip
        body = body.replace("%", "%%").replace(str(_SEQUENCE), "%(sequence)s")
        for name, mark in _MARKS.items():
            body = body.replace(mark, f"%({name})s")
        for name, instant in (("at", _AT), ("from", _FROM), ("until", _UNTIL)):
            body = body.replace(instant.strftime("%Y-%m-%dT%H:%M:%S"), f"%({name})s")
        return body


# --- A house's past ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Stay:
    """A stay to write. `state` is its key's: revoked, active, or requested (with a timer)."""

    room: str
    start: datetime
    end: datetime
    status: str
    state: str
    ordinals: int = 1
    is_waiting: bool = False


class _House:
    """Writes the rows of one house."""

    def __init__(self, house: House, tables: _Tables, now: datetime, chance: random.Random) -> None:
        self._house = house
        self._tables = tables
        self._now = now
        self._chance = chance
        self._events = _Events()
        self._tenant = {"tenant_id": house.tenant_id}
        self.sequences: dict[str, int] = defaultdict(int)
        self._pins = 100_000
        self._position = int(now.timestamp() * 1_000_000) - 10_000_000

    def write(self, size: Size) -> None:
        for stay in self._stays(size):
            self._stay(stay)
        self._upkeep()

    def _stays(self, size: Size) -> Iterator[_Stay]:
        rooms = self._house.rooms
        for number in range(size.past):
            ends = self._now - timedelta(hours=20) - TURN * (number // len(rooms))
            status = ("checked_out", "checked_out", "checked_out", "confirmed", "cancelled")[number % 5]
            yield _Stay(rooms[number % len(rooms)], ends - NIGHTS, ends, status, "revoked", 2 if number % 10 == 3 else 1)
        for number, room in enumerate(rooms):
            if number % 3:
                start = self._now - timedelta(hours=18)
                yield _Stay(room, start, start + NIGHTS, "confirmed", "active", 2 if number % 10 == 4 else 1)
            start = self._now + timedelta(days=2)
            yield _Stay(room, start, start + NIGHTS, "confirmed", "requested" if number % 2 else "active")
        for number in range(size.waiting):
            start = self._now + timedelta(days=5) + TURN * (number // len(rooms))
            yield _Stay(rooms[number % len(rooms)], start, start + NIGHTS, "cancelled", "revoked", is_waiting=True)

    def _stay(self, stay: _Stay) -> None:
        house = self._house
        booked = min(stay.start - timedelta(days=14), self._now - timedelta(days=1))
        stay_id, guest_id = _id("rsv", booked), _id("gst", booked)
        name = json.dumps({"name": self._chance.choice(GUESTS)}, ensure_ascii=False)
        place = ("credentials_reservation", stay_id, "guest_sealed")
        known = stay.end > self._now - timedelta(days=90)
        self._tables["credentials_reservation"].add(
            **self._tenant, reservation_id=stay_id, property_id=house.property_id,
            version=2 if stay.status != "confirmed" else 1, status=stay.status, rooms=[stay.room], valid_from=stay.start,
            valid_until=stay.end, guest_id=guest_id if known else "",
            guest_sealed=crypto.seal("guest-pii", house.tenant_id, place, name) if known else None, locale="prs",
            payment_status="captured", updated_at=stay.end if stay.status == "checked_out" else booked,
        )  # fmt: skip
        self._took("booking.confirmed", booked)
        if stay.status == "checked_out":
            self._took("booking.checked_out", stay.end)
        if stay.status == "cancelled":
            self._took("booking.cancelled", booked + timedelta(hours=1))
        for ordinal in range(stay.ordinals):
            self._key(stay, stay_id, guest_id, booked, ordinal)

    def _took(self, short: str, at: datetime) -> None:
        self._tables["sagas_inboxmessage"].add(
            **self._tenant, consumer=CONSUMER, event_id=_id("evt", at), subject=f"melmastoon.reservation.{short}.v1",
            outcome="applied", received_at=at,
        )  # fmt: skip

    def _key(self, stay: _Stay, stay_id: str, guest_id: str, booked: datetime, ordinal: int) -> None:
        house = self._house
        key_id = _id("key", booked)
        until = stay.end + GRACE
        is_over, is_made = stay.state == "revoked", stay.state != "requested"
        ended = booked + timedelta(hours=1) if stay.status == "cancelled" else stay.end if is_over else None
        if stay.status == "confirmed" and is_over:
            ended = until
        reason = {"cancelled": "cancellation"}.get(stay.status, "checkout") if is_over else ""
        issue_key = sha256_key(stay_id, "issue", "v1") if not ordinal else own_key("issue-by-hand", key_id)
        moves = [("request", "", "requested", booked)]
        if is_made:
            moves += [("hand_over", "requested", "pending", booked), ("activate", "pending", "active", booked)]
        if is_over:
            moves.append(("revoke", "active", "revoked", ended or booked))
        self._tables["credentials_keycredential"].add(
            id=key_id, **self._tenant, property_id=house.property_id, installation_id=house.installation_id, vendor=VENDOR,
            reservation_id=stay_id, ordinal=ordinal, holder_id=guest_id, kind="pin_code", preferred_kinds=["pin_code"],
            intent="additional" if ordinal else "new", rooms=[stay.room], areas=["lobby"], valid_from=stay.start,
            valid_until=until, ends_at=until, state=stay.state,
            propagation="unknown" if stay.is_waiting or not is_made else "confirmed", revoke_reason=reason,
            capabilities=ALL_KINDS, issue_key=issue_key, desired_version=2 if is_over else 1, pin_version=1 if is_made else 0,
            event_sequence=len(moves), open_work=stay.is_waiting or not is_made, requested_at=booked,
            issued_at=booked if is_made else None, ended_at=ended,
        )  # fmt: skip
        if not is_over:
            house.keys[stay_id] = key_id
        values = {
            "tenant": house.tenant_id, "key": key_id, "stay": stay_id, "guest": guest_id, "room": stay.room,
            "house": house.property_id, "issue": issue_key, "from": _instant(stay.start), "until": _instant(until),
        }  # fmt: skip
        self._moves(key_id, moves, values)
        doors = [house.devices[stay.room], house.devices["lobby"]]
        self._doors(stay, key_id, doors, until)
        self._sagas(stay, stay_id, key_id, issue_key, doors, booked, ended)
        if is_made:
            self._digits(key_id, doors, booked, ended)
        if is_made and stay.start < self._now and stay.status != "cancelled":
            self._attempts(key_id, doors, stay.start, values)
        if key_id[-1] in CARDS:
            self._card(key_id, stay, doors, booked, until)
        if ordinal:
            self._tables["console_staffact"].add(
                **self._tenant, actor_id="usr_clerk", login="clerk", role="front_desk", action="issue", subject_id=key_id,
                reason="companion", outcome="done", at=booked,
            )  # fmt: skip

    def _card(self, key_id: str, stay: _Stay, doors: Sequence[str], booked: datetime, until: datetime) -> None:
        """A card that the desk wrote for the key as well."""
        job_id = _id("job", booked)
        place = ("devices_relayjobrow", job_id, "body_sealed")
        self._tables["devices_relayjobrow"].add(
            id=job_id, **self._tenant, property_id=self._house.property_id, installation_id=self._house.installation_id,
            vendor=VENDOR, key=own_key("card", key_id), credential_id=key_id, action="write", doors=json.dumps(list(doors)),
            numbers={doors[0]: 1}, body_sealed=crypto.seal("vendor-ref", self._house.tenant_id, place, '{"window": []}'),
            needs_card=True, lasts_until=until, state="done", desk_id="desk-1", created_at=booked,
            expires_at=booked + timedelta(minutes=2), finished_at=booked,
        )  # fmt: skip

    def _moves(self, key_id: str, moves: Sequence[tuple[str, str, str, datetime]], values: Mapping[str, str]) -> None:
        words = {"request": "requested", "hand_over": "pending", "activate": "issued", "revoke": "revoked"}
        for sequence, (move, source, target, at) in enumerate(moves, start=1):
            subject, event_id = event_data.subject(words[move]), _id("evt", at)
            self._tables["credentials_transition"].add(
                **self._tenant, credential_id=key_id, sequence=sequence, move=move, source=source, target=target,
                subject=subject, event_id=event_id, actor="saga", at=at,
            )  # fmt: skip
            self._event(subject, event_id, key_id, sequence, at, values)

    def _event(
        self, subject: str, event_id: str, ordering_key: str, sequence: int, at: datetime, values: Mapping[str, str]
    ) -> None:
        body = self._events.body(subject, {**values, "event": event_id, "at": _instant(at), "sequence": str(sequence)})
        self._tables["sagas_outboxevent"].add(
            id=event_id, **self._tenant, subject=subject, topic=self._events.topics[subject], ordering_key=ordering_key,
            sequence=sequence, shard=outbox.shard_of(ordering_key), body=body, created_at=at, published_at=at,
        )  # fmt: skip

    def _doors(self, stay: _Stay, key_id: str, doors: Sequence[str], until: datetime) -> None:
        state = {"revoked": "absent", "active": "present", "requested": "none"}[stay.state]
        state = "present" if stay.is_waiting else state
        is_there = state == "present"
        for lock in doors:
            place = ("credentials_credentialdoor", f"{key_id}\x1f{lock}", "vendor_ref_sealed")
            reference = crypto.seal("vendor-ref", self._house.tenant_id, place, f"code-{key_id[-8:]}") if is_there else None
            self._tables["credentials_credentialdoor"].add(
                **self._tenant, credential_id=key_id, device_id=lock,
                room_id="" if lock == self._house.devices["lobby"] else stay.room, lane=f"{self._house.installation_id}:",
                state=state, carried_from=stay.start if is_there else None, carried_until=until if is_there else None,
                pin_version=1 if is_there else 0, carried_version=1 if is_there else 0, rounds=int(state == "absent"),
                vendor_ref_sealed=reference, propagation="unknown" if state == "none" or stay.is_waiting else "confirmed",
                verb="revoke" if stay.is_waiting else "", attempts=3 if stay.is_waiting else 0, attempts_for=1,
                due_at=self._now + timedelta(hours=1) if stay.is_waiting else None,
            )  # fmt: skip

    def _sagas(
        self, stay: _Stay, stay_id: str, key_id: str, issue_key: str, doors: Sequence[str], booked: datetime,
        ended: datetime | None,
    ) -> None:  # fmt: skip
        if stay.state == "requested":
            self._saga("issue", issue_key, stay_id, key_id, booked, status="timer", hotel_due_at=stay.start - LEAD)
            return
        saga_id = self._saga("issue", issue_key, stay_id, key_id, booked, status="done", step=1, attempts=1, finished_at=booked)
        self._step(saga_id, key_id, "issue", doors, "done", booked)
        if ended is None:
            return
        key = own_key("window-ended", key_id, "1")
        if stay.is_waiting:
            saga_id = self._saga(
                "revoke", key, stay_id, key_id, ended, status="retry", step=3, attempts=3, priority=0,
                due_at=self._now + timedelta(hours=1), error_code="KEY_REVOKE_FAILED", error_detail="the gateway is away",
            )  # fmt: skip
            self._step(saga_id, key_id, "revoke", doors, "refused", ended)
            return
        saga_id = self._saga("revoke", key, stay_id, key_id, ended, status="done", step=1, attempts=1, finished_at=ended)
        self._step(saga_id, key_id, "revoke", doors, "done", ended)

    def _saga(self, flow: str, key: str, stay_id: str, key_id: str, at: datetime, **more: Any) -> str:
        saga_id = _id("sag", at)
        self._position += 1
        values = {"priority": 1 if flow == "revoke" else 2, "token": 1, **more}
        self._tables["sagas_saga"].add(
            id=saga_id, **self._tenant, flow=flow, installation_id=self._house.installation_id, key=key,
            lane=f"{self._house.installation_id}:", credential_id=key_id, reservation_id=stay_id, correlation_id=stay_id,
            created_at=at, position=self._position, **values,
        )  # fmt: skip
        return saga_id

    def _step(self, saga_id: str, key_id: str, verb: str, doors: Sequence[str], outcome: str, at: datetime) -> None:
        self._tables["sagas_sagastep"].add(
            **self._tenant, saga_id=saga_id, credential_id=key_id, step=1, verb=verb, lane=f"{self._house.installation_id}:",
            doors=json.dumps(list(doors)), outcome=outcome, took_ms=57, at=at,
        )  # fmt: skip

    def _digits(self, key_id: str, doors: Sequence[str], booked: datetime, ended: datetime | None) -> None:
        self._pins += 1
        digits, tenant_id = str(self._pins), self._house.tenant_id
        reference = _id("tk", booked)
        place = ("credentials_artifact", reference, "value_sealed")
        self._tables["credentials_artifact"].add(
            id=reference, **self._tenant, credential_id=key_id, type="pin",
            value_sealed=crypto.seal("artifact", tenant_id, place, digits) if ended is None else None,
            exchanged_by="booking-app", exchange_key=key_id[-20:], exchanged_at=booked,
            erased_at=ended, created_at=booked,
        )  # fmt: skip
        if ended is not None and ended < self._now - PIN_KEPT:
            return
        index = crypto.blind_index("artifact", tenant_id, digits)
        for lock in doors:
            self._tables["credentials_pinslot"].add(
                **self._tenant, device_id=lock, pin_index=index, credential_id=key_id,
                rests_until=ended + PIN_KEPT if ended is not None else None,
            )  # fmt: skip

    def _attempts(self, key_id: str, doors: Sequence[str], start: datetime, values: Mapping[str, str]) -> None:
        for number in range(3):
            lock = doors[number % len(doors)]
            at = start + timedelta(minutes=7 * (number + 1))
            attempt_id, record = _id("kca", at), f"rec-{key_id[-12:]}-{number}"
            common = {
                "installation_id": self._house.installation_id, "vendor": VENDOR, "external_event_id": record, **self._tenant,
            }  # fmt: skip
            self._tables["devices_accessattempt"].add(
                id=attempt_id, property_id=self._house.property_id, device_id=lock, credential_id=key_id,
                credential_state="active", outcome="granted", kind="pin_code", attempted_at=at, ingested_at=at, **common,
            )  # fmt: skip
            self.sequences[lock] += 1
            event_id = _id("evt", at)
            self._event(
                self._events.attempt_subject, event_id, lock, self.sequences[lock], at,
                {**values, "door": lock, "attempt": attempt_id, "record": record},
            )  # fmt: skip
            if at > self._now - timedelta(days=90):
                self._push(record, at, common)

    def _push(self, record: str, at: datetime, common: Mapping[str, str]) -> None:
        self._tables["devices_vendorwebhook"].add(
            **common, id=_id("whk", at), type="access.granted", received_at=at, status="done", due_at=at, outcome="applied",
            processed_at=at,
        )  # fmt: skip
        if at > self._now - timedelta(days=30):
            self._tables["devices_webhookreplay"].add(**common, seen_at=at)

    def _upkeep(self) -> None:
        """What the service's own rounds leave: turns, polls, readings, comparisons, alerts, dead letters."""
        house, tables, now = self._house, self._tables, self._now
        here = {**self._tenant, "installation_id": house.installation_id}
        later = now + timedelta(hours=1)
        tables["sagas_lane"].add(key=f"{house.installation_id}:", **self._tenant, width=8, token=1)
        tables["sagas_lane"].add(key=f"{house.tenant_id}:internal", **self._tenant, token=1)
        tables["sagas_reconcileturn"].add(**here, due_at=later)
        tables["devices_relaydesk"].add(
            **self._tenant, desk_id="desk-1", property_id=house.property_id, connection="c1", vendors=json.dumps([VENDOR]),
            connected_at=now, seen_at=now, expires_at=now - timedelta(days=1),
        )  # fmt: skip
        for number, kind in enumerate(("secret", "webhook_address", "data_key")):
            for year in range(3):
                at = now - timedelta(days=365 * year)
                tables["devices_secretdue"].add(
                    id=_id("sdu", at), **here, property_id=house.property_id, kind=kind, name=f"name-{number}",
                    reason="cadence", due_at=at + timedelta(days=90), made_at=at,
                    done_at=at + timedelta(days=80) if year else None,
                )  # fmt: skip
        tables["devices_breaker"].add(**here, outcomes="1" * 20, last_at=now)
        for month in range(3):
            at = now - timedelta(days=31 * month)
            tables["devices_callcount"].add(**here, month=f"{at:%Y-%m}", calls=1_000, issues=400, revokes=400)
        for lock in house.devices.values():
            for number in range(READINGS_DAYS * 4):
                tables["devices_devicereading"].add(
                    **self._tenant, device_id=lock, at=now - READ_EVERY * (number + 1), source="list", online=True,
                    battery_percent=90 - number % 40,
                )  # fmt: skip
        for night in range(60):
            at = now - timedelta(days=night, hours=9)
            tables["sagas_reconcilerun"].add(
                **here, property_id=house.property_id, vendor=VENDOR, status="done", started_at=at,
                finished_at=at + timedelta(minutes=3), doors_count=len(house.devices), doors_done_count=len(house.devices),
            )  # fmt: skip
            lock = self._chance.choice(list(house.devices.values()))
            tables["sagas_finding"].add(
                **here, property_id=house.property_id, device_id=lock, kind="missing", status="resolved",
                subject=_id("key", at), danger="locked_out", run_id=night + 1, first_seen_at=at, last_seen_at=at,
                resolved_at=at, resolution="repaired",
            )  # fmt: skip
            tables["sagas_alert"].add(
                id=_id("alt", at), **self._tenant, property_id=house.property_id, key=f"drift:{night}:locked_out",
                code="DRIFT_KEY_MISSING", severity="critical", runbook="lock/reconcile-vendor", detail="missing at 101",
                raised_at=at, acknowledged_at=at + timedelta(hours=1), acknowledged_by="usr_clerk",
            )  # fmt: skip
            tables["core_idempotencyrecord"].add(
                **self._tenant, key=_id("key", at), fingerprint="f" * 64, status=200, created_at=now - timedelta(minutes=night)
            )
        tables["sagas_deadletter"].add(
            **self._tenant, source="inbox", topic="reservation", body=b"{}", digest="d" * 64, code="UNKNOWN_ROOM",
            detail="rooms: a room has no lock", first_at=now - timedelta(days=3), last_at=now - timedelta(days=3),
            replayed_at=now - timedelta(days=2), replayed_by="usr_support",
        )  # fmt: skip


def _instant(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S")
