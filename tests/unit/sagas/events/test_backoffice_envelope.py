"""The nested envelope of the back office carries what the registry knows and refuses what does not fit."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from sagas.events.backoffice_envelope import BackofficeEnvelope, decode, encode
from sagas.events.refusals import EventRefused

AT = datetime(2026, 4, 23, 9, 14, 22, 41000, tzinfo=UTC)
EVENT = BackofficeEnvelope(
    event_id="evt_1",
    subject="melmastoon.bff.backoffice.dashboard.viewed.v1",
    occurred_at=AT,
    published_at=AT,
    tenant_id="tnt_1",
    payload={"x": 1},
    sampling_rate=0.25,
)


def changed(**changes: Any) -> bytes:
    document = json.loads(encode(EVENT))
    document["envelope"].update(changes)
    return json.dumps(document).encode()


def test_version_schema_address_and_retention_come_from_the_registry() -> None:
    assert json.loads(encode(EVENT)) == {
        "envelope": {
            "eventId": "evt_1",
            "subject": "melmastoon.bff.backoffice.dashboard.viewed.v1",
            "version": 1,
            "occurredAt": "2026-04-23T09:14:22.041Z",
            "publishedAt": "2026-04-23T09:14:22.041Z",
            "producer": "bff-backoffice-service",
            "tenantId": "tnt_1",
            "schemaUri": "https://schemas.melmastoon.ghasi.io/bff-backoffice/dashboard-viewed/v1.json",
            "retentionClass": "operational",
            "samplingRate": 0.25,
        },
        "payload": {"x": 1},
    }


@pytest.mark.parametrize(
    ("changes", "code", "field"),
    [
        ({"version": 2}, "INVALID_FIELD", "version"),
        ({"samplingRate": 1.01}, "INVALID_FIELD", "samplingRate"),
        ({"samplingRate": True}, "INVALID_FIELD", "samplingRate"),
        ({"tenantId": None}, "MISSING_FIELD", "tenantId"),
        ({"occurredAt": "2026-04-23T09:14:22"}, "NO_TIME_ZONE", "occurredAt"),
        ({"publishedAt": None}, "MISSING_FIELD", "publishedAt"),
        ({"operatorId": "two words"}, "INVALID_FIELD", "operatorId"),
        ({"subject": "melmastoon.lock.audit.attempt.v1"}, "INVALID_FIELD", "subject"),
        ({"subject": "melmastoon.bff.backoffice.dashboard.viewed.v2"}, "UNKNOWN_VERSION", "subject"),
    ],
)
def test_a_bad_head_is_refused_by_field(changes: dict[str, Any], code: str, field: str) -> None:
    with pytest.raises(EventRefused) as caught:
        decode(changed(**changes))
    assert (caught.value.code.value, caught.value.detail.split(":")[0]) == (code, field)


def test_what_would_not_be_taken_back_is_not_let_out() -> None:
    with pytest.raises(EventRefused, match="INVALID_FIELD: tenantId"):
        encode(BackofficeEnvelope("evt_1", EVENT.subject, AT, AT, "two words", {}, 1.0))


def test_it_prints_without_its_payload() -> None:
    assert "payload" not in repr(EVENT)
