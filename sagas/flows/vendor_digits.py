"""Digits that a lock system draws itself, as one does for a lock out of its reach. Nobody here has seen them before.

One rule: digits, or a vendor's name of a key, that belong to another key at the door are not taken: who is given them knows
another guest's PIN, and taking them back would shut that guest out.
"""

from __future__ import annotations

from credentials import pin_slots
from credentials.models import CredentialDoor, DoorState, KeyCredential
from lockservice.core import crypto
from sagas.flows.settle_doors import ref_place
from sagas.steps import Call
from vendors.port.errors import KeyIssueFailed, Reason
from vendors.port.secrets import Pin, VendorRef
from vendors.port.types import CallResult, IssueResult, Outcome, PinArtifact


def refused(key: KeyCredential, call: Call, result: CallResult) -> KeyIssueFailed | None:
    """Take the digits that a vendor drew for a key; return why they may not be given, if so.

    Inside the tenant's block, with the key locked. The unique rows of PinSlot decide between two keys that come at once.
    """
    pin = _drawn(call, result)
    if pin is None:
        return None
    given = {item.device_id: item.ref for item in result.doors if item.outcome in (Outcome.DONE, Outcome.DEFERRED)}
    own = call.issue.pin if call.issue is not None else None
    is_free = pin_slots.exchange(key.tenant_id, key.id, sorted(given), own, pin)
    if is_free and not any(_is_anothers(key, device, ref) for device, ref in given.items() if ref is not None):
        return None
    return KeyIssueFailed(
        key.vendor, "the lock system handed out what is another key's", retriable=False, reason=Reason.KIND_UNSUPPORTED
    )


def _drawn(call: Call, result: CallResult) -> Pin | None:
    if call.issue is None or not isinstance(result, IssueResult) or not isinstance(result.artifact, PinArtifact):
        return None
    return result.artifact.value if result.artifact.value != call.issue.pin else None


def _is_anothers(key: KeyCredential, device_id: str, ref: VendorRef) -> bool:
    rows = CredentialDoor.objects.filter(tenant_id=key.tenant_id, device_id=device_id, vendor_ref_sealed__isnull=False)
    for door in rows.exclude(credential_id=key.id).exclude(state=DoorState.ABSENT):
        sealed = door.vendor_ref_sealed or b""
        if crypto.unseal("vendor-ref", door.tenant_id, ref_place(door), sealed) == ref.reveal():
            return True
    return False
