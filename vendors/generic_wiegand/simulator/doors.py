"""What a lock or reader does when a card is shown to it. This is the truth that tests ask for.

| door | decides by |
|---|---|
| stand-alone lock | the records on the card, its own clock, and the newest sequence it has seen |
| reader on a controller | the controller's list for this door, by the card's number, and the controller's clock |

One rule: the time is the door's own, clock error included; a stand-alone lock that opens for a later sequence remembers it, and
from then on refuses earlier ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from vendors.generic_wiegand.records import Record, Verdict, judge, read_genuine

from .world import LOG_KEPT, Card, Door, House, Line

_ORDER = list(Verdict)


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether it opened, the simulator's word for why, and whose key it was where that can be told."""

    is_open: bool
    why: str
    mark: str = ""
    sequence: int = 0


def show(house: House, door: Door, value: str, kind: str, true_now: datetime, *, leaves_trace: bool) -> Answer:
    """Shows a card, given by UID, number or reference. Without a trace nothing is learnt and nothing is logged."""
    now = true_now + timedelta(seconds=door.skew_s)
    card = house.card(value)
    if house.has_controller:
        answer = _by_list(house, door, value, card, now)
    else:
        answer = _by_card(house, door, card, now)
        if leaves_trace and answer.is_open and not door.is_shared:
            door.seen = max(door.seen, answer.sequence)
    if leaves_trace:
        _log(door, answer, kind, now)
    return answer


def records_of(house: House, door: Door, true_now: datetime) -> list[tuple[Card, Record, bool]]:
    """Returns the records about for a stand-alone door: card, record, and whether it opens at some time from now on."""
    found = []
    for card in house.cards.values():
        for blob in card.blocks.values():
            verdict, record = read_genuine(blob, bytes.fromhex(card.uid), **_facts(house, door))
            if verdict is Verdict.OK and record is not None:
                found.append((card, record, record.sequence >= door.seen and true_now < record.valid_until))
    return found


def _by_card(house: House, door: Door, card: Card | None, now: datetime) -> Answer:
    if card is None or not card.blocks:
        return Answer(False, "unknown_credential")
    verdicts = [
        judge(blob, bytes.fromhex(card.uid), seen=0 if door.is_shared else door.seen, now=now, **_facts(house, door))
        for blob in card.blocks.values()
    ]
    verdict, record = max(verdicts, key=lambda item: _ORDER.index(item[0]))
    return Answer(verdict is Verdict.OK, verdict.value, sequence=record.sequence if record else 0)


def _facts(house: House, door: Door) -> dict[str, Any]:
    key = bytes.fromhex(house.property_key)
    return {"property_key": key, "property_number": house.property_number, "door": door.number}


def _by_list(house: House, door: Door, value: str, card: Card | None, now: datetime) -> Answer:
    numbers = {value, card.number if card else value}
    line = next((line for line in door.lines.values() if line.number in numbers or value == f"gc1.{line.entry}"), None)
    if line is None:
        return Answer(False, "unknown_credential")
    return _by_line(line, now)


def _by_line(line: Line, now: datetime) -> Answer:
    if line.is_resting:
        return Answer(False, "suspended", line.mark)
    if not line.starts <= now < line.ends:
        return Answer(False, "outside_window", line.mark)
    return Answer(True, "ok", line.mark)


def _log(door: Door, answer: Answer, kind: str, now: datetime) -> None:
    door.counted += 1
    door.log.append(
        {
            "id": door.counted,
            "door": door.name,
            "outcome": "granted" if answer.is_open else "denied",
            "why": None if answer.is_open else answer.why,
            "mark": answer.mark or None,
            "kind": kind,
            "at": now.isoformat(),
        }
    )
    del door.log[:-LOG_KEPT]
