"""A lock's clock was off and is right again: keys given meanwhile with a cut window get all of it, and their warning goes.

Where the vendor reckons with another distance from UTC than before, every key there is given its window again: the lock holds
what the vendor computed then. A code that the lock computes by itself cannot be changed, and that is told.

One rule: pages are short transactions; a key without the warning is left alone, so the walk may be killed and repeated.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Q

from credentials import notices
from credentials.lifecycle import State
from credentials.models import CredentialDoor, DoorState, KeyCredential
from credentials.services import KeyBatch
from devices import selectors
from devices.health import CLOCK_AGAIN, EVERY_KEY, RUNBOOK
from devices.health_rules import SKEW_WARN_MS, window_by_clocks
from sagas.alerts import NewAlert
from sagas.events.instants import format_instant
from sagas.flows import issue_key, update_key
from sagas.flows.one_change import has_windows_by_door
from sagas.intake import PRIORITY_ISSUE, Start, own_key
from sagas.steps import Work
from vendors.port.types import CredentialKind, Window

FLOW = CLOCK_AGAIN
ALERT = "TZ_OFFSET_MISMATCH"
PAGE = 50
ROUNDS = 2
"""A key whose call was under way while the clock was set gets its warning a little later: a second walk finds it."""
PAUSE_S = 60


def next_page(tenant_id: str, args: dict[str, Any]) -> list[str]:
    """Returns the ids of the next live keys at the lock that carry the warning, or all. `args` names deviceId."""
    here = CredentialDoor.objects.filter(tenant_id=tenant_id, device_id=args["deviceId"], dropped=False)
    rows = KeyCredential.objects.filter(
        tenant_id=tenant_id, id__in=here.values("credential_id"), id__gt=args.get("after", ""),
        state__in=[State.ACTIVE, State.SUSPENDED],
    )  # fmt: skip
    if not args.get(EVERY_KEY):
        warned = (Q(warnings__contains=[{"code": code}]) for code in sorted(notices.OF_CLOCKS))
        rows = rows.filter(reduce(or_, warned))
    return list(rows.order_by("id").values_list("id", flat=True)[:PAGE])


def run_page(batch: KeyBatch, work: Work) -> None:
    """Widens the locked keys of one page at the lock, except where one that shares its window there is still off."""
    selectors.forget()  # what was kept of this lock says that its clock is off
    for key in list(batch.keys.values()):
        if key.state not in (State.ACTIVE, State.SUSPENDED):
            continue
        if work.args.get(EVERY_KEY) and _is_computed(key, work):
            _tell_of_old_time(batch, key, work)
            continue
        here = _sharing_a_window(batch, key, work)
        if work.args.get(EVERY_KEY) or _is_right(batch, key, here):
            _widen(batch, key, here, work)


def _is_computed(key: KeyCredential, work: Work) -> bool:
    """Says whether the lock computes the key's code by itself, so that nothing of it can be changed."""
    facts = selectors.devices(key.tenant_id, key.property_id, [work.args["deviceId"]]).values()
    return key.kind == CredentialKind.PIN_CODE and any(not device.has_remote for device in facts)


def _tell_of_old_time(batch: KeyBatch, key: KeyCredential, work: Work) -> None:
    device_id = work.args["deviceId"]
    notices.warn(key, notices.ZONE_DIFFERS, "the lock's time was set anew after this code was given; give another code")
    batch.touch(key)
    detail = "codes given before the lock's time was set anew open by the old time; replace them"
    batch.alerts.append(
        NewAlert(f"old-time:{device_id}:{work.id}", ALERT, "critical", detail, RUNBOOK, key.property_id, key.id)
    )


def _sharing_a_window(batch: KeyBatch, key: KeyCredential, work: Work) -> list[CredentialDoor]:
    """Returns the key's doors at the lock, with those that got one window together: it was cut for the one that was off."""
    here = [door for door in batch.doors_at(key) if door.device_id == work.args["deviceId"]]
    if not has_windows_by_door(key):
        here = [door for door in batch.doors_at(key) if door.lane in {one.lane for one in here}]
    return here


def _is_right(batch: KeyBatch, key: KeyCredential, doors: Iterable[CredentialDoor]) -> bool:
    ids = [door.device_id for door in doors if not door.dropped]
    facts = selectors.devices(key.tenant_id, key.property_id, ids).values()
    return all(abs(device.skew_at(batch.now) or 0) <= SKEW_WARN_MS for device in facts)


def _widen(batch: KeyBatch, key: KeyCredential, here: Iterable[CredentialDoor], work: Work) -> None:
    if _is_right(batch, key, batch.doors_at(key)):  # all of them, since the walk of another lock will not find the key any more
        here = here if work.args.get(EVERY_KEY) else batch.doors_at(key)
        key.warnings = [warning for warning in key.warnings if warning["code"] not in notices.OF_CLOCKS]
    batch.touch(key)
    cut = [door for door in here if door.state == DoorState.PRESENT and not door.dropped]
    if key.state != State.ACTIVE or not cut:
        return  # one at rest is woken in its whole window
    for door in cut:
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
