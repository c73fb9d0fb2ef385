"""Numbers the stays of rooms, writes cards, and says no where a vendor would.

One rule: issuing changes the vendor's books and the card on the encoder, never a lock.
"""

from __future__ import annotations

import secrets
from datetime import datetime

from .model import Encoder, House, Key

MAX_ROOMS, MAX_COMMON = 33, 28


class No(Exception):
    """A vendor's refusal: HTTP status, code, and the doors it is about."""

    def __init__(self, status: int, code: str, doors: list[str] | None = None, **headers: str) -> None:
        super().__init__(code)
        self.status = status
        self.code = code
        self.doors = doors or []
        self.headers = headers


def check_doors(house: House, guest: list[str], common: list[str], *, is_card: bool) -> None:
    """Raises No for unknown doors, for an entrance that is listed, and for more than a card holds: 48 bytes hold rooms that
    follow each other, in the order in which they were put up (that this order counts is assumed)."""
    unknown = [door for door in (*guest, *common) if door not in house.locks]
    if unknown:
        raise No(404, "door_unknown", unknown)
    if any(house.locks[d].kind != "guest" for d in guest) or any(house.locks[d].kind != "common" for d in common):
        raise No(422, "door_type_not_allowed")
    if not guest or len(guest) > MAX_ROOMS or len(common) > MAX_COMMON:
        raise No(422, "too_many_doors")
    order = {door: place for place, door in enumerate(lock.door_id for lock in house.locks.values() if lock.kind == "guest")}
    places = sorted({order[door] for door in guest})
    if is_card and places[-1] - places[0] >= len(places):
        raise No(422, "too_many_doors")


def overriding(house: House, guest: list[str]) -> dict[str, int]:
    """Starts a new stay in each room."""
    for door in guest:
        house.issued[door] = house.issued.get(door, 0) + 1
    return {door: house.issued[door] for door in guest}


def joining(house: House, guest: list[str]) -> dict[str, int]:
    """Joins the newest stay in each room. Raises No where there is none."""
    if not all(house.issued.get(door) for door in guest):
        raise No(409, "no_running_stay")
    return {door: house.issued[door] for door in guest}


def sharing(house: House, old: Key, guest: list[str], override: list[str]) -> dict[str, int]:
    """Shares an earlier key's stay where it has one; elsewhere starts one, or joins the newest there is."""
    fresh = overriding(house, [d for d in guest if d not in old.stays and (d in override or not house.issued.get(d))])
    return {d: old.stays.get(d) or fresh.get(d) or house.issued[d] for d in guest}


def encoder_of(house: House, name: object, code: str) -> Encoder:
    """Finds an encoder. Raises No for one that is not configured or not there."""
    encoder = house.encoders.get(str(name))
    if encoder is None:
        raise No(404, code)
    if encoder.is_offline:
        raise No(503 if code == "encoder_offline" else 409, "encoder_offline")
    return encoder


def card_on(encoder: Encoder) -> str | None:
    """Returns the number of the card on the encoder, None for none."""
    if encoder.lying is None and encoder.feeds:
        return str(secrets.randbelow(2**32))
    return encoder.lying


def write_card(house: House, serial: str, key: Key, now: datetime, *, overwrite: bool) -> None:
    """Writes a key on a card. Raises No when the card still holds a valid one and may not be overwritten."""
    claim_card(house, serial, key, now, overwrite=overwrite)
    house.cards[serial] = key.image()


def claim_card(house: House, serial: str, key: Key, now: datetime, *, overwrite: bool) -> None:
    """Makes a card's number stand for a key: one credential per card. Raises No as `write_card`."""
    earlier = valid_keys(house, serial, key, now)
    if earlier and not overwrite:
        raise No(409, "card_in_use")
    for old in earlier:
        old.status = "overwritten"
        old.version += 1
        key.overwrote = old.id
    key.serial = serial


def valid_keys(house: House, serial: str, key: Key, now: datetime) -> list[Key]:
    """Returns the other keys that stand for a card and are valid, or only rest: they open again once they are resumed."""
    rows = [k for k in house.keys.values() if k.serial == serial and k.id != key.id]
    return [k for k in rows if k.status_at(now) in {"active", "suspended"}]
