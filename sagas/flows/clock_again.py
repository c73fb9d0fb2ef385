"""A lock's clock was off and is right again: keys given meanwhile with a cut window get all of it, and their warning goes.

One rule: pages are short transactions; a key without the warning is left alone, so the walk may be killed and repeated.
"""

from __future__ import annotations

from typing import Any

from credentials.lifecycle import State
from credentials.models import CredentialDoor, DoorState, KeyCredential
from credentials.services import KeyBatch
from devices import selectors
from devices.health import CLOCK_AGAIN
from devices.health_rules import SKEW_WARN_MS, window_by_clocks
from sagas.events.instants import format_instant
from sagas.flows import issue_key, update_key
from sagas.intake import PRIORITY_ISSUE, Start, own_key
from sagas.steps import Work
from vendors.port.types import Window

FLOW = CLOCK_AGAIN
WARNING = "CLOCK_SKEW"
PAGE = 50
ROUNDS = 2
"""A key whose call was under way while the clock was set gets its warning a little later: a second walk finds it."""
PAUSE_S = 60


def next_page(tenant_id: str, args: dict[str, Any]) -> list[str]:
    """Returns the ids of the next live keys at the lock that carry the warning. `args` names deviceId."""
    here = CredentialDoor.objects.filter(tenant_id=tenant_id, device_id=args["deviceId"], dropped=False)
    rows = KeyCredential.objects.filter(
        tenant_id=tenant_id, id__in=here.values("credential_id"), id__gt=args.get("after", ""),
        state__in=[State.ACTIVE, State.SUSPENDED], warnings__contains=[{"code": WARNING}],
    )  # fmt: skip
    return list(rows.order_by("id").values_list("id", flat=True)[:PAGE])


def run_page(batch: KeyBatch, work: Work) -> None:
    """Widens the locked keys of one page, except where another of their locks is still off."""
    selectors.forget()  # what was kept of this lock says that its clock is off
    for key in list(batch.keys.values()):
        if key.state in (State.ACTIVE, State.SUSPENDED) and _is_right(batch, key):
            _widen(batch, key, work)


def _is_right(batch: KeyBatch, key: KeyCredential) -> bool:
    ids = [door.device_id for door in batch.doors_at(key) if not door.dropped]
    facts = selectors.devices(key.tenant_id, key.property_id, ids).values()
    return all(abs(device.clock_skew_ms or 0) <= SKEW_WARN_MS for device in facts)


def _widen(batch: KeyBatch, key: KeyCredential, work: Work) -> None:
    key.warnings = [warning for warning in key.warnings if warning["code"] != WARNING]
    batch.touch(key)
    lanes = {door.lane for door in batch.doors_at(key) if door.device_id == work.args["deviceId"]}
    cut = [door for door in batch.doors_at(key) if door.lane in lanes and door.state == DoorState.PRESENT and not door.dropped]
    if key.state != State.ACTIVE or not cut:
        return  # one at rest is woken in its whole window
    for door in cut:  # doors of one call got one window, cut for the one whose clock was off
        door.carried_from = None
        batch.touch_door(door)
    batch.retarget(key)
    batch.start(
        Start(
            flow=update_key.FLOW,
            key=own_key("clock-again", work.id, key.id),
            lane=issue_key.first_lane(batch, key),
            lane_width=issue_key.lane_width(batch, key),
            installation_id=key.installation_id,
            credential_id=key.id,
            reservation_id=key.reservation_id,
            priority=PRIORITY_ISSUE,
            args={"changes": _changes(key, int(work.args["skewMs"]))},
        ),
        work.cause,
    )


def _changes(key: KeyCredential, skew_ms: int) -> dict[str, dict[str, str]]:
    """Tells how the window at the door grows; at least one end does, or the key would have had no warning."""
    whole = Window(key.valid_from, key.valid_until)
    cut = window_by_clocks(whole, [skew_ms])
    ends = {"validFrom": (cut.valid_from, whole.valid_from), "validUntil": (cut.valid_until, whole.valid_until)}
    return {
        name: {"from": format_instant(before), "to": format_instant(after)}
        for name, (before, after) in ends.items()
        if before != after
    }
