"""Follows a booking: brings the keys of a reservation to what its newest version says.

One rule: the projection decides, not the order of events. Each event carries the whole reservation, so the difference between
what the keys are and what they should be is all there is to do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from credentials import held_shut, stay_notices
from credentials.house import House, house
from credentials.lifecycle import COMES_BACK, LIVE, WINDOW_ENDED, State
from credentials.models import KeyCredential, Reservation
from credentials.reservations import CANCELLED, CONFIRMED, ENDED, FRAUD, NO_SHOW
from credentials.services import KeyBatch
from devices import selectors
from devices.selectors import InstallationFacts
from sagas import limits
from sagas.alerts import NewAlert
from sagas.flows import (
    companions,
    fall_back,
    follow_rest,
    guest_came,
    issue_key,
    old_rooms,
    rest_key,
    revoke_key,
    room_move,
    shared_rooms,
    shortfalls,
    update_key,
)
from sagas.intake import PRIORITY_CHECKOUT, PRIORITY_ISSUE, Start, internal_lane, own_key, sha256_key
from sagas.outbox import Cause
from vendors.port.types import CredentialKind, Intent, RevokeReason, SuspendReason, Window

NO_SHOW_FLOW = "no_show"


@dataclass(frozen=True, slots=True)
class Home:
    """The part of a stay that one lock system opens: its rooms there, or shared doors alone."""

    installation: InstallationFacts
    rooms: tuple[str, ...]
    areas_only: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """What a key of a stay is to be now. `window` has its grace; `areas` None means the policy's."""

    rooms: tuple[str, ...]
    window: Window
    areas: tuple[str, ...] | None
    floors: tuple[str, ...]
    areas_only: bool = False


def follow(
    batch: KeyBatch,
    row: Reservation,
    before: str | None,
    event_id: str,
    cause: Cause,
    *,
    is_open: bool = True,
    again: str = "",
    was: Window | None = None,
) -> None:
    """Starts whatever the newest version asks for. The projection and all keys of the reservation are locked.

    `is_open` says whether the property is in operation (`locks.open_properties`): one that is not gives no new key. `again`
    names the occasion on which a version that was followed before is followed once more. `was` is the stay's time before,
    where it may have changed. What cannot be given is told, and costs only itself.
    """
    place = house(batch.tenant_id, row.property_id)
    warned = list(row.warnings)
    if row.status != NO_SHOW:
        stay_notices.clear(row, [stay_notices.NO_SHOW_CONTRADICTED])
    if row.status in ENDED:
        row.warnings = []
        if warned:
            stay_notices.save(row)
        _end(batch, row, event_id, cause)
        return
    over = _end_turned_over(batch, place, row, was.valid_until, cause) if is_open and was is not None else []
    _match_rooms(batch, place, row, event_id, cause, is_open=is_open, again=again, over=over, was=was)
    _rest_or_resume(batch, place, row, before, event_id, cause)
    if was is not None and row.valid_from < was.valid_from:
        _give_beside(batch, row, was.valid_from, cause)
    if row.warnings != warned:
        stay_notices.save(row)


def run_no_show(batch: KeyBatch, row: Reservation | None, saga_id: str, cause: Cause) -> None:
    """The delayed part of a no-show: re-reads the booking, and suspends its keys if nothing shows that the guest has come."""
    if row is None or row.status != NO_SHOW or guest_came.tell(batch, row):
        return
    for key in _live(batch, row):
        rest_key.suspend_soon(batch, key, SuspendReason.NO_SHOW, own_key("no-show", saga_id, key.id), cause)


def shape_of(batch: KeyBatch, row: Reservation, key: KeyCredential) -> Shape | None:
    """Returns what a key that takes a failed one's place is to be: what the newest version says, or less where less was asked
    for and no version came since. None when the stay has nothing at its lock system any more.

    The stay's keys are in the batch.
    """
    place = house(batch.tenant_id, row.property_id)
    home = _home_for(batch, key, homes_of(batch.tenant_id, place, row))
    if home is None:
        return None
    window = place.policy.widen(Window(row.valid_from, row.valid_until))
    is_within = set(key.rooms) <= set(home.rooms) and (bool(key.rooms) or not home.rooms)
    is_within = is_within and window.valid_from <= key.valid_from and key.valid_until <= window.valid_until
    if is_within and key.ended_at is not None and row.updated_at < key.ended_at:
        own = Window(key.valid_from, key.valid_until)
        return Shape(tuple(key.rooms), own, tuple(key.areas), tuple(key.floors), home.areas_only)
    areas = tuple(row.areas) if row.areas is not None else None
    return Shape(home.rooms, window, areas, tuple(row.floors), home.areas_only)


def bring(batch: KeyBatch, row: Reservation, key: KeyCredential, saga_key: str, cause: Cause) -> None:
    """Brings one live key to what the newest version says. The projection and the stay's keys are locked."""
    place = house(batch.tenant_id, row.property_id)
    home = _home_for(batch, key, homes_of(batch.tenant_id, place, row))
    if home is None:
        room_move.leave(batch, place, key, Window(row.valid_from, row.valid_until), saga_key, cause)
        return
    old_rooms.come_back(batch, key)
    _update(batch, place, key, saga_key, cause, Window(row.valid_from, row.valid_until), home, row)


def _end(batch: KeyBatch, row: Reservation, event_id: str, cause: Cause) -> None:
    reason = RevokeReason.CANCELLATION if row.status == CANCELLED else RevokeReason.CHECKOUT
    for key in batch.of_stay(row.reservation_id):
        revoke_key.begin(batch, key, reason, sha256_key(event_id, key.id, "revoke"), cause, trigger=row.status)


def _end_turned_over(batch: KeyBatch, place: House, row: Reservation, was_until: datetime, cause: Cause) -> list[KeyCredential]:
    """Where a stay goes on for longer than it was to, ends those of its keys that the next guest's has ended at their doors,
    or will: they are over by time, and the booking gives others. Returns them."""
    ends = place.policy.widen(Window(row.valid_from, row.valid_until)).valid_until
    if row.valid_until <= was_until or ends <= batch.now:
        return []
    over = [
        key for key in _live(batch, row)
        if key.state in (State.ACTIVE, State.SUSPENDED) and shared_rooms.has_next_guest(batch, key, was_until)
    ]  # fmt: skip
    for key in over:
        revoke_key.begin(
            batch, key, RevokeReason.REPLACED, own_key("turned-over", key.id, str(row.version)), cause, trigger=WINDOW_ENDED
        )
    if over:
        batch.flush()  # one live key per intended key: the old one is over first
    return over


def _give_beside(batch: KeyBatch, row: Reservation, was_from: datetime, cause: Cause) -> None:
    """Where a stay begins earlier than it was to, has keys of guests who are still there given again: this stay's were made to
    end them."""
    for key in _live(batch, row):
        others = shared_rooms.outranked(batch, key, was_from)
        companions.reissue_beside(batch, key, others, PRIORITY_ISSUE, cause)


def _match_rooms(
    batch: KeyBatch,
    place: House,
    row: Reservation,
    event_id: str,
    cause: Cause,
    *,
    is_open: bool,
    again: str,
    over: list[KeyCredential],
    was: Window | None,
) -> None:
    homes = homes_of(batch.tenant_id, place, row)
    missing, has_locks = rooms_without_lock(batch.tenant_id, place, row)
    shortfalls.tell_rooms(batch, place, row, missing, has_locks=has_locks)
    window = Window(row.valid_from, row.valid_until)
    batch.alerts += limits.beyond_policy(place.policy, row.reservation_id, row.property_id, window, len(row.rooms))
    live = _live(batch, row)
    left = [key for key in over if key.installation_id not in homes]
    for key in live:
        _rehome_waiting(batch, key, homes)
        home = _home_for(batch, key, homes)
        if home is None:
            room_move.leave(batch, place, key, window, sha256_key(event_id, key.id, "revoke"), cause)
            left.append(key)
            continue
        old_rooms.come_back(batch, key)
        if key.ordinal and key.rooms and home.areas_only:
            left.append(key)  # a companion's, who keeps it for the shared doors
        saga_key = sha256_key(row.reservation_id, "update", str(row.version))
        if key.ordinal or again:
            saga_key = own_key("update-additional", row.reservation_id, str(row.version), key.id, *filter(None, [again]))
        _update(batch, place, key, saga_key, cause, window, home, row)
    unfit: list[str] = []
    moved: dict[str, KeyCredential] = {}
    for home in homes.values() if is_open else ():
        try:
            _issue_if_missing(batch, place, row, home, was, cause)
        except (issue_key.NoKindFits, issue_key.NoDoors):
            unfit += home.rooms
        for key in left:
            further = _issue_further(batch, place, row, home, key, cause) if key.ordinal and home.rooms else None
            if further is not None:
                moved[further.id] = key
        _give_others(
            batch, place, row, home, [k for k in over if k.ordinal and k.installation_id == home.installation.id], cause
        )
    shortfalls.tell_kinds(batch, row, unfit)
    follow_rest.keep_all(batch, row, [*live, *over], moved, cause)


def _rehome_waiting(batch: KeyBatch, key: KeyCredential, homes: dict[str, Home]) -> None:
    """A key that waited for its room is for the lock system that the room turned out to be on. Where the stay had such a key
    there before, this one is left, and another is given as to a stay that moves back."""
    with_rooms = [home for home in homes.values() if not home.areas_only]
    here = homes.get(key.installation_id)
    if key.waiting_for != issue_key.ROOM or (here is not None and not here.areas_only) or len(with_rooms) != 1:
        return
    there = with_rooms[0].installation
    place = (there.id, key.incarnation, key.ordinal)
    stay = batch.of_stay(str(key.reservation_id))
    if all((other.installation_id, other.incarnation, other.ordinal) != place for other in stay):
        _rehome(key, there)


def _home_for(batch: KeyBatch, key: KeyCredential, homes: dict[str, Home]) -> Home | None:
    """Returns the part of the stay a live key is for: its own installation's, and those of what it stands in for."""
    own = () if _is_further(batch, key) else (key.installation_id,)
    parts = [homes[here] for here in (*own, *_stood_in_for(batch, key)) if here in homes]
    fitting = [part for part in parts if part.installation.id == key.installation_id or _reaches(key, part.rooms)]
    with_rooms = [part for part in fitting if not part.areas_only]
    if len(with_rooms) < 2:
        return next(iter([*with_rooms, *fitting]), None)
    return Home(with_rooms[0].installation, tuple(dict.fromkeys(room for part in with_rooms for room in part.rooms)))


def _is_further(batch: KeyBatch, key: KeyCredential) -> bool:
    """Says whether the key only stands in: another one of the stay had its place at this installation already."""
    first = key
    while first.replaces in batch.keys:
        first = batch.keys[str(first.replaces)]
    return first.installation_id != key.installation_id and first.ordinal != key.ordinal


def _stood_in_for(batch: KeyBatch, key: KeyCredential) -> list[str]:
    """Returns the other installations whose keys of the stay ended in favour of this one."""
    others = (other for other in batch.of_stay(str(key.reservation_id)) if other.incarnation == key.incarnation)
    ended = {other.installation_id for other in others if other.state not in LIVE and _newest(batch, other) is key}
    return sorted(ended - {key.installation_id})


def _reaches(key: KeyCredential, rooms: tuple[str, ...]) -> bool:
    devices = selectors.property_devices(key.tenant_id, key.property_id)
    here = {room for d in devices if d.installation_id == key.installation_id and not d.shared for room in d.rooms}
    return set(rooms) <= here


def _update(
    batch: KeyBatch,
    place: House,
    key: KeyCredential,
    saga_key: str,
    cause: Cause,
    window: Window,
    home: Home,
    row: Reservation,
) -> None:
    areas = tuple(row.areas) if row.areas is not None else None
    try:
        update_key.begin(
            batch, place, key, saga_key, cause, window=window, rooms=home.rooms, areas=areas, areas_only=home.areas_only
        )
    except update_key.WindowOver:
        # the stay was shortened into the past: the key is over
        revoke_key.begin(batch, key, RevokeReason.CHECKOUT, own_key("shortened", saga_key, key.id), cause, trigger=WINDOW_ENDED)


def _issue_if_missing(batch: KeyBatch, place: House, row: Reservation, home: Home, was: Window | None, cause: Cause) -> None:
    installation, window = home.installation, Window(row.valid_from, row.valid_until)
    ours = [
        _newest(batch, k)
        for k in batch.of_stay(row.reservation_id)
        if k.incarnation == row.incarnation and k.installation_id == installation.id and not k.ordinal
    ]
    opens = [key for key in ours if key.installation_id == installation.id or set(home.rooms) <= set(key.rooms)]
    if any(key.state in LIVE for key in opens):
        return
    open_again = [key for key in ours if key.state in LIVE or key.end_trigger in COMES_BACK]
    failed = [key for key in ours if key not in open_again and _failed_for_another(key, home, place.policy.widen(window))]
    if len(open_again) + len(failed) < len(ours):
        # a person ended this key, or what is asked for has failed already: a booking event does not bring it back
        if was is not None and held_shut.is_held(ours[-1]):
            _give_others(batch, place, row, home, _ended_at(batch, place, row, home, was, ours[-1]), cause)
        return
    if place.policy.widen(window).valid_until <= batch.now:
        return
    key = issue_key.booking_issue_key(row.reservation_id, row.incarnation)
    if ours:
        key = own_key("moved-back", row.reservation_id, str(row.incarnation), installation.id, str(row.version), ours[-1].id)
    request = _request(row, home, window, key)
    over = [key for key in ours if key.end_trigger == WINDOW_ENDED and key.state not in LIVE]
    before = [*over, *failed]
    try:
        made = issue_key.begin(batch, place, replace(request, replaces=before[-1].id) if before else request, cause)
    except issue_key.NoKindFits as error:
        if not home.areas_only:
            raise
        detail = f"no kind of key fits the shared doors of a lock system: {error}"  # the rooms open all the same
        batch.alerts.append(
            NewAlert(f"areas:{installation.id}", "KEY_ISSUE_FAILED", "warning", detail, "lock/key-issue", place.property_id)
        )
        return
    for old in before:
        _succeed(batch, made, old)
    _give_others(batch, place, row, home, _ended_with(batch, over), cause)


def _give_others(batch: KeyBatch, place: House, row: Reservation, home: Home, over: list[KeyCredential], cause: Cause) -> None:
    for further in over:
        successor = _issue_further(batch, place, row, home, further, cause) if not further.replaced_by else None
        if successor is not None:
            _succeed(batch, successor, further)


def _succeed(batch: KeyBatch, made: KeyCredential, old: KeyCredential) -> None:
    old.replaced_by = made.id
    batch.touch(old)


def _ended_with(batch: KeyBatch, first: list[KeyCredential]) -> list[KeyCredential]:
    """Returns the companions' keys that ended when their stay's first keys did, by time: the booking brings them back together.
    One that a person made for a shorter time stays over."""
    stay = [key for old in first[-1:] for key in batch.of_stay(str(old.reservation_id)) if key.incarnation == old.incarnation]
    over = [key for key in stay if key.ordinal and key.state not in LIVE and key.end_trigger == WINDOW_ENDED]
    over = [key for key in over if not key.replaced_by and key.installation_id == first[-1].installation_id]
    return [key for key in over if key.valid_until >= first[-1].valid_until]


def _ended_at(
    batch: KeyBatch, place: House, row: Reservation, home: Home, was: Window, first: KeyCredential
) -> list[KeyCredential]:
    """Returns the companions' keys that ended when their stay did: before their own time, with its, or with the time that the
    first one had. What a person did to the first one is not said of them. One that she gave a shorter time stays over."""
    until = place.policy.widen(was).valid_until
    stay = [key for key in batch.of_stay(row.reservation_id) if key.ordinal and key.incarnation == row.incarnation]
    over = [key for key in stay if key.state not in LIVE and key.end_trigger == WINDOW_ENDED and not key.replaced_by]
    here = [key for key in over if key.installation_id == home.installation.id]
    return [
        key for key in here
        if (key.ended_at and key.ended_at < key.valid_until)
        or was.valid_until <= key.valid_until <= until
        or key.valid_until == first.valid_until
    ]  # fmt: skip


def _issue_further(
    batch: KeyBatch, place: House, row: Reservation, home: Home, key: KeyCredential, cause: Cause
) -> KeyCredential | None:
    """Give a companion, whose key opens the rooms that the stay has left or is over, one for the rooms of the stay. None where
    she has one, or none can be given."""
    here = [k for k in batch.of_stay(row.reservation_id) if k.installation_id == home.installation.id]
    same = next((k for k in here if k.state in LIVE and k.ordinal == key.ordinal), None)
    if same is not None and (same.replaces == key.id or key.replaces == same.id):
        return None
    ordinal = key.ordinal if same is None else max(k.ordinal for k in here) + 1
    window = Window(row.valid_from, row.valid_until)
    if place.policy.widen(window).valid_until <= batch.now:
        return None
    request = replace(
        _request(row, home, window, own_key("moved-further", key.id, str(row.version), home.installation.id)),
        holder_id=key.holder_id,
        ordinal=ordinal,
        preferred_kinds=tuple(dict.fromkeys(CredentialKind(kind) for kind in (key.kind, *key.preferred_kinds))),
        intent=Intent.ADDITIONAL,
        replaces=key.id if same is None else None,
        requested_by=key.requested_by,
        channel_hint=key.channel_hint,
        id_verified=True,
    )
    try:
        return issue_key.begin(batch, place, request, cause)
    except (issue_key.NoKindFits, issue_key.NoDoors) as error:
        detail = f"a further key of the stay has no counterpart in the new room: {error}"
        moved = f"moved:{key.id}:{row.version}"
        batch.alerts.append(NewAlert(moved, "KEY_ISSUE_FAILED", "warning", detail, "lock/key-issue", place.property_id, key.id))
        return None


def _failed_for_another(key: KeyCredential, home: Home, window: Window) -> bool:
    """Says whether the key failed at other rooms or dates than the stay has now; neither called off, nor about to go on."""
    if key.state != State.FAILED or key.revoke_reason or fall_back.is_under_way(key):
        return False
    same_window = (key.valid_from, key.valid_until) == (window.valid_from, window.valid_until)
    return set(key.rooms) != set(home.rooms) or not same_window


def _newest(batch: KeyBatch, key: KeyCredential) -> KeyCredential:
    """Returns the last of the keys that took each other's place, at whatever lock system it is."""
    while key.replaced_by in batch.keys:
        key = batch.keys[str(key.replaced_by)]
    return key


def _request(row: Reservation, home: Home, window: Window, key: str) -> issue_key.KeyRequest:
    return issue_key.KeyRequest(
        installation=home.installation,
        rooms=home.rooms,
        areas_only=home.areas_only,
        window=window,
        issue_key=key,
        holder_id=row.guest_id,
        reservation_id=row.reservation_id,
        incarnation=row.incarnation,
        preferred_kinds=tuple(CredentialKind(kind) for kind in row.preferred_kinds),
        areas=tuple(row.areas) if row.areas is not None else None,
        floors=tuple(row.floors),
        intent=Intent.NEW,
        channel_hint=row.channel_hint,
        id_verified=row.id_verified,
    )


def homes_of(tenant_id: str, place: House, row: Reservation) -> dict[str, Home]:
    """Sorts a stay's rooms and shared areas by lock system; one without rooms belongs to the property's first.

    A room that several reach is opened by each of them, but for the fall-back installation, which waits for an outage. One
    that none reaches is left out.
    """
    installations = {facts.id: facts for facts in selectors.property_installations(tenant_id, place.property_id)}
    if not installations:
        return {}
    if not row.rooms:
        first = next(iter(installations.values()))
        return {first.id: Home(first, ())}
    devices = selectors.property_devices(tenant_id, place.property_id)
    spare = place.policy.fallback_installation_id
    rooms: dict[str, list[str]] = {}
    for room in row.rooms:
        reached_by = {device.installation_id for device in devices if room in device.rooms and not device.shared}
        for home in sorted(reached_by - {spare} or reached_by):
            rooms.setdefault(home, []).append(room)
    wanted = {area.value for area in place.policy.default_areas} | set(row.areas or ())
    shared = {device.installation_id for device in devices if device.shared and set(device.areas) & wanted}
    found = {home: Home(installations[home], tuple(names)) for home, names in rooms.items() if home in installations}
    others = sorted(shared - set(found) - {spare})
    return found | {home: Home(installations[home], (), areas_only=True) for home in others if home in installations}


def rooms_without_lock(tenant_id: str, place: House, row: Reservation) -> tuple[tuple[str, ...], bool]:
    """Returns which of a stay's rooms no lock system opens, and whether the property has any lock system."""
    installations = {facts.id for facts in selectors.property_installations(tenant_id, place.property_id)}
    devices = selectors.property_devices(tenant_id, place.property_id)
    known = {room for d in devices if d.installation_id in installations and not d.shared for room in d.rooms}
    return tuple(room for room in row.rooms if room not in known), bool(installations)


def _rehome(key: KeyCredential, installation: InstallationFacts) -> None:
    """Moves a key that waits for its room to the installation the room turned out to be on."""
    key.installation_id, key.vendor = installation.id, installation.vendor
    KeyCredential.objects.filter(tenant_id=key.tenant_id, id=key.id).update(
        installation_id=installation.id, vendor=installation.vendor
    )


def _rest_or_resume(batch: KeyBatch, place: House, row: Reservation, before: str | None, event_id: str, cause: Cause) -> None:
    if row.status == NO_SHOW:
        if guest_came.tell(batch, row):
            return
        due = follow_rest.no_show_due(place, row)
        saga_key = sha256_key(row.reservation_id, "suspend-noshow", f"v{row.incarnation}", f".{row.version}")
        lane = internal_lane(batch.tenant_id)
        item = Start(
            flow=NO_SHOW_FLOW, key=saga_key, lane=lane, reservation_id=row.reservation_id, priority=PRIORITY_CHECKOUT,
            timer=due if due > batch.now else None,
        )  # fmt: skip
        batch.start(item, cause)
    elif row.status == FRAUD:
        for key in _live(batch, row):
            saga_key = sha256_key(row.reservation_id, "suspend-fraud", f"v{row.incarnation}", f".{row.version}", key.id)
            rest_key.suspend_soon(batch, key, SuspendReason.FRAUD_REVIEW, saga_key, cause)
    elif row.status == CONFIRMED and before == NO_SHOW:
        for key in _live(batch, row):
            rest_key.lift(batch, key, SuspendReason.NO_SHOW, own_key("guest-came", event_id, key.id), cause)


def _live(batch: KeyBatch, row: Reservation) -> list[KeyCredential]:
    return [key for key in batch.of_stay(row.reservation_id) if key.state in LIVE and key.incarnation == row.incarnation]
