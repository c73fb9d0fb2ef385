"""A vendor that answers in time and in JSON, and makes no sense: every verb ends in the port's words, and nothing is guessed.

An exception that is none of the port's ends a guest's key for good, as a mistake of ours; a refusal that was none does so too.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.support import marked
from vendors import registry
from vendors.port.clock import SystemClock
from vendors.port.errors import LockError
from vendors.port.manifest import AdapterContext, NoLimit
from vendors.port.protocol import LockPort
from vendors.port.secrets import CardNumber, Pin, Token, VendorRef
from vendors.port.types import (
    CallMeta,
    CallResult,
    CredentialHandle,
    CredentialKind,
    Door,
    Holder,
    IssueInput,
    Outcome,
    RevokeReason,
    SuspendReason,
    UpdateInput,
    Window,
)

LOGINS = {
    "/oauth2/token": {"access_token": "a", "expires_in": 3600, "refresh_token": "r"},
    "/api/v1/sessions": {"id": "s", "accessKey": "k"},
}
NOW = datetime.now(UTC)
STAY = Window(NOW - timedelta(hours=1), NOW + timedelta(days=2))


class Babbler:
    """Lets everybody log in and gives one answer to everything else."""

    def __init__(self) -> None:
        self.status, self.body = 200, b"{}"
        babbler = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1

            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                login = LOGINS.get(self.path)
                status, body = (200, json.dumps(login).encode()) if login else (babbler.status, babbler.body)
                self.send_response_only(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                self.wfile.flush()

            def do_POST(self) -> None:
                self.do_GET()

            def do_PATCH(self) -> None:
                self.do_GET()

            def do_DELETE(self) -> None:
                self.do_GET()

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def babbler() -> Iterator[Babbler]:
    server = Babbler()
    yield server
    server.stop()


Vendor = tuple[str, Callable[[str], Mapping[str, object]], tuple[str, ...], str, CredentialKind]
CARD, PHONE, PIN = CredentialKind.RFID_CARD, CredentialKind.MOBILE_APP, CredentialKind.PIN_CODE
_VOSTIO = {"mode": "vostio", "property_id": "p", "client_id": "c", "encoder": "desk-1", "issue_polls": 1}
_VISIONLINE = {"mode": "visionline", "time_zone": "UTC", "encoder": "desk-1"}
_SALTO = {"transport": "cloud", "property_ref": "p", "encoder": "desk-1"}
VENDORS: dict[str, Vendor] = {
    "salto card": ("salto", lambda url: {**_SALTO, "base_url": url}, ("api_key",), "ck_1", CARD),
    "salto pin": ("salto", lambda url: {**_SALTO, "base_url": url}, ("api_key",), "ck_1", PIN),
    "vostio": ("assa-abloy", lambda url: {**_VOSTIO, "base_url": url}, ("client_secret",), "vst:g1", PHONE),
    "vostio card": ("assa-abloy", lambda url: {**_VOSTIO, "base_url": url}, ("client_secret",), "vst:g1", CARD),
    "visionline": ("assa-abloy", lambda url: {**_VISIONLINE, "base_url": url}, ("username", "password"), "vln:c1", CARD),
    "ttlock pin": ("ttlock", lambda url: {"base_url": url, "client_id": "c"}, (), "ttl:101:pin:1", PIN),
    "ttlock random pin": ("ttlock", lambda url: {"base_url": url, "client_id": "c"}, (), "ttl:101:rpin:1", PIN),
    "ttlock card": ("ttlock", lambda url: {"base_url": url, "client_id": "c"}, (), "ttl:101:card:1", CARD),
    "ttlock phone": ("ttlock", lambda url: {"base_url": url, "client_id": "c"}, (), "ttl:101:ekey:1", PHONE),
}
TTLOCK_SECRETS = {
    "client_secret": "secret", "username": "owner", "password_md5": "0" * 32, "user_secret": "u" * 40,
}  # fmt: skip

_KEY = {"cardRef": "ck_1", "status": "active", "kind": "rfid_card", "rooms": ["101"], "authorizations": {"grant": []}}
_GRANT = {
    "grantId": "g1", "status": "active", "version": 1, "kind": "mobile_app", "guestDoors": ["101"],
    "validFrom": "2026-01-01T00:00:00Z", "validUntil": "2027-01-01T00:00:00Z",
}  # fmt: skip
_CARD = {
    "id": "c1", "status": "valid", "startTime": "20260101T0000", "expireTime": "20270101T0000",
    "doorOperations": [{"operation": "guest", "doors": ["101"]}],
}  # fmt: skip
NONSENSE: dict[str, object] = {
    "nothing": {},
    "a list": [],
    "a list of numbers": [1, 2],
    "a number": 5,
    "a text": "x",
    "null": None,
    "items that are a number": {"items": 5, "list": 5},
    "items that are numbers": {"items": [5], "list": [5]},
    "items that are empty": {"items": [{}], "list": [{}]},
    "names of other types": {"grantId": {"a": 1}, "id": [1], "cardRef": None, "status": 7, "keyboardPwdId": True, "keyId": "x"},
    "a key with effects that are a number": {**_KEY, "effects": 7},
    "a key with an effect that has no room": {**_KEY, "effects": [{}]},
    "a key with a bound that is no time": {
        **_KEY, "effects": [{"room": "101", "effective": "propagating", "effectiveNotAfter": "soon"}],
    },
    "a key with a bound without a zone": {
        **_KEY, "effects": [{"room": "101", "effective": "propagating", "effectiveNotAfter": "2026-01-01T00:00:00"}],
    },
    "a key that refuses numbers": {**_KEY, "refused": [1]},
    "a key whose rooms are a text": {**_KEY, "rooms": "101"},
    "a key without authorisations": {**_KEY, "authorizations": None},
    "a key that waits for no job": {**_KEY, "status": "waiting_card", "operationId": None},
    "listed keys with parts missing": {"items": [{"cardRef": "ck_1", "status": "active"}], "next": None},
    "a grant without a zone": {**_GRANT, "validFrom": "2026-01-01T00:00:00", "validUntil": "2027-01-01T00:00:00"},
    "a grant that ends first": {**_GRANT, "validUntil": "2020-01-01T00:00:00Z"},
    "a grant of no kind": {**_GRANT, "kind": "retina"},
    "a grant whose doors are a text": {**_GRANT, "guestDoors": "101"},
    "a grant whose version is a list": {**_GRANT, "version": [1]},
    "a grant for a phone that is a text": {**_GRANT, "mobile": "phone"},
    "a card without times": {**_CARD, "startTime": None},
    "a card that opens a number": {**_CARD, "doorOperations": 5},
    "listed cards with parts missing": {"items": [{"id": "c1"}]},
    "an error number that is none": {"errcode": "soon"},
    "an offset that is none": {"timezoneRawOffset": 10**30, "keyboardPwd": "²²²²", "keyboardPwdId": 1},
    "a huge error number": {"errcode": 10**30},
    "listed codes at the end of time": {
        "list": [{"keyboardPwdId": 1, "cardId": 1, "keyId": 1, "startDate": 10**30, "endDate": 10**30, "isCustom": 0}],
    },
    "a row of other types": {"list": [{"keyboardPwdId": 1, "keyboardPwdName": [1], "startDate": {}, "status": "x"}]},
}  # fmt: skip
RAW = {
    "not a number": b'{"items": [{"clockSkewSec": NaN, "online": true, "name": "101"}], "clockSkewSec": NaN, "online": 1}',
    "without end": b'{"clockSkewSec": Infinity, "online": true, "battery": 5, "timezoneRawOffset": 1e999, "date": 1e999}',
    "deep": b'{"items": ' * 5_000 + b"1" + b"}" * 5_000,
    "html": b"<!DOCTYPE html><html></html>",
}
BODIES = {name: json.dumps(value).encode() for name, value in NONSENSE.items()} | RAW
REFUSALS: dict[str, object] = {
    "an error without a code": {},
    "an error whose code is an object": {"code": {"a": 1}, "doors": 5, "details": 5},
    "a refusal of rooms that are a number": {"code": "unknown_room", "details": {"rooms": 5}},
    "a refusal of rooms that are numbers": {"code": "unknown_room", "details": {"rooms": [5]}},
    "a refusal of doors that are objects": {"code": "door_unknown", "doors": [{"a": 1}, 5, None]},
}
REFUSED = {name: json.dumps(value).encode() for name, value in REFUSALS.items()} | {
    name: BODIES[name] for name in ("a list", "a number", "deep", "html")
}


def port_of(name: str, url: str) -> LockPort:
    code, settings, secrets, _, _ = VENDORS[name]
    values = TTLOCK_SECRETS if code == "ttlock" else {secret: marked.token() for secret in secrets}
    return registry.build(
        code,
        AdapterContext(
            tenant_id="tnt_1",
            installation_id="vad_1",
            settings=dict(settings(url)),
            secrets={name: Token(value) for name, value in values.items()},
            clock=SystemClock(),
            rng=random.Random(1),
            sleep=lambda seconds: None,
            limiter=NoLimit(),
        ),
    )


def verbs_of(name: str, port: Any, ref: str | None) -> dict[str, Callable[[], object]]:
    kind = VENDORS[name][4]
    door = Door("lck_1", "101", has_remote=name != "ttlock random pin", ref=VendorRef(ref) if ref else None)
    handle = CredentialHandle("key_1", kind, STAY, (door,), Pin("482913"), CardNumber("3661413478"), "i" * 64)
    request = IssueInput(
        "tnt_1", "ppt_1", "key_1", ("101",), STAY, Holder("gst_1", phone_e164="+93700123456"), (kind,), (door,),
        CallMeta("a" * 64, deadline_s=20), pin=Pin("482913"), card_number=CardNumber("3661413478"),
    )  # fmt: skip
    again = replace(request, meta=replace(request.meta, attempt=2))
    meta = CallMeta("b" * 64, deadline_s=20)
    other = Door("lck_2", "102")
    return {
        "issue": lambda: port.issue_credential(request),
        "issue again": lambda: port.issue_credential(again),
        "update": lambda: port.update_credential(UpdateInput(handle, meta)),
        "move": lambda: port.update_credential(UpdateInput(replace(handle, doors=()), meta, (other,), (door,))),
        "suspend": lambda: port.suspend_credential(handle, SuspendReason.MANUAL, meta),
        "unsuspend": lambda: port.unsuspend_credential(handle, meta),
        "revoke": lambda: port.revoke_credential(handle, RevokeReason.SECURITY, meta),
        "find": lambda: port.find(handle, meta),
        "list keys": lambda: port.list_keys(door, None),
        "list devices": lambda: port.list_devices("ppt_1"),
        "health": lambda: port.health_check(door),
        "records": lambda: port.list_records(door, STAY.valid_from, STAY.valid_until),
        **({"resume": lambda: port.resume(handle, "token", meta)} if hasattr(port, "resume") else {}),
    }


def ended(act: Callable[[], object]) -> tuple[object, LockError | None]:
    try:
        return act(), None
    except LockError as error:
        return None, error


@pytest.mark.parametrize("ref", [True, False], ids=["known", "blind"])
@pytest.mark.parametrize("name", VENDORS)
def test_every_verb_speaks_the_ports_words_whatever_comes(babbler: Babbler, name: str, ref: bool) -> None:
    faults: list[str] = []
    port = port_of(name, babbler.url)
    babbler.status = 200
    for what, body in BODIES.items():
        babbler.body = body
        for verb, act in verbs_of(name, port, VENDORS[name][3] if ref else None).items():
            try:
                ended(act)
            except Exception as error:  # noqa: BLE001 - all of them are collected
                faults.append(f"{verb} of {what}: {type(error).__name__}: {error}")
    assert faults == []


@pytest.mark.parametrize("name", VENDORS)
def test_every_verb_speaks_the_ports_words_whatever_is_refused(babbler: Babbler, name: str) -> None:
    faults: list[str] = []
    port = port_of(name, babbler.url)
    for status in (400, 409, 429, 503):
        for what, body in REFUSED.items():
            babbler.status, babbler.body = status, body
            for verb, act in verbs_of(name, port, VENDORS[name][3]).items():
                try:
                    ended(act)
                except Exception as error:  # noqa: BLE001 - all of them are collected
                    faults.append(f"{verb} of {what} ({status}): {type(error).__name__}: {error}")
    assert faults == []


@pytest.mark.parametrize("what", ["nothing", "a number", "names of other types", "items that are empty", "deep"])
@pytest.mark.parametrize("name", VENDORS)
def test_an_issue_whose_answer_makes_no_sense_stays_open_and_is_tried_again(babbler: Babbler, name: str, what: str) -> None:
    babbler.status, babbler.body = 200, BODIES[what]
    verbs = verbs_of(name, port_of(name, babbler.url), None)
    for verb in ("issue", "issue again"):
        result, error = ended(verbs[verb])
        if error is None:
            assert isinstance(result, CallResult)
            assert [door.outcome for door in result.doors] == [Outcome.UNKNOWN]
            error = result.doors[0].error
        assert error is not None
        assert (error.retriable, error.throttled) == (True, False)
