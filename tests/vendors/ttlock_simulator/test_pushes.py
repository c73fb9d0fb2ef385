"""Pushes to the application's callback: their form, and how they are spoilt."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs

import pytest

from tests.vendors.ttlock_simulator.tenant import Simulator, Tenant


@dataclass
class Receiver:
    """Takes pushes; answers what it is told."""

    port: int = 0
    answer: tuple[int, bytes] = (200, b"success")
    paths: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    signatures: list[str | None] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hooks/tok3n"

    def forms(self) -> list[dict[str, str]]:
        return [{name: values[0] for name, values in parse_qs(body.decode()).items()} for body in self.bodies]

    def typed(self) -> list[str]:
        return [json.loads(form["records"])[0]["keyboardPwd"] for form in self.forms()]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    state = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            state.paths.append(self.path)
            state.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            state.signatures.append(self.headers["X-Webhook-Signature"])
            status, body = state.answer
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            del arguments

    server = HTTPServer(("127.0.0.1", 0), Handler)
    state.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield state
    server.shutdown()
    thread.join()
    server.server_close()


def listen(tenant: Tenant, receiver: Receiver, **spoilt: Any) -> None:
    fields = {"clientId": tenant.client_id, "url": receiver.url, "retries": 0, **spoilt}
    tenant.simulator.post("/webhook", fields)


def flush(simulator: Simulator) -> list[dict[str, Any]]:
    return simulator.post("/webhook/flush")["pushes"]


def test_attempt_is_pushed_as_a_form_with_records_in_json(tenant: Tenant, receiver: Receiver) -> None:
    listen(tenant, receiver)
    tenant.add_code("482913")
    tenant.attempt("482913")
    pushes = flush(tenant.simulator)
    assert pushes[-1] | {"seq": 0, "at": 0} == {
        "seq": 0, "clientId": tenant.client_id, "notifyType": 1, "lockId": tenant.lock,
        "attempt": 1, "at": 0, "status": 200, "accepted": True,
    }  # fmt: skip
    assert receiver.paths == ["/hooks/tok3n"]
    (form,) = receiver.forms()
    assert (form["lockId"], form["notifyType"], form["admin"]) == (str(tenant.lock), "1", tenant.username)
    (record,) = json.loads(form["records"])
    assert (record["recordTypeFromLock"], record["success"], record["keyboardPwd"]) == (4, 1, "482913")
    assert record["username"] == "gk-482913"
    assert receiver.signatures == [None]


def test_lock_without_gateway_pushes_only_when_a_phone_uploads(tenant: Tenant, receiver: Receiver) -> None:
    listen(tenant, receiver)
    tenant.attempt("000001", tenant.lock_apart)
    tenant.attempt("000002", tenant.lock_apart)
    flush(tenant.simulator)
    assert receiver.bodies == []
    tenant.simulator.post("/upload", {"lockId": tenant.lock_apart})
    flush(tenant.simulator)
    (form,) = receiver.forms()
    assert [record["keyboardPwd"] for record in json.loads(form["records"])] == ["000001", "000002"]


def test_owner_who_never_signed_in_with_the_application_gets_no_push(simulator: Simulator, receiver: Receiver) -> None:
    simulator.post("/seed", {"account": {"clientId": "silent", "username": "silent", "callbackUrl": receiver.url}})
    lock = simulator.post("/seed", {"account": {"clientId": "silent"}, "gateways": [{}], "locks": [{}]})["locks"][0]["lockId"]
    simulator.post("/try", {"device": lock, "kind": "pin_code", "value": "000001"})
    flush(simulator)
    assert receiver.bodies == []


def test_duplicate_drop_and_reorder_strike_as_often_as_asked(tenant: Tenant, receiver: Receiver) -> None:
    listen(tenant, receiver, duplicate=1)
    tenant.attempt("000001")
    flush(tenant.simulator)
    assert receiver.typed() == ["000001", "000001"]
    listen(tenant, receiver, drop=1)
    tenant.attempt("000002")
    tenant.attempt("000003")
    flush(tenant.simulator)
    assert receiver.typed()[2:] == ["000003"]
    listen(tenant, receiver, reorder=1)
    tenant.attempt("000004")
    tenant.attempt("000005")
    flush(tenant.simulator)
    assert receiver.typed()[3:] == ["000005", "000004"]


def test_wrong_path_token_and_signature(tenant: Tenant, receiver: Receiver) -> None:
    listen(tenant, receiver, wrongToken=1, hmacSecret="whsec")
    tenant.attempt("000001")
    tenant.attempt("000002")
    flush(tenant.simulator)
    assert [path == "/hooks/tok3n" for path in receiver.paths] == [False, True]
    stamp, _, mac = str(receiver.signatures[1]).partition(",v1=")
    signed = stamp.removeprefix("t=").encode() + b"." + receiver.bodies[1]
    assert mac == hmac.new(b"whsec", signed, hashlib.sha256).hexdigest()


def test_push_is_tried_again_until_the_answer_is_success(tenant: Tenant, receiver: Receiver) -> None:
    listen(tenant, receiver, retries=1)
    receiver.answer = (200, b"thanks")
    tenant.attempt("000001")
    attempts = [(p["attempt"], p["accepted"]) for p in flush(tenant.simulator) if p["lockId"] == tenant.lock]
    assert attempts == [(1, False), (2, False)]
    assert receiver.typed() == ["000001", "000001"]


def test_gateway_state_and_failed_asynchronous_write_are_pushed(tenant: Tenant, receiver: Receiver) -> None:
    listen(tenant, receiver)
    tenant.simulator.post("/gateway", {"gatewayId": tenant.gateway, "online": False})
    lock = tenant.add_lock(gatewayId=None, wifi={"powerSave": True, "fails": True})
    tenant.simulator.post("/latency", {"wifiAsyncMs": 0})
    made = tenant.add_code("482913", lock, addType=4)
    flush(tenant.simulator)
    gateway, failed = receiver.forms()
    assert (gateway["notifyType"], gateway["gatewayId"], gateway["isOnline"]) == ("2", str(tenant.gateway), "0")
    assert (failed["notifyType"], failed["objectType"], failed["objectId"], failed["errcode"]) == (
        "4", "2", str(made["keyboardPwdId"]), "-3036",
    )  # fmt: skip


def test_test_button_sends_a_record_without_a_user(tenant: Tenant, receiver: Receiver) -> None:
    listen(tenant, receiver)
    tenant.simulator.post("/webhook/test", {"clientId": tenant.client_id})
    flush(tenant.simulator)
    (record,) = json.loads(receiver.forms()[0]["records"])
    assert "username" not in record


def test_nobody_listening_is_noted_and_hurts_nothing(tenant: Tenant) -> None:
    tenant.simulator.post("/webhook", {"clientId": tenant.client_id, "url": "http://127.0.0.1:9/x", "retries": 0})
    assert tenant.why("000001") == "unknown_credential"
    last = flush(tenant.simulator)[-1]
    assert (last["status"], last["accepted"]) == (0, False)
