"""The payloads printed in the event documents, with their dots filled in, are valid and survive the wire."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sagas.events import backoffice_envelope, envelope, registry
from sagas.events.event_spec import Direction, Form
from sagas.events.inbound import parse
from sagas.events.validate import validate, validate_many

EXAMPLES: dict[str, list[dict[str, Any]]] = {}
for _file in sorted((Path(__file__).parent / "examples").glob("*.json")):
    EXAMPLES.update(json.loads(_file.read_text(encoding="utf-8")))

CASES = [
    pytest.param(subject, data, id=f"{subject}-{number}")
    for subject, list_of_data in EXAMPLES.items()
    for number, data in enumerate(list_of_data)
]
AT = datetime(2026, 4, 30, 10, 13, 42, 117000, tzinfo=UTC)
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_every_registered_subject_has_an_example() -> None:
    assert set(EXAMPLES) == {spec.subject for spec in registry.REGISTRY.all()}


@pytest.mark.parametrize(("subject", "data"), CASES)
def test_example_is_valid(subject: str, data: dict[str, Any]) -> None:
    validate(subject, data)


@pytest.mark.parametrize(("subject", "data"), CASES)
def test_example_with_an_unknown_additional_field_is_valid(subject: str, data: dict[str, Any]) -> None:
    validate(subject, {**data, "addedLater": {"anything": [1, None]}})


@pytest.mark.parametrize(("subject", "data"), CASES)
def test_example_comes_back_from_the_flat_envelope_unchanged(subject: str, data: dict[str, Any]) -> None:
    event = envelope.compose(
        subject,
        data,
        event_id="evt_01HX7Q3T5W9Y2B4D6F8H0K2M4P",
        time=AT,
        tenant_id="tnt_01HX7Q3T5W9Y2B4D6F8H0K2M4P",
        trace_id=TRACE,
        correlation_id="rsv_01HX7Q3T5W9Y2B4D6F8H0K2M4P",
        causation_id="evt_01HW7Q3T5W9Y2B4D6F8H0K2M4P",
        sequence=7,
    )
    assert envelope.decode(envelope.encode(event)) == event


@pytest.mark.parametrize(
    ("subject", "data"), [case for case in CASES if registry.spec(str(case.values[0])).form is Form.NESTED]
)
def test_example_comes_back_from_the_nested_envelope_unchanged(subject: str, data: dict[str, Any]) -> None:
    event = backoffice_envelope.BackofficeEnvelope(
        event_id="evt_01H8YN7QV4D8KZ4F8Y5CK4MV3D",
        subject=subject,
        occurred_at=AT,
        published_at=AT,
        tenant_id="tnt_01H8YN7QV4D8KZ4F8Y5CK4MV3D",
        payload=data,
        sampling_rate=0.25,
        producer_instance="bff-bo-asia-south1-7f8d9c-x4z2",
        operator_id="opr_01H8YN7QV4D8KZ4F8Y5CK4MV3D",
        trace_id=TRACE,
        app_version="1.4.2",
        app_platform="win32",
    )
    assert backoffice_envelope.decode(backoffice_envelope.encode(event)) == event


@pytest.mark.parametrize(
    ("subject", "data"),
    [case for case in CASES if registry.spec(str(case.values[0])).direction is Direction.CONSUMED],
)
def test_consumed_example_becomes_a_typed_event(subject: str, data: dict[str, Any]) -> None:
    event = envelope.compose(subject, data, event_id="evt_1", time=AT, tenant_id="tnt_1", trace_id=TRACE)
    parsed = parse(event)
    assert (parsed.subject, parsed.event_id, parsed.tenant_id, parsed.occurred_at) == (subject, "evt_1", "tnt_1", AT)


def test_validating_many_answers_each_event_for_itself() -> None:
    events = [
        ("melmastoon.iam.user.deactivated.v1", {"userId": "usr_1"}),
        ("melmastoon.iam.user.deactivated.v1", {}),
        ("melmastoon.unheard.of.v1", {}),
        ("melmastoon.theme.published.v1", {}),
    ]
    answers = [None if refused is None else refused.code.value for refused in validate_many(events)]
    assert answers == [None, "MISSING_FIELD", "UNKNOWN_SUBJECT", None]
