"""The Vostio environment's API.

One rule: an Idempotency-Key has one effect for ever; a refused request leaves no trace under it.
Contract: not public. Names by the specification, the rest assumed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl

from vendors.support.simulator_http import Reply, Request

from .model import House, Job, Key, Lock, Phone
from .stays import No, card_on, check_doors, encoder_of, joining, overriding, sharing, valid_keys, write_card
from .world import World, endpoint_for, last_code, new_id, sync

TOKEN_LIFE_S = 3600
DOOR_TYPES = {"guest": "GuestDoor", "common": "CommonDoor", "entrance": "EntranceDoor", "elevator": "Elevator"}
CARD_KINDS = frozenset({"rfid_card", "nfc_tag"})
PAGE_MAX = 100
Act = Callable[[House, Request, dict[str, str], str], Reply]


class VostioSide:
    """Answers what is not Visionline's."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._routes: dict[tuple[str, str], Act] = {
            ("POST", "access-grants"): self._make,
            ("GET", "access-grants"): self._read,
            ("PATCH", "access-grants"): self._change,
            ("DELETE", "access-grants"): self._withdraw,
            ("GET", "issuing-requests"): self._job,
            ("POST", "endpoints"): self._endpoint,
            ("GET", "endpoints"): self._endpoint_read,
            ("DELETE", "endpoints"): self._endpoint_end,
            ("GET", "doors"): self._doors,
            ("GET", "encoders"): self._encoders,
            ("GET", "events"): self._events,
            ("GET", "maintenance-windows"): self._windows,
        }

    def handle(self, request: Request) -> Reply:
        """Serves one request, under the world's lock."""
        if request.path == "/oauth2/token" or "x-amz-target" in request.headers:
            return self._token(request)
        house = self._house(request)
        if house is None:
            return _problem(No(401, "token_expired"))
        try:
            self._mind_limits(house)
            first, _, rest = request.path.strip("/").partition("/")
            act = self._routes.get((request.method, first))
            if act is None:
                raise No(404, "not_found")
            return act(house, request, dict(parse_qsl(request.target.partition("?")[2])), rest)
        except No as no:
            return _problem(no)
        except (KeyError, ValueError, TypeError) as error:
            return Reply(400, {"code": "validation", "detail": type(error).__name__})

    def house_of(self, request: Request) -> House | None:
        """Tells whose request it is, for the log of calls."""
        return self._house(request)

    # --- who asks, and how often

    def _token(self, request: Request) -> Reply:
        if "x-amz-target" in request.headers:
            asked = request.json()
            given = asked.get("AuthParameters") or {}
            house = next((h for h in self._world.houses.values() if h.client_id == asked.get("ClientId")), None)
            if house is None or not _is_login(house, given, self._world):
                return Reply(400, {"__type": "NotAuthorizedException"})
            token = self._new_token(house)
            result = {"AccessToken": token, "ExpiresIn": TOKEN_LIFE_S, "RefreshToken": f"r-{token}"}
            return Reply(200, {"AuthenticationResult": result})
        scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
        pair = base64.b64decode(encoded).decode() if scheme == "Basic" else ":"
        name, _, secret = pair.partition(":")
        house = next((h for h in self._world.houses.values() if (h.client_id, h.client_secret) == (name, secret)), None)
        if house is None:
            return Reply(401, {"error": "invalid_client"})
        return Reply(200, {"access_token": self._new_token(house), "token_type": "Bearer", "expires_in": TOKEN_LIFE_S})

    def _new_token(self, house: House) -> str:
        token = new_id("tok-")
        self._world.tokens[token] = (house.code, self._world.clock.now() + timedelta(seconds=TOKEN_LIFE_S))
        return token

    def _house(self, request: Request) -> House | None:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        code, until = self._world.tokens.get(token, ("", datetime.min.replace(tzinfo=UTC)))
        return self._world.houses.get(code) if self._world.clock.now() < until else None

    def _mind_limits(self, house: House) -> None:
        now = self._world.clock.now()
        for start, end in house.windows:
            if start <= now < end:
                wait = str(int((end - now).total_seconds()) + 1)
                raise No(423, "maintenance", None, **{"Retry-After": wait})
        if house.rate_limit is None:
            return
        at = time.monotonic()
        level, then = house.bucket or (float(house.rate_limit), at)
        level = min(float(house.rate_limit), level + (at - then) * house.rate_limit)
        if level < 1:
            house.bucket = (level, at)
            raise No(429, "rate_limited", None, **{"Retry-After": "1", "X-RateLimit-Limit": str(house.rate_limit)})
        house.bucket = (level - 1, at)

    # --- grants

    def _make(self, house: House, request: Request, query: dict[str, str], rest: str) -> Reply:
        key = request.headers.get("idempotency-key", "")
        if not key:
            raise No(400, "validation")
        digest = hashlib.sha256(request.body).hexdigest()
        if key in house.answers:
            earlier, status, document = house.answers[key]
            if earlier != digest:
                raise No(409, "idempotency_conflict")
            return Reply(status, document)
        status, document = self._made(house, request.json())
        house.answers[key] = (digest, status, json.loads(json.dumps(document)))
        return Reply(status, document)

    def _made(self, house: House, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        guest, common = list(body["guestDoors"]), list(body.get("commonDoors") or [])
        is_card = body["kind"] in CARD_KINDS
        check_doors(house, guest, common, is_card=is_card)
        if len(str(body.get("label") or "")) > 32:
            raise No(400, "validation")
        start, end = datetime.fromisoformat(body["validFrom"]), datetime.fromisoformat(body["validUntil"])
        if end <= start or start.tzinfo is None:
            raise No(400, "validation")
        if is_card:
            encoder_of(house, body.get("encoderId"), "encoder_unknown")
        mode = (body.get("stay") or {}).get("mode")
        if mode not in {"override", "join"}:
            raise No(409, "guest_door_occupied")
        stays = overriding(house, guest) if mode == "override" else joining(house, guest)
        label, ref = str(body.get("label") or ""), str(body.get("externalRef") or "")
        made = Key(new_id("gr-"), str(body["kind"]), guest, common, start, end, stays, label, ref)
        house.keys[made.id] = made
        if not is_card:
            endpoint = body.get("endpoint") or {}
            given = endpoint.get("endpointId")
            phone = house.phones[given] if given else endpoint_for(house, _owner(endpoint))
            made.endpoint_id = phone.endpoint_id
            sync(house, phone, self._world.clock.now())
            return 201, self._row(house, made, code=last_code(phone))
        made.status = "issuing"
        job = Job(new_id("ir-"), made.id, str(body["encoderId"]), time.monotonic() + house.card_wait_s)
        job.overwrite = [str(grant) for grant in body.get("overwriteGrantIds") or ()]
        house.jobs[job.id] = job
        return 202, {"grantId": made.id, "status": "issuing", "issuingRequestId": job.id}

    def _job(self, house: House, request: Request, query: dict[str, str], rest: str) -> Reply:
        job = house.jobs.get(rest)
        if job is None:
            raise No(404, "not_found")
        if job.status in {"queued", "waiting_card"}:
            self._advance(house, job)
        answer: dict[str, Any] = {"issuingRequestId": job.id, "status": job.status, "grantId": job.key_id}
        if job.error:
            answer["error"] = {"code": job.error, "grantId": job.on_card}
        return Reply(200, answer)

    def _advance(self, house: House, job: Job) -> None:
        """A card on the encoder is written; without one the request waits, and at last expires."""
        key, encoder = house.keys[job.key_id], house.encoders[job.encoder]
        if house.issues_slowly and job.status == "queued":
            job.status = "waiting_card"
            return
        serial = card_on(encoder)
        if serial is None:
            job.status = "waiting_card"
            if time.monotonic() >= job.until_s:
                job.status, key.status = "expired", "failed"
            return
        now = self._world.clock.now()
        held = valid_keys(house, serial, key, now)
        try:
            write_card(house, serial, key, now, overwrite=all(other.id in job.overwrite for other in held))
        except No as no:
            job.status, job.error, key.status = "failed", no.code, "failed"
            job.on_card = held[0].id if held else None
            return
        if key.status == "issuing":
            key.status = "active"
        job.status = "done"

    def _read(self, house: House, request: Request, query: dict[str, str], rest: str) -> Reply:
        if rest:
            return Reply(200, self._row(house, self._grant(house, rest)))
        now = self._world.clock.now()
        wanted = set(query["status"].split(",")) if "status" in query else None
        rows = [
            key
            for key in house.keys.values()
            if (wanted is None or key.status_at(now) in wanted)
            and query.get("externalRef", key.external_ref) == key.external_ref
            and ("doorId" not in query or query["doorId"] in (*key.guest, *key.common))
        ]
        size, start = min(int(query.get("pageSize", PAGE_MAX)), PAGE_MAX), int(query.get("pageToken", 0))
        after = str(start + size) if len(rows) > start + size else None
        items = [self._row(house, key) for key in rows[start : start + size]]
        return Reply(200, {"items": items, "nextPageToken": after})

    def _change(self, house: House, request: Request, query: dict[str, str], rest: str) -> Reply:
        key, body = self._grant(house, rest), request.json()
        if request.headers.get("if-match") != str(key.version):
            raise No(412, "version_stale")
        if key.status not in {"active", "suspended"}:
            raise No(409, "grant_overridden")
        guest = list(body.get("guestDoors", key.guest))
        common = list(body.get("commonDoors", key.common))
        check_doors(house, guest, common, is_card=key.kind in CARD_KINDS)
        serial = self._laid_again(house, key, body["encoderId"]) if "encoderId" in body else None
        key.stays = sharing(house, key, guest, list(body.get("overrideGuestDoors") or []))
        key.guest, key.common = guest, common
        key.start = datetime.fromisoformat(body["validFrom"]) if "validFrom" in body else key.start
        key.end = datetime.fromisoformat(body["validUntil"]) if "validUntil" in body else key.end
        if "suspended" in body:
            key.status = "suspended" if body["suspended"] else "active"
        key.version += 1
        if serial is not None:
            write_card(house, serial, key, self._world.clock.now(), overwrite=True)
        self._tell_phone(house, key)
        return Reply(200, self._row(house, key))

    def _laid_again(self, house: House, key: Key, encoder_id: object) -> str:
        """The guest's own card lies on the encoder; one that feeds is handed it."""
        encoder = encoder_of(house, encoder_id, "encoder_unknown")
        serial = encoder.lying or (key.serial if encoder.feeds else None)
        if serial is None:
            raise No(409, "card_timeout")
        if serial != key.serial:
            raise No(409, "card_in_use")
        return serial

    def _withdraw(self, house: House, request: Request, query: dict[str, str], rest: str) -> Reply:
        key = self._grant(house, rest)
        if key.status in {"active", "suspended", "issuing"}:
            key.status = "cancelled"
            key.version += 1
        self._tell_phone(house, key)
        off_network = [d for d in key.guest if d in house.locks and not house.locks[d].is_online]
        if key.kind in CARD_KINDS and off_network:
            carried = [image.end for image in house.cards.values() if image.key_id == key.id]
            not_after = max([key.end, *carried]).isoformat()
            return Reply(202, {"effective": "on_next_guest_key_or_expiry", "notAfter": not_after})
        return Reply(204)

    def _grant(self, house: House, grant_id: str) -> Key:
        if grant_id not in house.keys:
            raise No(404, "not_found")
        return house.keys[grant_id]

    def _tell_phone(self, house: House, key: Key) -> None:
        if key.endpoint_id in house.phones:
            sync(house, house.phones[key.endpoint_id], self._world.clock.now())

    def _row(self, house: House, key: Key, code: str | None = None) -> dict[str, Any]:
        phone = house.phones.get(key.endpoint_id or "")
        return {
            "grantId": key.id,
            "status": key.status_at(self._world.clock.now()),
            "version": key.version,
            "keyId": f"{key.id}.{key.version}",
            "kind": key.kind,
            "guestDoors": list(key.guest),
            "commonDoors": list(key.common),
            "validFrom": key.start.isoformat(),
            "validUntil": key.end.isoformat(),
            "label": key.label,
            "externalRef": key.external_ref,
            "mobile": _mobile(phone, key, code) if phone else None,
            "overwrote": key.overwrote,
            "issuingRequestId": next((j.id for j in house.jobs.values() if j.key_id == key.id), None),
        }

    # --- the rest

    def _endpoint(self, house: House, request: Request, query: dict[str, str], rest: str) -> Reply:
        phone = endpoint_for(house, _owner(request.json()))
        until = self._world.clock.now() + timedelta(hours=24)
        code = last_code(phone)
        expires = until.isoformat() if code else None
        return Reply(201, {"endpointId": phone.endpoint_id, "invitationCode": code, "expiresAt": expires})

    def _endpoint_read(self, house: House, request: Request, query: dict[str, str], rest: str) -> Reply:
        if rest not in house.phones:
            raise No(404, "not_found")
        return Reply(200, {"endpointId": rest, "status": house.phones[rest].status})

    def _endpoint_end(self, house: House, request: Request, query: dict[str, str], rest: str) -> Reply:
        phone = house.phones.get(rest)
        if phone is not None:
            phone.status = "terminated"
            if not phone.is_offline:
                phone.images.clear()
        return Reply(204)

    def _doors(self, house: House, request: Request, query: dict[str, str], rest: str) -> Reply:
        wanted = query.get("pmsId")
        return Reply(200, {"items": [_door(k) for k in house.locks.values() if wanted in {None, k.door_id}]})

    def _encoders(self, house: House, request: Request, query: dict[str, str], rest: str) -> Reply:
        return Reply(200, {"items": [{"encoderId": e.name} for e in house.encoders.values() if not e.is_offline]})

    def _events(self, house: House, request: Request, query: dict[str, str], rest: str) -> Reply:
        since = datetime.fromisoformat(query["from"]) if "from" in query else None
        until = datetime.fromisoformat(query["until"]) if "until" in query else None
        rows = [
            event
            for event in house.events
            if query.get("doorId") in {None, event["data"]["doorId"]}
            and (since is None or datetime.fromisoformat(event["occurredAt"]) >= since)
            and (until is None or datetime.fromisoformat(event["occurredAt"]) < until)
        ]
        start = int(query.get("after", 0))
        more = str(start + PAGE_MAX) if len(rows) > start + PAGE_MAX else None
        return Reply(200, {"items": rows[start : start + PAGE_MAX], "next": more})

    def _windows(self, house: House, request: Request, query: dict[str, str], rest: str) -> Reply:
        return Reply(200, {"items": [{"from": a.isoformat(), "until": b.isoformat()} for a, b in house.windows]})


def _problem(no: No) -> Reply:
    return Reply(no.status, {"code": no.code, "title": no.code, "status": no.status, "doors": no.doors}, no.headers)


def _is_login(house: House, given: dict[str, Any], world: World) -> bool:
    if "REFRESH_TOKEN" in given:
        return world.tokens.get(str(given["REFRESH_TOKEN"]).removeprefix("r-"), ("",))[0] == house.code
    return (given.get("USERNAME"), given.get("PASSWORD")) == (house.username, house.password)


def _owner(endpoint: dict[str, Any]) -> str:
    return str(endpoint.get("phoneE164") or endpoint["appUserRef"])


def _mobile(phone: Phone, key: Key, code: str | None) -> dict[str, Any]:
    return {
        "endpointId": phone.endpoint_id,
        "status": phone.status,
        "invitationCode": code,
        "delivered": key.id in phone.images,
    }


def _door(lock: Lock) -> dict[str, Any]:
    return {
        "pmsId": lock.door_id,
        "doorNumber": lock.door_id,
        "doorName": lock.name,
        "type": DOOR_TYPES.get(lock.kind, lock.kind),
        "online": lock.is_online,
        "reachable": lock.is_reachable,
    }
