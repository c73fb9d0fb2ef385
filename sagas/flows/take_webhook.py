"""Works on pushes that were taken in: writes what they prove, and leaves the rest until the vendor was asked.

One rule: a push is one row, worked in one transaction that calls nobody. What it does not prove by itself (the vendor signs
nothing, or a key that is over is said to have opened a door, or a lock would stand otherwise) waits for a reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import structlog
from django.db import connection, transaction

from devices import read_back, webhooks
from devices.models import VendorWebhook
from lockservice.core import clock, tenancy
from lockservice.core.outage import is_outage
from sagas import outbox
from sagas.alerts import NewAlert, raise_alerts
from sagas.flows import note_attempts
from sagas.flows.note_attempts import Known, Place

log = structlog.get_logger(__name__)

TRIES = 5
RETRY_S = 30
REPLAYS_KEPT_DAYS = 30
"""Vendors repeat for hours, at most days; the fact sheets name no figure."""
RECEIPTS_KEPT = timedelta(days=90)
"""As operational events; attempts are kept with the regulated ones."""
OLDEST, NEWEST = timedelta(days=180), timedelta(days=1)
"""An attempt outside of this span around now is in no vendor's log: an unproven push that tells of one is not asked back."""


def take_due(limit: int = 200, only: Sequence[str] | None = None) -> int:
    """Works on up to `limit` due pushes, each in its own transaction; returns how many. Any number of processes may do so.

    `only` restricts it to pushes for installations of the given ids.
    """
    done = 0
    while done < limit and _take_one(only):
        done += 1
    return done


def _take_one(only: Sequence[str] | None) -> bool:
    with tenancy.queues():
        rows = VendorWebhook.objects.select_for_update(skip_locked=True).filter(
            status__in=["due", "held"], due_at__lte=_real_now()
        )
        if only is not None:
            rows = rows.filter(installation_id__in=list(only))
        row = rows.order_by("due_at", "id").first()
        if row is None:
            return False
        tenancy.switch_to_tenant(row.tenant_id)
        try:
            with transaction.atomic():
                _take(row, clock.now())
        except Exception as error:
            if is_outage(error):
                raise
            _put_off(row, error)  # one push that we cannot handle must not stop its neighbours
    return True


def _take(row: VendorWebhook, now: datetime) -> None:
    """Writes what the push proves, and how it ended or that it waits. Inside the tenant's block."""
    if row.status == "held":
        emissions = read_back.give_up(row, now)
    else:
        place = Place(row.tenant_id, row.installation_id, row.vendor)
        records = [webhooks.from_json(item) for item in row.records]
        if not row.is_proven:
            records = [record for record in records if now - OLDEST < record.attempted_at < now + NEWEST]
        known = note_attempts.recognise(place, records)
        sure, doubtful = _sort(row, known)
        new = note_attempts.write(place, sure, now, signs_of_life=True)
        states = [
            item
            for item in row.states
            if read_back.would_change(row.tenant_id, row.installation_id, webhooks.state_from_json(item))
        ]
        outcome = _outcome(sure, new)
        emissions = _end_or_hold(row, doubtful, states, outcome, now)
    row.save()
    outbox.write(row.tenant_id, emissions, now)
    _forget(row, now)


def _end_or_hold(
    row: VendorWebhook, doubtful: Sequence[Known], states: list[dict[str, object]], outcome: str, now: datetime
) -> list[outbox.Emission]:
    if not doubtful and not states:
        row.records, row.states = [], []
        return [webhooks.processed(row, outcome, now)]
    row.outcome = outcome if outcome != "ignored" else ""
    row.records = [read_back.as_held(item.record, contradicts=item.contradicts) for item in doubtful]
    row.states = states
    read_back.hold(row, {item.device.id for item in doubtful}, polls=bool(states))
    return []


def _sort(row: VendorWebhook, known: Sequence[Known]) -> tuple[list[Known], list[Known]]:
    """Returns what the push proves, and what must be asked back. A vendor that signs nothing and has no log is believed
    nothing."""
    doubtful = [item for item in known if not row.is_proven or item.contradicts]
    if not doubtful:
        return list(known), []
    if not row.has_log:
        return (list(known) if row.is_proven else []), []
    asked = {item.record.external_event_id for item in doubtful}
    return [item for item in known if item.record.external_event_id not in asked], doubtful


def _outcome(known: Sequence[Known], new: set[str]) -> str:
    if new:
        return "applied"
    return "duplicate" if known else "ignored"


def _forget(row: VendorWebhook, now: datetime) -> None:
    """Drops the installation's old receipts and the tenant's old replay rows."""
    old = VendorWebhook.objects.filter(tenant_id=row.tenant_id, installation_id=row.installation_id, status="done")
    old.filter(received_at__lt=now - RECEIPTS_KEPT).delete()
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM devices_webhookreplay WHERE tenant_id = %s"
            " AND seen_at < (SELECT clock_timestamp()) - make_interval(days => %s)",
            [row.tenant_id, REPLAYS_KEPT_DAYS],
        )


def _put_off(row: VendorWebhook, error: Exception) -> None:
    """Our bug: tried again a few times, then left to a person. Inside the tenant's block."""
    log.error("webhook.bug", webhook=row.id, exc_info=error)
    row.refresh_from_db()
    row.attempts += 1
    row.detail = type(error).__name__
    row.due_at = _real_now() + timedelta(seconds=RETRY_S * row.attempts)
    if row.attempts >= TRIES:
        row.status = "dead"
        alert = NewAlert(f"bug:{row.id}", "INTERNAL_ERROR", "critical", "a push stopped on an error of ours", webhooks.RUNBOOK)
        raise_alerts(row.tenant_id, [alert], clock.now())
    row.save()


def _real_now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now
