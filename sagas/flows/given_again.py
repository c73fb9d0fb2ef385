"""A key that a comparison did not find at its door, and that is given again there: it may never have left.

One rule: digits in somebody's hands are not changed before the key has been looked for under the credential's tag; and where
two keys of a credential may be, both are taken.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Q

from credentials.lifecycle import LIVE, State
from credentials.models import CredentialDoor, DoorState, KeyCredential
from credentials.targets import Verb
from sagas.models import Finding
from sagas.steps import Call, StepContext, Work
from vendors.port.errors import LockError, Reason
from vendors.port.types import CredentialKind

ADOPTING = "adopting"
"""Marks a saga that looks for a key under the credential's tag before the key's digits would change."""


def looks_for_its_own(context: StepContext, work: Work, key: KeyCredential, doors: list[CredentialDoor]) -> bool:
    """Decides, when a door refuses the digits of a key that is given again there, to look for the key: it is taken as one that
    rests, which a vendor finds under the credential's tag, whatever the round, and makes anew only if it does not.

    False where the door never had these digits.
    """
    was_there = key.pin_version and all(d.rounds and d.pin_version == key.pin_version for d in doors)
    if key.state != State.ACTIVE or not was_there:
        return False
    work.args = {**work.args, ADOPTING: True}
    for door in doors:
        door.state, door.vendor_ref_sealed = DoorState.SUSPENDED, None
        door.verb, door.attempts, door.due_at = "", 0, None
        context.batch.touch_door(door)
    return True


def has_other_digits(work: Work, call: Call, error: LockError) -> bool:
    """Says whether that look ended in vain: nothing of the credential is there, and its digits are somebody else's."""
    refused = not error.retriable and error.reason in (Reason.PIN_REFUSED, Reason.OTHER)
    return refused and call.verb is Verb.UNSUSPEND and bool(work.args.get(ADOPTING))


def tell_of_new_digits(work: Work, key: KeyCredential) -> None:
    """Lets the saga tell, once its doors carry them, that a key in somebody's hands has other digits."""
    if key.state in (State.ACTIVE, State.SUSPENDED):
        changes = {**work.args.get("changes", {}), "digits": {"from": "earlier", "to": "drawn again"}}
        work.args = {**work.args, "changes": changes}


def take_twins_too(context: StepContext, key: KeyCredential, call: Call, doors: Iterable[CredentialDoor]) -> None:
    """Goes on taking a key back at doors where a comparison saw two of the credential, or gave it again because the vendor
    showed none: after the one we have a reference for, whatever carries the credential's tag there is taken.

    `doors` are those that the call was for.
    """
    named = {door.device_id for door in call.handle.doors if door.ref is not None}
    if call.verb is not Verb.REVOKE or (key.state in LIVE and key.kind != CredentialKind.PIN_CODE):
        return  # a key over several doors that lives on loses this one by its reference alone
    taken = {d.device_id: d for d in doors if d.device_id in named and d.state == DoorState.ABSENT and not d.verb}
    if not taken:
        return
    told = Finding.objects.filter(tenant_id=key.tenant_id, credential_id=key.id, device_id__in=sorted(taken))
    told = told.filter(Q(kind="duplicate", status="open") | Q(kind="missing", repairs_count__gt=0))
    for device_id in set(told.values_list("device_id", flat=True)):
        taken[device_id].verb = Verb.REVOKE.value
        context.batch.touch_door(taken[device_id])
