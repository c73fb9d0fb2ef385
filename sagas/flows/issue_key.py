"""Issue: a stay, or a person, gets a key at one installation.

One rule: the issue key decides; asking twice for the same intended key gives the same credential.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from credentials.house import House
from credentials.models import CredentialDoor, KeyCredential
from credentials.policy import PHONE_AND_PIN, choose_kind
from credentials.services import KeyBatch
from credentials.targets import KEPT
from devices import adapters, selectors
from devices.selectors import DeviceFacts, InstallationFacts
from lockservice.core import crypto
from sagas.flows import old_rooms
from sagas.intake import PRIORITY_ISSUE, Start, sha256_key
from sagas.outbox import Cause
from vendors.port.ids import new_id
from vendors.port.secrets import CardNumber
from vendors.port.types import Area, CredentialKind, Intent, Window

FLOW = "issue"
DESK, ROOM, IDENTITY = "desk", "room", "id"


@dataclass(frozen=True, slots=True)
class KeyRequest:
    """A key wanted at one installation. `window` is the stay's, to which grace is added unless `grace_included`.

    `only_preferred` leaves out the kinds that are only the policy's. `areas_only` means that the installation has shared doors
    of the stay and none of its rooms. `notices` are (code, detail) that the key carries from its first moment.
    """

    installation: InstallationFacts
    rooms: tuple[str, ...]
    window: Window
    issue_key: str
    holder_id: str
    reservation_id: str | None = None
    incarnation: int = 1
    ordinal: int = 0
    holder_kind: str = "guest"
    preferred_kinds: tuple[CredentialKind, ...] = ()
    areas: tuple[str, ...] | None = None
    floors: tuple[str, ...] = ()
    intent: Intent = Intent.NEW
    replaces: str | None = None
    channel_hint: str = ""
    requested_by: str = ""
    id_verified: bool = False
    desk_present: bool = False
    grace_included: bool = False
    only_preferred: bool = False
    areas_only: bool = False
    notices: tuple[tuple[str, str], ...] = ()
    priority: int = PRIORITY_ISSUE
    args: dict[str, object] = field(default_factory=dict)


class NoKindFits(Exception):
    """No kind asked for, nor any of the property's, can be carried by all the doors. Not retriable as asked."""


class NoDoors(Exception):
    """The rooms have no lock at this installation. Not retriable until devices are registered."""


def begin(batch: KeyBatch, place: House, request: KeyRequest, cause: Cause) -> KeyCredential:
    """Adds the credential in state `requested` and starts its saga, or leaves it waiting for room, desk or identity.

    Inside the tenant's block. Raises NoKindFits, NoDoors.
    """
    facts, ordered, kind = choose(batch.tenant_id, place, request)
    manifest = adapters.manifest(request.installation.vendor)
    window = request.window if request.grace_included else place.policy.widen(request.window)
    waiting = _waiting_for(place, request, facts, kind, kind in manifest.desk_kinds)
    key = KeyCredential(
        id=new_id("key"),
        tenant_id=batch.tenant_id,
        property_id=place.property_id,
        installation_id=request.installation.id,
        vendor=request.installation.vendor,
        reservation_id=request.reservation_id,
        incarnation=request.incarnation,
        ordinal=request.ordinal,
        holder_kind=request.holder_kind,
        holder_id=request.holder_id,
        kind=kind.value,
        preferred_kinds=[item.value for item in ordered],
        intent=request.intent.value,
        rooms=list(request.rooms),
        floors=list(request.floors),
        areas=areas_of(facts),
        valid_from=window.valid_from,
        valid_until=window.valid_until,
        ends_at=window.valid_until,
        waiting_for=waiting,
        capabilities=_snapshot(facts),
        issue_key=request.issue_key,
        replaces=request.replaces,
        requested_by=request.requested_by,
        channel_hint=request.channel_hint,
        requested_at=batch.now,
        warnings=[{"code": code, "detail": detail} for code, detail in request.notices],
    )
    doors = [new_door(key, device, request.installation) for device in facts]
    _inherit_old_rooms(batch, key, doors)
    batch.add(key, doors, cause)
    old_rooms.watch(batch, key, cause)
    if not waiting:
        launch(batch, place, key, cause, priority=request.priority, args=request.args)
    return key


def choose(
    tenant_id: str, place: House, request: KeyRequest
) -> tuple[list[DeviceFacts], tuple[CredentialKind, ...], CredentialKind]:
    """Returns the doors of a key that is asked for, the kinds that may be given, best first, and the one that is.

    Inside the tenant's block. Raises NoKindFits, NoDoors.
    """
    facts = doors_for(tenant_id, place, request.installation, request.rooms, request.areas, areas_only=request.areas_only)
    manifest = adapters.manifest(request.installation.vendor)
    ordered = place.policy.order_kinds(request.preferred_kinds, request.channel_hint)
    if request.only_preferred:
        ordered = tuple(kind for kind in ordered if kind in request.preferred_kinds)
    ordered = tuple(kind for kind in ordered if kind in manifest.kinds)
    kind = choose_kind(ordered, [d.capabilities for d in facts], manifest.desk_kinds, at_kiosk=request.channel_hint == "kiosk")
    if not request.rooms and not request.areas_only and kind is None and ordered:
        kind = ordered[0]
    if kind is None:
        raise NoKindFits(f"no kind fits {len(facts)} doors of {request.installation.id}")
    return facts, ordered, kind


def can_give(place: House, key: KeyCredential) -> bool:
    """Says whether the doors of a key are all known, and carry some kind that may be given. Inside the tenant's block."""
    request = KeyRequest(
        installation=selectors.installation(key.tenant_id, key.installation_id),
        rooms=tuple(key.rooms),
        window=Window(key.valid_from, key.valid_until),
        issue_key="",
        holder_id=key.holder_id,
        preferred_kinds=(CredentialKind(key.kind),),
        areas=tuple(key.areas),
        areas_only=not key.rooms and key.waiting_for != ROOM,
    )
    try:
        choose(key.tenant_id, place, request)
    except (NoDoors, NoKindFits):
        return False
    return True


def launch(
    batch: KeyBatch,
    place: House,
    key: KeyCredential,
    cause: Cause,
    *,
    priority: int = PRIORITY_ISSUE,
    args: dict[str, object] | None = None,
) -> None:
    """Starts the saga of a key that waits for nobody any more; not before `vendor_is_called_at`."""
    key.waiting_for = ""
    batch.touch(key)
    lead = vendor_is_called_at(place, key)
    batch.start(
        Start(
            flow=FLOW,
            key=key.issue_key,
            lane=first_lane(batch, key),
            lane_width=lane_width(batch, key),
            installation_id=key.installation_id,
            credential_id=key.id,
            reservation_id=key.reservation_id,
            priority=priority,
            timer=lead if lead is not None and lead > batch.now else None,
            args=args or {},
        ),
        cause,
    )


def vendor_is_called_at(place: House, key: KeyCredential) -> datetime | None:
    """Returns the instant (hotel clock) before which the key is not made, None for at once: by the policy's lead, and not
    before the stay begins where a key made ahead could be outranked by one that is made later and used sooner."""
    outranks = CredentialKind(key.kind) in adapters.manifest(key.vendor).outranking_kinds
    return key.valid_from if outranks else place.policy.call_vendor_at(key.valid_from)


def go_on(batch: KeyBatch, place: House, key: KeyCredential, cause: Cause, *, id_verified: bool = False) -> None:
    """Lets a key that got its room wait for identity or desk, or launches it."""
    manifest = adapters.manifest(key.vendor)
    kind = CredentialKind(key.kind)
    needs_id = place.policy.require_id_verification and kind in PHONE_AND_PIN and not id_verified and key.reservation_id
    if needs_id or kind in manifest.desk_kinds:
        key.waiting_for = IDENTITY if needs_id else DESK
        batch.touch(key)
        return
    launch(batch, place, key, cause)


def take_card(key: KeyCredential, number: CardNumber) -> None:
    """Seals a card's number into the key (not flushed: saved at once, under the caller's lock)."""
    key.card_number_sealed = crypto.seal("artifact", key.tenant_id, _card_place(key), number.reveal())
    KeyCredential.objects.filter(tenant_id=key.tenant_id, id=key.id).update(card_number_sealed=key.card_number_sealed)


def card_of(key: KeyCredential) -> CardNumber | None:
    """Opens the number of the card that the key is on; None where it is not known."""
    if key.card_number_sealed is None:
        return None
    return CardNumber(crypto.unseal("artifact", key.tenant_id, _card_place(key), key.card_number_sealed))


def _card_place(key: KeyCredential) -> tuple[str, str, str]:
    return ("credentials_keycredential", key.id, "card_number_sealed")


def doors_for(
    tenant_id: str,
    place: House,
    installation: InstallationFacts,
    rooms: Sequence[str],
    areas: Sequence[str] | None,
    *,
    areas_only: bool = False,
) -> list[DeviceFacts]:
    """Returns the doors a key for these rooms opens: their own, and shared ones of its areas; without rooms none, but for a key
    of shared areas only. Raises NoDoors."""
    devices = [d for d in selectors.property_devices(tenant_id, place.property_id) if d.installation_id == installation.id]
    wanted = set(areas) if areas is not None else {area.value for area in place.policy.default_areas}
    wanted |= {area.value for area in place.policy.default_areas}
    own = [d for d in devices if not d.shared and set(d.rooms) & set(rooms)]
    missing = set(rooms) - {room for d in own for room in d.rooms}
    if missing:
        raise NoDoors(f"{len(missing)} rooms have no lock at {installation.id}")
    return own + [d for d in devices if d.shared and set(d.areas) & wanted] if rooms or areas_only else []


def areas_of(facts: Sequence[DeviceFacts]) -> list[str]:
    """Returns the areas that the shared ones of these doors lead to, as far as the port knows such an area."""
    return sorted({area for device in facts if device.shared for area in device.areas if area in set(Area)})


def new_door(key: KeyCredential, device: DeviceFacts, installation: InstallationFacts) -> CredentialDoor:
    """Makes a door row for a key (not saved)."""
    lane, _ = selectors.lane_of(installation, adapters.manifest(installation.vendor), device.gateway)
    room = next((room for room in device.rooms if room in key.rooms), "") if not device.shared else ""
    return CredentialDoor(tenant_id=key.tenant_id, credential_id=key.id, device_id=device.id, room_id=room, lane=lane)


def first_lane(batch: KeyBatch, key: KeyCredential) -> str:
    """Returns the lane a key's saga starts in: its first room's door, else any door, else the installation's own."""
    doors = batch.doors_at(key)
    ordered = sorted(doors, key=lambda door: (door.dropped, not door.room_id))
    return ordered[0].lane if ordered else f"{key.installation_id}:"


def lane_width(batch: KeyBatch, key: KeyCredential) -> int:
    """Returns the parallel calls the key's first lane allows."""
    facts = selectors.installation(key.tenant_id, key.installation_id)
    lane = first_lane(batch, key)
    return selectors.lane_of(facts, adapters.manifest(key.vendor), lane.partition(":")[2])[1]


def _inherit_old_rooms(batch: KeyBatch, key: KeyCredential, doors: Sequence[CredentialDoor]) -> None:
    """What takes the place of a key in a room that the stay has left is there for as long as that key was to be, whatever lock
    the room has now."""
    kept = {door.room_id for door in batch.doors.get(key.replaces or "", ()) if door.old_room == KEPT and not door.dropped}
    for door in doors:
        if door.room_id in kept:
            door.old_room = KEPT


def _waiting_for(
    place: House, request: KeyRequest, facts: Sequence[DeviceFacts], kind: CredentialKind, needs_desk: bool
) -> str:
    if not facts or not (request.rooms or request.areas_only):
        return ROOM
    if place.policy.require_id_verification and kind in PHONE_AND_PIN and not request.id_verified and request.reservation_id:
        return IDENTITY
    return DESK if needs_desk and not request.desk_present else ""


def _snapshot(facts: Sequence[DeviceFacts]) -> dict[str, bool]:
    """What all the doors could do when the key was asked for."""
    names = facts[0].capabilities.__dataclass_fields__ if facts else ()
    return {name: all(getattr(d.capabilities, name) for d in facts) for name in names}


def booking_issue_key(reservation_id: str, incarnation: int) -> str:
    """Returns the issue key of a booking's incarnation, the same at every installation: sha256(id + 'issue' + 'v' + n)."""
    return sha256_key(reservation_id, "issue", f"v{incarnation}")
