"""`/metrics`: what is counted over all tenants, what it costs, and whom it names to whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
import requests
from django.conf import settings
from django.db import connection
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext

from credentials.models import KeyCredential
from devices import call_counts
from devices.models import (
    Breaker,
    BreakGlass,
    CallCount,
    RelayDesk,
    RelayJobRow,
    SecretDue,
    VendorInstallation,
    VendorWebhook,
)
from lockservice.api import metrics
from lockservice.core import clock
from lockservice.core.figure_series import SERIES
from lockservice.core.figures import Figure, read_sheet, replace_sheet
from lockservice.core.tenancy import queues, switch_to_queues, switch_to_tenant, tenant
from sagas import figures
from sagas.models import Alert, DeadLetter, Finding, InboxMessage, OutboxEvent, ReconcileRun, Saga
from tests.api.conftest import make_hotel, problem
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from tests.support.web_server import Caller, WebServer
from vendors.port.ids import new_id

Counted = dict[tuple[str, tuple[str, ...]], float]


class Undo(Exception):
    """Ends a block whose rows shall not stay."""


@contextmanager
def snapshot() -> Iterator[None]:
    """A queue block that sees nothing others do meanwhile, and leaves nothing behind."""
    connection.ensure_connection()
    raw = connection.connection
    raw.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    try:
        with queues():
            yield
            raise Undo
    except Undo:
        pass
    finally:
        raw.isolation_level = None


def counted() -> Counted:
    return {(figure.series, figure.labels): figure.value for figure in figures.count_all()}


def trouble(hotel: Hotel, findings: int) -> None:
    """All that can be wrong with one installation. Inside the tenant's block."""
    now, at = clock.now(), {"tenant_id": hotel.tenant_id, "installation_id": hotel.installation_id}
    run: dict[str, Any] = {**at, "property_id": hotel.property_id, "vendor": "mock"}
    ReconcileRun.objects.create(**run, status="done", started_at=now - timedelta(days=4), finished_at=now - timedelta(days=3))
    ReconcileRun.objects.create(**run, status="failed", started_at=now - timedelta(hours=1), finished_at=now)
    for number in range(findings):
        Finding.objects.create(
            **at, property_id=hotel.property_id, device_id=f"lck_{number}", kind="orphan", subject=f"subject {number}", run_id=1,
            danger="opens" if number else "", first_seen_at=now, last_seen_at=now,
        )  # fmt: skip
    Breaker.objects.update_or_create(**at, defaults={"state": "open", "last_at": now})
    VendorInstallation.objects.filter(id=hotel.installation_id).update(calls_per_month=1000)
    month = call_counts.month_of(clock.real_now(), "mock")
    CallCount.objects.update_or_create(**at, month=month, defaults={"calls": 900})


def test_what_waits_is_counted_in_words_of_closed_sets(hotel: Hotel) -> None:
    real, at = datetime.now(UTC), {"tenant_id": hotel.tenant_id, "installation_id": hotel.installation_id}
    place = {**at, "property_id": hotel.property_id}
    with snapshot():
        counted_at = clock.now()
        before = counted()
        switch_to_tenant(hotel.tenant_id)
        now = clock.now()
        for status in ("dead", "retry", "done"):
            Saga.objects.create(
                id=new_id("sag"), **at, flow="issue", key=status, lane="x", status=status, created_at=now, position=1
            )
        for number, is_blocked in enumerate((False, True)):
            OutboxEvent.objects.create(
                id=new_id("evt"), tenant_id=hotel.tenant_id, subject="x", topic="x", ordering_key="x", sequence=number, shard=0,
                body=b"", created_at=now, blocked=is_blocked,
            )  # fmt: skip
        for received_at in (now, now - timedelta(hours=1)):
            InboxMessage.objects.create(
                tenant_id=hotel.tenant_id, consumer="x", event_id=new_id("evt"), subject="x", outcome="applied",
                received_at=received_at,
            )  # fmt: skip
        DeadLetter.objects.create(
            tenant_id=hotel.tenant_id, source="inbox", topic="x", body=b"", digest="x", code="x", detail="x", first_at=now,
            last_at=now,
        )  # fmt: skip
        for name, seen in (("one", None), ("two", now)):
            Alert.objects.create(
                id=new_id("alt"), tenant_id=hotel.tenant_id, key=name, code="X", severity="critical", detail="x", raised_at=now,
                acknowledged_at=seen,
            )  # fmt: skip
        KeyCredential.objects.create(
            id=new_id("key"), **place, vendor="mock", kind="rfid_card", issue_key="x", ordinal=1, valid_from=now,
            valid_until=now + timedelta(days=1), ends_at=now + timedelta(days=1), requested_at=now, waiting_for="desk",
        )  # fmt: skip
        for name, vendor, state in (
            ("a", "generic-wiegand", "queued"),
            ("b", "gone-vendor", "accepted"),
            ("c", "mock", "done"),
        ):
            RelayJobRow.objects.create(
                id=new_id("job"), **place, vendor=vendor, key=name, action="x", body_sealed=b"", state=state,
                created_at=real - timedelta(days=9000), expires_at=real,
            )  # fmt: skip
        for name, until in (("here", real + timedelta(hours=1)), ("gone", real - timedelta(hours=1))):
            RelayDesk.objects.create(
                tenant_id=hotel.tenant_id, desk_id=name, property_id=hotel.property_id, connection=name, connected_at=real,
                seen_at=real, expires_at=until,
            )  # fmt: skip
        for status in ("due", "held", "done"):
            VendorWebhook.objects.create(
                id=new_id("whk"),
                **at,
                vendor="mock",
                external_event_id=status,
                type="x",
                received_at=now,
                status=status,
                due_at=real,
            )
        for name, days in (("a", -1), ("b", 3), ("c", 30)):
            SecretDue.objects.create(
                id=new_id("sdu"), **place, kind="secret", name=name, reason="cadence", due_at=real + timedelta(days=days),
                made_at=real,
            )  # fmt: skip
        BreakGlass.objects.create(
            id=new_id("bgl"), **place, secret_name="x", incident="x", reason="x", requested_by="x", requested_at=now,
            expires_at=real,
        )  # fmt: skip
        trouble(hotel, findings=3)
        switch_to_queues()
        after = counted()
        recent = timedelta(minutes=5)
        aged = InboxMessage.objects.filter(received_at__gt=counted_at - recent, received_at__lte=clock.now() - recent)
        for outcome, count in Counter(aged.values_list("outcome", flat=True)).items():
            before["lock_inbox_recent", (outcome,)] -= count  # of other tests, and no longer recent on a busy machine
    grown = {
        (series, labels): after.get((series, labels), 0.0) - before.get((series, labels), 0.0)
        for series, labels in {**before, **after}
        if not series.endswith(("_seconds", "_max")) and not SERIES[series].of_installation
    }
    assert {name: by for name, by in grown.items() if by} == {
        ("lock_sagas", ("dead",)): 1,
        ("lock_sagas", ("retry",)): 1,
        ("lock_outbox_unpublished", ()): 2,
        ("lock_outbox_blocked", ()): 1,
        ("lock_inbox_recent", ("applied",)): 1,
        ("lock_dead_letters", ("inbox",)): 1,
        ("lock_alerts_open", ("critical",)): 1,
        ("lock_keys_waiting", ("desk",)): 1,
        ("lock_desk_jobs_open", ("generic-wiegand", "queued")): 1,
        ("lock_desk_jobs_open", ("other", "accepted")): 1,
        ("lock_desks_connected", ()): 1,
        ("lock_webhooks_open", ("mock", "due")): 1,
        ("lock_webhooks_open", ("mock", "held")): 1,
        ("lock_breakers", ("mock", "open")): 1,
        ("lock_breakers", ("mock", "closed")): -1,
        ("lock_comparisons", ("mock", "failed")): 1,
        ("lock_comparisons", ("mock", "never")): -1,
        ("lock_findings_open", ("mock", "opens")): 2,
        ("lock_findings_open", ("mock", "none")): 1,
        ("lock_secrets_due", ("secret", "late")): 1,
        ("lock_secrets_due", ("secret", "soon")): 1,
        ("lock_break_glass_open", ("requested",)): 1,
    }
    assert after["lock_desk_jobs_oldest_seconds", ("generic-wiegand",)] >= 9000 * 86_400
    assert after["lock_comparison_oldest_seconds", ("mock",)] >= 3 * 86_400
    assert after["lock_quota_used_ratio_max", ("mock",)] >= 0.9


def test_the_worst_installations_are_told_one_by_one_and_no_more_than_a_number_of_them(hotel: Hotel) -> None:
    with snapshot():
        switch_to_tenant(hotel.tenant_id)
        row = VendorInstallation.objects.get(id=hotel.installation_id)
        for _ in range(figures.INSTALLATIONS_MAX + 5):
            row.pk = new_id("vad")
            row.save(force_insert=True)
        trouble(hotel, findings=500)
        switch_to_queues()
        found = [figure for figure in figures.count_all() if SERIES[figure.series].of_installation]
    assert len({figure.labels[0] for figure in found}) == figures.INSTALLATIONS_MAX
    mine = {figure.series.removeprefix("lock_installation_"): figure.value for figure in found if figure.labels == (hotel.installation_id, "mock")}  # fmt: skip
    assert round(mine.pop("comparison_age_seconds") / 86_400) == 3
    assert mine == {"comparison_failed": 1, "findings_open": 500, "quota_used_ratio": 0.9, "breaker_open": 1}


def test_a_count_takes_as_many_statements_however_much_there_is(hotel: Hotel) -> None:
    with snapshot():
        with CaptureQueriesContext(connection) as few:
            figures.count_all()
        switch_to_tenant(hotel.tenant_id)
        row = VendorInstallation.objects.get(id=hotel.installation_id)
        for _ in range(50):
            row.pk = new_id("vad")
            row.save(force_insert=True)
        trouble(hotel, findings=50)
        switch_to_queues()
        with CaptureQueriesContext(connection) as many:
            figures.count_all()
    assert len(few) == len(many) == 17


def test_single_installations_are_named_to_the_metrics_token_alone_and_a_scrape_is_one_query(
    web: WebServer, locks: MockLocks
) -> None:
    hotel = make_hotel(locks)
    with tenant(hotel.tenant_id):
        trouble(hotel, findings=600)
    with queues():
        assert read_sheet() is None, "nobody else counts in this database"
    assert Caller(web.url).get("/metrics").text.count("lock_figures_age_seconds") == 0
    assert figures.count_due() > 20
    assert figures.count_due() == 0  # it is fresh

    text = Caller(web.url).get("/metrics").text
    assert 'lock_breakers{state="open",vendor="mock"}' in text
    assert "lock_figures_age_seconds" in text
    assert "lock_installation_" not in text
    assert hotel.installation_id not in text

    shown = Caller(web.url, settings.METRICS_TOKEN).get("/metrics").text
    assert f'lock_installation_findings_open{{installation="{hotel.installation_id}",vendor="mock"}} 600.0' in shown
    for secret in (hotel.tenant_id, hotel.property_id, *hotel.devices.values()):
        assert secret not in shown

    for wrong in (
        "Bearer x",
        "Bearer ",
        f"Basic {settings.METRICS_TOKEN}",
        f"Bearer {settings.METRICS_TOKEN}x",
        "Bearer \u00fc",
    ):
        answer = requests.get(f"{web.url}/metrics", headers={"Authorization": wrong.encode()}, timeout=5)
        assert problem(answer) == (401, "UNAUTHENTICATED")
        assert "lock_" not in answer.text

    with queues():
        replace_sheet([Figure("lock_findings_open", ("mock", f"word {number}"), 1) for number in range(5000)])
    with CaptureQueriesContext(connection) as asked:
        body = metrics.expose(RequestFactory().get("/metrics")).content.decode()
    assert body.count("lock_findings_open{") == 5000
    assert len([query for query in asked if "core_figuresheet" in query["sql"]]) == 1
    assert len(asked) <= 4  # the transaction around it


@pytest.mark.parametrize("token", ["", "a token"])
def test_without_a_token_in_the_settings_nobody_is_named_anything(token: str, settings: Any) -> None:
    settings.METRICS_TOKEN = ""
    answer = metrics.expose(RequestFactory().get("/metrics", HTTP_AUTHORIZATION=f"Bearer {token}"))
    assert answer.status_code == 401
