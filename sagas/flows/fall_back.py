"""Where a key goes that cannot be given: another kind at the same doors, or another lock system that reaches the same rooms.

| what stands in the way | tried, in this order |
|---|---|
| the kind: no keypad or telephone, memory full, digits refused, lock away | the policy's next kind that all doors can carry |
| the vendor: no answer, quota spent, settings refused, breaker open | the fall-back installation; a card at the desk |

One rule: nothing of the first kind may be left behind. A key that is nowhere for certain changes its kind; any other ends as
failed, whose doors are proven empty as open work, and its successor names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from credentials import artifacts, event_data, notices
from credentials.house import house
from credentials.lifecycle import State
from credentials.models import CredentialDoor, DoorState, KeyCredential
from credentials.policy import choose_kind
from devices import adapters, selectors
from devices.breaker import Standing
from sagas.flows.settle_doors import rest_pin
from sagas.intake import Start, internal_lane, own_key
from sagas.models import Saga, SagaStatus
from sagas.steps import StepContext, Work
from vendors.port.errors import Reason
from vendors.port.types import CredentialKind

FLOW = "fall_back"
SINCE = "outageSince"
NEAR: Final = timedelta(hours=24)
"""A guest who arrives later than this waits for the vendor: most outages are over by then."""

OF_THE_KIND = frozenset(
    {
        Reason.KIND_UNSUPPORTED,
        Reason.NO_PHONE,
        Reason.DOOR_FULL,
        Reason.PIN_REFUSED,
        Reason.DOOR_OFFLINE,
        Reason.BUSY,
        Reason.OTHER,
    }
)
_AT_ONCE = frozenset({Reason.KIND_UNSUPPORTED, Reason.NO_PHONE, Reason.DOOR_FULL})
_NO_WAY_ROUND = frozenset({"DEVICE_NOT_PAIRED", "CREDENTIAL_EXPIRED", "CARD_ENCODER_OFFLINE"})


@dataclass(frozen=True, slots=True)
class Way:
    """Where a key may go on: kinds in order, at an installation."""

    installation_id: str
    kinds: tuple[CredentialKind, ...]


def is_at_once(reason: Reason) -> bool:
    """Says whether a refusal ends the kind without further tries."""
    return reason in _AT_ONCE


def is_outage(code: str, reason: str) -> bool:
    """Says whether the vendor rather than the kind is at fault, by a door's last error; none at all is a lost answer."""
    if not code:
        return True
    return code == "VENDOR_UNREACHABLE" and reason not in (Reason.DOOR_OFFLINE.value, Reason.BUSY.value)


def change_kind(context: StepContext, key: KeyCredential, why: str) -> bool:
    """Turns a key that is nowhere yet to the next kind its doors can carry without a desk; False when there is none."""
    doors = context.batch.doors_at(key)
    if key.state not in (State.REQUESTED, State.PENDING) or any(door.state == DoorState.PRESENT for door in doors):
        return False
    if any(door.verb for door in doors):  # a key of the old kind may be there; under the new kind it would not be looked for
        return False
    desk = adapters.manifest(key.vendor).desk_kinds
    kind = next((kind for kind in _fitting(key, doors) if kind not in desk), None)
    if kind is None:
        return False
    artifacts.retire(key.tenant_id, [key.id])
    rest_pin(context, key, [door.device_id for door in doors])
    notices.warn(key, notices.KIND_CHANGED, f"{key.kind} was not possible ({why.lower()}); {kind.value} was given")
    key.kind, key.pin_version = kind.value, 0
    context.batch.retarget(key)
    return True


def way_on(
    key: KeyCredential, doors: list[CredentialDoor], code: str, reason: str, breakers: Mapping[str, Standing] | None = None
) -> Way | None:
    """Returns where a key that cannot be given goes on; None when nothing else reaches its doors. `code` and `reason` are those
    of the last error, `breakers` those that are not closed. Inside the tenant's block."""
    if key.reservation_id is None or code in _NO_WAY_ROUND:
        return None
    desk = adapters.manifest(key.vendor).desk_kinds
    if not is_outage(code, reason):
        of_desk = CredentialKind(key.kind) in desk and reason not in _AT_ONCE
        kinds = () if of_desk else _fitting(key, doors)
        return Way(key.installation_id, kinds) if kinds else None
    other = _other_installation(key, breakers or {})
    if other is not None:
        return other
    kinds = tuple(kind for kind in _fitting(key, doors) if kind in desk)
    return Way(key.installation_id, kinds) if kinds else None


def outlasted(context: StepContext, work: Work, key: KeyCredential) -> bool:
    """Says whether the vendor has been away longer than the house waits, for a guest who comes soon. Notes since when."""
    if key.state not in (State.REQUESTED, State.PENDING):
        return False
    since = work.args.get(SINCE)
    if since is None:
        work.args = {**work.args, SINCE: context.real_now.isoformat()}
        return False
    patience_s = house(key.tenant_id, key.property_id).policy.outage_patience_minutes * 60 * context.retry_scale
    is_soon = key.valid_from <= context.now + NEAR
    return is_soon and (context.real_now - datetime.fromisoformat(since)).total_seconds() >= patience_s


def give_up_for(context: StepContext, work: Work, key: KeyCredential, way: Way, word: str) -> None:
    """Ends a key that waited for its vendor in favour of another way. Its doors in doubt stay open work."""
    doors = context.batch.doors_at(key)
    key.failure_code, key.ended_at, key.waiting_for = "VENDOR_UNREACHABLE", context.now, ""
    attempts = max((door.attempts for door in doors), default=0)
    data = event_data.failed(key, word, "", attempts, context.now, goes_on=True)
    context.batch.move(key, "fail", data, work.cause, word)
    start(context, work, key, way, word)
    context.batch.retarget(key)


def start(context: StepContext, work: Work, key: KeyCredential, way: Way, why: str) -> None:
    """Starts the giving of a failed key's successor, which needs the lock of the stay. Digits that lie nowhere rest."""
    artifacts.retire(key.tenant_id, [key.id])
    nowhere = [d.device_id for d in context.batch.doors_at(key) if d.state != DoorState.PRESENT and not d.verb]
    rest_pin(context, key, nowhere)
    context.batch.start(
        Start(
            flow=FLOW,
            key=own_key("fall-back-of", key.id),
            lane=internal_lane(key.tenant_id),
            reservation_id=key.reservation_id,
            priority=work.priority,
            args={
                "key": key.id,
                "installation": way.installation_id,
                "kinds": [kind.value for kind in way.kinds],
                "why": why,
            },
        ),
        work.cause,
    )


def is_under_way(key: KeyCredential) -> bool:
    """Says whether a failed key's successor is about to be given. Under the lock of the stay, which the giving takes."""
    rows = Saga.objects.filter(tenant_id=key.tenant_id, installation_id="", key=own_key("fall-back-of", key.id))
    return rows.exclude(status__in=[SagaStatus.DONE.value, SagaStatus.DEAD.value]).exists()


def _fitting(key: KeyCredential, doors: list[CredentialDoor]) -> tuple[CredentialKind, ...]:
    """The kinds after the present one, in the key's own order, that all its doors can carry. A kiosk waits for no desk."""
    manifest = adapters.manifest(key.vendor)
    order = list(key.preferred_kinds)
    rest = [CredentialKind(kind) for kind in order[order.index(key.kind) + 1 :]] if key.kind in order else []
    facts = selectors.devices(key.tenant_id, key.property_id, [door.device_id for door in doors if not door.dropped])
    capabilities = [device.capabilities for device in facts.values()]
    at_kiosk = key.channel_hint == "kiosk"
    return tuple(
        kind
        for kind in rest
        if kind in manifest.kinds and choose_kind([kind], capabilities, manifest.desk_kinds, at_kiosk=at_kiosk)
    )


def _other_installation(key: KeyCredential, breakers: Mapping[str, Standing]) -> Way | None:
    policy = house(key.tenant_id, key.property_id).policy
    wanted = policy.fallback_installation_id
    if not wanted or wanted == key.installation_id or wanted in breakers or not key.rooms:
        return None
    known = {facts.id: facts for facts in selectors.property_installations(key.tenant_id, key.property_id)}
    if wanted not in known:
        return None
    devices = [d for d in selectors.property_devices(key.tenant_id, key.property_id) if d.installation_id == wanted]
    doors = [device for device in devices if not device.shared and set(device.rooms) & set(key.rooms)]
    if set(key.rooms) - {room for device in doors for room in device.rooms}:
        return None
    manifest = adapters.manifest(known[wanted].vendor)
    order = dict.fromkeys((*(CredentialKind(kind) for kind in key.preferred_kinds), *policy.kinds))
    capabilities = [device.capabilities for device in doors]
    at_kiosk = key.channel_hint == "kiosk"
    kinds = [k for k in order if k in manifest.kinds and choose_kind([k], capabilities, manifest.desk_kinds, at_kiosk=at_kiosk)]
    return Way(wanted, tuple(kinds)) if kinds else None
