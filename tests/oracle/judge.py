"""Says where doors, and what is told of them, are not as the rules say.

One rule: it asks and compares; it plays nothing, and changes nothing but what the model knows of trouble.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.oracle import facts
from tests.oracle.excuses import Alerts, is_sure, warned
from tests.oracle.facts import Held
from tests.oracle.houses import CLOCKLESS, Plan
from tests.oracle.model import GRAIN, OLD_CARD, Answer, Judgement, Model
from tests.support.stage import Artifact, House, Stay

OVERLAP = "STAYS_OVERLAP"
RANKS = {Answer.MUST_NOT: 0, Answer.MAY: 1, Answer.MUST: 2}


@dataclass
class Judge:
    """Judges a house after each step. `stays` and `bodies` are the player's: the stays it told of, and what the API shows of
    their keys; `skewed` are doors whose lock's clock the life has moved, `forgotten` those whose lock forgot its keys while nobody
    could ask it which, with these keys."""

    house: House
    plan: Plan
    model: Model
    stays: dict[int, Stay]
    bodies: dict[str, dict[str, Any]]
    skewed: set[str] = field(default_factory=set)
    forgotten: dict[str, frozenset[str]] = field(default_factory=dict)
    alerts: Alerts = field(default_factory=Alerts)
    _given_up: set[str] = field(default_factory=set)  # keys that failed for good in trouble

    def forgot(self, door: str) -> None:
        """Note that a lock forgot the keys it has: until it is compared, nobody knows."""
        self.forgotten[door] = frozenset(self.bodies)

    def compared(self, system: str) -> None:
        """Note that a lock system that answers was compared: what its locks forgot is known."""
        self.forgotten = {door: keys for door, keys in self.forgotten.items() if self.house.vendors[door] != system}

    def lines(self) -> list[str]:
        self.alerts.looked(self.house.alerts())
        self._given_up |= {
            key.id for stay in self.model.stays.values() for key in stay.keys.values()
            if key.system in stay.troubled and self.bodies.get(key.id, {}).get("state") == "failed"
        }  # fmt: skip
        answers = {(d, one.kind, one.value): answer for (d, one), answer in self.house.open_doors(self.artifacts()).items()}
        opened = {place for place, (is_open, _) in answers.items() if is_open}
        told: dict[tuple[str, str, str], Judgement] = {}
        for found in self.model.judge():
            place = (found.door, found.held.kind, found.held.value)
            if place not in told or RANKS[found.answer] >= RANKS[told[place].answer]:
                told[place] = found  # a card that carried other keys before is judged by the last one
        wrong, lines = set(), []
        for place, found in told.items():
            is_open, held, answer, why = place in opened, found.held, found.answer, found.why
            if answer is Answer.MAY:
                as_told = is_open == (found.booked is Answer.MUST) or (not is_open and self._is_off(held, place[0]))
                if why != OLD_CARD or as_told or self._is_told(held, place[0]):
                    continue
            if answer is not Answer.MAY and is_open == (answer is Answer.MUST):
                continue
            stay, system = held.key.stay, held.key.system
            wrong.add((stay.id, system))
            if self._is_excused(held, place[0], is_open=is_open):
                continue
            does = "opens" if is_open else f"is shut ({answers[place][1]})"
            lines.append(f"{answer}: {held.kind} at {place[0]} ({why}); it {does}; {self._said(held.key.id, place[0])}")
        lines += self._without_a_key(opened, wrong) + self._shown_as_live(wrong) + self._shown_windows() + self._untold()
        for stay in self.model.stays.values():
            stay.troubled -= {s for s in stay.troubled if s not in self.model.broken and (stay.id, s) not in wrong}
            for quiet in set(self.plan.systems) - stay.troubled:
                self.alerts.quiet((stay.id, quiet))
        return lines

    def _without_a_key(self, opened: set[tuple[str, str, str]], wrong: set[tuple[str, str]]) -> list[str]:
        lines = self._verdicts(opened)
        for stay, room in self.model.entitled():
            system = self.plan.rooms[room]
            if self._gets_in(stay, room, opened):
                continue
            keys = [self.bodies[key.id] for key in stay.keys.values() if key.system == system and key.id in self.bodies]
            if any(body["waitingFor"] for body in keys if body["state"] in ("requested", "pending")):
                continue
            wrong.add((stay.id, system))
            named = [body["id"] for body in keys]
            if system in stay.troubled and (
                any(not is_sure(body, room) for body in keys)
                or self.alerts.name((stay.id, system), named)
                or self._clock_is_told(room)
            ):
                continue
            if self._is_unknown(room, named):
                continue
            if named and named[-1] in self._given_up and self.alerts.named(named[-1]):
                continue
            lines.append(f"must get in: a guest at {room}; she holds nothing that opens it; keys: {[_short(b) for b in keys]}")
        return lines

    def _gets_in(self, stay: facts.Stay, door: str, opened: set[tuple[str, str, str]]) -> bool:
        return any((door, one.kind, one.value) in opened for one in self.model.held if one.key.stay is stay)

    def _verdicts(self, opened: set[tuple[str, str, str]]) -> list[str]:
        """Compare each stay's verdict with its doors, while its window runs: green is true, and a shut door is shut."""
        lines = []
        for stay in self.stays.values():
            facts = self.model.stays[stay.id]
            verdict = stay.shown.get("verdict")
            if verdict is None or not facts.is_open or not facts.start <= self.model.now < facts.end:
                continue
            for row in verdict["doors"]:
                if not row["label"]:
                    continue
                gets_in = self._gets_in(facts, row["label"], opened)
                is_unknown = self._is_unknown(row["label"], facts.keys)
                is_quiet = self.house.vendors[row["label"]] not in facts.troubled
                if row["answer"] == "opens" and not gets_in and not is_unknown:
                    lines.append(f"the verdict is green: of {row['label']}, where nothing she holds opens")
                if row["answer"] == "shut" and gets_in and is_quiet:
                    lines.append(f"the verdict is shut ({row['why']}): of {row['label']}, which she opens")
        return lines

    def _untold(self) -> list[str]:
        """Find what must have been told, on the stay itself or as an alert with its name."""
        lines = []
        for stay_id, what in self.model.to_tell:
            stay = next(stay for stay in self.stays.values() if stay.id == stay_id)
            if not stay.shown.get("warnings") and not any(alert["stay"] == stay_id for alert in self.house.alerts()):
                lines.append(f"must be told: {what}")
        self.model.to_tell.clear()
        for key, other, room in self.model.sharing():
            body, beside = (self.bodies.get(one.id, {"state": ""}) for one in (key, other))
            has_given_up = beside["state"] in ("revoked", "failed")  # which is told, or found elsewhere
            if body["state"] not in ("active", "suspended") or has_given_up or key.stay.troubled:
                continue
            if OVERLAP not in [warning["code"] for warning in body["warnings"]]:
                lines.append(f"must be told: another stay has {room} at the same time; key {_short(body)}")
        return lines

    def _shown_as_live(self, wrong: set[tuple[str, str]]) -> list[str]:
        """Find keys that are over by the rules, and live in the books."""
        lines = []
        for stay in self.model.stays.values():
            for key in stay.keys.values():
                body = self.bodies.get(key.id)
                if not key.ended or body is None or body["state"] in ("revoked", "failed"):
                    continue
                wrong.add((stay.id, key.system))
                if not self._is_troubled(key):
                    lines.append(f"is over: a key ({key.ended}), and the API shows it as {_short(body)}")
        return lines

    def acted_again(self, before: dict[str, dict[str, Any]]) -> list[str]:
        """Find what an old event or request did when it was sent again: it makes no key, and changes none."""
        lines = []
        for stay in self.model.stays.values():
            for key in stay.keys.values():
                now, then = self.bodies.get(key.id), before.get(key.id)
                if now is None or key.system in stay.troubled:
                    continue
                if then is None:
                    lines.append(f"sent again, it made a key: {_short(now)}")
                elif any(then[name] != now[name] for name in ("state", "window", "suspendReason")):
                    lines.append(f"sent again, it changed a key: {_short(then)} is {_short(now)}")
        return lines

    def _shown_windows(self) -> list[str]:
        """Find live keys whose window in the API is not the one they are to have. One that a person made may have no grace."""
        lines = []
        for stay in self.model.stays.values():
            for key in stay.keys.values():
                body = self.bodies.get(key.id)
                if key.ended or body is None or body["state"] not in ("active", "suspended") or key.system in stay.troubled:
                    continue
                shown = [datetime.fromisoformat(body["window"][name]) for name in ("validFrom", "validUntil")]
                fit = [self.model.window(key), *([(stay.start, stay.end)] if key.made_by_person and not key.exact else [])]
                if not any(abs(shown[0] - start) <= GRAIN and abs(shown[1] - end) <= GRAIN for start, end in fit):
                    lines.append(f"the API shows a key of {shown[0]} to {shown[1]}: it is to open {fit[0][0]} to {fit[0][1]}")
        return lines

    def _is_off(self, held: Held, door: str) -> bool:
        """Whether the API says that a card opens nothing here: its key is over, or neither books nor booking name the door."""
        body = self.bodies[held.key.id]
        is_named = door in self.model.rules.doors(held.key.stay.rooms, held.key.system) or door in (
            row["label"] for row in body["doors"]
        )
        return body["state"] == "revoked" or not is_named

    def _is_troubled(self, key: facts.Key) -> bool:
        """Whether a key's lock system is, or was, in trouble. Of an old room that stays open: the new room's, or nobody knows
        whether the new room opens, or it has no lock, or a person's revoke holds it shut (which the stay says)."""
        if key.system in key.stay.troubled:
            return True
        if "OLD_ROOM_KEPT" not in warned(self.bodies[key.id]):
            return False
        others = [self.bodies[other] for other in key.stay.keys if other != key.id and other in self.bodies]
        is_unsure = any(not is_sure(body) for body in others if body["state"] in ("active", "suspended"))
        never_opens = key.stay.barred or set(key.stay.rooms) - set(self.plan.rooms)
        return bool(key.stay.troubled) or is_unsure or bool(never_opens)

    def _is_excused(self, held: Held, door: str, *, is_open: bool) -> bool:
        """Whether a fault is told of that explains what a door does, or is one that nobody can know of."""
        is_told = self._is_troubled(held.key) and (self._is_told(held, door) or self._clock_is_told(door))
        return is_told or self._is_unknown(door, () if is_open else [held.key.id])  # what was forgotten opens nothing

    def _is_unknown(self, door: str, keys: Iterable[str]) -> bool:
        """Whether nobody can know what a door does: its lock forgot these keys and was not compared since, or its clock is off
        and its lock system tells of no clocks."""
        has_forgotten = not self.forgotten.get(door, frozenset()).isdisjoint(keys)
        return has_forgotten or (door in self.skewed and self.house.vendors[door] in CLOCKLESS)

    def _is_told(self, held: Held, door: str) -> bool:
        """Whether what is told of a key and its stay leaves room for what a door does."""
        key = held.key
        return not is_sure(self.bodies[key.id], door) or self.alerts.name((key.stay.id, key.system), [key.id])

    def _clock_is_told(self, door: str) -> bool:
        return door in self.skewed and self.alerts.name_clock(door)

    def _said(self, key_id: str, door: str) -> str:
        body = self.bodies[key_id]
        rows = [f"{row['state']} {row['propagation']}" for row in body["doors"] if row["label"] == door]
        return f"key {_short(body)}, door {rows or 'none'}, alerts {sorted({a['code'] for a in self.house.alerts()})}"

    def artifacts(self) -> list[Artifact]:
        found = {(one.kind, one.value): Artifact(one.kind, one.value, one.key.id) for one in self.model.held}
        return list(found.values())


def _short(body: dict[str, Any]) -> str:
    words = [body["kind"], body["state"], body["propagation"], body["revokeReason"], body["suspendReason"], body["failureCode"]]
    return " ".join(word for word in words if word)
