"""A lock, or a whole lock system, is out of service for good: its keys leave it, and who loses her door gets another way in.

One rule: pages are short transactions over keys that still have a door there; a key that has left is not found again, so the
walk may be killed anywhere and repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet

from credentials import locks
from credentials.house import House, house
from credentials.lifecycle import LIVE
from credentials.models import CredentialDoor, KeyCredential
from credentials.services import KeyBatch
from devices import adapters, selectors
from devices.selectors import InstallationFacts
from sagas.alerts import NewAlert
from sagas.flows import issue_key, old_rooms, rest_key, revoke_key, update_key
from sagas.intake import PRIORITY_SECURITY, own_key
from sagas.steps import Work
from vendors.port.types import CredentialKind, Intent, RevokeReason, SuspendReason, Window

FLOW = "decommission"
TRIGGER = "device_decommissioned"
RUNBOOK = "lock/decommission"
PAGE = 25
ROUNDS = 2
"""Another process may know the lock as one in use for two seconds more, and give a key there: a second walk finds it."""
PAUSE_S = 10


def next_page(tenant_id: str, args: dict[str, Any]) -> list[str]:
    """Returns the ids of the next live keys that have one of the doors. `args` names deviceIds."""
    here = CredentialDoor.objects.filter(tenant_id=tenant_id, device_id__in=args["deviceIds"], dropped=False)
    rows = KeyCredential.objects.filter(
        tenant_id=tenant_id, id__in=here.values("credential_id"), id__gt=args.get("after", ""), state__in=sorted(LIVE)
    )
    return lock_stays(tenant_id, rows)


def lock_stays(tenant_id: str, rows: QuerySet[KeyCredential]) -> list[str]:
    """Locks the stays of the first PAGE of these keys and returns the keys' ids."""
    ids = list(rows.order_by("id").values_list("id", "reservation_id")[:PAGE])
    for reservation_id in sorted({stay for _, stay in ids if stay}):
        locks.lock_reservation(tenant_id, reservation_id)  # before its keys, as everywhere
    return [key_id for key_id, _ in ids]


def run_page(batch: KeyBatch, work: Work) -> None:
    """Takes the locked keys of one page away from the doors."""
    selectors.forget()
    gone = set(work.args["deviceIds"])
    for key in list(batch.keys.values()):
        if key.state in LIVE and any(d.device_id in gone and not d.dropped for d in batch.doors_at(key)):
            bring_to_doors(batch, house(batch.tenant_id, key.property_id), key, work, TRIGGER)


def bring_to_doors(
    batch: KeyBatch, place: House, key: KeyCredential, work: Work, trigger: str, *, take_first: bool = False
) -> None:
    """Brings the key to the locks its rooms have now. A room without any goes to another lock system, or a person is told.
    Of several rooms that the stay has left, one without any is only told: the others are enough until the new room opens.

    `trigger` is told in the event of a key that ends; `take_first` is as in `update_key.begin`.
    """
    kept, lost = _sort_rooms(key)
    lost = _without_company(key, lost)
    rests = rest_key.why(key)  # before it ends, which calls a resume off
    if kept or not key.rooms:
        saga_key = own_key("decommission", work.id, key.id, str(work.args.get("round", 1)))
        update_key.begin(batch, place, key, saga_key, work.cause, rooms=kept, areas=tuple(key.areas), take_first=take_first)
    else:
        _end(batch, key, work, trigger)
    is_given = bool(lost) and (key.state not in LIVE or not old_rooms.is_left_as_a_whole(batch.doors_at(key)))
    is_given = is_given and bool(locks.open_properties(key.tenant_id, [key.property_id]))
    for home, rooms in _homes(key, lost).items() if is_given else ():
        _move(batch, place, key, home, rooms, work, rests)
        lost = tuple(room for room in lost if room not in rooms)
    if lost:
        batch.alerts.append(
            NewAlert(
                _told_as("no-lock", key, lost, work), "ROOM_WITHOUT_LOCK", "critical",
                f"{len(lost)} of the guest's rooms have no lock any more; she needs an escort or another room", RUNBOOK,
                key.property_id, key.id,
            )
        )  # fmt: skip


def _sort_rooms(key: KeyCredential) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the rooms that still have a lock at the key's installation, and those that have none."""
    devices = selectors.property_devices(key.tenant_id, key.property_id)
    here = {room for d in devices if d.installation_id == key.installation_id and not d.shared for room in d.rooms}
    return tuple(r for r in key.rooms if r in here), tuple(r for r in key.rooms if r not in here)


def _without_company(key: KeyCredential, rooms: tuple[str, ...]) -> tuple[str, ...]:
    """Leaves out the rooms that the stay's same key opens at another lock system already: one more there would be a second
    live key, and where a new one starts the stay it would end the one the guest has."""
    if key.reservation_id is None:
        return rooms
    active = [facts.id for facts in selectors.property_installations(key.tenant_id, key.property_id)]
    others = KeyCredential.objects.filter(
        tenant_id=key.tenant_id, reservation_id=key.reservation_id, incarnation=key.incarnation, ordinal=key.ordinal,
        installation_id__in=[here for here in active if here != key.installation_id], state__in=sorted(LIVE),
    )  # fmt: skip
    open_elsewhere = {room for named in others.values_list("rooms", flat=True) for room in named}
    return tuple(room for room in rooms if room not in open_elsewhere)


def _homes(key: KeyCredential, rooms: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Returns the other lock systems that have a lock for these rooms: installation → rooms, each room once."""
    active = {facts.id for facts in selectors.property_installations(key.tenant_id, key.property_id)}
    found: dict[str, list[str]] = {}
    for room in rooms:
        homes = sorted(
            d.installation_id
            for d in selectors.property_devices(key.tenant_id, key.property_id)
            if room in d.rooms and not d.shared and d.installation_id in active
        )
        if homes:
            found.setdefault(homes[0], []).append(room)
    return {home: tuple(named) for home, named in found.items()}


def _end(batch: KeyBatch, key: KeyCredential, work: Work, trigger: str) -> None:
    saga_key = own_key("decommission-end", work.id, key.id)
    revoke_key.begin(batch, key, RevokeReason.SECURITY, saga_key, work.cause, trigger=trigger)


def _move(
    batch: KeyBatch,
    place: House,
    key: KeyCredential,
    home: str,
    rooms: tuple[str, ...],
    work: Work,
    rests: SuspendReason | None,
) -> None:
    """Issues what the key opened at another lock system, at rest if the key rested; tells whom the guest must see for it."""
    facts = selectors.installation(key.tenant_id, home)
    batch.flush()
    try:
        successor = issue_key.begin(batch, place, _request(key, facts, rooms, work), work.cause)
    except issue_key.NoKindFits:
        batch.alerts.append(
            NewAlert(
                _told_as("no-kind", key, rooms, work), "ROOM_WITHOUT_LOCK", "critical",
                "no kind of key fits the lock her room has now; she needs an escort", RUNBOOK, key.property_id, key.id,
            )
        )  # fmt: skip
        return
    if key.state not in LIVE:
        key.replaced_by, key.suspend_reason = successor.id, ""
        batch.touch(key)
    if rests is not None:
        rest_key.suspend_soon(batch, successor, rests, own_key("decommission-rest", work.id, successor.id), work.cause)
    needs_desk = successor.kind in {kind.value for kind in adapters.manifest(facts.vendor).desk_kinds}
    detail = "she must fetch it at the desk" if needs_desk else "it goes to her as usual"
    batch.alerts.append(
        NewAlert(
            f"new-key:{successor.id}", "KEY_MOVED_TO_OTHER_LOCKS", "critical" if needs_desk else "warning",
            f"a guest's room has another lock system now; a new {successor.kind} was asked for: {detail}", RUNBOOK,
            key.property_id, successor.id,
        )
    )  # fmt: skip


def _request(key: KeyCredential, home: InstallationFacts, rooms: tuple[str, ...], work: Work) -> issue_key.KeyRequest:
    return issue_key.KeyRequest(
        installation=home,
        rooms=rooms,
        window=Window(key.valid_from, key.valid_until),
        issue_key=own_key("decommissioned", work.id, key.id, home.id, *sorted(rooms)),
        holder_id=key.holder_id,
        reservation_id=key.reservation_id,
        incarnation=key.incarnation,
        ordinal=_free_ordinal(key, home.id),
        holder_kind=key.holder_kind,
        preferred_kinds=(CredentialKind(key.kind), *(CredentialKind(kind) for kind in key.preferred_kinds)),
        areas=tuple(key.areas),
        floors=tuple(key.floors),
        intent=Intent.NEW if key.ordinal == 0 else Intent.ADDITIONAL,
        replaces=key.id if key.state not in LIVE else None,
        requested_by=work.cause.actor,
        id_verified=True,
        priority=PRIORITY_SECURITY,
        grace_included=True,
    )


def _told_as(what: str, key: KeyCredential, rooms: Sequence[str], work: Work) -> str:
    """Names what one walk took from a key, so that each loss is told, and told once however often the walk is repeated."""
    return f"{what}:{key.id}:{own_key('rooms', work.id, *sorted(rooms))}"


def _free_ordinal(key: KeyCredential, home: str) -> int:
    """Returns the key's own ordinal, or the next one free where the stay has such a key at the other system already."""
    rows = KeyCredential.objects.filter(
        tenant_id=key.tenant_id, reservation_id=key.reservation_id, incarnation=key.incarnation, installation_id=home,
        state__in=sorted(LIVE), reservation_id__isnull=False,
    )  # fmt: skip
    taken = set(rows.values_list("ordinal", flat=True))
    return key.ordinal if key.ordinal not in taken else max(taken) + 1
