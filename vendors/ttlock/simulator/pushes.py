"""The vendor's pushes (webhooks): form-encoded, unsigned unless asked, possibly late, doubled, swapped or lost.

One rule: a push goes to loopback only, and only for an application that the lock's owner has signed in with. The log of pushes
keeps no body, since a body holds live codes.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from collections import deque
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from .model import Application, Callback, Card, Gateway, Lock, Passcode, Record
from .world import World

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
RECORDS, GATEWAY_STATE, WIFI_STATE, ASYNC_FAILED = 1, 2, 3, 4
OBJECT_PASSCODE, OBJECT_CARD = 2, 3
RETRY_S = 1.0
TIMEOUT_S = 10.0


@dataclass(slots=True)
class Push:
    """One delivery attempt as the control port lists it."""

    seq: int
    client_id: str
    notify_type: int
    lock_id: int | None
    attempt: int
    at_ms: float
    status: int
    accepted: bool

    def as_json(self) -> dict[str, object]:
        """Returns the line for the control port."""
        return {
            "seq": self.seq,
            "clientId": self.client_id,
            "notifyType": self.notify_type,
            "lockId": self.lock_id,
            "attempt": self.attempt,
            "at": round(self.at_ms, 3),
            "status": self.status,
            "accepted": self.accepted,
        }


class Pushes:
    """Sends pushes in order per application, spoiling them as its callback settings say."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.log: deque[Push] = deque(maxlen=10_000)
        self._seq = 0
        self._held: dict[str, list[dict[str, str]]] = {}
        self._tails: dict[str, asyncio.Task[None]] = {}

    def records(self, lock: Lock, records: list[Record]) -> None:
        """Pushes events of a lock (notifyType 1)."""
        items = [_record_item(lock, record) for record in records]
        owner = self._world.state.accounts.get(lock.owner_uid)
        self._spread(
            lock.owner_uid,
            {
                "lockId": str(lock.lock_id),
                "notifyType": str(RECORDS),
                "admin": owner.username if owner else "",
                "lockMac": lock.mac,
                "records": json.dumps(items, separators=(",", ":")),
            },
        )

    def gateway(self, gateway: Gateway) -> None:
        """Pushes that a gateway went on or off line (notifyType 2)."""
        self._spread(
            gateway.owner_uid,
            {
                "notifyType": str(GATEWAY_STATE),
                "gatewayId": str(gateway.gateway_id),
                "gatewayName": gateway.name,
                "gatewayMac": gateway.mac,
                "gatewayVersion": str(gateway.version),
                "networkName": gateway.network,
                "isOnline": str(int(gateway.online)),
            },
        )

    def async_failed(self, lock: Lock, item: Passcode | Card, errcode: int) -> None:
        """Pushes that an asynchronous write failed (notifyType 4)."""
        if isinstance(item, Passcode):
            object_type, object_id = OBJECT_PASSCODE, item.passcode_id
        else:
            object_type, object_id = OBJECT_CARD, item.card_id
        self._spread(
            lock.owner_uid,
            {
                "notifyType": str(ASYNC_FAILED),
                "lockId": str(lock.lock_id),
                "lockMac": lock.mac,
                "uid": str(lock.owner_uid),
                "objectType": str(object_type),
                "objectId": str(object_id),
                "errcode": str(errcode),
            },
        )

    def test(self, app: Application) -> None:
        """Sends the portal's test record, which has no username."""
        item = {"recordType": 4, "success": 1, "lockDate": self._world.now(), "electricQuantity": 50}
        fields = {"lockId": "1", "notifyType": "1", "admin": "", "lockMac": "00:00:00:00:00:00"}
        self._queue(app, {**fields, "records": json.dumps([item])})

    async def flush(self) -> None:
        """Sends what was held back for reordering and waits until every push has been tried."""
        for client_id, held in list(self._held.items()):
            app = self._world.state.applications.get(client_id)
            while held and app is not None:
                self._chain(app, held.pop())
        while tails := [task for task in self._tails.values() if not task.done()]:
            await asyncio.wait(tails)

    def _spread(self, owner_uid: int, fields: dict[str, str]) -> None:
        signed_in = {grant.client_id for grant in self._world.state.grants.values() if grant.uid == owner_uid}
        for client_id in sorted(signed_in):
            app = self._world.state.applications.get(client_id)
            if app is not None and app.callback.url:
                self._queue(app, fields)

    def _queue(self, app: Application, fields: dict[str, str]) -> None:
        callback = app.callback
        if callback.drop > 0:
            callback.drop -= 1
            return
        held = self._held.setdefault(app.client_id, [])
        if callback.reorder > 0:
            callback.reorder -= 1
            held.append(fields)
            return
        self._chain(app, fields)
        if callback.duplicate > 0:
            callback.duplicate -= 1
            self._chain(app, fields)
        while held:
            self._chain(app, held.pop())

    def _chain(self, app: Application, fields: dict[str, str]) -> None:
        before = self._tails.get(app.client_id)
        wrong = app.callback.wrong_token > 0
        if wrong:
            app.callback.wrong_token -= 1
        self._tails[app.client_id] = asyncio.get_running_loop().create_task(self._send(app, fields, wrong, before))

    async def _send(self, app: Application, fields: dict[str, str], wrong: bool, before: asyncio.Task[None] | None) -> None:
        if before is not None and not before.done():
            await asyncio.wait([before])
        callback = app.callback
        if callback.delay_ms:
            await asyncio.sleep(callback.delay_ms / 1000)
        for attempt in range(1, callback.retries + 2):
            status, accepted = await _post(callback, urlencode(fields).encode(), wrong, self._world.now() // 1000)
            self._note(app, fields, attempt, status, accepted)
            if accepted:
                return
            if attempt <= callback.retries:
                await asyncio.sleep(RETRY_S)

    def _note(self, app: Application, fields: dict[str, str], attempt: int, status: int, accepted: bool) -> None:
        self._seq += 1
        lock_id = int(fields["lockId"]) if "lockId" in fields else None
        kind = int(fields["notifyType"])
        line = Push(self._seq, app.client_id, kind, lock_id, attempt, time.monotonic() * 1000, status, accepted)
        self.log.append(line)


def check_url(url: str) -> None:
    """Raises ValueError unless the address is plain HTTP on loopback (or empty)."""
    parts = urlsplit(url)
    if url and (parts.scheme != "http" or parts.hostname not in LOOPBACK or not parts.port):
        raise ValueError("a callback must be http://127.0.0.1:<port>/…")


async def _post(callback: Callback, body: bytes, wrong: bool, now_s: int) -> tuple[int, bool]:
    """Posts once; returns the status (0 when nothing came) and whether the answer was 200 `success`."""
    parts = urlsplit(callback.url)
    path = parts.path or "/"
    if wrong:
        path = path.rsplit("/", 1)[0] + "/" + "x" * 43
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/x-www-form-urlencoded\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n{_signature(callback, body, now_s)}\r\n"
    )
    try:
        async with asyncio.timeout(TIMEOUT_S):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
            writer.write(head.encode("latin-1") + body)
            answer = await reader.read(4096)
            while chunk := await reader.read(4096):
                answer += chunk
            writer.close()
    except (OSError, TimeoutError):
        return 0, False
    first, _, rest = answer.partition(b"\r\n")
    words = first.split(b" ")
    status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
    return status, status == 200 and b"success" in rest.partition(b"\r\n\r\n")[2]


def _signature(callback: Callback, body: bytes, now_s: int) -> str:
    if not callback.hmac_secret:
        return ""
    mac = hmac.new(callback.hmac_secret.encode(), f"{now_s}.".encode() + body, hashlib.sha256).hexdigest()
    return f"{callback.signature_header}: t={now_s},v1={mac}\r\n"


def _record_item(lock: Lock, record: Record) -> dict[str, object]:
    return {
        "lockId": lock.lock_id,
        "lockMac": lock.mac,
        "electricQuantity": record.battery,
        "recordTypeFromLock": record.raw,
        "recordType": record.type,
        "success": record.success,
        "keyboardPwd": record.typed,
        "username": record.username,
        "lockDate": record.lock_date,
        "serverDate": record.server_date,
    }
