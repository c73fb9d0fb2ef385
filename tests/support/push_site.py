"""A hotel on a vendor that pushes, its webhook address, and what one looks at after a push.

One rule: pushes travel over HTTP to a real web process; what the vendor knows is asked of the vendor.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import requests

from devices import adapters, health_poll, selectors, webhooks_addresses
from devices.models import AccessAttempt, DeviceReading, VendorInstallation, VendorWebhook, WebhookReplay
from lockservice.core.tenancy import tenant
from sagas.flows import read_log, take_webhook
from sagas.models import InboxMessage, OutboxEvent
from tests.flows.conftest import alerts
from tests.support import marked
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from tests.support.web_server import WebServer
from vendors.port.ids import new_id
from vendors.port.secrets import Token
from vendors.port.types import AccessRecord
from vendors.support.signatures import sign

STRANGER = "whsec_of_another_hotel"
REFUSAL = {
    "type": "urn:melmastoon:lock:problem:webhook-signature-invalid", "title": "The signature is not valid", "status": 401,
    "code": "MELMASTOON.LOCK.WEBHOOK_SIGNATURE_INVALID", "detail": "the push was not accepted", "retriable": False, "fields": {},
}  # fmt: skip


def own_secrets(*names: str) -> dict[str, str]:
    """Secrets of one hotel alone, since no two properties may share one: `webhook_secret` and what is named."""
    return {name: marked.token() for name in ("webhook_secret", *names)}


class Site:
    """A hotel on a vendor that signs its pushes, and its webhook address."""

    def __init__(self, web: WebServer, hotel: Hotel, vendor: str = "mock") -> None:
        self.web, self.hotel, self.vendor = web, hotel, vendor
        self.token = self.rotate()
        with tenant(hotel.tenant_id):
            row = VendorInstallation.objects.get(tenant_id=hotel.tenant_id, id=hotel.installation_id)
        held = adapters.open_installation(row)[1]
        self.secret, self.next = held.get("webhook_secret", ""), held.get("webhook_secret_next", "")

    def rotate(self, overlap: timedelta = webhooks_addresses.OVERLAP) -> str:
        with tenant(self.hotel.tenant_id):
            return webhooks_addresses.rotate(self.hotel.tenant_id, self.hotel.installation_id, overlap).reveal()

    def url(self, token: str | None = None, *, vendor: str | None = None, installation: str | None = None) -> str:
        place = f"{vendor or self.vendor}/{installation or self.hotel.installation_id}/{token or self.token}"
        return f"{self.web.url}/lock/v1/webhooks/{place}"

    def record(self, label: str = "101", **fields: Any) -> dict[str, Any]:
        """One attempt as the mock pushes it."""
        at = fields.pop("at", datetime.now(UTC))
        return {
            "door": self.hotel.doors[label], "id": f"rec_{new_id('evt')[-12:]}", "outcome": "granted", "at": at.isoformat(),
            "why": None, "mark": None, "kind": "pin_code", **fields,
        }  # fmt: skip

    def push(self, *records: dict[str, Any], secret: str = "", at: datetime | None = None) -> requests.Response:
        body = json.dumps({"records": list(records)}).encode()
        return self.send(body, sign(Token(secret or self.secret), body, at or datetime.now(UTC)))

    def signature(self, body: bytes, at: datetime | None = None) -> str:
        """The header of a genuine push."""
        return sign(Token(self.secret), body, at or datetime.now(UTC))

    def send(self, body: bytes, signature: str | None, url: str | None = None, **headers: str) -> requests.Response:
        sent = {"Content-Type": "application/json", **headers}
        if signature is not None:
            sent["X-Webhook-Signature"] = signature
        return requests.post(url or self.url(), data=body, headers=sent, timeout=20)

    def work(self) -> int:
        """Works on what was taken in for this hotel, as a worker would."""
        return take_webhook.take_due(only=[self.hotel.installation_id])

    def read(self, label: str = "101") -> read_log.Report:
        """Reads a lock's log at the vendor, as its turn would."""
        return read_log.read(self.hotel.tenant_id, self.hotel.devices[label])

    def read_due(self) -> list[read_log.Report]:
        """Reads the logs that are due, as a worker would."""
        return read_log.read_due(only=[self.hotel.installation_id])

    def poll_due(self) -> list[health_poll.Report]:
        """Polls the hotel's locks if they are due, as a worker would."""
        return health_poll.poll_due(only=[self.hotel.installation_id])

    def at_vendor(self, label: str = "101") -> list[AccessRecord]:
        """What the vendor's log of a lock holds."""
        with tenant(self.hotel.tenant_id):
            facts = selectors.installation(self.hotel.tenant_id, self.hotel.installation_id)
            port: Any = adapters.port_of(self.hotel.tenant_id, facts)
            device = selectors.devices(self.hotel.tenant_id, "", [self.hotel.devices[label]])[self.hotel.devices[label]]
        now = datetime.now(UTC)
        return list(port.list_records(device.door(), now - timedelta(days=30), now + timedelta(days=1)))

    def open_anyway(self, locks: MockLocks, label: str, mark: str) -> dict[str, Any]:
        """Opens a door of the mock with a key that our books do not expect there; returns the attempt as it is pushed."""
        door, digits, now = self.hotel.doors[label], new_id("evt")[-8:], datetime.now(UTC)
        span = {"from": (now - timedelta(days=1)).isoformat(), "until": (now + timedelta(days=1)).isoformat()}
        locks.ask("/plant", {"device": door, "kind": "pin_code", "value": digits, "mark": mark, **span})
        assert locks.ask("/try", {"device": door, "kind": "pin_code", "value": digits})["open"]
        last = self.at_vendor(label)[-1]
        return self.record(label, id=last.external_event_id.partition(":")[2], mark=mark, at=last.attempted_at)

    def webhooks(self) -> list[VendorWebhook]:
        with tenant(self.hotel.tenant_id):
            return list(VendorWebhook.objects.filter(tenant_id=self.hotel.tenant_id).order_by("id"))

    def attempts(self) -> list[AccessAttempt]:
        with tenant(self.hotel.tenant_id):
            return list(AccessAttempt.objects.filter(tenant_id=self.hotel.tenant_id).order_by("attempted_at"))

    def told(self, key: str) -> list[dict[str, Any]]:
        """The events of one ordering key, after checking that their sequence has no gap."""
        with tenant(self.hotel.tenant_id):
            rows = list(OutboxEvent.objects.filter(tenant_id=self.hotel.tenant_id, ordering_key=key).order_by("sequence"))
        assert [row.sequence for row in rows] == list(range(1, len(rows) + 1))
        return [
            {"subject": row.subject.removeprefix("melmastoon.lock."), **json.loads(bytes(row.body))["data"]} for row in rows
        ]

    def assert_nothing_changed(self, alerted: int = 1) -> None:
        """No receipt, no replay row, no attempt, no event; the hotel is told once."""
        with tenant(self.hotel.tenant_id):
            for model in (VendorWebhook, WebhookReplay, AccessAttempt, DeviceReading, OutboxEvent, InboxMessage):
                assert not model.objects.filter(tenant_id=self.hotel.tenant_id).exists(), model
        assert alerts(self.hotel) == [("WEBHOOK_SIGNATURE_INVALID", "warning")] * alerted


def assert_refused(answer: requests.Response) -> None:
    """A constant text, whatever was wrong."""
    body = answer.json()
    assert body.pop("traceId")
    assert (answer.status_code, body) == (401, REFUSAL)
    assert answer.headers["Content-Type"] == "application/problem+json"
