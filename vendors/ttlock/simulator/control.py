"""The control port: JSON over HTTP, apart from the vendor's surface so that the two can never be mistaken for each other.

One rule: every answer is JSON; what is wrong with a request is 400 with {"error": …}. README lists every route.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from urllib.parse import parse_qsl

from .app_edits import forget, renumber
from .door import RandomCode
from .dump import dump_world
from .evidence import LAST_COMPARED, NEXT_COMPARISON
from .model import Application, Lock
from .records import collect
from .seed import (
    CALLBACK_FIELDS,
    DOOR_FIELDS,
    HABIT_FIELDS,
    SeedError,
    apply,
    configure,
    refuse_unknown,
    seed,
    seed_hotel,
)
from .services import Services
from .tryout import Attempt, attempt
from .wire import Reply, Request
from .world import Timing

Body = dict[str, object]
TIMING_FIELDS = {
    "cloudMs": "cloud_ms",
    "gatewayMs": "gateway_ms",
    "wifiAsyncMs": "wifi_async_ms",
    "strictGateways": "strict_gateways",
}
MAX_LINES = 10_000


class Control:
    """Answers the control port."""

    def __init__(self, services: Services, saved: Callable[[], None]) -> None:
        self._services = services
        self._world = services.world
        self._saved = saved
        self._routes: dict[tuple[str, str], Callable[[Body, dict[str, str]], Awaitable[Body]]] = {
            ("GET", "/"): self._about,
            ("GET", "/health"): self._about,
            ("POST", "/seed"): self._seed,
            ("POST", "/seed/hotel"): self._seed_hotel,
            ("GET", "/dump"): self._dump,
            ("GET", "/clock"): self._clock,
            ("POST", "/clock"): self._set_clock,
            ("GET", "/faults"): self._faults,
            ("POST", "/faults"): self._add_faults,
            ("DELETE", "/faults"): self._remove_faults,
            ("POST", "/try"): self._try,
            ("POST", "/try-many"): self._try_many,
            ("GET", "/calls"): self._calls,
            ("POST", "/calls/reset"): self._reset_calls,
            ("POST", "/latency"): self._latency,
            ("GET", "/latency"): self._get_latency,
            ("POST", "/habits"): self._habits,
            ("POST", "/webhook"): self._webhook,
            ("POST", "/webhook/test"): self._webhook_test,
            ("POST", "/webhook/flush"): self._webhook_flush,
            ("GET", "/webhook/log"): self._webhook_log,
            ("POST", "/gateway"): self._gateway,
            ("POST", "/door"): self._door,
            ("POST", "/cloud"): self._cloud,
            ("POST", "/upload"): self._upload,
            ("POST", "/tokens"): self._tokens,
            ("POST", "/save"): self._save,
            ("POST", "/reset"): self._reset,
        }

    async def handle(self, request: Request) -> Reply:
        """Answers one request."""
        route = self._routes.get((request.method, request.path))
        if route is None:
            known = any(path == request.path for _, path in self._routes)
            return _json({"error": "no such route"}, 405 if known else 404)
        try:
            body = json.loads(request.body) if request.body else {}
            query = dict(parse_qsl(request.query))
            if not isinstance(body, (dict, list)):
                raise SeedError("the body must be a JSON object")
            return _json(await route({"items": body} if isinstance(body, list) else body, query))
        except (ValueError, KeyError) as error:
            return _json({"error": str(error)}, 400)

    # -- world

    async def _about(self, body: Body, query: dict[str, str]) -> Body:
        state = self._world.state
        return {
            "vendor": "ttlock",
            "lastCompared": LAST_COMPARED.isoformat(),
            "nextComparison": NEXT_COMPARISON.isoformat(),
            "region": self._world.region,
            "now": self._world.now(),
            "locks": len(state.locks),
            "gateways": len(state.gateways),
            "applications": len(state.applications),
            "routes": sorted(f"{method} {path}" for method, path in self._routes),
        }

    async def _seed(self, body: Body, query: dict[str, str]) -> Body:
        return seed(self._world, body)

    async def _seed_hotel(self, body: Body, query: dict[str, str]) -> Body:
        return seed_hotel(self._world, body)

    async def _dump(self, body: Body, query: dict[str, str]) -> Body:
        lock_id = int(query["lockId"]) if "lockId" in query else None
        return dump_world(self._world, lock_id, query.get("clientId"), query.get("live") == "1")

    async def _reset(self, body: Body, query: dict[str, str]) -> Body:
        """Forgets everything: state, faults, calls, latencies, pushes."""
        self._world.reset()
        self._services.faults.remove()
        self._services.calls.reset()
        self._services.pushes.log.clear()
        return {"ok": True}

    async def _save(self, body: Body, query: dict[str, str]) -> Body:
        self._saved()
        return {"ok": True}

    # -- time

    async def _clock(self, body: Body, query: dict[str, str]) -> Body:
        now = self._world.now()
        iso_text = datetime.fromtimestamp(now / 1000, UTC).isoformat()
        return {"now": now, "iso": iso_text, "moved": self._world.state.clock_ms is not None}

    async def _set_clock(self, body: Body, query: dict[str, str]) -> Body:
        refuse_unknown("clock", body, ("now", "advanceMs", "running", "lockId", "offsetMs", "driftPpm"))
        if "lockId" in body:
            door = self._lock_of(body).door
            apply(door, body, {"offsetMs": "clock_offset_ms", "driftPpm": "drift_ppm"})
            door.drift_since = self._world.now()
        runs = bool(body.get("running", self._world.state.clock_runs))
        if "now" in body:
            now = body["now"]
            self._world.set_clock(None if now is None else _instant(now), bool(body.get("running", True)))
        elif "advanceMs" in body:
            self._world.set_clock(self._world.now() + int(str(body["advanceMs"])), runs)
        elif "running" in body:
            self._world.set_clock(self._world.now(), runs)
        self._world.changes += 1
        return await self._clock({}, {})

    async def _get_latency(self, body: Body, query: dict[str, str]) -> Body:
        timing = self._world.timing
        answer: Body = {name: getattr(timing, attribute) for name, attribute in TIMING_FIELDS.items()}
        answer["gateways"] = {str(g): ms for g, ms in timing.gateway_each_ms.items()}
        return answer

    async def _latency(self, body: Body, query: dict[str, str]) -> Body:
        """Null resets; with gatewayId the ms are that gateway's alone."""
        refuse_unknown("latency", body, ("gatewayId",), TIMING_FIELDS)
        timing = self._world.timing
        if "gatewayId" in body:
            value = body.get("gatewayMs")
            gateway_id = int(str(body["gatewayId"]))
            timing.gateway_each_ms.pop(gateway_id, None)
            if value is not None:
                timing.gateway_each_ms[gateway_id] = _milliseconds(value)
            return await self._get_latency({}, {})
        fresh = Timing()
        for name, attribute in TIMING_FIELDS.items():
            if name in body:
                value = body[name]
                default = getattr(fresh, attribute)
                wanted = default if value is None else value
                setattr(timing, attribute, bool(wanted) if attribute == "strict_gateways" else _milliseconds(wanted))
        return await self._get_latency({}, {})

    # -- faults and log

    async def _faults(self, body: Body, query: dict[str, str]) -> Body:
        return {
            "rules": [
                {
                    "id": rule.rule_id,
                    "effect": rule.effect.value,
                    "path": rule.path,
                    "lockId": rule.lock_id,
                    "gatewayId": rule.gateway_id,
                    "clientId": rule.client_id,
                    "times": rule.times,
                    "hits": rule.hits,
                }
                for rule in self._services.faults.rules
            ]
        }

    async def _add_faults(self, body: Body, query: dict[str, str]) -> Body:
        rules = body.get("rules", body.get("items", [body]))
        if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
            raise ValueError("rules must be a list of objects")
        return {"ids": [self._services.faults.add(rule) for rule in rules]}

    async def _remove_faults(self, body: Body, query: dict[str, str]) -> Body:
        refuse_unknown("fault query", query, ("id", "lockId", "gatewayId", "clientId"))
        match: dict[str, object] = {}
        for name, attribute in (("id", "rule_id"), ("lockId", "lock_id"), ("gatewayId", "gateway_id")):
            if name in query:
                match[attribute] = int(query[name])
        if "clientId" in query:
            match["client_id"] = query["clientId"]
        return {"removed": self._services.faults.remove(**match)}

    async def _calls(self, body: Body, query: dict[str, str]) -> Body:
        refuse_unknown("calls query", query, ("since", "lockId", "clientId", "path", "limit"))
        since, limit = int(query.get("since", 0)), min(int(query.get("limit", MAX_LINES)), MAX_LINES)
        calls = self._services.calls
        lines = [
            call.as_json()
            for call in calls.lines
            if call.seq > since
            and query.get("lockId") in (None, str(call.lock_id))
            and query.get("clientId") in (None, call.client_id)
            and query.get("path") in (None, call.path)
        ][:limit]
        return {"calls": lines, "last": calls.total, "counts": calls.counts()}

    async def _reset_calls(self, body: Body, query: dict[str, str]) -> Body:
        self._services.calls.reset()
        return {"ok": True}

    # -- door side

    async def _try(self, body: Body, query: dict[str, str]) -> Body:
        return attempt(self._services, _attempt(body))

    async def _try_many(self, body: Body, query: dict[str, str]) -> Body:
        tries = body.get("tries", body.get("items"))
        if tries is None:
            values = body.pop("values", [])
            tries = [{**body, "value": value} for value in values] if isinstance(values, list) else None
        if not isinstance(tries, list):
            raise SeedError("tries or values must be a list")
        return {"results": [attempt(self._services, _attempt(one)) for one in tries]}

    async def _door(self, body: Body, query: dict[str, str]) -> Body:
        """Changes a door by hand: its flags, or what it remembers, without the cloud knowing."""
        refuse_unknown("door", body, ("lockId", "forgetCode", "forgetCard", "wipe", "markUsed", "battery"), DOOR_FIELDS)
        lock = self._lock_of(body)
        apply(lock.door, body, DOOR_FIELDS)
        apply(lock, body, {"battery": "battery"})
        if body.get("wipe"):
            lock.door.erase_codes()
            lock.door.cards.clear()
        forgotten = [
            lock.door.codes.pop(str(body.get("forgetCode")), None),
            lock.door.cards.pop(str(body.get("forgetCard")), None),
        ]
        used: RandomCode | None = lock.door.random_codes.get(str(body.get("markUsed")))
        if used is not None:
            used.used_at = lock.door.wall(self._world.now())
        self._world.changes += 1
        return {"ok": True, "forgotten": sum(item is not None for item in forgotten), "marked": used is not None}

    async def _cloud(self, body: Body, query: dict[str, str]) -> Body:
        """Changes what the cloud lists of a lock, without the door knowing."""
        refuse_unknown("cloud", body, ("lockId", "forget", "renumber", "name"))
        lock, name = self._lock_of(body), body.get("name")
        count = forget(lock, str(body["forget"])) if "forget" in body else 0
        if "renumber" in body:
            count += renumber(self._world, lock, str(body["renumber"]), None if name is None else str(name))
        self._world.changes += 1
        return {"ok": True, "records": count}

    async def _gateway(self, body: Body, query: dict[str, str]) -> Body:
        """Takes a gateway off or on line, which the vendor also pushes."""
        refuse_unknown("gateway", body, ("gatewayId", "online"))
        gateway = self._world.state.gateways.get(int(str(body["gatewayId"])))
        if gateway is None:
            raise ValueError("no such gateway")
        gateway.online = bool(body["online"])
        self._world.changes += 1
        self._services.pushes.gateway(gateway)
        return {"gatewayId": gateway.gateway_id, "online": gateway.online}

    async def _upload(self, body: Body, query: dict[str, str]) -> Body:
        """A phone walks past and uploads the lock's log."""
        return {"records": collect(self._services, self._lock_of(body), by_phone=True)}

    # -- accounts and pushes

    async def _habits(self, body: Body, query: dict[str, str]) -> Body:
        refuse_unknown("habit", body, ("clientId",), HABIT_FIELDS)
        app = self._app(body)
        configure(app, body)
        return {name: getattr(app.habits, attribute) for name, attribute in HABIT_FIELDS.items()}

    async def _tokens(self, body: Body, query: dict[str, str]) -> Body:
        """expire: 10004 on use. expireRefresh: 10011 on refresh as well. forget: 10003 and 10011."""
        action = body.get("action", "expire")
        grants = self._world.state.grants
        chosen = [g for g in grants.values() if body.get("clientId") in (None, g.client_id)]
        for grant in chosen:
            if action == "forget":
                del grants[grant.access]
            elif action in ("expire", "expireRefresh"):
                grant.expires_at = 0
                grant.refresh_expires_at = 0 if action == "expireRefresh" else grant.refresh_expires_at
            else:
                raise ValueError("action must be expire, expireRefresh or forget")
        self._world.changes += 1
        return {"tokens": len(chosen)}

    async def _webhook(self, body: Body, query: dict[str, str]) -> Body:
        app = self._app(body)
        callback = {name: value for name, value in body.items() if name != "clientId"}
        configure(app, {"callback": callback})
        self._world.changes += 1
        shown = {name: getattr(app.callback, attribute) for name, attribute in CALLBACK_FIELDS.items()}
        return {**shown, "hmacSecret": bool(app.callback.hmac_secret)}

    async def _webhook_test(self, body: Body, query: dict[str, str]) -> Body:
        self._services.pushes.test(self._app(body))
        return {"ok": True}

    async def _webhook_flush(self, body: Body, query: dict[str, str]) -> Body:
        await self._services.pushes.flush()
        return await self._webhook_log(body, query)

    async def _webhook_log(self, body: Body, query: dict[str, str]) -> Body:
        since = int(query.get("since", 0))
        return {"pushes": [push.as_json() for push in self._services.pushes.log if push.seq > since]}

    def _app(self, body: Body) -> Application:
        app = self._world.state.applications.get(str(body.get("clientId", "sim-client")))
        if app is None:
            raise ValueError("no such application")
        return app

    def _lock_of(self, body: Body) -> Lock:
        lock = self._world.state.locks.get(int(str(body["lockId"])))
        if lock is None:
            raise ValueError("no such lock")
        return lock


def _attempt(body: object) -> Attempt:
    if not isinstance(body, dict):
        raise SeedError("a try must be an object")
    refuse_unknown("try", body, ("device", "kind", "value", "at", "dry", "phoneOnline"))
    at = body.get("at")
    return Attempt(
        lock_id=int(str(body["device"])),
        kind=str(body.get("kind", "pin_code")),
        value=str(body["value"]),
        at_ms=None if at is None else _instant(at),
        dry=bool(body.get("dry", False)),
        phone_online=bool(body.get("phoneOnline", True)),
    )


def _instant(value: object) -> int:
    """Reads ms since the epoch or ISO 8601 with a zone."""
    if type(value) is int:
        return value
    instant = datetime.fromisoformat(str(value))
    if instant.tzinfo is None:
        raise ValueError("an instant needs a time zone")
    return round(instant.timestamp() * 1000)


def _milliseconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 600_000:
        raise ValueError("latencies are 0 to 600000 ms")
    return float(value)


def _json(body: Body, status: int = 200) -> Reply:
    return Reply(json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(), status)
