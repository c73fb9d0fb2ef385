"""What a vendor does not find is not believed to be gone: the same key may lie at the door under another name or id."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from tests.vendors.asking import answered, issue, meta
from tests.vendors.site import Site, handle_for, stay, with_ref
from vendors.port.errors import LockError
from vendors.port.secrets import VendorRef
from vendors.port.types import CredentialHandle, CredentialKind, Outcome, RevokeReason, SuspendReason, UpdateInput


def renamed(site: Site, kind: CredentialKind) -> tuple[CredentialHandle, str]:
    """Give a key at the first door, and forget how the vendor calls it: the handle has a reference that names nothing, as after
    somebody deleted and entered the key again by hand. Return the handle and what the guest holds."""
    request, result = issue(site, kind, doors=site.doors[:1])
    handle = handle_for(request, result)
    wrong = with_ref(handle.doors[0], unknown_to_the_vendor(result.doors[0].ref))
    return replace(handle, doors=(wrong,), issue_key=request.meta.idempotency_key), site.presented(result, request)


def unknown_to_the_vendor(ref: VendorRef | None) -> VendorRef:
    """Return a reference of the same shape that no key of this site has."""
    assert ref is not None
    return VendorRef(f"{ref.reveal()}7")


def test_a_key_that_is_not_found_by_its_reference_is_taken_all_the_same(site: Site, kind: CredentialKind) -> None:
    handle, value = renamed(site, kind)
    assert site.opens(site.doors[0], kind, value)
    gone = site.port.revoke_credential(handle, RevokeReason.CHECKOUT, meta())
    assert [door.outcome for door in gone.doors] == [Outcome.DONE]
    assert not site.opens(site.doors[0], kind, value)
    assert site.keys_at(site.doors[0]) == 0


def test_a_key_that_is_not_found_by_its_reference_rests_all_the_same(site: Site, kind: CredentialKind) -> None:
    handle, value = renamed(site, kind)
    rested, refused = answered(lambda: site.port.suspend_credential(handle, SuspendReason.FRAUD_REVIEW, meta()))
    if rested is not None and rested.doors[0].outcome is Outcome.DONE:
        assert not site.opens(site.doors[0], kind, value)
    else:
        assert isinstance(refused or rested.doors[0].error, LockError)  # type: ignore[union-attr]


def test_a_key_that_is_not_found_by_its_reference_is_moved_or_the_refusal_told(site: Site, kind: CredentialKind) -> None:
    handle, value = renamed(site, kind)
    later = datetime.now(UTC) + timedelta(hours=60)
    longer = replace(handle, window=stay(-1, 90))
    moved, refused = answered(lambda: site.port.update_credential(UpdateInput(longer, meta())))
    if moved is not None and moved.doors[0].outcome is Outcome.DONE:
        assert site.opens(site.doors[0], kind, value, later)
    else:
        assert isinstance(refused or moved.doors[0].error, LockError)  # type: ignore[union-attr]
    assert site.opens(site.doors[0], kind, value)
