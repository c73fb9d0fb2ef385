"""What shows that a guest has come: who has come is not suspended as a no-show.

One rule: a sign is only ever added, without waiting for any lock; whoever decides by signs holds the stay's lock and reads them
then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from credentials.models import ArrivalSign
from lockservice.core.bulk import insert_returning

_COLUMNS = {
    "tenant_id": "text", "reservation_id": "text", "incarnation": "int", "kind": "text", "detail": "text", "at": "timestamptz",
    "noted_at": "timestamptz",
}  # fmt: skip


class SignKind(StrEnum):
    """What the sign is."""

    DOOR = "door"  # a key of the stay opened a door
    CARD = "card"  # a card of the stay was written
    CHECK_IN = "check_in"  # the booking service says so
    DESK = "desk"  # a person at the desk says so


@dataclass(frozen=True, slots=True)
class Sign:
    """One sign about one incarnation of a stay. `at` is the hotel's time; `detail` names the door or the person."""

    reservation_id: str
    incarnation: int
    kind: SignKind
    at: datetime
    detail: str = ""


def add(tenant_id: str, signs: Sequence[Sign], now: datetime) -> list[Sign]:
    """Writes the signs in the caller's transaction; returns those whose kind was not there yet, the earliest of each."""
    first: dict[tuple[str, int, str], Sign] = {}
    for sign in sorted(signs, key=lambda sign: (sign.reservation_id, sign.incarnation, sign.kind, sign.at)):
        first.setdefault((sign.reservation_id, sign.incarnation, sign.kind.value), sign)
    rows = [(tenant_id, *place, sign.detail[:120], sign.at, now) for place, sign in first.items()]
    fresh = insert_returning(
        "credentials_arrivalsign", _COLUMNS, rows, on_conflict="(tenant_id, reservation_id, incarnation, kind) DO NOTHING",
        returning="reservation_id, incarnation, kind",
    )  # fmt: skip
    return [first[(row[0], row[1], row[2])] for row in fresh]


def of_stay(tenant_id: str, reservation_id: str, incarnation: int) -> list[ArrivalSign]:
    """Returns the signs of one incarnation, earliest first."""
    rows = ArrivalSign.objects.filter(tenant_id=tenant_id, reservation_id=reservation_id, incarnation=incarnation)
    return list(rows.order_by("at", "id"))


def has_come(tenant_id: str, reservation_id: str, incarnation: int) -> bool:
    """Says whether anything shows that the guest has come."""
    rows = ArrivalSign.objects.filter(tenant_id=tenant_id, reservation_id=reservation_id, incarnation=incarnation)
    return rows.exists()


def in_words(sign: ArrivalSign) -> str:
    """Returns what the sign says, for alerts."""
    told = {
        SignKind.DOOR: f"her key opened {sign.detail}",
        SignKind.CARD: "a card was written for her",
        SignKind.CHECK_IN: "she was checked in",
        SignKind.DESK: "the desk says that she is here",
    }
    return told[SignKind(sign.kind)]
