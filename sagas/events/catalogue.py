"""The list of all subjects.

One rule: a table, no logic beyond the spelling of topics and file names. Sources: the two event documents (§3 of the
back-office one for topics, sampling and retention; §2 to §4 and §7 of the lock one) and document 09 §6.3, §7 for the
short spellings.
"""

from __future__ import annotations

from sagas.events.event_spec import Direction, EventSpec, Form, Ordering, Priority, Retention
from sagas.events.subjects import Subject

FLAG_KEY = "bff-backoffice-flags"
"""Hash in the shared cache with runtime sampling rates, re-read every 30 s."""

_PREFIX = "melmastoon."
_LOCK = "melmastoon.lock."
_BFF = "melmastoon.bff.backoffice."


def _lock(subject: Subject, retention: Retention, ordering: Ordering, priority: Priority) -> EventSpec:
    """Topic = subject. The documents name no dead-letter topics here, so they are grouped as the back office's are."""
    name = subject.removeprefix(_LOCK)
    return EventSpec(
        subject=subject.value,
        direction=Direction.PRODUCED,
        topic=subject.value,
        dead_letter_topic=f"{_LOCK}{name.split('.')[0]}.dlq.v1",
        retention=retention,
        ordering=ordering,
        priority=priority,
        schema_file=f"lock/{name}.json",
    )


def _local(subject: Subject) -> EventSpec:
    return EventSpec(
        subject=subject.value,
        direction=Direction.LOCAL,
        topic=None,
        dead_letter_topic=None,
        retention=Retention.REGULATED,
        ordering=Ordering.LOCAL_CREDENTIAL,
        priority=Priority.DEPARTURE if subject is Subject.CREDENTIAL_REVOKED_LOCAL else Priority.ARRIVAL,
        schema_file=f"lock/{subject.removeprefix(_LOCK)}.json",
    )


def _bff(subject: Subject, group: str, sampling_rate: float, retention: Retention, ordering: Ordering) -> EventSpec:
    event = subject.removeprefix(_BFF).removesuffix(".v1")
    slug = event.replace(".", "-").replace("_", "-")
    return EventSpec(
        subject=subject.value,
        direction=Direction.PRODUCED,
        topic=f"{_BFF}{group}",
        dead_letter_topic=f"{_BFF}{group}.dlq.v1",
        retention=retention,
        ordering=ordering,
        priority=Priority.BULK,
        schema_file=f"bff-backoffice/{slug}/v1.json",
        form=Form.NESTED,
        sampling_rate=sampling_rate,
        flag_key=FLAG_KEY,
    )


def _inbound(
    subject: Subject,
    ordering: Ordering,
    priority: Priority,
    *,
    moves_keys: bool = False,
    refreshes_caches: bool = False,
) -> EventSpec:
    """Topic = subject; what we cannot take goes to one dead-letter topic per producing service."""
    name = subject.removeprefix(_PREFIX)
    return EventSpec(
        subject=subject.value,
        direction=Direction.CONSUMED,
        topic=subject.value,
        dead_letter_topic=f"{_LOCK}inbound.{name.split('.')[0]}.dlq.v1",
        retention=Retention.OPERATIONAL,
        ordering=ordering,
        priority=priority,
        schema_file=f"inbound/{name}.json",
        moves_keys=moves_keys,
        refreshes_caches=refreshes_caches,
    )


def _key(subject: Subject, ordering: Ordering, priority: Priority, *, refreshes_caches: bool = False) -> EventSpec:
    return _inbound(subject, ordering, priority, moves_keys=True, refreshes_caches=refreshes_caches)


def _cache(subject: Subject, ordering: Ordering, priority: Priority = Priority.BULK) -> EventSpec:
    return _inbound(subject, ordering, priority, refreshes_caches=True)


_ANCHORED = Retention.REGULATED_ANCHORED
_REGULATED = Retention.REGULATED
_AUDIT = Retention.AUDIT
_OPERATIONAL = Retention.OPERATIONAL
_HEARTBEAT = Retention.HEARTBEAT

_SECURITY = Priority.SECURITY
_DEPARTURE = Priority.DEPARTURE
_ARRIVAL = Priority.ARRIVAL
_BULK = Priority.BULK

_CREDENTIAL = Ordering.CREDENTIAL
_DEVICE = Ordering.LOCK_DEVICE
_RESERVATION = Ordering.RESERVATION

LOCK_EVENTS: tuple[EventSpec, ...] = (
    _lock(Subject.CREDENTIAL_REQUESTED, _OPERATIONAL, _CREDENTIAL, _ARRIVAL),
    _lock(Subject.CREDENTIAL_PENDING, _REGULATED, _CREDENTIAL, _ARRIVAL),
    _lock(Subject.CREDENTIAL_ISSUED, _ANCHORED, _CREDENTIAL, _ARRIVAL),
    _lock(Subject.CREDENTIAL_FAILED, _REGULATED, _CREDENTIAL, _DEPARTURE),
    _lock(Subject.CREDENTIAL_UPDATED, _ANCHORED, _CREDENTIAL, _ARRIVAL),
    _lock(Subject.CREDENTIAL_REVOKED, _ANCHORED, _CREDENTIAL, _SECURITY),
    _lock(Subject.CREDENTIAL_SUSPENDED, _ANCHORED, _CREDENTIAL, _DEPARTURE),
    _lock(Subject.CREDENTIAL_UNSUSPENDED, _ANCHORED, _CREDENTIAL, _ARRIVAL),
    _lock(Subject.DEVICE_REGISTERED, _OPERATIONAL, _DEVICE, _BULK),
    _lock(Subject.DEVICE_HEALTH_ALERT, _OPERATIONAL, _DEVICE, _BULK),
    _lock(Subject.DEVICE_BATTERY_LOW, _OPERATIONAL, _DEVICE, _BULK),
    _lock(Subject.DEVICE_OFFLINE, _OPERATIONAL, _DEVICE, _BULK),
    _lock(Subject.DEVICE_ONLINE, _OPERATIONAL, _DEVICE, _BULK),
    # A master's own events stand in its credential's order: both are written in one transaction.
    _lock(Subject.MASTER_KEY_ISSUED, _REGULATED, _CREDENTIAL, _ARRIVAL),
    _lock(Subject.MASTER_KEY_EXPIRED, _REGULATED, _CREDENTIAL, _DEPARTURE),
    _lock(Subject.ENCODER_SESSION_OPENED, _OPERATIONAL, Ordering.ENCODER_SESSION, _BULK),
    _lock(Subject.ENCODER_SESSION_CLOSED, _OPERATIONAL, Ordering.ENCODER_SESSION, _BULK),
    _lock(Subject.AUDIT_ATTEMPT, _ANCHORED, _DEVICE, _ARRIVAL),
    _lock(Subject.VENDOR_WEBHOOK_RECEIVED, _OPERATIONAL, Ordering.WEBHOOK, _BULK),
    _lock(Subject.VENDOR_WEBHOOK_PROCESSED, _OPERATIONAL, Ordering.WEBHOOK, _BULK),
    _lock(Subject.VENDOR_ADAPTER_HEALTH_CHANGED, _OPERATIONAL, Ordering.INSTALLATION, _DEPARTURE),
    _lock(Subject.VENDOR_ERROR, _OPERATIONAL, _CREDENTIAL, _DEPARTURE),
)

BACK_OFFICE_EVENTS: tuple[EventSpec, ...] = (
    _bff(Subject.BFF_SESSION_OPENED, "session", 1.0, _REGULATED, Ordering.OPERATOR_SESSION),
    _bff(Subject.BFF_SESSION_CLOSED, "session", 1.0, _REGULATED, Ordering.OPERATOR_SESSION),
    _bff(Subject.BFF_DASHBOARD_VIEWED, "activity", 0.25, _OPERATIONAL, Ordering.OPERATOR),
    _bff(Subject.BFF_WORKBENCH_OPENED, "activity", 0.25, _OPERATIONAL, Ordering.OPERATOR),
    _bff(Subject.BFF_AI_SUGGESTION_DECIDED, "ai", 1.0, _REGULATED, Ordering.OPERATOR),
    _bff(Subject.BFF_ALERT_ACKNOWLEDGED, "alerts", 1.0, _AUDIT, Ordering.OPERATOR),
    _bff(Subject.BFF_OPERATOR_ACTIVITY, "activity", 0.10, _OPERATIONAL, Ordering.OPERATOR),
    _bff(Subject.BFF_DEVICE_HEARTBEAT, "devices", 0.05, _HEARTBEAT, Ordering.DESKTOP),
    _bff(Subject.BFF_SYNC_CURSOR_ADVANCED, "sync", 1.0, _OPERATIONAL, Ordering.DESKTOP),
    _bff(Subject.BFF_SYNC_HANDSHAKE_COMPLETED, "sync", 1.0, _OPERATIONAL, Ordering.DESKTOP),
    _bff(Subject.BFF_LOCK_ACTION_PROXIED, "locks", 1.0, _REGULATED, Ordering.OPERATOR),
)

LOCAL_EVENTS: tuple[EventSpec, ...] = (
    _local(Subject.CREDENTIAL_ISSUED_LOCAL),
    _local(Subject.CREDENTIAL_REVOKED_LOCAL),
)

CONSUMED_EVENTS: tuple[EventSpec, ...] = (
    _key(Subject.BOOKING_CONFIRMED, _RESERVATION, _ARRIVAL),
    _key(Subject.BOOKING_CANCELLED, _RESERVATION, _SECURITY),
    _key(Subject.BOOKING_CHECKED_OUT, _RESERVATION, _DEPARTURE),
    _key(Subject.BOOKING_EARLY_CHECKOUT, _RESERVATION, _DEPARTURE),
    _key(Subject.BOOKING_DATES_CHANGED, _RESERVATION, _ARRIVAL),
    _key(Subject.BOOKING_NO_SHOW, _RESERVATION, _DEPARTURE),
    _key(Subject.BOOKING_FRAUD_FLAGGED, _RESERVATION, _SECURITY),
    _key(Subject.SHIFT_STARTED, Ordering.SHIFT, _ARRIVAL),
    _key(Subject.SHIFT_ENDED, Ordering.SHIFT, _DEPARTURE),
    _key(Subject.USER_DEACTIVATED, Ordering.USER, _SECURITY),
    _key(Subject.PROPERTY_DEACTIVATED, Ordering.PROPERTY, _SECURITY),
    _key(Subject.PAYMENT_CAPTURED, _RESERVATION, _ARRIVAL),
    # Tasks feed the master scope `rooms:assigned`, and the boards of the back office.
    _key(Subject.HOUSEKEEPING_TASK_CREATED, Ordering.TASK, _BULK, refreshes_caches=True),
    _key(Subject.HOUSEKEEPING_TASK_TRANSITIONED, Ordering.TASK, _BULK, refreshes_caches=True),
    _key(Subject.MAINTENANCE_WORKORDER_OPENED, Ordering.TASK, _BULK, refreshes_caches=True),
    _key(Subject.MAINTENANCE_WORKORDER_TRANSITIONED, Ordering.TASK, _BULK, refreshes_caches=True),
    _cache(Subject.CONFIG_UPDATED, Ordering.NONE),
    _cache(Subject.SESSION_REVOKED, Ordering.OPERATOR_SESSION, _SECURITY),
    _cache(Subject.USER_DISABLED, Ordering.USER, _SECURITY),
    _cache(Subject.AI_SUGGESTION_CREATED, Ordering.NONE),
    _cache(Subject.AI_SUGGESTION_INVALIDATED, Ordering.NONE),
    _cache(Subject.ALERT_RAISED, Ordering.NONE),
    _cache(Subject.ALERT_RESOLVED, Ordering.NONE),
    _cache(Subject.THEME_PUBLISHED, Ordering.NONE),
    # Moves no key, but keeps one from being suspended: not behind bulk work.
    _cache(Subject.RESERVATION_CHECKED_IN, _RESERVATION, _DEPARTURE),
    _cache(Subject.RESERVATION_CHECKED_OUT, _RESERVATION),
    _cache(Subject.OPERATOR_ROLE_UPDATED, Ordering.NONE),
)

EVENTS: tuple[EventSpec, ...] = LOCK_EVENTS + BACK_OFFICE_EVENTS + LOCAL_EVENTS + CONSUMED_EVENTS

_TOPICLESS: tuple[Subject, ...] = (
    Subject.BOOKING_CONFIRMED,
    Subject.BOOKING_CANCELLED,
    Subject.BOOKING_CHECKED_OUT,
    Subject.BOOKING_EARLY_CHECKOUT,
    Subject.BOOKING_DATES_CHANGED,
    Subject.BOOKING_NO_SHOW,
    Subject.BOOKING_FRAUD_FLAGGED,
    Subject.SHIFT_STARTED,
    Subject.SHIFT_ENDED,
    Subject.USER_DEACTIVATED,
    Subject.PROPERTY_DEACTIVATED,
    Subject.CONFIG_UPDATED,
    Subject.PAYMENT_CAPTURED,
    Subject.CREDENTIAL_ISSUED,
    Subject.CREDENTIAL_FAILED,
    Subject.CREDENTIAL_REVOKED,
    Subject.VENDOR_ERROR,
    Subject.CREDENTIAL_ISSUED_LOCAL,
    Subject.CREDENTIAL_REVOKED_LOCAL,
)
"""Subjects also accepted without `melmastoon.`. The cache events are left out on purpose: `reservation.checked_out.v1`
without its prefix could mean either of two events, so it means none."""

ALIASES: dict[str, str] = {
    "reservation.confirmed.v1": Subject.BOOKING_CONFIRMED.value,
    "reservation.dates_changed.v1": Subject.BOOKING_DATES_CHANGED.value,
    "reservation.no_show.v1": Subject.BOOKING_NO_SHOW.value,
    "reservation.early_checkout.v1": Subject.BOOKING_EARLY_CHECKOUT.value,
    "reservation.checkout.v1": Subject.BOOKING_CHECKED_OUT.value,
    "reservation.cancelled.v1": Subject.BOOKING_CANCELLED.value,
    "reservation.fraud_flagged.v1": Subject.BOOKING_FRAUD_FLAGGED.value,
    "lock.key.issued.v1": Subject.CREDENTIAL_ISSUED.value,
    "lock.key.issued.local.v1": Subject.CREDENTIAL_ISSUED_LOCAL.value,
    **{subject.removeprefix(_PREFIX): subject.value for subject in _TOPICLESS},
}
"""Closed list: other spelling → canonical subject. Accepted at the edge, never written."""
