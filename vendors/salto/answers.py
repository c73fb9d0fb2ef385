"""Reads the cloud's answers into the port's values.

One rule: what the vendor does not promise is not promised by us: a door without a stated effect is confirmed only for a key
just written, and a bound travels exactly as given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from vendors.port.errors import CardKey, LockError
from vendors.port.secrets import VendorRef
from vendors.port.types import CredentialKind as Kind
from vendors.port.types import Door, DoorResult, FoundKey, Outcome, Propagation, Window
from vendors.port.types import Warning as LockWarning
from vendors.support.card_check import name_of
from vendors.support.marks import is_mark, tag_of

from .errors import CLOUD, translate

LIVE = frozenset({"waiting_card", "active", "update_required", "reedition_required", "superseded"})
SUPERSEDED = "superseded"
STALE = frozenset({"update_required", "reedition_required"})


def moment(text: str) -> datetime:
    """Reads an instant with offset into UTC. Raises ValueError."""
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError("an instant without an offset")
    return instant.astimezone(UTC)


def is_live(row: Mapping[str, Any]) -> bool:
    """Says whether a key may still open something."""
    return row.get("status") in LIVE


def is_in_force(row: Mapping[str, Any]) -> bool:
    """Say whether a key lets its holder in. One that a later stay's key has ended opens at most a door that has not heard."""
    return is_live(row) and row.get("status") != SUPERSEDED


def places_in(row: Mapping[str, Any]) -> list[str]:
    """Names the places of a key as doors are named here."""
    return [*row.get("rooms", ()), *(f"auth:{number}" for number in row.get("authorizations", {}).get("grant", ()))]


def refused_places(row: Mapping[str, Any]) -> dict[str, str]:
    """Returns the places the vendor left out, with its word for why."""
    return {str(item["room"]): str(item["code"]) for item in row.get("refused", ())}


def door_error(code: str, door: Door, *, revoking: bool = False) -> LockError:
    """Builds the error for one door."""
    return translate(CLOUD, code, revoking=revoking, device_id=door.device_id)


def results(
    row: Mapping[str, Any],
    doors: Sequence[Door],
    *,
    is_there: bool = True,
    outcome: Outcome = Outcome.DONE,
    default: Propagation = Propagation.CONFIRMED,
) -> tuple[DoorResult, ...]:
    """Returns one result per door. `is_there` says that the key is at these doors afterwards, so that its reference is kept."""
    effects = {str(item["room"]): item for item in row.get("effects", ())}
    refused = refused_places(row)
    ref = VendorRef(str(row["cardRef"])) if is_there else None
    found = []
    for door in doors:
        if door.external_id in refused:
            error = door_error(refused[door.external_id], door)
            found.append(DoorResult(door.device_id, Outcome.FAILED, ref=door.ref, error=error))
            continue
        propagation, bound = _effect(effects.get(door.external_id), default)
        found.append(DoorResult(door.device_id, outcome, ref, propagation, bound))
    return tuple(found)


def one_each(found: Iterable[DoorResult]) -> tuple[DoorResult, ...]:
    """Returns one result a door. Where a door held several keys, what is not done speaks for it."""
    told: dict[str, DoorResult] = {}
    for item in found:
        if item.device_id not in told or told[item.device_id].outcome is Outcome.DONE:
            told[item.device_id] = item
    return tuple(told.values())


def _effect(item: Mapping[str, Any] | None, default: Propagation) -> tuple[Propagation, datetime | None]:
    if item is None:
        return default, None
    if item.get("effective") in ("now", "on_first_use"):
        return Propagation.CONFIRMED, None
    bound = item.get("effectiveNotAfter")
    return Propagation.PROPAGATING, moment(str(bound)) if bound else None


def key_on_card(row: object) -> CardKey:
    """Reads what the vendor tells of the key on a card; without a name where it tells nothing that makes sense."""
    if not isinstance(row, Mapping) or not row.get("cardRef"):
        return CardKey("")
    reference, operator = str(row.get("reservationRef") or ""), str(row.get("operator") or "")
    try:
        until = moment(str(row.get("validUntil")))
    except ValueError:
        until = None
    return CardKey(
        name=name_of(str(row["cardRef"])),
        nonce=operator if is_mark(operator) else None,
        tag=tag_of(reference) if reference else None,
        valid_until=until,
    )


def overwritten_in(row: Mapping[str, Any]) -> tuple[CardKey, ...]:
    """Returns the key that the card carried until this one was written on it; none where the answer names none."""
    return (key_on_card(row["overwrote"]),) if row.get("overwrote") else ()


def issue_warnings(row: Mapping[str, Any]) -> tuple[LockWarning, ...]:
    """What the desk should know after an issue: an earlier guest's key still opens a door until the new one is used there."""
    late = {str(item["room"]) for item in row.get("effects", ()) if item.get("effective") == "on_first_use"}
    ends = [moment(str(item["validUntil"])) for item in row.get("supersedes", ()) if late & set(item.get("rooms", ()))]
    if not late or not ends:
        return ()
    detail = f"an earlier key opens until this one is used at each door, at most until {max(ends).isoformat()}"
    return (LockWarning("OLD_KEY_UNTIL_FIRST_USE", detail),)


def card_warnings(row: Mapping[str, Any]) -> tuple[LockWarning, ...]:
    """What the desk should know after a change: the card in the guest's pocket is older than the record."""
    status = row.get("status")
    if status not in STALE:
        return ()
    where = "a wall reader or the encoder" if status == "update_required" else "the encoder"
    versions = f"carries version {row.get('carriedVersion')}, should carry {row.get('desiredVersion')}"
    return (LockWarning("CARD_MUST_BE_UPDATED", f"the card must pass {where}: it {versions}"),)


def found_key(row: Mapping[str, Any], place: str) -> FoundKey:
    """Reads a key found at a place."""
    operator, reservation = str(row.get("operator", "")), str(row.get("reservationRef") or "")
    is_ours = operator.startswith("gk-")
    return FoundKey(
        device_external_id=place,
        ref=VendorRef(str(row["cardRef"])),
        kind=Kind(str(row["kind"])),
        window=Window(moment(str(row["validFrom"])), moment(str(row["validUntil"]))),
        nonce=operator if is_ours else None,
        tag=tag_of(reservation) if is_ours else None,
        label=" ".join(part for part in (reservation, operator) if part),
        is_resting=bool(row.get("blocked")),
        is_stale=row.get("status") in STALE if row["kind"] == Kind.RFID_CARD else None,
    )
