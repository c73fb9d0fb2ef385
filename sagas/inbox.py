"""Takes each event once per consumer, and keeps what could not be taken.

One rule: the inbox row is written in the transaction of the event's effect; the message is acknowledged after the commit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime

from django.db import connection

from lockservice.core.bulk import insert_returning
from sagas.events.envelope import Envelope

DETAIL_MAX = 300
_COLUMNS = {
    "tenant_id": "text", "consumer": "text", "event_id": "text", "subject": "text", "outcome": "text", "detail": "text",
    "received_at": "timestamptz",
}  # fmt: skip


def take(consumer: str, envelopes: Sequence[Envelope], now: datetime) -> set[str]:
    """Writes inbox rows in the caller's transaction; returns the ids of the events that were not taken before."""
    rows = sorted((item.tenant_id, consumer, item.id, item.subject, "applied", "", now) for item in envelopes)
    taken = insert_returning(
        "sagas_inboxmessage", _COLUMNS, rows, on_conflict="(tenant_id, consumer, event_id) DO NOTHING", returning="event_id"
    )
    return {row[0] for row in taken}


def bury(
    tenant_id: str,
    source: str,
    topic: str,
    body: bytes,
    code: str,
    detail: str,
    *,
    key: str = "",
    event_id: str = "",
    subject: str = "",
) -> None:
    """Keeps a message that cannot be handled, with the reason; the same message again only counts up.

    Inside the tenant's block or a queue block.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO sagas_deadletter (tenant_id, source, topic, ordering_key, event_id, subject, body, digest, code,"
            " detail, count, first_at, last_at, replayed_by)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, 1, (SELECT clock_timestamp()),"
            " (SELECT clock_timestamp()), '') ON CONFLICT (tenant_id, source, topic, digest) WHERE replayed_at IS NULL"
            " DO UPDATE SET count = sagas_deadletter.count + 1, last_at = EXCLUDED.last_at, code = EXCLUDED.code,"
            " detail = EXCLUDED.detail",
            [
                tenant_id, source, topic[:120], key[:120], event_id[:64], subject[:120], body, hashlib.sha256(body).hexdigest(),
                code[:40], detail[:DETAIL_MAX],
            ],
        )  # fmt: skip
