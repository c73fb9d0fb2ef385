"""Faults on request: which call goes wrong, how, how often.

One rule: a rule that has been used up has no effect, and chance comes from the rule's own seed, so a run can be repeated.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from enum import StrEnum


class Effect(StrEnum):
    """What goes wrong. README tells each in a sentence."""

    ERRCODE = "errcode"
    SLOW = "slow"
    DROP_BEFORE = "drop_before"
    HANG = "hang"
    HTML = "html"
    EMPTY = "empty"
    EMPTY_LIST = "empty_list"
    WORDLESS = "wordless"
    HTTP500 = "http500"
    APPLY_THEN_DROP = "apply_then_drop"
    APPLY_THEN_HANG = "apply_then_hang"
    APPLY_THEN_HTML = "apply_then_html"
    APPLY_THEN_HTTP500 = "apply_then_http500"
    APPLY_THEN_ERRCODE1 = "apply_then_errcode1"
    APPLY_THEN_ERRCODE = "apply_then_errcode"
    CUT = "cut"
    DRIP = "drip"
    SKIP_DOOR = "skip_door"
    SKIP_CLOUD = "skip_cloud"
    OFFLINE = "offline"
    BUSY = "busy"


GATEWAY_EFFECTS = frozenset({Effect.OFFLINE, Effect.BUSY})


@dataclass(slots=True)
class Rule:
    """One fault. `times` None is for ever; `after` lets that many matching calls pass first; `pct` is the chance 0 to 100."""

    rule_id: int
    effect: Effect
    path: str = "*"
    lock_id: int | None = None
    gateway_id: int | None = None
    client_id: str | None = None
    times: int | None = 1
    after: int = 0
    pct: float = 100.0
    seed: int = 0
    errcode: int = 1
    seconds: float = 0.0
    status: int = 502
    hits: int = 0
    rng: random.Random = field(default_factory=random.Random, repr=False)

    def strikes(self) -> bool:
        """Draws once for a matching call and counts it."""
        if self.times is not None and self.hits >= self.times:
            return False
        if self.after > 0:
            self.after -= 1
            return False
        if self.pct < 100 and self.rng.random() * 100 >= self.pct:
            return False
        self.hits += 1
        return True


class Faults:
    """The rules in force, in the order in which they were set."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []
        self._next = 0

    def add(self, fields: dict[str, object]) -> int:
        """Takes a rule as the control port got it and returns its id. Raises ValueError naming what is wrong."""
        rule = _rule(self._next + 1, fields)
        self._next += 1
        self.rules.append(rule)
        return rule.rule_id

    def remove(self, **match: object) -> int:
        """Drops the rules whose fields equal all of `match` (no field: all rules); returns how many."""
        kept = [rule for rule in self.rules if any(getattr(rule, k) != v for k, v in match.items())]
        removed = len(self.rules) - len(kept)
        self.rules = kept
        return removed

    def pick(self, path: str, lock_id: int | None, client_id: str) -> Rule | None:
        """Returns the rule that strikes this call, if any."""
        for rule in self.rules:
            if rule.effect in GATEWAY_EFFECTS or rule.path not in ("*", path):
                continue
            if rule.lock_id not in (None, lock_id) or rule.client_id not in (None, client_id):
                continue
            if rule.strikes():
                return rule
        return None

    def gateway(self, gateway_id: int) -> Effect | None:
        """Returns what is wrong with a gateway for the command at hand, if anything."""
        for rule in self.rules:
            if rule.effect in GATEWAY_EFFECTS and rule.gateway_id in (None, gateway_id) and rule.strikes():
                return rule.effect
        return None


_NAMES = {
    "path": "path",
    "lockId": "lock_id",
    "gatewayId": "gateway_id",
    "clientId": "client_id",
    "times": "times",
    "after": "after",
    "pct": "pct",
    "seed": "seed",
    "errcode": "errcode",
    "seconds": "seconds",
    "status": "status",
}
_INTEGERS = frozenset({"lockId", "gatewayId", "times", "after", "seed", "errcode", "status"})


def _rule(rule_id: int, fields: dict[str, object]) -> Rule:
    rest = dict(fields)
    effect = rest.pop("effect", None)
    if isinstance(effect, dict):  # {"slow": 5} as a short form
        (effect, seconds), *_ = effect.items()
        rest.setdefault("seconds", seconds)
    if effect is None and "errcode" not in rest:
        raise ValueError("a fault needs an effect or an errcode")
    unknown = set(rest) - set(_NAMES)
    if unknown:
        raise ValueError(f"unknown fields: {', '.join(sorted(unknown))}")
    for name, value in rest.items():
        if name in _INTEGERS and value is not None and type(value) is not int:
            raise ValueError(f"{name} must be a number")
    values = {_NAMES[name]: value for name, value in rest.items()}
    chosen = Effect(str(effect)) if effect is not None else Effect.ERRCODE
    if chosen in GATEWAY_EFFECTS and "times" not in values:
        values["times"] = None
    rule = Rule(rule_id=rule_id, effect=chosen, **values)  # type: ignore[arg-type]
    rule.rng = random.Random(rule.seed)  # noqa: S311 - chance that can be repeated
    return rule
