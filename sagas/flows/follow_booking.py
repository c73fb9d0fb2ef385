"""Follows a booking: brings the keys of a reservation to what its newest version says.

One rule: the projection decides, not the order of events. Each event carries the whole reservation, so the difference between
what the keys are and what they should be is all there is to do.
"""

from __future__ import annotations

from datetime import timedelta

from credentials.house import House, house
from credentials.lifecycle import LIVE, State
from credentials.models import KeyCredential, Reservation
from credentials.reservations import CANCELLED, CONFIRMED, ENDED, FRAUD, NO_SHOW, UnusableBooking
from credentials.services import KeyBatch
from devices import selectors
from devices.selectors import InstallationFacts
from sagas.flows import issue_key, rest_key, revoke_key, update_key
from sagas.intake import PRIORITY_CHECKOUT, Start, internal_lane, own_key, sha256_key
from sagas.outbox import Cause
from vendors.port.types import CredentialKind, Intent, RevokeReason, SuspendReason, Window

NO_SHOW_FLOW = "no_show"


def follow(batch: KeyBatch, row: Reservation, before: str | None, event_id: str, cause: Cause, *, is_open: bool = True) -> None:
    """Starts whatever the newest version asks for. The projection and all keys of the reservation are locked.

    `is_open` says whether the property is in operation (`locks.open_properties`): one that is not gives no new key.
    Raises UnusableBooking for a room without a lock, or when no kind of key fits its doors.
    """
    place = house(batch.tenant_id, row.property_id)
    if row.status in ENDED:
        _end(batch, row, event_id, cause)
        return
    try:
        _match_rooms(batch, place, row, event_id, cause, is_open=is_open)
    except issue_key.NoDoors as error:
        raise UnusableBooking("UNKNOWN_ROOM", f"rooms: {error}") from error
    except issue_key.NoKindFits as error:
        raise UnusableBooking("NO_KIND_FITS", str(error)) from error
    _rest_or_resume(batch, place, row, before, event_id, cause)


def run_no_show(batch: KeyBatch, row: Reservation | None, saga_id: str, cause: Cause) -> None:
    """The delayed part of a no-show: re-reads the booking, and suspends its keys if the guest still has not come."""
    if row is None or row.status != NO_SHOW:
        return
    for key in _live(batch, row):
        suspend_soon(batch, key, SuspendReason.NO_SHOW, own_key("no-show", saga_id, key.id), cause)


def suspend_soon(batch: KeyBatch, key: KeyCredential, reason: SuspendReason, saga_key: str, cause: Cause) -> None:
    """Suspends an active key; a key on its way is suspended as soon as it is active."""
    if rest_key.suspend(batch, key, reason, saga_key, cause) or key.state not in (State.REQUESTED, State.PENDING):
        return
    batch.start(
        Start(
            flow=rest_key.SUSPEND,
            key=saga_key,
            lane=issue_key.first_lane(batch, key),
            lane_width=issue_key.lane_width(batch, key),
            installation_id=key.installation_id,
            credential_id=key.id,
            reservation_id=key.reservation_id,
            priority=PRIORITY_CHECKOUT,
            args={"suspendWhenActive": reason.value},
        ),
        cause,
    )


def _end(batch: KeyBatch, row: Reservation, event_id: str, cause: Cause) -> None:
    reason = RevokeReason.CANCELLATION if row.status == CANCELLED else RevokeReason.CHECKOUT
    for key in batch.of_stay(row.reservation_id):
        revoke_key.begin(batch, key, reason, sha256_key(event_id, key.id, "revoke"), cause, trigger=row.status)


def _match_rooms(batch: KeyBatch, place: House, row: Reservation, event_id: str, cause: Cause, *, is_open: bool) -> None:
    groups = _group_rooms(batch.tenant_id, place, row)
    window = Window(row.valid_from, row.valid_until)
    live = _live(batch, row)
    resting = _resting(live, row)
    for key in live:
        if key.waiting_for == issue_key.ROOM and key.installation_id not in groups and len(groups) == 1:
            _rehome(key, next(iter(groups.values()))[0])
        if key.installation_id in groups:
            rooms = groups[key.installation_id][1]
            saga_key = sha256_key(row.reservation_id, "update", str(row.version))
            if key.ordinal:
                saga_key = own_key("update-additional", row.reservation_id, str(row.version), key.id)
            _update(batch, place, key, saga_key, cause, window, rooms, row)
        else:
            saga_key = sha256_key(event_id, key.id, "revoke")
            revoke_key.begin(batch, key, RevokeReason.REPLACED, saga_key, cause, trigger="room_moved")
    for installation, rooms in groups.values() if is_open else ():
        _issue_if_missing(batch, place, row, installation, rooms, window, cause)
    if resting is not None:
        known = {key.id for key in live}
        for key in [key for key in _live(batch, row) if key.id not in known]:
            saga_key = own_key("moved-resting", row.reservation_id, str(row.version), key.id)
            suspend_soon(batch, key, resting, saga_key, cause)


def _resting(live: list[KeyCredential], row: Reservation) -> SuspendReason | None:
    """Returns why a key of the stay rests: a room on another lock system wakes nobody's key."""
    reasons = [SuspendReason(key.suspend_reason) for key in live if key.state == State.SUSPENDED and not key.resuming]
    lasting = [reason for reason in reasons if reason is not SuspendReason.NO_SHOW or row.status == NO_SHOW]
    return lasting[0] if lasting else None


def _update(
    batch: KeyBatch,
    place: House,
    key: KeyCredential,
    saga_key: str,
    cause: Cause,
    window: Window,
    rooms: tuple[str, ...],
    row: Reservation,
) -> None:
    areas = tuple(row.areas) if row.areas is not None else None
    try:
        update_key.begin(batch, place, key, saga_key, cause, window=window, rooms=rooms, areas=areas)
    except update_key.WindowOver:
        # the stay was shortened into the past: the key is over
        revoke_key.begin(
            batch, key, RevokeReason.CHECKOUT, own_key("shortened", saga_key, key.id), cause, trigger="window_ended"
        )


def _issue_if_missing(
    batch: KeyBatch,
    place: House,
    row: Reservation,
    installation: InstallationFacts,
    rooms: tuple[str, ...],
    window: Window,
    cause: Cause,
) -> None:
    ours = [
        k
        for k in batch.of_stay(row.reservation_id)
        if k.incarnation == row.incarnation and k.installation_id == installation.id and not k.ordinal
    ]
    if any(key.state in LIVE for key in ours):
        return
    moved_away = [key for key in ours if key.revoke_reason == RevokeReason.REPLACED and not key.replaced_by]
    if len(moved_away) < len(ours):
        return  # a person or a failure ended this key: a booking event does not bring it back
    if place.policy.widen(window).valid_until <= batch.now:
        return
    key = issue_key.booking_issue_key(row.reservation_id, row.incarnation)
    if moved_away:
        key = own_key("moved-back", row.reservation_id, str(row.incarnation), installation.id, str(row.version))
    issue_key.begin(batch, place, _request(row, installation, rooms, window, key), cause)


def _request(
    row: Reservation, installation: InstallationFacts, rooms: tuple[str, ...], window: Window, key: str
) -> issue_key.KeyRequest:
    return issue_key.KeyRequest(
        installation=installation,
        rooms=rooms,
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


def _group_rooms(tenant_id: str, place: House, row: Reservation) -> dict[str, tuple[InstallationFacts, tuple[str, ...]]]:
    """Sorts the rooms by installation; a booking without rooms belongs to the property's first installation."""
    installations = {facts.id: facts for facts in selectors.property_installations(tenant_id, place.property_id)}
    if not installations:
        raise UnusableBooking("UNKNOWN_PROPERTY", "propertyId: no lock system is installed there")
    if not row.rooms:
        first = next(iter(installations.values()))
        return {first.id: (first, ())}
    groups: dict[str, list[str]] = {}
    for room in row.rooms:
        homes = {
            device.installation_id
            for device in selectors.property_devices(tenant_id, place.property_id)
            if room in device.rooms and not device.shared
        }
        if not homes:
            raise UnusableBooking("UNKNOWN_ROOM", "rooms: a room has no lock")
        for home in sorted(homes):
            groups.setdefault(home, []).append(room)
    return {home: (installations[home], tuple(rooms)) for home, rooms in groups.items() if home in installations}


def _rehome(key: KeyCredential, installation: InstallationFacts) -> None:
    """Moves a key that waits for its room to the installation the room turned out to be on."""
    key.installation_id, key.vendor = installation.id, installation.vendor
    KeyCredential.objects.filter(tenant_id=key.tenant_id, id=key.id).update(
        installation_id=installation.id, vendor=installation.vendor
    )


def _rest_or_resume(batch: KeyBatch, place: House, row: Reservation, before: str | None, event_id: str, cause: Cause) -> None:
    if row.status == NO_SHOW:
        due = row.updated_at + timedelta(hours=place.policy.no_show_suspend_after_hours)
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
            suspend_soon(batch, key, SuspendReason.FRAUD_REVIEW, saga_key, cause)
    elif row.status == CONFIRMED and before == NO_SHOW:
        for key in _live(batch, row):
            # One whose window is over is left to the sweep, which ends it.
            if key.suspend_reason == SuspendReason.NO_SHOW and key.valid_until > batch.now:
                rest_key.unsuspend(batch, key, own_key("guest-came", event_id, key.id), cause)


def _live(batch: KeyBatch, row: Reservation) -> list[KeyCredential]:
    return [key for key in batch.of_stay(row.reservation_id) if key.state in LIVE and key.incarnation == row.incarnation]
