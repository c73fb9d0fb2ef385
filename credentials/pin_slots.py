"""Allocates PINs at doors: drawn by `pins`, decided by the unique rows of PinSlot.

One rule: a PIN belongs to one key per door while it may be there, and rests afterwards; a door's capacity is never exceeded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection

from credentials.models import PinSlot
from credentials.pins import NoPinPossible, draw_pin
from lockservice.core import crypto
from lockservice.core.bulk import insert_returning
from vendors.port.secrets import Pin

ROUNDS = 20
_COLUMNS = {"tenant_id": "text", "device_id": "text", "pin_index": "bytea", "credential_id": "text"}


@dataclass(frozen=True, slots=True)
class PinWish:
    """A PIN wanted by one key at all of its doors. capacity None means the doors hold any number."""

    credential_id: str
    device_ids: tuple[str, ...]
    keypads: tuple[str, ...]
    length: int
    capacity: int | None


class DoorFull(Exception):
    """A door holds as many codes as its lock can. Retriable once others have left."""


def allocate(tenant_id: str, wishes: Sequence[PinWish]) -> dict[str, Pin | Exception]:
    """Gives each wish a PIN that is free at all its doors, or the reason why there is none (DoorFull, NoPinPossible).

    Inside the tenant's block; the rows are taken in the caller's transaction.
    """
    given: dict[str, Pin | Exception] = {}
    held = _held_counts(tenant_id, wishes)
    open_wishes = [wish for wish in wishes if _has_room(wish, held, given)]
    for _ in range(ROUNDS):
        if not open_wishes:
            break
        open_wishes = _round(tenant_id, open_wishes, given)
    for wish in open_wishes:
        given[wish.credential_id] = NoPinPossible("no free PIN was found at all doors")
    return given


def take_at(tenant_id: str, credential_id: str, pin: Pin, device_ids: Iterable[str]) -> bool:
    """Takes a key's present PIN at further doors (room moved); False when it is not free at all of them.

    Where it rests since the same key left the door, it wakes: it is nobody else's, and the guest keeps her digits.
    """
    doors = tuple(device_ids)
    index = crypto.blind_index("artifact", tenant_id, pin.reveal())
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE credentials_pinslot SET rests_until = NULL WHERE tenant_id = %s AND pin_index = %s AND credential_id = %s"
            " AND (rests_until IS NULL OR device_id = ANY(%s)) RETURNING device_id",
            [tenant_id, index, credential_id, list(doors)],
        )
        held = {row[0] for row in cursor.fetchall()}
    wanted = [device for device in doors if device not in held]
    got = _insert(tenant_id, [(tenant_id, device, index, credential_id) for device in wanted])
    if len(got) == len(wanted):
        return True
    _give_back(tenant_id, [(device, index) for device, _ in got])
    return False


def exchange(tenant_id: str, credential_id: str, device_ids: Sequence[str], own: Pin | None, drawn: Pin) -> bool:
    """Take digits that a vendor drew at doors in place of a key's own; False, and nothing changed, when they are not free.

    Inside the tenant's block.
    """
    if not take_at(tenant_id, credential_id, drawn, device_ids):
        return False
    if own is not None:
        index = crypto.blind_index("artifact", tenant_id, own.reveal())
        _give_back(tenant_id, [(device, index) for device in device_ids])
    return True


def claim(tenant_id: str, wish: PinWish, pin: Pin, before: Sequence[tuple[str, str, datetime]]) -> str | None:
    """Takes chosen digits at all doors of a wish, where they are free of others and of digits that rest; what the key had
    (`before`, as `release` takes it) rests first. Returns what stands in the way, never whose it is; None when taken.

    Inside the tenant's block, which must not be committed when something stood in the way.
    """
    held = _held_counts(tenant_id, [wish])
    mine = _count_held(tenant_id, wish.credential_id) if held else 0
    if wish.capacity is not None and not mine and any(count >= wish.capacity for count in held.values()):
        return "cannot be taken now: a door holds as many codes as its lock can"
    release(tenant_id, before)
    if take_at(tenant_id, wish.credential_id, pin, wish.device_ids):
        return None
    return "is not free at a door of this key"


def release(tenant_id: str, spent: Sequence[tuple[str, str, datetime]]) -> None:
    """Lets the PINs of (credential, device) rest until an instant (hotel clock) each."""
    if not spent:
        return
    credentials, doors, until = zip(*spent, strict=True)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE credentials_pinslot p SET rests_until = v.u"
            " FROM unnest(%s::text[], %s::text[], %s::timestamptz[]) AS v(c, d, u)"
            " WHERE p.tenant_id = %s AND p.credential_id = v.c AND p.device_id = v.d AND p.rests_until IS NULL",
            [list(credentials), list(doors), list(until), tenant_id],
        )


def block(tenant_id: str, device_id: str, taken: Sequence[tuple[bytes, str]]) -> None:
    """Takes digits that somebody else uses at a door: (blind index, owner) each. Digits taken already stay with their owner;
    those that rest from the same owner wake."""
    _insert(tenant_id, [(tenant_id, device_id, index, owner) for index, owner in sorted(taken)])
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE credentials_pinslot p SET rests_until = NULL FROM unnest(%s::bytea[], %s::text[]) AS v(i, c)"
            " WHERE p.tenant_id = %s AND p.device_id = %s AND p.pin_index = v.i AND p.credential_id = v.c"
            " AND p.rests_until IS NOT NULL",
            [[index for index, _ in taken], [owner for _, owner in taken], tenant_id, device_id],
        )


def pass_on(tenant_id: str, device_id: str, owner: str, credential_id: str) -> None:
    """Gives digits that were blocked at a door to the key they turned out to belong to."""
    PinSlot.objects.filter(tenant_id=tenant_id, device_id=device_id, credential_id=owner).update(credential_id=credential_id)


def forget_rested(tenant_id: str, now: datetime) -> int:
    """Frees PINs whose rest is over; returns how many."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM credentials_pinslot WHERE tenant_id = %s AND rests_until < %s", [tenant_id, now])
        return cursor.rowcount


def rest(now: datetime, days: int) -> datetime:
    """Returns the instant at which a PIN spent now may be used again."""
    return now + timedelta(days=days)


def _round(tenant_id: str, wishes: list[PinWish], given: dict[str, Pin | Exception]) -> list[PinWish]:
    drawn: dict[str, tuple[Pin, bytes]] = {}
    for wish in wishes:
        try:
            pin = draw_pin(wish.length, wish.keypads)
        except NoPinPossible as error:
            given[wish.credential_id] = error
            continue
        drawn[wish.credential_id] = (pin, crypto.blind_index("artifact", tenant_id, pin.reveal()))
    rows = [
        (tenant_id, d, drawn[w.credential_id][1], w.credential_id)
        for w in wishes
        if w.credential_id in drawn
        for d in w.device_ids
    ]
    got: dict[str, list[str]] = {}
    for device, credential in _insert(tenant_id, sorted(rows, key=lambda row: row[1:3])):
        got.setdefault(credential, []).append(device)
    again = []
    for wish in wishes:
        if wish.credential_id not in drawn:
            continue
        pin, index = drawn[wish.credential_id]
        devices = got.get(wish.credential_id, [])
        if len(devices) == len(wish.device_ids):
            given[wish.credential_id] = pin
        else:
            _give_back(tenant_id, [(device, index) for device in devices])
            again.append(wish)
    return again


def _insert(tenant_id: str, rows: Sequence[tuple[str, str, bytes, str]]) -> list[tuple[str, str]]:
    return insert_returning(
        "credentials_pinslot", _COLUMNS, rows, on_conflict="DO NOTHING", returning="device_id, credential_id"
    )


def _give_back(tenant_id: str, pairs: Sequence[tuple[str, bytes]]) -> None:
    if pairs:
        with connection.cursor() as cursor:
            cursor.execute(
                "DELETE FROM credentials_pinslot p USING unnest(%s::text[], %s::bytea[]) AS v(d, i)"
                " WHERE p.tenant_id = %s AND p.device_id = v.d AND p.pin_index = v.i",
                [[device for device, _ in pairs], [index for _, index in pairs], tenant_id],
            )


def _has_room(wish: PinWish, held: dict[str, int], given: dict[str, Pin | Exception]) -> bool:
    if wish.capacity is not None and any(held.get(device, 0) >= wish.capacity for device in wish.device_ids):
        given[wish.credential_id] = DoorFull()
        return False
    for device in wish.device_ids:
        held[device] = held.get(device, 0) + 1
    return True


def _count_held(tenant_id: str, credential_id: str) -> int:
    return PinSlot.objects.filter(tenant_id=tenant_id, credential_id=credential_id, rests_until__isnull=True).count()


def _held_counts(tenant_id: str, wishes: Sequence[PinWish]) -> dict[str, int]:
    doors = sorted({device for wish in wishes if wish.capacity is not None for device in wish.device_ids})
    if not doors:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT device_id, count(*) FROM credentials_pinslot WHERE tenant_id = %s AND device_id = ANY(%s)"
            " AND rests_until IS NULL GROUP BY device_id",
            [tenant_id, doors],
        )
        return dict(cursor.fetchall())
