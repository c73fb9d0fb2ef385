"""Data that breaks its schema is refused with the field's path and never with its value."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from sagas.events import registry
from sagas.events.event_spec import Direction
from sagas.events.refusals import EventRefused
from sagas.events.subjects import Subject
from sagas.events.validate import validate

EXAMPLES: dict[str, list[dict[str, Any]]] = {}
for _file in sorted((Path(__file__).parent / "examples").glob("*.json")):
    EXAMPLES.update(json.loads(_file.read_text(encoding="utf-8")))

ISSUED = Subject.CREDENTIAL_ISSUED
CONFIRMED = Subject.BOOKING_CONFIRMED


def example(subject: Subject, number: int = 0, **changes: Any) -> dict[str, Any]:
    data = copy.deepcopy(EXAMPLES[subject.value][number])
    for name, value in changes.items():
        if value is ...:
            data.pop(name)
        else:
            data[name] = value
    return data


def refusal(subject: str, data: Any) -> tuple[str, str]:
    with pytest.raises(EventRefused) as caught:
        validate(subject, data)
    return caught.value.code.value, caught.value.detail


@pytest.mark.parametrize("spec", registry.REGISTRY.all(), ids=lambda spec: spec.subject)
def test_every_required_field_is_missed_by_its_name(spec: Any) -> None:
    schema = registry.REGISTRY.schema(spec.subject)
    data = EXAMPLES[spec.subject][0]
    for name in schema.get("required", []):
        bare = {field: value for field, value in data.items() if field != name}
        assert refusal(spec.subject, bare) == ("MISSING_FIELD", f"data.{name}")


@pytest.mark.parametrize("spec", registry.REGISTRY.all(), ids=lambda spec: spec.subject)
def test_no_instant_without_a_zone_passes(spec: Any) -> None:
    for name, field in registry.REGISTRY.schema(spec.subject)["properties"].items():
        if field.get("format") == "date-time":
            data = {**EXAMPLES[spec.subject][0], name: "2026-05-01T14:00:00"}
            assert refusal(spec.subject, data) == ("NO_TIME_ZONE", f"data.{name}: an instant needs a zone")


@pytest.mark.parametrize(
    "spec", [spec for spec in registry.produced() if spec.direction is Direction.PRODUCED], ids=lambda spec: spec.subject
)
@pytest.mark.parametrize(
    "name", ["vendorRef", "pin", "token", "secret", "password", "cardNumber", "email", "phone", "guestName"]
)
def test_a_secret_or_a_guests_contact_in_an_additional_field_is_refused(spec: Any, name: str) -> None:
    data = {**EXAMPLES[spec.subject][0], name: "leaked-4711"}
    assert refusal(spec.subject, data) == ("SCHEMA_VIOLATION", "data: propertyNames")


@pytest.mark.parametrize(
    ("subject", "data", "code", "detail"),
    [
        (ISSUED, example(ISSUED, kind="brass_key"), "SCHEMA_VIOLATION", "data.kind: enum"),
        (ISSUED, example(ISSUED, keyCredentialId="key_1"), "SCHEMA_VIOLATION", "data.keyCredentialId: pattern"),
        (ISSUED, example(ISSUED, keyCredentialId="mky_01HX7Q3T5W9Y2B4D6F8H0K2M4P"), "SCHEMA_VIOLATION", "data.keyCredentialId: pattern"),
        (ISSUED, example(ISSUED, rooms=["rmu_1", 7]), "SCHEMA_VIOLATION", "data.rooms[1]: type"),
        (ISSUED, example(ISSUED, rooms=["two words"]), "SCHEMA_VIOLATION", "data.rooms[0]: pattern"),
        (ISSUED, example(ISSUED, vendor="TTLock"), "SCHEMA_VIOLATION", "data.vendor: pattern"),
        (ISSUED, example(ISSUED, provisional="no"), "SCHEMA_VIOLATION", "data.provisional: type"),
        (ISSUED, example(ISSUED, issuedAt="2026-02-30T00:00:00Z"), "SCHEMA_VIOLATION", "data.issuedAt: format"),
        (ISSUED, example(ISSUED, reservationId=...), "MISSING_FIELD", "data.reservationId"),
        (ISSUED, example(ISSUED, validUntil="2026-05-01T14:00:00Z"), "WINDOW_INVERTED", "data.validUntil: not after data.validFrom"),
        (ISSUED, example(ISSUED, delivery={"artifact": {"type": "pin", "value": "135790"}}), "SCHEMA_VIOLATION", "data.delivery.artifact: additionalProperties"),
        (ISSUED, example(ISSUED, delivery={"artifact": {"type": "mobile_token"}}), "MISSING_FIELD", "data.delivery.artifact.opaqueRef"),
        (ISSUED, example(ISSUED, delivery={"artifact": {"type": "rfid_card_ready_at"}}), "MISSING_FIELD", "data.delivery.artifact.deviceId"),
        (ISSUED, example(ISSUED, delivery={"pin": "135790"}), "SCHEMA_VIOLATION", "data.delivery: propertyNames"),
        (ISSUED, example(ISSUED, metadata={"vendorRef": "x"}), "SCHEMA_VIOLATION", "data.metadata: propertyNames"),
        (Subject.CREDENTIAL_REVOKED, example(Subject.CREDENTIAL_REVOKED, reason="leaver"), "SCHEMA_VIOLATION", "data.reason: enum"),
        (Subject.CREDENTIAL_UPDATED, example(Subject.CREDENTIAL_UPDATED, changes={}), "SCHEMA_VIOLATION", "data.changes: minProperties"),
        (Subject.CREDENTIAL_UPDATED, example(Subject.CREDENTIAL_UPDATED, changes={"validUntil": {"to": "2026-05-04T11:00:00Z"}}), "MISSING_FIELD", "data.changes.validUntil.from"),
        (Subject.DEVICE_BATTERY_LOW, example(Subject.DEVICE_BATTERY_LOW, batteryPct=101), "SCHEMA_VIOLATION", "data.batteryPct: maximum"),
        (Subject.VENDOR_ERROR, example(Subject.VENDOR_ERROR, errorCode="OTHER"), "SCHEMA_VIOLATION", "data.errorCode: pattern"),
        (Subject.BFF_SESSION_OPENED, example(Subject.BFF_SESSION_OPENED, ipHash="203.0.113.7"), "SCHEMA_VIOLATION", "data.ipHash: pattern"),
        (CONFIRMED, example(CONFIRMED, validFrom=..., validUntil=...), "MISSING_FIELD", "data: none of the allowed sets of fields is complete"),
        (CONFIRMED, example(CONFIRMED, validUntil=...), "MISSING_FIELD", "data: none of the allowed sets of fields is complete"),
        (CONFIRMED, example(CONFIRMED, validUntil="2026-05-01T14:00:00Z"), "WINDOW_INVERTED", "data.validUntil: not after data.validFrom"),
        (CONFIRMED, example(CONFIRMED, version="3"), "SCHEMA_VIOLATION", "data.version: type"),
        (CONFIRMED, example(CONFIRMED, version=True), "SCHEMA_VIOLATION", "data.version: type"),
        (CONFIRMED, example(CONFIRMED, guest={"displayName": "x"}), "MISSING_FIELD", "data.guest.id"),
        (CONFIRMED, example(CONFIRMED, rooms="rmu_1"), "SCHEMA_VIOLATION", "data.rooms: type"),
        (Subject.SHIFT_STARTED, example(Subject.SHIFT_STARTED, endsAt="2026-05-01T05:00:00Z"), "WINDOW_INVERTED", "data.endsAt: not after data.startsAt"),
        (Subject.CREDENTIAL_REVOKED_LOCAL, example(Subject.CREDENTIAL_REVOKED_LOCAL, localId=...), "MISSING_FIELD", "data: none of the allowed sets of fields is complete"),
    ],
)  # fmt: skip
def test_a_breach_is_named_by_path_and_rule(subject: Subject, data: dict[str, Any], code: str, detail: str) -> None:
    assert refusal(subject, data) == (code, detail)


def test_a_strange_field_name_is_not_echoed() -> None:
    data = example(Subject.DEVICE_HEALTH_ALERT, metric={"call 4711 now": []})
    assert refusal(Subject.DEVICE_HEALTH_ALERT, data) == ("SCHEMA_VIOLATION", "data.metric.?: type")


@pytest.mark.parametrize("bad", [{1: 2}, {"userId": object()}, {"userId": b"usr_1"}])
def test_what_is_no_json_is_refused(bad: dict[Any, Any]) -> None:
    assert refusal(Subject.USER_DEACTIVATED, bad)[0] in {"SCHEMA_VIOLATION", "MISSING_FIELD"}


def test_a_property_in_either_spelling_and_ids_of_other_services_pass() -> None:
    validate(CONFIRMED, example(CONFIRMED, propertyId="prop_7", reservationId="PMS/2026/000017", rooms=["204"]))
