"""Names of all events this service produces, consumes or keeps at the desk.

One rule: a subject is written out here and nowhere else; everyone else uses the enum.
"""

from __future__ import annotations

from enum import StrEnum


class Subject(StrEnum):
    """Canonical subjects. A member is its own text, so it can be used wherever a subject is expected."""

    # Produced: lock
    CREDENTIAL_REQUESTED = "melmastoon.lock.credential.requested.v1"
    CREDENTIAL_PENDING = "melmastoon.lock.credential.pending.v1"
    CREDENTIAL_ISSUED = "melmastoon.lock.credential.issued.v1"
    CREDENTIAL_FAILED = "melmastoon.lock.credential.failed.v1"
    CREDENTIAL_UPDATED = "melmastoon.lock.credential.updated.v1"
    CREDENTIAL_REVOKED = "melmastoon.lock.credential.revoked.v1"
    CREDENTIAL_SUSPENDED = "melmastoon.lock.credential.suspended.v1"
    CREDENTIAL_UNSUSPENDED = "melmastoon.lock.credential.unsuspended.v1"
    DEVICE_REGISTERED = "melmastoon.lock.device.registered.v1"
    DEVICE_HEALTH_ALERT = "melmastoon.lock.device.health_alert.v1"
    DEVICE_BATTERY_LOW = "melmastoon.lock.device.battery_low.v1"
    DEVICE_OFFLINE = "melmastoon.lock.device.offline.v1"
    DEVICE_ONLINE = "melmastoon.lock.device.online.v1"
    MASTER_KEY_ISSUED = "melmastoon.lock.master_key.issued.v1"
    MASTER_KEY_EXPIRED = "melmastoon.lock.master_key.expired.v1"
    ENCODER_SESSION_OPENED = "melmastoon.lock.encoder_session.opened.v1"
    ENCODER_SESSION_CLOSED = "melmastoon.lock.encoder_session.closed.v1"
    AUDIT_ATTEMPT = "melmastoon.lock.audit.attempt.v1"
    VENDOR_WEBHOOK_RECEIVED = "melmastoon.lock.vendor_webhook.received.v1"
    VENDOR_WEBHOOK_PROCESSED = "melmastoon.lock.vendor_webhook.processed.v1"
    VENDOR_ADAPTER_HEALTH_CHANGED = "melmastoon.lock.vendor_adapter.health_changed.v1"
    VENDOR_ERROR = "melmastoon.lock.vendor.error.v1"

    # Produced: back office
    BFF_SESSION_OPENED = "melmastoon.bff.backoffice.session.opened.v1"
    BFF_SESSION_CLOSED = "melmastoon.bff.backoffice.session.closed.v1"
    BFF_DASHBOARD_VIEWED = "melmastoon.bff.backoffice.dashboard.viewed.v1"
    BFF_WORKBENCH_OPENED = "melmastoon.bff.backoffice.workbench.opened.v1"
    BFF_AI_SUGGESTION_DECIDED = "melmastoon.bff.backoffice.ai_suggestion.decided.v1"
    BFF_ALERT_ACKNOWLEDGED = "melmastoon.bff.backoffice.alert.acknowledged.v1"
    BFF_OPERATOR_ACTIVITY = "melmastoon.bff.backoffice.operator.activity.v1"
    BFF_DEVICE_HEARTBEAT = "melmastoon.bff.backoffice.device.heartbeat.v1"
    BFF_SYNC_CURSOR_ADVANCED = "melmastoon.bff.backoffice.sync.cursor_advanced.v1"
    BFF_SYNC_HANDSHAKE_COMPLETED = "melmastoon.bff.backoffice.sync.handshake_completed.v1"
    BFF_LOCK_ACTION_PROXIED = "melmastoon.bff.backoffice.lock.action_proxied.v1"

    # Local to the desk
    CREDENTIAL_ISSUED_LOCAL = "melmastoon.lock.credential.issued.local.v1"
    CREDENTIAL_REVOKED_LOCAL = "melmastoon.lock.credential.revoked.local.v1"

    # Consumed: they move keys
    BOOKING_CONFIRMED = "melmastoon.reservation.booking.confirmed.v1"
    BOOKING_CANCELLED = "melmastoon.reservation.booking.cancelled.v1"
    BOOKING_CHECKED_OUT = "melmastoon.reservation.booking.checked_out.v1"
    BOOKING_EARLY_CHECKOUT = "melmastoon.reservation.booking.early_checkout.v1"
    BOOKING_DATES_CHANGED = "melmastoon.reservation.booking.dates_changed.v1"
    BOOKING_NO_SHOW = "melmastoon.reservation.booking.no_show.v1"
    BOOKING_FRAUD_FLAGGED = "melmastoon.reservation.booking.fraud_flagged.v1"
    SHIFT_STARTED = "melmastoon.staff.shift.started.v1"
    SHIFT_ENDED = "melmastoon.staff.shift.ended.v1"
    USER_DEACTIVATED = "melmastoon.iam.user.deactivated.v1"
    PROPERTY_DEACTIVATED = "melmastoon.tenant.property.deactivated.v1"
    PAYMENT_CAPTURED = "melmastoon.payment.captured.v1"
    HOUSEKEEPING_TASK_CREATED = "melmastoon.housekeeping.task.created.v1"
    HOUSEKEEPING_TASK_TRANSITIONED = "melmastoon.housekeeping.task.transitioned.v1"
    MAINTENANCE_WORKORDER_OPENED = "melmastoon.maintenance.workorder.opened.v1"
    MAINTENANCE_WORKORDER_TRANSITIONED = "melmastoon.maintenance.workorder.transitioned.v1"

    # Consumed: they move no key
    CONFIG_UPDATED = "melmastoon.tenant.config_updated.v1"
    SESSION_REVOKED = "melmastoon.iam.session.revoked.v1"
    USER_DISABLED = "melmastoon.iam.user.disabled.v1"
    AI_SUGGESTION_CREATED = "melmastoon.ai.suggestion.created.v1"
    AI_SUGGESTION_INVALIDATED = "melmastoon.ai.suggestion.invalidated.v1"
    ALERT_RAISED = "melmastoon.alert.raised.v1"
    ALERT_RESOLVED = "melmastoon.alert.resolved.v1"
    THEME_PUBLISHED = "melmastoon.theme.published.v1"
    RESERVATION_CHECKED_IN = "melmastoon.reservation.checked_in.v1"
    RESERVATION_CHECKED_OUT = "melmastoon.reservation.checked_out.v1"
    OPERATOR_ROLE_UPDATED = "melmastoon.tenant.operator_role.updated.v1"
