"""A lock hangs elsewhere than our books said, or a new one was hung: live keys follow to the doors their rooms have now.

One rule: what a key carries at a lock that is another room's now is taken away before anything is given; pages are short
transactions over keys that are brought to where they belong, so the walk may be killed anywhere and repeated.
"""

from __future__ import annotations

from typing import Any

from django.db.models import Q

from credentials.house import house
from credentials.lifecycle import LIVE
from credentials.models import CredentialDoor, KeyCredential
from credentials.services import KeyBatch
from credentials.targets import KEPT
from devices import selectors
from devices.registration import DOORS_CHANGED
from sagas.flows import decommission, room_move
from sagas.steps import Work

FLOW = DOORS_CHANGED
TRIGGER = "doors_changed"


def next_page(tenant_id: str, args: dict[str, Any]) -> list[str]:
    """Returns the ids of the next live keys concerned. `args` names installation, deviceIds, rooms, and shared where a shared
    door is among them, which may be any key's of the installation."""
    hers = Q(dropped=False) | Q(old_room=KEPT)
    at_locks = CredentialDoor.objects.filter(hers, tenant_id=tenant_id, device_id__in=args["deviceIds"])
    concerned = Q(id__in=at_locks.values("credential_id"))
    if args["shared"]:
        concerned |= Q(installation_id=args["installation"])
    else:
        concerned |= Q(installation_id=args["installation"], rooms__overlap=args["rooms"])
    rows = KeyCredential.objects.filter(concerned, tenant_id=tenant_id, id__gt=args.get("after", ""), state__in=sorted(LIVE))
    return decommission.lock_stays(tenant_id, rows)


def run_page(batch: KeyBatch, work: Work) -> None:
    """Brings the locked keys of one page to their rooms' doors."""
    selectors.forget()  # what was kept of these locks is what they were before
    for key in list(batch.keys.values()):
        if key.state in LIVE:
            place = house(batch.tenant_id, key.property_id)
            decommission.bring_to_doors(batch, place, key, work, TRIGGER, take_first=True)
        if key.state in LIVE:
            room_move.lose_moved_locks(batch, key, work.cause)
