"""Digits chosen by staff, under the rules that drawn ones follow.

One rule: a refusal says which rule was broken and never whose digits they are.
"""

from __future__ import annotations

from credentials import artifacts, notices, pin_slots, pins
from credentials.house import House
from credentials.lifecycle import State
from credentials.models import KeyCredential
from credentials.pin_slots import PinWish
from credentials.services import KeyBatch
from credentials.targets import Verb
from devices import adapters, selectors
from devices.selectors import DeviceFacts
from sagas.flows import update_key
from sagas.flows.issue_key import first_lane, lane_width
from sagas.intake import PRIORITY_SECURITY, Start, is_started
from sagas.outbox import Cause
from vendors.port.manifest import LaneRule
from vendors.port.secrets import Pin
from vendors.port.types import CredentialKind


class DigitsRefused(Exception):
    """The digits break a rule, which the text names. Other digits may be taken."""


def begin(batch: KeyBatch, place: House, key: KeyCredential, pin: Pin, saga_key: str, cause: Cause) -> None:
    """Takes the digits for a locked live PIN key, whose doors follow. The digits it had rest. Inside the tenant's block.

    Asked again, or for the digits that the key has, nothing more happens. Raises DigitsRefused.
    """
    present = artifacts.current(key.tenant_id, [key.id]).get(key.id)
    has_them = present is not None and artifacts.open_pin(present) == pin
    if has_them or is_started(key.tenant_id, key.installation_id, saga_key):
        return
    doors = [door for door in batch.doors_at(key) if not door.dropped]
    facts = selectors.devices(key.tenant_id, key.property_id, [door.device_id for door in doors])
    wish = wish_for(place, key, facts)
    fault = pins.fault_in(pin.reveal(), wish.length, wish.keypads)
    if fault is None and _are_the_vendors(key, facts):
        fault = "cannot be chosen: a door out of reach of any gateway takes only digits that the vendor gives"
    if fault is not None:
        raise DigitsRefused(fault)
    until = pin_slots.rest(batch.now, place.policy.pin_rest_days)
    before = [(key.id, door.device_id, until) for door in batch.doors_at(key)]
    taken = pin_slots.claim(key.tenant_id, wish, pin, before)
    if taken is not None:
        raise DigitsRefused(taken)
    artifacts.retire(key.tenant_id, [key.id])
    for door in doors:
        if door.verb == Verb.ISSUE:  # whether it was given there is not known: if so, with the digits that the key had
            door.pin_version = key.pin_version
            batch.touch_door(door)
    key.pin_version += 1
    artifacts.store(key.tenant_id, [artifacts.NewArtifact(key.id, artifacts.PIN, pin, key.pin_version)], batch.now)
    notices.clear(key, notices.PIN_CHANGED)
    notices.warn(key, notices.PIN_CHOSEN, "the digits were chosen at the desk")
    batch.retarget(key)
    if key.state == State.REQUESTED:  # its own saga takes them there, once nobody is waited for any more
        return
    batch.start(
        Start(
            flow=update_key.FLOW,
            key=saga_key,
            lane=first_lane(batch, key),
            lane_width=lane_width(batch, key),
            installation_id=key.installation_id,
            credential_id=key.id,
            reservation_id=key.reservation_id,
            priority=PRIORITY_SECURITY,
            args={"changes": {"digits": {"from": "earlier", "to": "chosen"}}},
        ),
        cause,
    )


def wish_for(place: House, key: KeyCredential, facts: dict[str, DeviceFacts]) -> PinWish:
    """Returns what a PIN of this key must be like at its doors."""
    shared = any(device.shared for device in facts.values())
    return PinWish(
        key.id,
        tuple(sorted(facts)),
        tuple(device.digits for device in facts.values()),
        place.policy.pin_length_shared if shared else place.policy.pin_length,
        adapters.manifest(key.vendor).door_capacity.get(CredentialKind.PIN_CODE),
    )


def _are_the_vendors(key: KeyCredential, facts: dict[str, DeviceFacts]) -> bool:
    by_gateway = adapters.manifest(key.vendor).lane is LaneRule.GATEWAY
    return by_gateway and any(not device.has_remote or not device.gateway for device in facts.values())
