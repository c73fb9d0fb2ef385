"""The registry knows every subject of the documents, and refuses to load with a gap."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sagas.events import registry
from sagas.events.catalogue import ALIASES, EVENTS
from sagas.events.event_spec import AlsoPublish, Direction, EventSpec, Form, Ordering, Priority, Retention
from sagas.events.refusals import UnknownSubject
from sagas.events.registry import Registry, RegistryIncomplete
from sagas.events.subjects import Subject

PRODUCED_LOCK = [
    "credential.requested",
    "credential.pending",
    "credential.issued",
    "credential.failed",
    "credential.updated",
    "credential.revoked",
    "credential.suspended",
    "credential.unsuspended",
    "device.registered",
    "device.health_alert",
    "device.battery_low",
    "device.offline",
    "device.online",
    "master_key.issued",
    "master_key.expired",
    "encoder_session.opened",
    "encoder_session.closed",
    "audit.attempt",
    "vendor_webhook.received",
    "vendor_webhook.processed",
    "vendor_adapter.health_changed",
    "vendor.error",
]

# Subject, topic group, sampling rate, class, days: the table of the back-office document.
PRODUCED_BACK_OFFICE = [
    ("session.opened", "session", 1.0, "regulated", 2557),
    ("session.closed", "session", 1.0, "regulated", 2557),
    ("dashboard.viewed", "activity", 0.25, "operational", 90),
    ("workbench.opened", "activity", 0.25, "operational", 90),
    ("ai_suggestion.decided", "ai", 1.0, "regulated", 2557),
    ("alert.acknowledged", "alerts", 1.0, "audit", 365),
    ("operator.activity", "activity", 0.10, "operational", 90),
    ("device.heartbeat", "devices", 0.05, "operational", 30),
    ("sync.cursor_advanced", "sync", 1.0, "operational", 90),
    ("sync.handshake_completed", "sync", 1.0, "operational", 90),
    ("lock.action_proxied", "locks", 1.0, "regulated", 2557),
]

KEY_MOVING = [
    "reservation.booking.confirmed",
    "reservation.booking.cancelled",
    "reservation.booking.checked_out",
    "reservation.booking.early_checkout",
    "reservation.booking.dates_changed",
    "reservation.booking.no_show",
    "reservation.booking.fraud_flagged",
    "staff.shift.started",
    "staff.shift.ended",
    "iam.user.deactivated",
    "tenant.property.deactivated",
    "payment.captured",
    "housekeeping.task.created",
    "housekeeping.task.transitioned",
    "maintenance.workorder.opened",
    "maintenance.workorder.transitioned",
]

CACHE_ONLY = [
    "tenant.config_updated",
    "iam.session.revoked",
    "iam.user.disabled",
    "ai.suggestion.created",
    "ai.suggestion.invalidated",
    "alert.raised",
    "alert.resolved",
    "theme.published",
    "reservation.checked_in",
    "reservation.checked_out",
    "tenant.operator_role.updated",
]

SECRET_LOOKING = re.compile(
    r"(?i)(vendor_?ref|secret|password|passwd|private|api_?key|(^|access|refresh|exchange|bearer)_?token$|"
    r"^pin(code|value|digits)?$|^card(number|bytes|data|uid)|keybytes|keydata|^ekey|^value$|"
    r"e_?mail|phone|guestname|displayname|firstname|lastname|^contact$|^name$|address)"
)


def with_prefix(names: list[str], prefix: str = "melmastoon.") -> set[str]:
    return {f"{prefix}{name}.v1" for name in names}


def test_every_produced_subject_of_both_documents_is_registered() -> None:
    back_office = with_prefix([row[0] for row in PRODUCED_BACK_OFFICE], "melmastoon.bff.backoffice.")
    assert {spec.subject for spec in registry.produced()} == with_prefix(PRODUCED_LOCK, "melmastoon.lock.") | back_office


def test_every_consumed_subject_of_both_documents_is_registered() -> None:
    assert {spec.subject for spec in registry.consumed()} == with_prefix(KEY_MOVING) | with_prefix(CACHE_ONLY)


def test_cache_and_session_events_never_move_a_key() -> None:
    assert {spec.subject for spec in registry.key_moving()} == with_prefix(KEY_MOVING)
    assert {spec.subject for spec in registry.cache_refreshing()} >= with_prefix(CACHE_ONLY)


def test_local_events_have_no_topic() -> None:
    assert {(spec.subject, spec.topic, spec.dead_letter_topic) for spec in registry.local()} == {
        ("melmastoon.lock.credential.issued.local.v1", None, None),
        ("melmastoon.lock.credential.revoked.local.v1", None, None),
    }


def test_the_names_and_the_catalogue_hold_the_same_subjects() -> None:
    assert [subject.value for subject in Subject] != []
    assert {subject.value for subject in Subject} == {spec.subject for spec in registry.REGISTRY.all()}


@pytest.mark.parametrize(("event", "group", "rate", "retention_class", "days"), PRODUCED_BACK_OFFICE)
def test_back_office_topics_sampling_and_retention_are_those_of_the_document(
    event: str, group: str, rate: float, retention_class: str, days: int
) -> None:
    spec = registry.spec(f"melmastoon.bff.backoffice.{event}.v1")
    assert (spec.topic, spec.dead_letter_topic) == (
        f"melmastoon.bff.backoffice.{group}",
        f"melmastoon.bff.backoffice.{group}.dlq.v1",
    )
    assert (spec.sampling_rate, spec.flag_key, spec.form) == (rate, "bff-backoffice-flags", Form.NESTED)
    assert (spec.retention.class_name, spec.retention.days) == (retention_class, days)


@pytest.mark.parametrize("event", PRODUCED_LOCK)
def test_a_lock_event_has_its_subject_as_topic_and_is_never_sampled(event: str) -> None:
    spec = registry.spec(f"melmastoon.lock.{event}.v1")
    assert (spec.topic, spec.sampling_rate, spec.flag_key, spec.form) == (spec.subject, 1.0, None, Form.FLAT)
    assert spec.schema_url == f"https://schemas.melmastoon.ghasi.io/lock/{event}.v1.json"
    assert spec.dead_letter_topic == f"melmastoon.lock.{event.split('.', maxsplit=1)[0]}.dlq.v1"


@pytest.mark.parametrize(
    ("event", "retention"),
    [
        ("credential.requested", Retention.OPERATIONAL),
        ("credential.pending", Retention.REGULATED),
        ("credential.issued", Retention.REGULATED_ANCHORED),
        ("credential.failed", Retention.REGULATED),
        ("credential.updated", Retention.REGULATED_ANCHORED),
        ("credential.revoked", Retention.REGULATED_ANCHORED),
        ("credential.suspended", Retention.REGULATED_ANCHORED),
        ("credential.unsuspended", Retention.REGULATED_ANCHORED),
        ("master_key.issued", Retention.REGULATED),
        ("encoder_session.opened", Retention.OPERATIONAL),
        ("audit.attempt", Retention.REGULATED_ANCHORED),
        ("vendor_webhook.received", Retention.OPERATIONAL),
        ("vendor_adapter.health_changed", Retention.OPERATIONAL),
        ("vendor.error", Retention.OPERATIONAL),
    ],
)
def test_lock_retention_is_that_of_the_document(event: str, retention: Retention) -> None:
    assert registry.spec(f"melmastoon.lock.{event}.v1").retention is retention


def test_credential_events_keep_the_order_of_their_credential() -> None:
    for event in PRODUCED_LOCK:
        if event.startswith(("credential.", "master_key.", "vendor.error")):
            assert registry.spec(f"melmastoon.lock.{event}.v1").ordering is Ordering.CREDENTIAL


@pytest.mark.parametrize(
    ("subject", "priority"),
    [
        (Subject.BOOKING_CANCELLED, Priority.SECURITY),
        (Subject.BOOKING_FRAUD_FLAGGED, Priority.SECURITY),
        (Subject.USER_DEACTIVATED, Priority.SECURITY),
        (Subject.PROPERTY_DEACTIVATED, Priority.SECURITY),
        (Subject.BOOKING_CHECKED_OUT, Priority.DEPARTURE),
        (Subject.BOOKING_EARLY_CHECKOUT, Priority.DEPARTURE),
        (Subject.BOOKING_NO_SHOW, Priority.DEPARTURE),
        (Subject.BOOKING_CONFIRMED, Priority.ARRIVAL),
        (Subject.BOOKING_DATES_CHANGED, Priority.ARRIVAL),
        (Subject.HOUSEKEEPING_TASK_CREATED, Priority.BULK),
    ],
)
def test_ending_a_key_goes_before_issuing_one(subject: Subject, priority: Priority) -> None:
    assert registry.spec(subject).priority is priority


@pytest.mark.parametrize(
    ("alias", "subject"),
    [
        ("reservation.confirmed.v1", Subject.BOOKING_CONFIRMED),
        ("reservation.dates_changed.v1", Subject.BOOKING_DATES_CHANGED),
        ("reservation.no_show.v1", Subject.BOOKING_NO_SHOW),
        ("reservation.early_checkout.v1", Subject.BOOKING_EARLY_CHECKOUT),
        ("reservation.checkout.v1", Subject.BOOKING_CHECKED_OUT),
        ("reservation.cancelled.v1", Subject.BOOKING_CANCELLED),
        ("reservation.fraud_flagged.v1", Subject.BOOKING_FRAUD_FLAGGED),
        ("payment.captured.v1", Subject.PAYMENT_CAPTURED),
        ("lock.key.issued.v1", Subject.CREDENTIAL_ISSUED),
        ("lock.key.issued.local.v1", Subject.CREDENTIAL_ISSUED_LOCAL),
        ("lock.credential.revoked.local.v1", Subject.CREDENTIAL_REVOKED_LOCAL),
        ("lock.vendor.error.v1", Subject.VENDOR_ERROR),
        ("reservation.booking.confirmed.v1", Subject.BOOKING_CONFIRMED),
        ("staff.shift.ended.v1", Subject.SHIFT_ENDED),
    ],
)
def test_the_short_spellings_are_known(alias: str, subject: Subject) -> None:
    assert registry.canonical(alias) == subject


@pytest.mark.parametrize(
    "subject", ["reservation.checked_out.v1", "melmastoon.reservation.confirmed.v1", "", "iam.user.disabled.v1"]
)
def test_the_list_of_spellings_is_closed(subject: str) -> None:
    with pytest.raises(UnknownSubject):
        registry.canonical(subject)


def test_an_unknown_subject_crosses_processes_as_itself() -> None:
    copy = pickle.loads(pickle.dumps(UnknownSubject()))  # noqa: S301 - our own bytes
    assert (type(copy), str(copy)) == (UnknownSubject, "UNKNOWN_SUBJECT: subject: not registered")


def test_a_schema_file_is_served_by_its_public_path() -> None:
    raw = registry.schema_file("bff-backoffice/dashboard-viewed/v1.json")
    assert raw is not None
    assert json.loads(raw)["$id"] == "https://schemas.melmastoon.ghasi.io/bff-backoffice/dashboard-viewed/v1.json"
    assert registry.schema_file("../registry.py") is None
    assert registry.schema_file("published.json") is None


def property_names(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for item in schema:
            yield from property_names(item)
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
        for value in schema.values():
            yield from property_names(value)


@pytest.mark.parametrize("spec", registry.produced(), ids=lambda spec: spec.subject)
def test_no_published_payload_declares_a_secret_or_a_guests_name(spec: EventSpec) -> None:
    found = {name for name in property_names(dict(registry.REGISTRY.schema(spec.subject))) if SECRET_LOOKING.search(name)}
    # A lock's capability to take PINs is called `pin` in the port's own list; it is a boolean.
    assert found == ({"pin"} if spec.subject == Subject.DEVICE_REGISTERED else set())


def test_only_the_desks_local_events_may_carry_a_vendor_reference() -> None:
    carriers = {
        spec.subject
        for spec in registry.REGISTRY.all()
        if "vendorRef" in set(property_names(dict(registry.REGISTRY.schema(spec.subject))))
    }
    assert carriers == {Subject.CREDENTIAL_ISSUED_LOCAL, Subject.CREDENTIAL_REVOKED_LOCAL}


SMALL = (registry.spec(Subject.USER_DEACTIVATED), registry.spec(Subject.PROPERTY_DEACTIVATED))


@pytest.fixture
def schemas(tmp_path: Path) -> Path:
    for spec in SMALL:
        target = tmp_path / spec.schema_file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(registry.schema_file(spec.schema_file) or b"")
    return tmp_path


def test_a_complete_small_registry_loads(schemas: Path) -> None:
    assert len(Registry(SMALL, {"short.v1": SMALL[0].subject}, schemas).all()) == 2


def problems(specs: tuple[EventSpec, ...], aliases: dict[str, str], schemas: Path) -> str:
    with pytest.raises(RegistryIncomplete) as caught:
        Registry(specs, aliases, schemas)
    return str(caught.value)


def test_a_missing_schema_stops_loading(schemas: Path) -> None:
    (schemas / SMALL[0].schema_file).unlink()
    assert problems(SMALL, {}, schemas) == f"{SMALL[0].subject}: schema {SMALL[0].schema_file} is missing"


def test_a_schema_nobody_registered_stops_loading(schemas: Path) -> None:
    (schemas / "inbound" / "stray.v1.json").write_text("{}")
    assert problems(SMALL, {}, schemas) == "inbound/stray.v1.json: belongs to no subject"


def test_a_doubled_subject_stops_loading(schemas: Path) -> None:
    assert problems((*SMALL, SMALL[0]), {}, schemas) == f"{SMALL[0].subject}: registered twice"


def test_a_schema_of_another_subject_stops_loading(schemas: Path) -> None:
    swapped = (SMALL[0], replace(SMALL[1], schema_file=SMALL[0].schema_file))
    assert f"{SMALL[1].subject}: shares {SMALL[0].schema_file} with another subject" in problems(swapped, {}, schemas)


def test_a_schema_with_a_wrong_id_stops_loading(schemas: Path) -> None:
    path = schemas / SMALL[0].schema_file
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "$id": "https://elsewhere.example/x"}))
    assert problems(SMALL, {}, schemas) == f"{SMALL[0].subject}: $id of {SMALL[0].schema_file} is wrong"


def test_a_schema_that_is_no_json_stops_loading(schemas: Path) -> None:
    (schemas / SMALL[0].schema_file).write_text("{")
    assert problems(SMALL, {}, schemas) == f"{SMALL[0].subject}: schema {SMALL[0].schema_file} is no JSON"


@pytest.mark.parametrize(
    ("alias", "target", "said"),
    [
        ("short.v1", "nowhere.v1", "alias short.v1 names no subject"),
        (SMALL[1].subject, SMALL[0].subject, f"alias {SMALL[1].subject} hides a subject"),
    ],
)
def test_a_wrong_alias_stops_loading(schemas: Path, alias: str, target: str, said: str) -> None:
    assert problems(SMALL, {alias: target}, schemas) == said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"topic": None, "dead_letter_topic": None}, "only local events have no topic"),
        ({"dead_letter_topic": None}, "topic and dead-letter topic go together"),
        ({"sampling_rate": 1.5}, "sampling rate outside 0 to 1"),
        ({"sampling_rate": 0.5, "retention": Retention.REGULATED}, "only operational events may be sampled"),
        ({"form": Form.NESTED}, "a back-office event needs a flag key"),
        ({"direction": Direction.PRODUCED}, "only consumed events have effects here"),
        ({"also_publish": AlsoPublish("nowhere.v0", dict)}, "cannot also publish nowhere.v0"),
    ],
)
def test_a_contradiction_in_a_spec_stops_loading(schemas: Path, change: dict[str, Any], said: str) -> None:
    assert problems((replace(SMALL[0], **change), SMALL[1]), {}, schemas) == f"{SMALL[0].subject}: {said}"


def test_a_badly_spelled_subject_stops_loading(schemas: Path) -> None:
    assert "Iam.User: badly spelled" in problems((replace(SMALL[0], subject="Iam.User"), SMALL[1]), {}, schemas)


def test_every_problem_is_told_at_once(schemas: Path) -> None:
    (schemas / SMALL[0].schema_file).unlink()
    said = problems((*SMALL, SMALL[1]), {"short.v1": "nowhere.v1"}, schemas)
    assert said.count(";") == 2


def test_the_shipped_catalogue_and_aliases_load() -> None:
    loaded = Registry(EVENTS, ALIASES, registry.SCHEMAS)
    assert len(loaded.all()) == 62
