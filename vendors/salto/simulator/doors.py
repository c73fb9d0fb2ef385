"""What a lock does when something is shown to it. This is the truth that tests ask for.

One rule: the order is the real lock's: first exchange with the carrier (deny list in, news out, rights in at an on-line
door), then deny list, room generation, dates. A stand-alone door judges by the carrier and its own memory alone. An on-line
door that is cut off knows what the server had told it until then.
Source: the vendor's user documentation on hotel keys and deny lists, operation codes of a public host-interface client (high);
that an on-line door takes blocks and deny list from the server at once, and a newer generation once that key's window has
begun: assumed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from .model import AUDIT_RING, LIVE, Carrier, Door, Image, Key, Property

OPENED, OPENED_BY_PIN, NEW_GUEST = 17, 26, 55
WITHOUT_CARD = {"button": 16, "pc": 28}
"""Openings that no card made: from inside, and by somebody at a computer."""
REASONS = {
    81: "not_yet_valid",
    82: "expired",
    84: "not_permitted",
    88: "superseded",
    89: "revoked",
    93: "unknown_credential",
    96: "revoked",
}


@dataclass(frozen=True)
class Verdict:
    """What the door did: operation code, the mark of the key where it can be told, and whether a new generation was learnt."""

    code: int
    why: str
    key: str = ""
    operator: str = ""
    learnt: int = 0

    @property
    def is_open(self) -> bool:
        """Says whether the door opened."""
        return self.code in (OPENED, OPENED_BY_PIN, *WITHOUT_CARD.values())


def show_carrier(prop: Property, door: Door, carrier: Carrier, at: datetime | None = None, *, dry: bool = False) -> Verdict:
    """Shows a card or phone. With `at` or `dry` nothing is learnt and nothing is logged."""
    dry = dry or at is not None
    image, denylist = _exchanged(prop, door, carrier)
    known = door.denylist | denylist
    verdict = _judge(prop, door, image, known, _door_time(prop, door, at))
    if not dry:
        _remember(prop, door, carrier, image, denylist, verdict)
    return verdict


def type_pin(prop: Property, door: Door, digits: str, at: datetime | None = None, *, dry: bool = False) -> Verdict:
    """Types digits. Only on-line doors with a keypad know any."""
    moment = _door_time(prop, door, at)
    verdict = Verdict(93, REASONS[93])
    if door.is_online and door.has_keypad:
        for key in prop.keys.values():
            if key.kind == "pin_code" and key.pin == digits and _concerns(key, door) and key.status in LIVE:
                code = 96 if key.is_blocked else _by_date(key.starts, key.ends, moment)
                code = OPENED_BY_PIN if code == OPENED else code
                verdict = Verdict(code, REASONS.get(code, "open"), key.ref, key.operator)
                if verdict.is_open:
                    break
    if not (dry or at is not None):
        _log(prop, door, None, _row(prop, door, verdict, "pin_code"))
    return verdict


def open_without_card(prop: Property, door: Door, how: str) -> None:
    """Opens a door by its button, or from a computer. Raises KeyError for another word."""
    _log(prop, door, None, _row(prop, door, Verdict(WITHOUT_CARD[how], "open"), ""))


def sync_carrier(prop: Property, carrier: Carrier) -> None:
    """What an encoder, a wall reader or an on-line door does with a carrier: deny list down, news up, rights brought up."""
    carrier.denylist = frozenset(prop.denylist)
    prop.events.extend(_numbered(prop, row) for row in carrier.news)
    carrier.news = []
    key = prop.keys.get(carrier.image.ref) if carrier.image else None
    if key is None or carrier.image is None or not _may_update(prop, key):
        return
    write_image(prop, carrier, key)


def write_image(prop: Property, carrier: Carrier, key: Key) -> None:
    """Writes the server's record onto a carrier."""
    carrier.image = image_of(key)
    key.carrier, key.carried_version, key.carried_until = carrier.number, key.version, key.ends
    if key.status in ("update_required", "waiting_card", "reedition_required"):
        key.status = "active"


def image_of(key: Key) -> Image:
    """Returns what a carrier of this key should hold."""
    return Image(
        ref=key.ref,
        serial=key.serial,
        version=key.version,
        rooms=dict(key.rooms),
        grants=frozenset(key.grants),
        denials=frozenset(key.denials),
        starts=key.starts,
        ends=key.ends,
        copy=key.copy,
        operator=key.operator,
    )


def _exchanged(prop: Property, door: Door, carrier: Carrier) -> tuple[Image | None, frozenset[int]]:
    """What carrier and door hold after they have spoken, computed without changing either."""
    image = carrier.image
    if door.is_online and not door.is_dead:
        key = prop.keys.get(image.ref) if image else None
        if key is not None and _may_update(prop, key):
            image = image_of(key)
        return image, frozenset(prop.denylist)
    return image, carrier.denylist


def _may_update(prop: Property, key: Key) -> bool:
    return key.status in ("active", "update_required") and (prop.guest_keys_update or key.kind == "mobile_app")


def _judge(prop: Property, door: Door, image: Image | None, denylist: set[int] | frozenset[int], moment: datetime) -> Verdict:
    if image is None:
        return Verdict(84, "unknown_credential")
    generation = image.rooms.get(door.name)
    code = _code(prop, door, image, denylist, moment) or _by_date(image.starts, image.ends, moment)
    learnt = generation if code == OPENED and generation is not None and generation > door.seen_generation else 0
    return Verdict(code, REASONS.get(code, "open"), image.ref, image.operator, learnt)


def _code(prop: Property, door: Door, image: Image, denylist: set[int] | frozenset[int], moment: datetime) -> int:
    """Returns why the key is refused whatever the time, 0 when it is not."""
    generation = image.rooms.get(door.name)
    is_shared = door.authorisation is not None
    is_granted = door.authorisation in image.grants - image.denials if is_shared else generation is not None
    checks = (
        (image.serial in denylist or _is_refused_by_server(prop, door, image), 96),
        (not is_granted, 84),
        (generation is not None and generation < _newest_generation(prop, door, moment), 88),
        (generation is not None and generation <= door.cancelled_generation, 89),
    )
    return next((code for is_hit, code in checks if is_hit), 0)


def _newest_generation(prop: Property, door: Door, moment: datetime) -> int:
    """What the door goes by. A key made ahead of its guest's arrival does not put out the guest who is still there."""
    if not door.is_online or door.is_dead:
        return door.seen_generation
    begun = (key.rooms[door.name] for key in prop.keys.values() if door.name in key.rooms and key.starts <= moment)
    return max(door.seen_generation, *begun, 0)


def cut_off(prop: Property, door: Door) -> None:
    """Takes an on-line door out of reach: it keeps deny list, blocks and generations as the server last told them."""
    if door.is_online and not door.is_dead:
        door.seen_generation = _newest_generation(prop, door, _door_time(prop, door, None))
        refused = {key.serial for key in prop.keys.values() if key.is_blocked or key.status not in LIVE}
        door.refused = frozenset(refused | prop.denylist)
    door.is_dead = True


def _is_refused_by_server(prop: Property, door: Door, image: Image) -> bool:
    if not door.is_online:
        return False
    if door.is_dead:
        return image.serial in door.refused
    key = prop.keys.get(image.ref)
    return key is None or key.is_blocked or key.status not in LIVE


def _by_date(starts: datetime, ends: datetime, moment: datetime) -> int:
    if moment < starts:
        return 81
    return OPENED if moment < ends else 82


def _door_time(prop: Property, door: Door, at: datetime | None) -> datetime:
    return prop.local((at or prop.now()) + timedelta(seconds=door.skew_s))


def _concerns(key: Key, door: Door) -> bool:
    return door.authorisation in key.grants if door.authorisation is not None else door.name in key.rooms


def _remember(
    prop: Property, door: Door, carrier: Carrier, image: Image | None, denylist: frozenset[int], verdict: Verdict
) -> None:
    door.denylist |= denylist
    if verdict.learnt:
        door.seen_generation = verdict.learnt
        _log(prop, door, carrier, _row(prop, door, replace(verdict, code=NEW_GUEST), ""))
    _log(prop, door, carrier, _row(prop, door, verdict, "mobile_app" if carrier.phone else "rfid_card"))
    if door.is_online and not door.is_dead:
        sync_carrier(prop, carrier)


def _row(prop: Property, door: Door, verdict: Verdict, kind: str) -> dict[str, Any]:
    return {
        "door": door.name,
        "authorization": door.authorisation,
        "operation": verdict.code,
        "outcome": _outcome(verdict),
        "denyReason": verdict.why if _outcome(verdict) == "denied" else None,
        "cardRef": verdict.key,
        "operator": verdict.operator,
        "kind": kind,
        "occurredAt": prop.now().isoformat(),
        "lockLocalTime": _door_time(prop, door, None).isoformat(),
        "learnt": verdict.learnt,
    }


def _outcome(verdict: Verdict) -> str:
    if verdict.code == NEW_GUEST:
        return "state"
    return "granted" if verdict.is_open else "denied"


def _log(prop: Property, door: Door, carrier: Carrier | None, row: dict[str, Any]) -> None:
    door.ring.append(row)
    del door.ring[:-AUDIT_RING]
    if door.is_online and not door.is_dead:
        prop.events.append(_numbered(prop, row))
    elif carrier is not None:
        carrier.news.append(row)


def _numbered(prop: Property, row: dict[str, Any]) -> dict[str, Any]:
    numbered = {"id": next(prop.numbers), "receivedAt": prop.now().isoformat(), **row}
    if prop.webhook_url:
        prop.pushes.put(numbered)
    return numbered
