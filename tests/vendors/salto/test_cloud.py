"""Keys over the cloud's contract: headers, waiting for a card, partial success, API keys, limits, pushes."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from queue import Queue
from urllib.parse import urlsplit

import pytest

from tests.vendors.salto.hotel import CARD, NOON, PHONE, PIN, H, Hotel, meta
from tests.vendors.site import new_key, request_for
from vendors.port.errors import CardEncoderOffline, KeyIssueFailed, Reason, VendorUnreachable
from vendors.port.protocol import Resume
from vendors.port.types import CallMeta, Holder, Intent, Outcome, Propagation, RevokeReason, UpdateInput, Window
from vendors.salto.manifest import MANIFEST
from vendors.salto.pushes import read_push


def posted(hotel: Hotel) -> list[tuple[dict[str, str], dict[str, object]]]:
    rows = [(headers, json.loads(body)) for method, _, headers, body in hotel.proxy.requests if method == "POST"]
    return [(headers, body) for headers, body in rows if body["propertyId"] == hotel.property]


def test_a_request_carries_api_key_property_and_idempotency_key(hotel: Hotel) -> None:
    key = new_key()
    hotel.key(doors=(hotel.doors[0], hotel.gym), meta=CallMeta(key))
    ((headers, body),) = posted(hotel)
    assert headers["Authorization"] == f"ApiKey {hotel.api_key}"
    assert (headers["X-Property-Id"], headers["X-Idempotency-Key"]) == (hotel.property, key)
    assert (body["mode"], body["kind"], body["encoderId"]) == ("new", "rfid_card", "Front desk")
    assert (body["rooms"], body["authorizations"]) == ([hotel.doors[0].external_id], {"grant": [7], "deny": []})
    assert (body["validFrom"], body["validUntil"]) == ("2026-12-01T11:00:00+00:00", "2026-12-04T12:00:00+00:00")
    assert body["operator"] == f"gk-{key[:16]}"


def test_no_guest_is_named_to_the_vendor_but_the_number_a_phones_key_is_sent_to(hotel: Hotel) -> None:
    for kind in (CARD, PHONE):
        hotel.key(kind=kind, holder=Holder("gst_1", "Zarghuna Ahmadzai", "zarghuna@example.org", "+93700123456"))
    card, phone = (json.dumps(body) for _, body in posted(hotel))
    assert "Zarghuna" not in card + phone
    assert "zarghuna" not in card + phone
    assert ("+93700123456" in card, "+93700123456" in phone) == (False, True)


def test_modes_follow_the_intent(hotel: Hotel) -> None:
    for intent in (Intent.NEW, Intent.ADDITIONAL, Intent.REPLACEMENT):
        hotel.key(intent)
    assert [body["mode"] for _, body in posted(hotel)] == ["new", "copy", "copy"]


def test_the_simulator_takes_no_mode_that_is_none_for_a_new_key_nor_for_a_change(hotel: Hotel) -> None:
    made = hotel.key(kind=PHONE, doors=hotel.doors[:1])
    ref = made.result.doors[0].ref
    assert ref is not None
    ((_, posted_body),) = posted(hotel)
    for method, path, body in (
        ("POST", "/v1/keys", posted_body | {"mode": "anew"}),
        ("PATCH", f"/v1/keys/{ref.reveal()}", {"addRooms": [hotel.doors[1].external_id], "mode": "one_shot"}),
    ):
        connection = http.client.HTTPConnection(urlsplit(hotel.proxy.url).netloc, timeout=10)
        headers = {
            "Authorization": f"ApiKey {hotel.api_key}", "X-Property-Id": hotel.property, "X-Idempotency-Key": new_key(),
            "Content-Type": "application/json",
        }  # fmt: skip
        connection.request(method, path, json.dumps(body), headers)
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["code"]) == (422, "bad_mode")
        connection.close()
    assert [hotel.generation(door) for door in hotel.doors[:2]] == [1, 0]


def test_a_card_waits_for_a_person_and_the_resumed_call_tells_when_it_is_written(hotel: Hotel) -> None:
    hotel.simulator.post("/seed", {"property": hotel.property, "encoderTimeoutS": 30})
    hotel.by_hand()
    waiting = hotel.key()
    assert isinstance(hotel.port, Resume)
    assert [door.outcome for door in waiting.result.doors] == [Outcome.DEFERRED]
    token = waiting.result.resume_token
    assert token is not None
    still = hotel.port.resume(waiting.handle(), token, meta())
    assert ([door.outcome for door in still.doors], still.resume_token) == ([Outcome.DEFERRED], token)
    assert hotel.generation(hotel.doors[0]) == 0, "the stay starts with the card, not with the job"
    card = hotel.place()
    done = hotel.port.resume(waiting.handle(), token, meta())
    assert [(door.outcome, door.propagation) for door in done.doors] == [(Outcome.DONE, Propagation.CONFIRMED)]
    assert hotel.shown(hotel.doors[0], card) == (True, "open")


def test_a_repeat_while_the_card_is_awaited_is_the_same_job(hotel: Hotel) -> None:
    hotel.simulator.post("/seed", {"property": hotel.property, "encoderTimeoutS": 30})
    hotel.by_hand()
    waiting = hotel.key()
    again = hotel.port.issue_credential(replace(waiting.request, meta=replace(waiting.request.meta, attempt=2)))
    assert again.resume_token == waiting.result.resume_token
    hotel.place()
    assert hotel.generation(hotel.doors[0]) == 1


def test_nobody_came_so_the_job_failed_for_good_and_the_next_attempt_is_a_job_of_its_own(hotel: Hotel) -> None:
    hotel.simulator.post("/seed", {"property": hotel.property, "encoderTimeoutS": 0})
    hotel.by_hand()
    waiting = hotel.key()
    with pytest.raises(KeyIssueFailed) as caught:
        hotel.port.resume(waiting.handle(), waiting.result.resume_token or "", meta())
    assert not caught.value.retriable
    hotel.place()
    again = hotel.port.issue_credential(replace(waiting.request, meta=replace(waiting.request.meta, attempt=2)))
    assert [door.outcome for door in again.doors] == [Outcome.DONE]
    assert hotel.generation(hotel.doors[0]) == 1


def test_a_cancelled_wait_makes_no_card(hotel: Hotel) -> None:
    hotel.simulator.post("/seed", {"property": hotel.property, "encoderTimeoutS": 30})
    hotel.by_hand()
    waiting = hotel.key()
    hotel.port.revoke_credential(waiting.handle(), RevokeReason.CANCELLATION, meta())
    card = hotel.place()
    assert hotel.shown(hotel.doors[0], card)[0] is False


def test_an_idempotency_key_used_for_fewer_doors_completes_the_key_it_made(hotel: Hotel) -> None:
    hotel.kill_door(hotel.doors[1])
    first = hotel.key(doors=hotel.doors[:2])
    assert [door.outcome for door in first.result.doors] == [Outcome.DONE, Outcome.FAILED]
    hotel.simulator.post("/faults", {"property": hotel.property, "device": hotel.doors[1].external_id})
    rest = replace(first.request, doors=hotel.doors[1:2], meta=replace(first.request.meta, attempt=2))
    again = hotel.port.issue_credential(rest)
    assert [door.outcome for door in again.doors] == [Outcome.DONE]
    assert again.doors[0].ref == first.result.doors[0].ref
    assert len(hotel.dump()["keys"]) == 1


def test_while_the_new_room_is_refused_the_old_one_is_kept(hotel: Hotel) -> None:
    guest = hotel.key()
    hotel.kill_door(hotel.doors[1])
    update = UpdateInput(guest.handle(doors=()), meta(), added=hotel.doors[1:2], removed=guest.handle().doors)
    with pytest.raises(VendorUnreachable) as caught:
        hotel.port.update_credential(update)
    assert caught.value.retriable
    hotel.shown(hotel.street, guest.value)
    assert guest.opens(hotel.doors[0])


def test_a_phone_key_without_a_number_falls_to_the_next_kind(hotel: Hotel) -> None:
    request = request_for(hotel, PHONE, hotel.doors[:1], holder=Holder("gst_1"), preferred_kinds=(PHONE, CARD))
    assert hotel.port.issue_credential(replace(request, window=Window(NOON, NOON + H))).kind is CARD


def test_a_stand_alone_door_takes_no_pin(hotel: Hotel) -> None:
    with pytest.raises(KeyIssueFailed) as caught:
        hotel.key(kind=PIN)
    assert caught.value.reason is Reason.KIND_UNSUPPORTED


def test_an_encoder_that_is_busy_or_gone_is_told_apart_from_a_refusal(hotel: Hotel) -> None:
    for state, reason in (("busy", Reason.BUSY), ("offline", Reason.OTHER)):
        hotel.simulator.post("/seed", {"property": hotel.property, "encoders": [{"name": "Front desk", state: True}]})
        with pytest.raises(CardEncoderOffline) as caught:
            hotel.key()
        assert (caught.value.retriable, caught.value.reason) == (True, reason)


def test_two_api_keys_live_while_one_is_rotated(hotel: Hotel) -> None:
    hotel.simulator.post("/seed", {"property": hotel.property, "apiKeys": ["the-next-key"]})
    with pytest.raises(VendorUnreachable) as caught:
        hotel.key()
    assert (caught.value.reason, caught.value.retriable) == (Reason.SETTINGS, False)
    secrets = hotel.secrets
    hotel.secrets = lambda: {**secrets(), "api_key_next": "the-next-key"}  # type: ignore[method-assign]
    hotel.refresh()
    assert hotel.key().result.doors[0].outcome is Outcome.DONE


def test_a_key_of_another_property_is_refused(new_hotel: Callable[..., Hotel]) -> None:
    other = new_hotel()
    hotel = new_hotel(property_ref=other.property)
    with pytest.raises(VendorUnreachable) as caught:
        hotel.key()
    assert caught.value.reason is Reason.SETTINGS


def test_a_limit_of_the_vendor_counts_as_no_attempt_and_tells_how_long(hotel: Hotel) -> None:
    hotel.fault(surface="rest", code="rate_limited", retryAfterS=7)
    with pytest.raises(VendorUnreachable) as caught:
        hotel.key()
    assert (caught.value.throttled, caught.value.reason, caught.value.retry_after_s) == (True, Reason.RATE, 7.0)
    assert hotel.dump()["keys"] == []


def test_an_error_of_the_server_leaves_the_outcome_unknown(hotel: Hotel) -> None:
    hotel.fault(surface="rest", method="POST", code="internal")
    assert hotel.key().result.doors[0].outcome is Outcome.UNKNOWN


def test_shared_doors_are_listed_by_their_authorisation_with_what_each_door_can(hotel: Hotel) -> None:
    listed = {device.external_id: device for device in hotel.port.list_devices("ppt_1")}
    assert set(listed) == {*(door.external_id for door in hotel.doors), hotel.street.external_id, "auth:7"}
    assert (listed["auth:7"].label, listed["auth:7"].capabilities.scope_areas) == ("Gym", True)
    assert (listed[hotel.street.external_id].has_remote, listed[hotel.doors[0].external_id].has_remote) == (True, False)
    assert not listed[hotel.doors[0].external_id].capabilities.pin


def test_a_clock_that_is_off_is_read_from_the_door(hotel: Hotel) -> None:
    body = {"property": hotel.property, "device": hotel.doors[0].external_id, "clockSkewS": -640}
    hotel.simulator.post("/door", body)
    assert hotel.port.health_check(hotel.doors[0]).clock_skew_ms == -640_000


def test_a_stand_alone_doors_log_arrives_late_with_a_card_and_tells_whose_it_was(hotel: Hotel) -> None:
    guest = hotel.key(doors=(hotel.doors[0], hotel.street))
    guest.opens(hotel.doors[0])
    assert hotel.port.list_records(hotel.doors[0], NOON - H, NOON + H) == ()
    guest.opens(hotel.street)
    (record,) = hotel.port.list_records(hotel.doors[0], NOON - H, NOON + H)
    assert (record.outcome, record.nonce) == ("granted", f"gk-{guest.request.meta.idempotency_key[:16]}")


def test_a_push_holds_an_attempt_or_nothing_and_is_refused_when_it_is_malformed() -> None:
    data = {"door": "101", "operation": 88, "operator": "gk-0123456789abcdef", "kind": "rfid_card"}
    push = {"id": "e1", "type": "access.denied", "occurredAt": "2026-12-01T12:00:00+00:00", "propertyId": "p", "data": data}
    (attempt,) = read_push(json.dumps(push).encode())
    assert (attempt.outcome, attempt.deny_reason, attempt.attempted_at) == ("denied", "superseded", NOON)
    assert (attempt.external_event_id, attempt.nonce) == ("101:e1", "gk-0123456789abcdef")
    assert read_push(json.dumps({**push, "type": "door.battery_low"}).encode()) == ()
    for broken in (
        b"[]",
        b"{}",
        b"x",
        json.dumps({**push, "data": {}}).encode(),
        json.dumps({**push, "occurredAt": "now"}).encode(),
    ):
        with pytest.raises(ValueError):
            read_push(broken)


def test_the_simulated_cloud_pushes_what_the_adapter_takes_for_genuine_and_polling_tells_the_same(hotel: Hotel) -> None:
    received: Queue[tuple[dict[str, str], bytes]] = Queue()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.put((dict(self.headers.items()), body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_address[1]}/hook"
        hotel.simulator.post("/seed", {"property": hotel.property, "webhookUrl": url})
        guest = hotel.key(doors=(hotel.street, hotel.gym))
        guest.opens(hotel.gym)
        guest.opens(hotel.street)
        pushes = [received.get(timeout=5) for _ in range(3)]
    finally:
        server.shutdown()
        server.server_close()
    now = datetime.now(UTC)
    assert all(hotel.port.verify(headers, body, now) for headers, body in pushes)
    assert not any(hotel.port.verify(headers, body + b" ", now) for headers, body in pushes)
    attempts = [attempt for _, body in pushes for attempt in hotel.port.parse(body)]
    assert sorted(attempt.device_external_id for attempt in attempts) == sorted(["auth:7", hotel.street.external_id])
    span = (NOON - H, NOON + H)
    polled = [record for door in (hotel.gym, hotel.street) for record in hotel.port.list_records(door, *span)]
    assert {record.external_event_id for record in polled} == {attempt.external_event_id for attempt in attempts}


def test_settings_that_cannot_work_are_refused_by_name(new_hotel: Callable[..., Hotel]) -> None:
    wrong = {
        "transport": {"transport": "fax"},
        "base_url": {"base_url": ""},
        "property_ref": {"property_ref": None},
        "pms_address": {"transport": "pms", "pms_address": "somewhere"},
        "encoder": {"transport": "pms", "encoder": ""},
        "time_zone": {"time_zone": "Mars/Olympus"},
        "timeout_s": {"timeout_s": "soon"},
        "connector_url": {"transport": "connector", "connector_url": "http://127.0.0.1:1"},
    }
    for name, settings in wrong.items():
        hotel = new_hotel(**settings)
        with pytest.raises(ValueError, match=name):
            hotel.build()
    assert set(new_hotel().settings()) <= set(MANIFEST.setting_names)
    assert set(new_hotel().secrets()) <= set(MANIFEST.secret_names)
