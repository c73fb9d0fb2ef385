"""Sends a property's events to its webhook, signed, until the receiver takes them.

One rule: at least once and in order; a receiver that refuses three times is given up for that event.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import threading
import time
from typing import Any
from urllib.parse import urlsplit

from .model import Property

TRIES = 3
PAUSE_S = 0.5
TIMEOUT_S = 10.0
TYPES = {"granted": "access.granted", "denied": "access.denied", "state": "key.updated_on_door"}


class Pusher:
    """One thread for one property."""

    def __init__(self, prop: Property) -> None:
        self._prop = prop
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            row = self._prop.pushes.get()
            body = json.dumps(push_of(self._prop, row)).encode()
            for attempt in range(TRIES):
                if attempt:
                    time.sleep(PAUSE_S)
                if self._is_taken(body):
                    break

    def _is_taken(self, body: bytes) -> bool:
        parts = urlsplit(self._prop.webhook_url)
        connection = http.client.HTTPConnection(parts.netloc, timeout=TIMEOUT_S)
        try:
            headers = {"Content-Type": "application/json", **signature(self._prop.webhook_secret, body, int(time.time()))}
            connection.request("POST", parts.path or "/", body, headers)
            return connection.getresponse().status < http.client.BAD_REQUEST
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def push_of(prop: Property, row: dict[str, Any]) -> dict[str, Any]:
    """Returns the push for an event row; its id is the row's, so that pushing and polling agree."""
    return {
        "id": str(row["id"]),
        "type": TYPES[row["outcome"]],
        "occurredAt": row["occurredAt"],
        "propertyId": prop.id,
        "data": {name: value for name, value in row.items() if name not in ("id", "learnt")},
    }


def signature(secret: str, body: bytes, seconds: int) -> dict[str, str]:
    """Returns the two headers over the raw body."""
    mac = hmac.new(secret.encode(), f"{seconds}.".encode() + body, hashlib.sha256).hexdigest()
    return {"X-Salto-Timestamp": str(seconds), "X-Salto-Signature": f"v1={mac}"}
