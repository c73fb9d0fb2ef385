"""Which actions a person may ask for on a key as it stands now: what is offered works.

One rule: callers and pages ask here, and the refusals of actions (`sagas.acts`) rest on the same questions. What is offered may
still be refused for what is sent with it, and for what happens between the offer and the action.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from credentials import locks, notices
from credentials.house import house
from credentials.lifecycle import WAITING, State, allowed_actions
from credentials.models import KeyCredential, Reservation
from credentials.services import KeyBatch
from lockservice.core import clock
from lockservice.core.places import Property
from sagas.flows import issue_key, successors
from sagas.flows.one_change import spans
from vendors.port.types import CredentialKind


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the answers rest on. `stays` holds failed keys among the keys of their stays, read without locks."""

    now: datetime
    in_operation: frozenset[str]
    stays: KeyBatch
    rows: dict[str, Reservation]


def actions_of(tenant_id: str, keys: Sequence[KeyCredential]) -> dict[str, tuple[str, ...]]:
    """Returns the actions offered on each key, by its id, in a stable order. Inside the tenant's block."""
    facts = _read(tenant_id, keys)
    return {key.id: tuple(name for name in allowed_actions(key.state) if _works(name, key, facts)) for key in keys}


def can_replace(key: KeyCredential, now: datetime) -> bool:
    """Says whether another key of the same kind could be given in this one's place. Inside the tenant's block."""
    if key.valid_until <= now:
        return False
    return issue_key.can_give(house(key.tenant_id, key.property_id), key)


def _read(tenant_id: str, keys: Sequence[KeyCredential]) -> _Facts:
    now = clock.now()
    named = {key.property_id for key in keys}
    places = Property.objects.filter(tenant_id=tenant_id, property_id__in=named, active=True)
    failed = [key for key in keys if key.state == State.FAILED and not key.replaced_by]
    stays = {key.reservation_id for key in failed if key.reservation_id}
    read = KeyCredential.objects.filter(tenant_id=tenant_id, reservation_id__in=stays) if stays else ()
    known = {key.id: key for key in (*read, *failed)}
    doors = locks.doors_of(tenant_id, known) if known else {}
    batch = KeyBatch(tenant_id, now, dict(sorted(known.items())), dict(doors))
    rows = Reservation.objects.filter(tenant_id=tenant_id, reservation_id__in=stays) if stays else ()
    return _Facts(now, frozenset(places.values_list("property_id", flat=True)), batch, {r.reservation_id: r for r in rows})


def _works(action: str, key: KeyCredential, facts: _Facts) -> bool:
    is_running = key.valid_until > facts.now
    if action == "unsuspend":
        return is_running
    if action == "replace":
        return key.property_id in facts.in_operation and can_replace(key, facts.now)
    if action == "encode":
        return _can_encode(key)
    if action == "retry":
        return key.open_work if key.state != State.FAILED else _kind_anew(key, facts) is not None
    if action == "choose_pin":
        is_pin = key.kind == CredentialKind.PIN_CODE
        return is_pin and (is_running if key.state != State.FAILED else _kind_anew(key, facts) is CredentialKind.PIN_CODE)
    return action != "leave_old_room" or notices.is_noted(key, notices.OLD_ROOM_KEPT)


def _can_encode(key: KeyCredential) -> bool:
    """A card that says what our books say needs no encoding, and not every lock system writes one again."""
    if key.state in WAITING:
        return key.waiting_for == issue_key.DESK
    return notices.card_is_stale(key) and spans(key)


def _kind_anew(key: KeyCredential, facts: _Facts) -> CredentialKind | None:
    """Returns the kind that a failed key would be issued anew as; None where it would not."""
    if key.property_id not in facts.in_operation or key.id not in facts.stays.keys:
        return None
    row = facts.rows.get(key.reservation_id or "")
    return successors.kind_anew(facts.stays, house(key.tenant_id, key.property_id), facts.stays.keys[key.id], row)
