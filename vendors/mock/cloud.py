"""The mock's cloud: takes a verb as plain data, fails as the profile asks, and does the work at the doors.

One rule: it answers in plain data (what would travel as JSON), so that in-process and over HTTP are the same vendor.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from vendors.port.types import Window

from .doors import DoorRefused, Key, Ledger, drawn_digits, new_ref, new_value
from .profile import CHANGING_VERBS, VERBS, Profile

MAX_CALLS_KEPT = 20_000


class Dropped(Exception):
    """The connection ends without an answer; the work may have been done."""


class MockCloud:
    """One mock vendor. `sleep` waits the drawn latency in seconds."""

    def __init__(self, now: Callable[[], datetime], sleep: Callable[[float], None] = time.sleep) -> None:
        self.ledger = Ledger(now)
        self.unreachable: set[str] = set()
        self.calls: list[dict[str, Any]] = []
        self.calls_by_door: Counter[str] = Counter()
        self._sleep = sleep
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._deferred: dict[str, dict[str, Any]] = {}
        self._rng = random.Random()  # noqa: S311 - dice for failures, no secrets
        self._seed: int | None = None

    def reset(self) -> None:
        """Forgets doors, calls and counts."""
        with self.ledger.lock:
            self.ledger.reset()
            self.unreachable.clear()
            self.calls.clear()
            self.calls_by_door.clear()
            self._counts.clear()
            self._deferred.clear()
            self._seed = None

    def call(self, verb: str, body: Mapping[str, Any], profile: Profile) -> dict[str, Any]:
        """Runs one verb. Returns the answer, or `{"error": …}`. Raises Dropped when there is no answer."""
        if verb not in VERBS:
            return _refusal(profile, error="KEY_ISSUE_FAILED", retriable=False)
        self._wait(profile)
        key = str(body.get("key", ""))
        with self.ledger.lock:
            self._note(verb, key, body)
            if self._refuses(verb, key, profile):
                return _refusal(profile)
            affected = verb in profile.on and verb in CHANGING_VERBS
            if affected and self._first("cut", verb, key, profile.cut):
                raise Dropped
            if affected and profile.deferred:
                return self._defer(verb, key, body, profile)
            answer = self._work(verb, body, profile)
            if affected and self._first("lost", verb, key, profile.lost):
                raise Dropped
            if affected and self._first("unknown", verb, key, profile.unknown):
                return {"doors": [{"door": d["door"], "outcome": "unknown"} for d in _asked(body)]}
            return answer

    def _wait(self, profile: Profile) -> None:
        with self.ledger.lock:
            if profile.seed is not None and profile.seed != self._seed:
                self._seed = profile.seed
                self._rng.seed(profile.seed)
            delay_s = profile.latency.draw_s(self._rng)
        if delay_s:
            self._sleep(delay_s)

    def _note(self, verb: str, key: str, body: Mapping[str, Any]) -> None:
        self.calls.append(
            {
                "verb": verb,
                "key": key,
                "doors": [d["door"] for d in _asked(body)],
                "attempt": body.get("attempt", 1),
                "at": self.ledger.now().isoformat(),
            }
        )
        del self.calls[:-MAX_CALLS_KEPT]
        self.calls_by_door.update(d["door"] for d in _asked(body))

    def _refuses(self, verb: str, key: str, profile: Profile) -> bool:
        if verb not in profile.fail:
            return False
        if profile.times is not None and not self._first("fail", verb, key, profile.times):
            return False
        return profile.pct >= 100 or self._rng.random() * 100 < profile.pct

    def _first(self, what: str, verb: str, key: str, limit: int) -> bool:
        """Says whether this is one of the first `limit` calls of the key, and counts it."""
        if not limit or self._counts[what, verb, key] >= limit:
            return False
        self._counts[what, verb, key] += 1
        return True

    def _defer(self, verb: str, key: str, body: Mapping[str, Any], profile: Profile) -> dict[str, Any]:
        token = f"later:{verb}:{key}"
        self._deferred.setdefault(token, {"verb": verb, "body": dict(body), "left": profile.deferred})
        return self._ask_again(token, profile, asked=False)

    def _ask_again(self, token: str, profile: Profile, *, asked: bool = True) -> dict[str, Any]:
        job = self._deferred.get(token)
        if job is None:
            return _refusal(profile, error="KEY_ISSUE_FAILED", retriable=False)
        if asked:
            job["left"] -= 1
        if job["left"] > 0:
            doors = [{"door": d["door"], "outcome": "deferred"} for d in _asked(job["body"])]
            return {"doors": doors, "resume": token}
        return self._work(job["verb"], job["body"], profile)

    def _work(self, verb: str, body: Mapping[str, Any], profile: Profile) -> dict[str, Any]:
        if verb == "resume":
            return self._ask_again(str(body["resume"]), profile)
        if verb == "list":
            return {"devices": [_device(door) for door in self.ledger.all_doors()]}
        if verb in CHANGING_VERBS:
            return self._change(verb, body, profile)
        try:
            return self._read(verb, body, profile)
        except DoorRefused as refused:
            return _refusal(
                profile,
                error=refused.error,
                reason=refused.reason,
                retriable=refused.retriable,
            )

    def _read(self, verb: str, body: Mapping[str, Any], profile: Profile) -> dict[str, Any]:
        wanted = _asked(body)
        self._alive(wanted[0]["door"], profile)
        if verb == "set_clock":
            return self._set_clock(wanted[0]["door"], int(body["utcOffsetS"]))
        if verb == "health":
            return _device(self.ledger.door(wanted[0]["door"]))
        if verb == "find":
            found = [
                _key(row["door"], key)
                for row in wanted
                for key in self.ledger.find(row["door"], None, body["tag"])
                if body.get("mark") is None or key.mark == body["mark"]
            ]
            return {"keys": found}
        door = self.ledger.door(wanted[0]["door"])
        if verb == "inventory":
            start = int(body.get("cursor") or 0)
            keys = sorted(door.keys.values(), key=lambda k: k.ref)
            page = keys[start : start + 100]
            more = str(start + 100) if len(keys) > start + 100 else None
            return {"keys": [_key(door.external_id, k) for k in page], "next": more}
        since, until = (datetime.fromisoformat(body[n]) for n in ("since", "until"))
        rows = [r for r in door.records if since <= datetime.fromisoformat(r["at"]) < until]
        return {"records": rows}

    def _set_clock(self, external_id: str, utc_offset_s: int) -> dict[str, Any]:
        door = self.ledger.door(external_id)
        door.clock_skew_s, door.utc_offset_s = 0, utc_offset_s
        return {"done": True}

    def _change(self, verb: str, body: Mapping[str, Any], profile: Profile) -> dict[str, Any]:
        doors: list[dict[str, Any]] = []
        artifact: str | None = None
        held_back = False
        for row in _asked(body):
            try:
                self._alive(row["door"], profile)
                if held_back and row.get("part") == "removed":
                    raise DoorRefused("KEY_ISSUE_FAILED", "other", retriable=True)
                key = self._one(verb, row, body, profile)
                doors.append({"door": row["door"], "outcome": "done", "ref": key.ref if key else None})
                if key is not None and verb == "issue":
                    artifact = key.value
            except DoorRefused as refused:
                held_back = held_back or row.get("part") == "added"
                error = {
                    "error": refused.error,
                    "reason": refused.reason,
                    "retriable": refused.retriable,
                }
                doors.append({"door": row["door"], "outcome": "failed", "error": error})
        return {"doors": doors, "artifact": artifact}

    def _one(self, verb: str, row: Mapping[str, Any], body: Mapping[str, Any], profile: Profile) -> Key | None:
        door, ref, tag = row["door"], row.get("ref"), body["tag"]
        if verb == "issue" or row.get("part") == "added":
            new = self._fresh(row, body)
            if profile.draws and new.kind == "pin_code":
                new.value = drawn_digits(door, new.window)
                same = next((k for k in self.ledger.door(door).keys.values() if k.value == new.value), None)
                if same is not None:
                    return same
            return self.ledger.give(door, new, profile.capacity)
        if verb == "revoke" or row.get("part") == "removed":
            self.ledger.take(door, ref, tag)
            return None
        held = self.ledger.find(door, ref, tag)
        if not held:
            if verb == "suspend":
                return None
            raise DoorRefused("KEY_ISSUE_FAILED")
        for key in held:
            if verb in {"update", "unsuspend"}:
                key.window = _window(body)
            if verb in {"suspend", "unsuspend"}:
                key.suspended = verb == "suspend"
        return held[0]

    def _fresh(self, row: Mapping[str, Any], body: Mapping[str, Any]) -> Key:
        # A phone's key is one token for all doors of the credential, as a card is one number.
        shared = body.get("value") or self._shared_value(body["tag"]) or new_value(body["kind"])
        return Key(new_ref(), body["key"], body["mark"], body["tag"], body["kind"], shared, _window(body))

    def _shared_value(self, tag: str) -> str | None:
        for door in self.ledger.all_doors():
            for key in door.keys.values():
                if key.tag == tag:
                    return key.value
        return None

    def _alive(self, door: str, profile: Profile) -> None:
        if door in profile.dead_doors or door in self.unreachable:
            raise DoorRefused("VENDOR_UNREACHABLE", "door_offline", retriable=True)


def _asked(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(body.get("doors", ()))


def _window(body: Mapping[str, Any]) -> Window:
    return Window(datetime.fromisoformat(body["from"]), datetime.fromisoformat(body["until"]))


def _key(door: str, key: Key) -> dict[str, Any]:
    return {
        "door": door,
        "ref": key.ref,
        "kind": key.kind,
        "from": key.window.valid_from.isoformat(),
        "until": key.window.valid_until.isoformat(),
        "mark": key.mark,
        "tag": key.tag,
        "name": key.name or f"{key.mark} {key.tag}",
        "value": key.value,
        "suspended": key.suspended,
    }


def _device(door: Any) -> dict[str, Any]:
    return {
        "door": door.external_id,
        "label": door.label,
        "online": door.online,
        "batteryPercent": door.battery_percent,
        "clockSkewMs": int(door.clock_skew_s * 1000),
        "utcOffsetS": door.utc_offset_s,
    }


def _refusal(
    profile: Profile,
    *,
    error: str | None = None,
    reason: str | None = None,
    retriable: bool | None = None,
) -> dict[str, Any]:
    return {
        "error": {
            "error": error or profile.error,
            "reason": reason or profile.reason.value,
            "retriable": profile.retriable if retriable is None else retriable,
            "retryAfterS": profile.retry_after_s if error is None else None,
        }
    }
