"""Plays a life on the stage: each step is told or asked as a booking service, a clerk or a guest does it; then the doors are asked.

One rule: what cannot be done (a key that is not there) is skipped, so that any part of a life is a life.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from http import HTTPStatus
from typing import Any
from zoneinfo import ZoneInfo

from tests.oracle import facts
from tests.oracle.excuses import warned
from tests.oracle.facts import Held
from tests.oracle.houses import HOUSES, Plan
from tests.oracle.judge import Judge
from tests.oracle.model import Model
from tests.support.stage import Artifact, CommandFailed, House, Stay, World

Step = dict[str, Any]
DONE = (200, 201, 202)
REASON = "as the guest wished"
LISTS_ARE_LOCKS = frozenset({"mock"})
CARD_KIND = "rfid_card"


@dataclass
class Finding(Exception):
    """Doors and model disagree after a step."""

    number: int
    step: Step
    lines: list[str]

    def __str__(self) -> str:
        return f"after step {self.number} {self.step}:\n  " + "\n  ".join(self.lines)

    @property
    def kind(self) -> str:
        """What the finding is about, without names: two that agree are the same to the shrinker."""
        return " ".join(word for word in self.lines[0].split() if not any(char.isdigit() for char in word))


@dataclass
class Sent:
    """Something asked for or told, to be sent again word by word."""

    send: Callable[[], Any]
    about: str


@dataclass
class Player:
    """Plays one life. `steps` counts what was really done."""

    world: World
    life: dict[str, Any]
    steps: int = 0
    stays: dict[int, Stay] = field(default_factory=dict)
    keys: dict[int, list[str]] = field(default_factory=dict)
    handed: dict[int, int] = field(default_factory=dict)
    days: dict[int, facts.Days | None] = field(default_factory=dict)
    bodies: dict[str, dict[str, Any]] = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.plan: Plan = HOUSES[self.life["house"]]
        self.world.houses.clear()
        self.world.stop_clock(datetime.fromisoformat(self.life["clock"]))
        self.house = House(
            self.world, self.plan.rooms, shared=self.plan.areas, policy=self.plan.policy, zone=self.plan.zone,
            limits={"calls_per_minute": 100_000, "calls_per_month": 10_000_000},
        )  # fmt: skip
        if self.plan.by_server:
            self.house.speak_visionline(named=False)
        self.clerk = self.house.caller("gm")
        self.model = Model(self.plan.rules(), self.world.now)
        self.judge = Judge(self.house, self.plan, self.model, self.stays, self.bodies)
        self._desk: Any = None
        self._fed_by_hand: set[str] = set()
        self._faults: set[str] = set()  # lock systems that fail by themselves
        self._unanswering: set[str] = set()  # those of these whose doors' logs and clocks may not be read
        self._has_desk = True
        self._to_come: dict[str, Collection[str]] = {}  # keys whose card the encoder is late to write, and the cards before

    def play(self) -> None:
        """Play all steps. Raises Finding after the first at which a door, or what is told of it, is not as the rules say."""
        try:
            for number, step in enumerate(self.life["steps"]):
                self.play_one(number, step)
            self.end()
        finally:
            self.world.heal()
            self.house.close()

    def play_one(self, number: int, step: Step) -> None:
        """Play one step, work until nothing is due, and judge."""
        before = dict(self.bodies)
        try:
            if self._do(step) is False:
                return
            self.steps += 1
            self.world.settle()
        except AssertionError as wrong:  # work is left, or an answer is none that the API gives
            raise Finding(number, step, [str(wrong)[:300]]) from wrong
        self._look()
        acted = self.judge.acted_again(before) if step["do"] == "again" else []
        if lines := acted + self.judge.lines():
            raise Finding(number, step, lines + [f"dead letter: {letter}" for letter in self.house.dead_letters()])

    def end(self) -> None:
        """Let every stay end, long ago: nothing opens any more."""
        self._heal()
        step = {"do": "end"}
        for index in self.stays:
            self._told(index, "booking.checked_out", "checked_out")
        self.play_one(len(self.life["steps"]), {"do": "wait", "minutes": 60 * 24 * 40})
        opened = [pair for pair, (is_open, _) in self.house.open_doors(self.judge.artifacts()).items() if is_open]
        if opened:
            raise Finding(
                len(self.life["steps"]), step, [f"{one.kind} opens {door} after all have left" for door, one in opened]
            )

    @property
    def desk(self) -> Any:
        """A console in which a supervisor is signed in."""
        self._desk = self._desk or self.house.console("front_desk_supervisor")
        return self._desk

    # -- steps

    def _do(self, step: Step) -> Any:
        return getattr(self, f"_do_{step['do']}")(step)

    def _do_book(self, step: Step) -> Any:
        self._begin(step["stay"])
        return self._told(step["stay"], "booking.confirmed", "confirmed", **self._changes(step))

    def _begin(self, index: int) -> None:
        if index not in self.stays:
            self.stays[index] = Stay(self.house, f"rsv_{uuid.uuid4().hex[:20]}")
            self.stays[index].contact = {"phoneE164": f"+9370000000{index}"} if self.plan.needs_phone else {}
            self.keys[index] = []

    def _do_days(self, step: Step) -> Any:
        """Book, or change, a stay that is given as days: the house's hours say when they begin and end."""
        today = self.world.now.astimezone(ZoneInfo(self.plan.zone)).date()
        days = today + timedelta(days=step["from"]), today + timedelta(days=step["until"])
        start, end = self.model.rules.window(days, self.model.hours)
        self._begin(step["stay"])
        changes = {"rooms": step["rooms"], "start": start, "end": end}
        return self._told(step["stay"], "booking.confirmed", "confirmed", days=days, **changes)

    def _do_hours(self, step: Step) -> Any:
        """The house changes its hours, and tells."""
        comes, leaves = (time.fromisoformat(one) for one in step["hours"])
        self.house.change_property(check_in_time=comes, check_out_time=leaves)
        news = {"propertyId": self.house.property_id, "keys": ["property.hours"]}
        self.house.emit("tenant.config_updated", news, settle=False)
        self.model.hours_changed((comes, leaves))
        return True

    def _do_dates(self, step: Step) -> Any:
        return self._told(step["stay"], "booking.dates_changed", step.get("word", ""), **self._changes(step))

    _do_rooms = _do_dates

    def _do_cancel(self, step: Step) -> Any:
        return self._told(step["stay"], "booking.cancelled", "cancelled")

    def _do_reinstate(self, step: Step) -> Any:
        return self._told(step["stay"], "booking.confirmed", "confirmed")

    def _do_no_show(self, step: Step) -> Any:
        return self._told(step["stay"], "booking.no_show", "no_show")

    def _do_check_out(self, step: Step) -> Any:
        return self._told(step["stay"], "booking.checked_out", "checked_out")

    def _do_press(self, step: Step) -> Any:
        """Press a button of the console; pressed again, it sends the same hidden id."""
        key_id, verb = self._key(step), step["verb"]
        if key_id is None:
            return False
        stay = self.stays[step["stay"]]
        before = self._state(stay.id, key_id)
        form = {"act_id": uuid.uuid4().hex, "reason": REASON} | ({"cause": "manual"} if verb == "suspend" else {})
        address = f"/console/credentials/keycredential/{key_id}/act/{verb}/"
        answer = self.desk.post(address, form)
        assert answer.status_code in (302, 400), answer.content
        if answer.status_code == HTTPStatus.FOUND:
            self.sent.append(Sent(lambda: self.desk.post(address, form), address))
        self.world.settle()
        if verb == "suspend" and before == "active":
            self.model.suspended(stay.id, key_id)
        if verb == "unsuspend" and before == "suspended" and answer.status_code == 302 and not self._is_past(key_id):
            self.model.resumed(stay.id, key_id)
        self.model.touched(stay.id)
        return True

    def _is_past(self, key_id: str) -> bool:
        return datetime.fromisoformat(self.bodies[key_id]["window"]["validUntil"]) <= self.world.now

    def _do_check_in(self, step: Step) -> Any:
        stay = self.stays.get(step["stay"])
        if stay is None:
            return False
        data = {"reservationId": stay.id, "propertyId": self.house.property_id}
        self.house.emit("melmastoon.reservation.checked_in.v1", data, settle=False)
        self.model.came(stay.id)
        return True

    def _do_arrived(self, step: Step) -> Any:
        if step["stay"] not in self.stays:
            return False
        path = f"/lock/v1/reservations/{self.stays[step['stay']].id}/arrived"
        return self._send(step, "POST", path, None, self.model.came)

    def _do_conflict(self, step: Step) -> Any:
        """Send the newest version again with another end."""
        stay = self.stays.get(step["stay"])
        if stay is None or self.days.get(step["stay"]):
            return False
        end = stay.end + timedelta(hours=5)
        self.house.emit("booking.dates_changed", stay.data() | {"validUntil": end.isoformat()}, settle=False)
        self.model.told(stay.id, stay.version, stay.status, stay.rooms, stay.start, end)
        return True

    def _do_again(self, step: Step) -> Any:
        """Send an earlier event, or a request that was accepted, again, word by word: what was refused may be asked again."""
        if step["back"] >= len(self.sent):
            return False
        self.sent[-1 - step["back"]].send()
        return True

    def _do_use(self, step: Step) -> Any:
        held = [one for one in self._held_by(step["stay"]) if not one.is_over]
        if not held or step["door"] not in self.house.doors:
            return False
        one = held[-1]
        system = one.key.system
        if self.plan.rooms.get(step["door"], self.plan.areas.get(step["door"])) != system or system in self._unanswering:
            return False
        is_open = self.house.use(step["door"], Artifact(one.kind, one.value, one.key.id))
        self.house.read_logs()
        if is_open and not one.key.ended:
            self.model.came(self.stays[step["stay"]].id)
        return True

    def _do_wait(self, step: Step) -> Any:
        self.world.stop_clock(self.world.now + timedelta(minutes=step["minutes"]))
        self.model.tick(self.world.now)
        return True

    def _do_suspend(self, step: Step) -> Any:
        return self._act(step, "suspend", {"reason": "manual"}, self.model.suspended)

    def _do_resume(self, step: Step) -> Any:
        return self._act(step, "unsuspend", None, self.model.resumed)

    def _do_revoke(self, step: Step) -> Any:
        reason = step.get("reason", "security")
        if self._has_failed(step):
            return self._act(step, "revoke", {"reason": reason}, lambda stay, key: None)
        return self._act(step, "revoke", {"reason": reason}, lambda stay, key: self.model.revoked(stay, key, reason))

    def _has_failed(self, step: Step) -> bool:
        """Whether there is nothing to take back: what a person does to such a key has no effect."""
        return self.bodies.get(self._key(step) or "", {}).get("state") == "failed"

    def _do_lose(self, step: Step) -> Any:
        if self._has_failed(step):
            return False
        another = step["another"]
        key_id = self._key(step)
        gives = another and self.bodies.get(key_id or "", {}).get("state") == "active"
        body = {"reason": "lost", "reissue": another}
        return self._act(step, "revoke", body, lambda stay, key: self.model.revoked(stay, key, "lost", gives_another=gives))

    def _do_replace(self, step: Step) -> Any:
        return self._act(step, "replace", {}, lambda stay, key: self.model.revoked(stay, key, "replaced", gives_another=True))

    def _do_extend(self, step: Step) -> Any:
        key_id = self._key(step)
        if key_id is None:
            return False
        start = datetime.fromisoformat(self.bodies[key_id]["window"]["validFrom"])
        until = self.world.now + timedelta(minutes=step["until"])
        path, body = f"/lock/v1/credentials/{key_id}", {"validUntil": until.isoformat()}
        return self._send(
            step, "PATCH", path, body, lambda stay: self.model.window_given(stay, key_id, start, until)
        )  # fmt: skip

    def _do_pin(self, step: Step) -> Any:
        digits = step["digits"]
        key_id = self._key(step)

        def given(stay: str, key: str) -> None:
            self.world.settle()
            if self._state(stay, key) == "active":
                self.model.handed(stay, key, "pin_code", digits)

        if key_id is not None and self.bodies[key_id]["kind"] != "pin_code":
            return False
        return self._act(step, "pin", {"pin": digits, "reason": REASON}, given)

    def _do_second(self, step: Step) -> Any:
        if step["stay"] not in self.stays:
            return False
        stay = self.stays[step["stay"]]
        known = set(self.keys[step["stay"]])

        def made(_: str) -> None:
            self.world.settle()
            for body in stay.look():
                if body["id"] not in known:
                    self.model.key_seen(stay.id, body["id"], body["vendor"], by_person=True)

        return self._send(step, "POST", "/lock/v1/credentials", {"reservationId": stay.id}, made)

    def _do_encode(self, step: Step) -> Any:
        """Write a waiting key. With `card_of` the newest card of that stay lies on the encoder, which feeds none from then on."""
        waiting = [key for key in self.keys.get(step["stay"], []) if self.bodies[key]["waitingFor"] == "desk"]
        if not waiting:
            return False
        stay, system = self.stays[step["stay"]], self.bodies[waiting[0]]["vendor"]
        cards = [one for one in self._held_by(step.get("card_of", -1)) if one.kind == CARD_KIND and one.key.system == system]
        if not cards and "card_of" in step:
            return False
        if cards or system in self._fed_by_hand:
            self._fed_by_hand.add(system)
            old = Artifact(CARD_KIND, cards[-1].value, cards[-1].key.id) if cards else None
            return self._write_lying(stay, waiting[0], self.house.lay(system, old), confirms=step.get("confirms", False))
        before = self.house.cards(system)
        card = self.house.encode(waiting[0])
        self.model.touched(stay.id)
        if card is not None:
            stay.artifacts.append(card)
            self.model.came(stay.id)
        else:
            self._to_come[waiting[0]] = before
        return True

    def _write_lying(self, stay: Stay, key_id: str, number: str, *, confirms: bool) -> Any:
        """Press *encode*; where it says that a card is in use, confirm that key, or let it be."""
        body: dict[str, str] = {}
        for _ in range(2 if confirms else 1):
            answer = self.clerk.post(f"/lock/v1/credentials/{key_id}/encode", body)
            assert answer.status_code < 500 or answer.status_code == 503, answer.content
            self.world.settle()
            self.model.touched(stay.id)
            shown = next(one for one in stay.look() if one["id"] == key_id)
            if shown["state"] == "active":
                stay.artifacts.append(Artifact(CARD_KIND, number, key_id))
                self.model.handed(stay.id, key_id, CARD_KIND, number, over=bool(body))
                self.model.came(stay.id)
            if shown["state"] == "active" or not shown["cardInUse"]:
                break
            body = {"confirmCardInUse": shown["cardInUse"]}
        return True

    def _do_desk(self, step: Step) -> Any:
        """The desk's encoder goes, or is there again. While it is gone, what cards need may be late."""
        system = self.plan.systems[0]
        self.house.set_encoder(system, is_there=step["is_there"])
        self._has_desk = step["is_there"]
        if not self._has_desk:
            self.model.broken.add(system)
        elif system not in self._faults:
            self.model.broken.discard(system)
        return True

    def _do_swap(self, step: Step) -> Any:
        """Two locks of a lock system change places, and the import says so: keys follow to their rooms."""
        one, other = step["doors"]
        system = self.house.vendors[one]
        if system != self.house.vendors[other] or system in self.model.broken or self.plan.has_encoder:
            return False
        self.house.swap_locks(one, other)
        return True

    def _do_break(self, step: Step) -> Any:
        self.world.break_calls(step["system"], step["effect"], step["times"])
        self._fails(step["system"])
        self._unanswering.add(step["system"])
        return True

    def _fails(self, system: str) -> None:
        self._faults.add(system)
        self.model.broken.add(system)
        for stay in self.stays.values():
            self.model.touched(stay.id)

    def _do_reach(self, step: Step) -> Any:
        system = self.house.vendors[step["door"]]
        self.world.control(system).set_reach(self.house.doors[step["door"]], is_reachable=False)
        self._fails(system)
        self._unanswering.add(system)
        return True

    def _do_lie(self, step: Step) -> Any:
        try:
            self.world.control(step["system"]).lie()
        except Exception as refused:
            if type(refused).__name__ != "SimulatorRefused":
                raise
            return False
        self._fails(step["system"])
        return True

    def _do_wipe(self, step: Step) -> Any:
        """A lock forgets its keys, which the nightly comparison sees where the vendor's list is the lock's own."""
        system = self.house.vendors[step["door"]]
        if system not in LISTS_ARE_LOCKS:
            return False
        self.world.control(system).wipe(self.house.doors[step["door"]])
        self.model.lost(system)
        self.judge.forgot(step["door"])
        self._reconcile()
        return True

    def _do_skew(self, step: Step) -> Any:
        """A lock's clock goes wrong, which the next poll sees."""
        system = self.house.vendors[step["door"]]
        if system in self._unanswering:
            return False
        self.world.control(system).set_door_clock(self.house.doors[step["door"]], step["minutes"] * 60)
        self._fails(system)
        self.judge.skewed.add(step["door"])
        self.model.lost(system)
        self.house.poll_health()
        return True

    def _do_heal(self, step: Step) -> Any:
        """All is well again; that a clock is right is known from the next poll."""
        self._heal()
        self.house.poll_health()
        return True

    def _heal(self) -> None:
        """Take all faults back, and let breakers' pauses pass as other waits do: what waited has to go on by itself."""
        self.world.heal()
        if not self._has_desk:
            self._do_desk({"is_there": True})
        self._faults.clear()
        self._unanswering.clear()
        self.judge.skewed.clear()
        self.model.broken.clear()
        self.world.let_breakers_ask()

    def _do_upkeep(self, step: Step) -> Any:
        self.house.poll_health()
        self._reconcile()
        return True

    def _reconcile(self) -> None:
        """Compare as at night. Only a lock system that fails may leave its comparison unfinished, or believe what is wrong, and
        one where so many keys are gone that a person has to say so."""
        for system in self.house.installations:
            try:
                self.house.reconcile(system)
            except CommandFailed:
                if system not in self.model.broken and not self.house.alerts("KEYS_VANISHED"):
                    raise
            if system not in self._faults:
                self.judge.compared(system)

    # -- how things are told and asked

    def _changes(self, step: Step) -> dict[str, Any]:
        changes: dict[str, Any] = {"rooms": step["rooms"]} if "rooms" in step else {}
        for name, field_name in (("from", "start"), ("until", "end")):
            if name in step:
                changes[field_name] = self.world.now + timedelta(minutes=step[name])
        return changes

    def _told(self, index: int, subject: str, status: str, *, days: facts.Days | None = None, **changes: Any) -> Any:
        """Publish an event of a stay, and remember it; the model hears the same. Other times make days of it no more."""
        if index not in self.stays:
            return False
        stay = self.stays[index]
        event_id = f"evt_{uuid.uuid4().hex[:26]}"
        if changes.get("end", stay.end) <= changes.get("start", stay.start):
            return False
        before = stay.status
        days = days or (None if "start" in changes else self.days.get(index))
        self.days[index] = days
        stay.extra = {"checkIn": days[0].isoformat(), "checkOut": days[1].isoformat()} if days else {}
        if days:
            changes["start"], changes["end"] = self.model.rules.window(days, self.model.hours)
        stay.emit(subject, settle=False, event_id=event_id, **({"status": status} if status else {}), **changes)
        data = stay.data()
        self.sent.append(Sent(lambda: self.house.emit(subject, data, settle=False, event_id=event_id), subject))
        self.model.told(stay.id, stay.version, stay.status, stay.rooms, stay.start, stay.end, days)
        if stay.status not in ("confirmed", "cancelled", "checked_out", "no_show"):
            stay.status = before
        return True

    def _key(self, step: Step) -> str | None:
        keys = self.keys.get(step["stay"], [])
        return keys[step["key"]] if step["key"] < len(keys) else None

    def _act(self, step: Step, verb: str, body: Any, accepted: Callable[[str, str], None]) -> Any:
        key_id = self._key(step)
        if key_id is None:
            return False
        path = f"/lock/v1/credentials/{key_id}/{verb}"
        return self._send(step, "POST", path, body, lambda stay: accepted(stay, key_id))

    def _send(self, step: Step, method: str, path: str, body: Any, accepted: Callable[[str], None]) -> Any:
        stay, idempotency_key = self.stays[step["stay"]], uuid.uuid4().hex
        answer = self.clerk.send(method, path, body, key=idempotency_key)
        assert answer.status_code < 500 or answer.status_code == 503, answer.content
        if answer.status_code in DONE:
            self.sent.append(Sent(lambda: self.clerk.send(method, path, body, key=idempotency_key), path))
            self.model.touched(stay.id)
            accepted(stay.id)
        return True

    def _state(self, stay_id: str, key_id: str) -> str:
        stay = next(stay for stay in self.stays.values() if stay.id == stay_id)
        return next((str(body["state"]) for body in stay.look() if body["id"] == key_id), "")

    # -- looking and judging

    def _take_late_card(self, stay: Stay, key_id: str) -> None:
        """Hand over the card that an encoder fed by itself was late to write."""
        known = {one.value for each in self.stays.values() for one in each.artifacts}
        body = self.bodies[key_id]
        made = [card for card in self.house.cards(body["vendor"]) if card not in known and card not in self._to_come[key_id]]
        if made and body["state"] == "active":
            stay.artifacts.append(Artifact(CARD_KIND, made[-1], key_id))
            self.model.came(stay.id)
            del self._to_come[key_id]

    def _look(self) -> None:
        for index, stay in self.stays.items():
            if not stay.version:
                continue
            for body in stay.look():
                self.bodies[body["id"]] = body
                self.model.key_seen(stay.id, body["id"], body["vendor"], body["replaces"] or "")
                if body["id"] not in self.keys[index]:
                    self.keys[index].append(body["id"])
                if body["id"] in self._to_come:
                    self._take_late_card(stay, body["id"])
            for key_id in self.keys[index]:
                if "CARD_KILLED" in warned(self.bodies.get(self.bodies[key_id]["replacedBy"] or "")):
                    self.model.killed(stay.id, key_id)
            for one in stay.artifacts[self.handed.get(index, 0) :]:
                self.model.handed(stay.id, one.key_id, one.kind, one.value)
            self.handed[index] = len(stay.artifacts)

    def _held_by(self, index: int) -> list[Held]:
        if index not in self.stays:
            return []
        return [one for one in self.model.held if one.key.stay.id == self.stays[index].id]


def new_seed() -> int:
    """Return a fresh seed."""
    return secrets.randbelow(2**32)
