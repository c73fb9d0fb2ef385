"""Takes each event once per consumer, and keeps what could not be taken.

One rule: the inbox row is written in the transaction of the event's effect; the message is acknowledged after the commit.
"""

from __future__ import annotations

import hashlib
from datetime import datetime

from django.db import connection

from sagas.events.envelope import Envelope

DETAIL_MAX = 300


def take(consumer: str, envelope: Envelope, now: datetime) -> bool:
    """Writes the inbox row in the caller's transaction; False when the event was taken before."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO sagas_inboxmessage (tenant_id, consumer, event_id, subject, outcome, detail, received_at)"
            " VALUES (%s, %s, %s, %s, 'applied', '', %s) ON CONFLICT (tenant_id, consumer, event_id) DO NOTHING",
            [envelope.tenant_id, consumer, envelope.id, envelope.subject, now],
        )
        return cursor.rowcount == 1


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
    """Keeps a message that cannot be handled, with the reason; the same message again only counts up. Inside the tenant's block or a queue block."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO sagas_deadletter (tenant_id, source, topic, ordering_key, event_id, subject, body, digest, code,"
            " detail, count, first_at, last_at, replayed_by) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, 1, clock_timestamp(),"
            " clock_timestamp(), '') ON CONFLICT (tenant_id, source, topic, digest) WHERE replayed_at IS NULL"
            " DO UPDATE SET count = sagas_deadletter.count + 1, last_at = EXCLUDED.last_at, code = EXCLUDED.code,"
            " detail = EXCLUDED.detail",
            [
                tenant_id, source, topic[:120], key[:120], event_id[:64], subject[:120], body, hashlib.sha256(body).hexdigest(),
                code[:40], detail[:DETAIL_MAX],
            ],
        )  # fmt: skip
