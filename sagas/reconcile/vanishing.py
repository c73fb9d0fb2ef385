"""Says when so many keys are missing at once that the vendor is to be doubted and not the doors.

One rule: an empty answer is no proof. Where most of what should be at a door, or in a house, is not told any more, nothing is
given again until a person has said so: a key given beside one that is still there would be a second key to the same room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from credentials.lifecycle import State
from credentials.models import CredentialDoor, DoorState, KeyCredential
from lockservice.core import clock
from sagas.models import Finding
from sagas.reconcile.compare import Kind
from sagas.reconcile.findings import OPEN

SEVERAL = 3
"""From so many on, more than half of a door's or of an installation's keys are too many to have gone by themselves."""
ALL = 2
"""Of an installation with at least so many keys, all of them are too many. Of a single key nothing can be said; it is given
again by rule, and looked for before its digits would change."""


def vanished(gone: Mapping[str, int], expected: Mapping[str, int], labels: Mapping[str, str]) -> str:
    """Tells which keys have vanished at once, such as `3 of 4 keys at 101`; empty where that many may be missing.

    `gone` and `expected` count keys by device; `labels` names the devices.
    """
    gone_count, expected_count = sum(gone.values()), sum(expected.values())
    if gone_count >= ALL and gone_count >= expected_count:
        return f"all {gone_count} keys"
    if _is_most(gone_count, expected_count):
        return f"{gone_count} of {expected_count} keys"
    for door in sorted(gone):
        if _is_most(gone[door], expected.get(door, 0)):
            return f"{gone[door]} of {expected[door]} keys at {labels.get(door, door)}"
    return ""


def doubt(tenant_id: str, labels: Mapping[str, str], gone: Mapping[str, int]) -> str:
    """Tells why the vendor is doubted that told nothing of the keys counted in `gone`; empty where it is not. `labels` names
    the devices that were compared. Inside the tenant's block."""
    what = vanished(gone, should_be_at(tenant_id, labels, gone), labels)
    return f"{what} are not told any more, and nothing is given again before a person says so" if what else ""


def missing_in(tenant_id: str, run_id: int) -> Counter[str]:
    """Counts by device what a run has not found, apart from what a person has decided about. Inside the tenant's block."""
    rows = Finding.objects.filter(tenant_id=tenant_id, run_id=run_id, kind=Kind.MISSING, status=OPEN, decided_at=None)
    return Counter(rows.values_list("device_id", flat=True))


def should_be_at(tenant_id: str, device_ids: Iterable[str], gone: Mapping[str, int]) -> dict[str, int]:
    """Counts by device the live keys that our books have there, at least as many as are gone. Inside the tenant's block."""
    rows = CredentialDoor.objects.filter(
        tenant_id=tenant_id, device_id__in=sorted(set(device_ids)), state=DoorState.PRESENT, verb="", dropped=False
    )
    held = list(rows.values_list("device_id", "credential_id"))
    keys = KeyCredential.objects.filter(tenant_id=tenant_id, id__in={key_id for _, key_id in held})
    live = set(keys.filter(state=State.ACTIVE, valid_until__gt=clock.now()).values_list("id", flat=True))
    counted = Counter(device_id for device_id, key_id in held if key_id in live)
    return {device_id: max(counted[device_id], gone.get(device_id, 0)) for device_id in {*counted, *gone}}


def _is_most(gone_count: int, expected_count: int) -> bool:
    return gone_count >= SEVERAL and 2 * gone_count > expected_count
