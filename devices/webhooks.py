"""Takes in what vendors push: proves it, keeps what it says, leaves the work to a row that is due at once.

One rule: nothing is parsed before it is proven, and a body is never kept and never logged: it can hold live codes. What is kept
are the attempts in it, whose codes the adapter has turned into part of a keyed hash, and what it says of locks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

import structlog
from django.db import connection

from devices import adapters
from devices.models import VendorWebhook
from devices.secret_boundary import AdapterFault
from devices.webhooks_addresses import AddressUnknown, Recipient
from lockservice.core import clock, crypto, tenancy, wake
from sagas import outbox
from sagas.alerts import NewAlert, raise_alerts
from sagas.events.instants import format_instant
from sagas.events.subjects import Subject
from sagas.outbox import Cause, Emission
from vendors.port.ids import new_id
from vendors.port.protocol import DevicePushes, Records, UnprovenPushes, Webhook
from vendors.port.types import AccessRecord, CredentialKind, DeviceRecord, Reach

log = structlog.get_logger(__name__)

RUNBOOK = "lock/webhooks"
MAX_BYTES = 256 * 1024
MAX_ID_CHARS = 256
MAX_SKEW_MS = 2**31 - 1
OUTCOMES = frozenset({"granted", "denied"})
TASK, QUEUE = "sagas.take_webhooks", "webhooks"


class Forged(Exception):
    """The push is not proven to come from the vendor. Nothing was changed, but that somebody may have been told."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a push: its id, and whether it was one we had already."""

    webhook_id: str
    duplicate: bool


def take_in(recipient: Recipient, headers: Mapping[str, str], body: bytes) -> Taken:
    """Verifies a push by the vendor's scheme and keeps it. No transaction may be open.

    Raises Forged; the hotel is then told, at most once an hour. Raises VendorUnreachable where the installation's secrets
    cannot be had now; the vendor pushes again.
    """
    tenant_id, facts = recipient.tenant_id, recipient.facts
    with tenancy.tenant(tenant_id):
        now = clock.now()
        port = adapters.port_of(tenant_id, facts)
    # Outside the block, since a port may ask the secret store.
    taken = None
    if isinstance(port, Webhook) and port.verify(headers, body, now):
        read = _read(port, body)
        with tenancy.tenant(tenant_id):
            taken = _keep(recipient, read, body, now)
    if taken is None:
        tell_refused(tenant_id, facts.property_id, facts.id, "its signature is wrong, missing or old")
        raise Forged
    if not taken.duplicate:
        wake.hint(TASK, QUEUE)
    return taken


def refuse(error: AddressUnknown, vendor: str) -> None:
    """Tells the hotel of a push with a wrong token; one that names no installation of ours is only logged."""
    if error.tenant_id:
        tell_refused(error.tenant_id, error.property_id, error.installation_id, "its address is wrong")
    else:
        log.warning("webhook.nobody", vendor=vendor[:40])


def tell_refused(tenant_id: str, property_id: str, installation_id: str, why: str) -> None:
    """Raises the alert of a refused push, once an hour and installation (hotel's time). Opens its own transaction."""
    with tenancy.tenant(tenant_id):
        now = clock.now()
        alert = NewAlert(
            f"webhook-refused:{installation_id}:{now:%Y-%m-%dT%H}", "WEBHOOK_SIGNATURE_INVALID", "warning",
            f"a push was refused: {why}", RUNBOOK, property_id,
        )  # fmt: skip
        raise_alerts(tenant_id, [alert], now)
    log.warning("webhook.refused", installation=installation_id, reason=why)


def processed(row: VendorWebhook, outcome: str, now: datetime) -> Emission:
    """Makes the second event of a push; the row's outcome is set by it, and saved by the caller."""
    row.status, row.outcome, row.processed_at = "done", outcome, now
    data = {
        "webhookId": row.id,
        "vendor": row.vendor,
        "type": row.type,
        "outcome": outcome,
        "processedAt": format_instant(now),
    }
    return _emission(Subject.VENDOR_WEBHOOK_PROCESSED, row.id, 2, data)


def as_json(record: AccessRecord) -> dict[str, Any]:
    """Returns an attempt as a row keeps it."""
    return {
        "id": record.external_event_id,
        "device": record.device_external_id,
        "outcome": record.outcome,
        "at": record.attempted_at.isoformat(),
        "why": record.deny_reason,
        "nonce": record.nonce,
        "kind": record.kind.value if record.kind else None,
    }


def from_json(row: Mapping[str, Any]) -> AccessRecord:
    """Returns an attempt from what a row keeps."""
    return AccessRecord(
        external_event_id=row["id"],
        device_external_id=row["device"],
        outcome=row["outcome"],
        attempted_at=datetime.fromisoformat(row["at"]),
        deny_reason=row["why"],
        nonce=row["nonce"],
        kind=CredentialKind(row["kind"]) if row["kind"] else None,
    )


def state_as_json(state: DeviceRecord) -> dict[str, Any]:
    """Returns what a push says of locks as a row keeps it."""
    return asdict(state)


def state_from_json(row: Mapping[str, Any]) -> DeviceRecord:
    """Returns what a push says of locks from what a row keeps."""
    return DeviceRecord(
        reach=Reach(row["reach"]),
        external_id=row["external_id"],
        external_event_id=row["external_event_id"],
        online=row["online"],
        battery_percent=row["battery_percent"],
        clock_skew_ms=row["clock_skew_ms"],
    )


@dataclass(frozen=True, slots=True)
class _Read:
    """What a push holds: its type, attempts, conditions of locks, and a remark where it could not be read; and of its vendor
    whether it signs, and has a log."""

    type: str
    records: Sequence[AccessRecord] = ()
    states: Sequence[DeviceRecord] = ()
    detail: str = ""
    is_proven: bool = True
    has_log: bool = True


def _keep(recipient: Recipient, read: _Read, body: bytes, now: datetime) -> Taken:
    """Writes the receipt and its event, and the second event at once where there is nothing left to do."""
    tenant_id, facts = recipient.tenant_id, recipient.facts
    external_id = _external_id(tenant_id, facts.id, read, body, now)
    duplicate = not _first_time(tenant_id, facts.id, facts.vendor, external_id)
    row = VendorWebhook(
        id=new_id("whk"),
        tenant_id=tenant_id,
        installation_id=facts.id,
        vendor=facts.vendor,
        external_event_id=external_id,
        type=read.type,
        records=[] if duplicate else [as_json(record) for record in read.records],
        states=[] if duplicate else [state_as_json(state) for state in read.states],
        is_proven=read.is_proven,
        has_log=read.has_log,
        received_at=now,
        due_at=_real_now(),
        detail=read.detail,
    )
    received = {
        "webhookId": row.id,
        "vendor": row.vendor,
        "externalEventId": external_id,
        "type": read.type,
        "receivedAt": format_instant(now),
        "signatureOk": True,
    }
    emissions = [_emission(Subject.VENDOR_WEBHOOK_RECEIVED, row.id, 1, received)]
    if duplicate or not (read.records or read.states):
        emissions.append(processed(row, "duplicate" if duplicate else "ignored", now))
    row.save(force_insert=True)
    outbox.write(tenant_id, emissions, now)
    return Taken(row.id, duplicate)


def _read(port: Webhook, body: bytes) -> _Read:
    """Reads the body, and what its vendor's word is worth."""
    is_hint = isinstance(port, UnprovenPushes) and port.is_push_a_hint()
    return replace(_content(port, body), is_proven=not is_hint, has_log=isinstance(port, Records))


def _content(port: Webhook, body: bytes) -> _Read:
    """Reads the body. A proven push that cannot be read, or whose parts no row can hold, is kept as such: a vendor that is told
    of an error only sends the same again."""
    try:
        records = port.parse(body)
        states = port.parse_devices(body) if isinstance(port, DevicePushes) else ()
        for record in records:
            _check_record(record)
        for state in states:
            _check_state(state)
    except (ValueError, KeyError, TypeError, RecursionError, AdapterFault) as error:
        return _Read("unreadable", detail=type(error).__name__)
    if records:
        return _Read(_type("access", {record.outcome for record in records}), records, states)
    if states:
        return _Read(_type("device", {_about(state) for state in states}), records, states)
    return _Read("notification")


def _check_record(record: AccessRecord) -> None:
    """Raises ValueError for an attempt that our tables cannot hold."""
    texts = (record.external_event_id, record.device_external_id, record.deny_reason, record.nonce)
    if not all(text is None or _can_be_kept(text) for text in texts):
        raise ValueError("a text that is none")
    if len(record.external_event_id) > MAX_ID_CHARS or record.outcome not in OUTCOMES or record.attempted_at.tzinfo is None:
        raise ValueError("an attempt without id, outcome or instant")


def _check_state(state: DeviceRecord) -> None:
    """Raises ValueError for a condition that our tables cannot hold."""
    if not all(text is None or _can_be_kept(text) for text in (state.external_id, state.external_event_id)):
        raise ValueError("a text that is none")
    if state.battery_percent is not None and not 0 <= state.battery_percent <= 100:
        raise ValueError("a battery has 0 to 100 percent")
    if state.clock_skew_ms is not None and abs(state.clock_skew_ms) > MAX_SKEW_MS:
        raise ValueError("a clock that far off is none")


def _can_be_kept(text: object) -> bool:
    """JSON knows texts that PostgreSQL does not take: with a zero byte, or with half of a pair of surrogates."""
    return isinstance(text, str) and "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)


def _type(family: str, members: set[str]) -> str:
    return f"{family}.{members.pop()}" if len(members) == 1 else f"{family}.mixed"


def _about(state: DeviceRecord) -> str:
    if state.online is not None:
        return "online" if state.online else "offline"
    return "battery" if state.battery_percent is not None else "clock"


def _external_id(tenant_id: str, installation_id: str, read: _Read, body: bytes, now: datetime) -> str:
    """Returns the push's id: its one attempt's or condition's, or a digest. A body without attempts is digested with a key,
    since what it holds may be guessed.

    A condition without an id and a time looks the same each time it comes, so the minute of receipt is part of its id: the
    next outage is no repetition of the last. What it says is asked back all the same.
    """
    records = read.records
    if len(records) == 1:
        return records[0].external_event_id
    if records:
        joined = "\n".join([installation_id, *(record.external_event_id for record in records)])
        return "push:" + hashlib.sha256(joined.encode()).hexdigest()
    ids = {state.external_event_id for state in read.states}
    if len(ids) == 1 and (only := ids.pop()) and len(only) <= MAX_ID_CHARS - len("state:"):
        return f"state:{only}"
    digest = hashlib.sha256(body).hexdigest()
    minute = f"{now:%Y-%m-%dT%H:%M}" if read.states else ""
    return "push:" + crypto.blind_index("webhook-secret", tenant_id, f"{installation_id}\n{digest}{minute}").hex()


def _first_time(tenant_id: str, installation_id: str, vendor: str, external_id: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO devices_webhookreplay (tenant_id, installation_id, vendor, external_event_id, seen_at)"
            " VALUES (%s, %s, %s, %s, (SELECT clock_timestamp()))"
            " ON CONFLICT (tenant_id, installation_id, external_event_id) DO NOTHING",
            [tenant_id, installation_id, vendor, external_id],
        )
        return cursor.rowcount == 1


def _emission(subject: Subject, webhook_id: str, sequence: int, data: Mapping[str, Any]) -> Emission:
    cause = Cause(correlation_id=webhook_id)
    return Emission(outbox.new_event_id(), subject.value, webhook_id, sequence, data, cause)


def _real_now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now
