"""Judges one door: compares, asks once more about what differs, and compares again with fresh books.

One rule: a difference counts only if it is seen twice, under books that did not change in between; a key given, changed or
taken back while its door was read is no finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from credentials.models import KeyCredential
from devices.selectors import DeviceFacts
from lockservice.core import clock, tenancy
from sagas.reconcile.asking import Inquiry
from sagas.reconcile.compare import Difference, Kind, Seen, compare
from sagas.reconcile.ledger import books_of
from sagas.reconcile.sightings import Sighting, sighted
from vendors.port.types import CredentialKind, FoundKey, Window

LIST_FROM = 5
"""From so many differing credentials on, one more list of the door is cheaper than a look-up for each."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """What differed at first sight, and what was seen the second time."""

    differences: tuple[Difference, ...]
    seen: tuple[Seen, ...]


def suspect(inquiry: Inquiry, tenant_id: str, device: DeviceFacts, sightings: Sequence[Sighting]) -> Suspicion:
    """Compares a door's list with the books, and asks the vendor again about every credential that differs.

    No transaction may be open. Raises as Inquiry.page does.
    """
    first = [item.seen for item in sightings]
    with tenancy.tenant(tenant_id):
        books = books_of(tenant_id, device, _tags(first))
        differences, _ = compare(books.expected, first, books.known, clock.now())
        keys = _credentials(tenant_id, differences)
    seen = _look_again(inquiry, tenant_id, device, first, differences, keys)
    return Suspicion(tuple(differences), tuple(seen))


def confirmed(tenant_id: str, device: DeviceFacts, suspicion: Suspicion) -> tuple[list[Difference], int]:
    """Returns the differences that fresh books still show, and how many keys are on their way. Inside the tenant's block, in
    the transaction that writes them."""
    books = books_of(tenant_id, device, _tags(suspicion.seen))
    again, in_flight_count = compare(books.expected, suspicion.seen, books.known, clock.now())
    before = {(item.kind, item.subject, item.mark) for item in suspicion.differences}
    return [item for item in again if (item.kind, item.subject, item.mark) in before], in_flight_count


def _look_again(
    inquiry: Inquiry,
    tenant_id: str,
    device: DeviceFacts,
    first: list[Seen],
    differences: Sequence[Difference],
    keys: dict[str, KeyCredential],
) -> list[Seen]:
    seen = first
    listed: list[Seen] | None = None
    for credential_id, key in keys.items():
        mine = [item for item in differences if item.credential_id == credential_id]
        found = _looked_up(inquiry, device, key, mine) if len(keys) < LIST_FROM else None
        if found is not None and _explains(mine, found_count=len(found)):
            fresh = [sighted(tenant_id, device.id, item).seen for item in found]
        else:  # not found under our mark: an adopted key has another name, and a list that moved on may have skipped it
            if listed is None:
                listed = [sighted(tenant_id, device.id, item).seen for item in inquiry.every_page(device.door())]
            fresh = [item for item in listed if _belongs(item, mine)]
        seen = [item for item in seen if not _belongs(item, mine)] + [_as_first(item, mine) for item in fresh]
    return seen


def _looked_up(
    inquiry: Inquiry, device: DeviceFacts, key: KeyCredential, mine: Sequence[Difference]
) -> tuple[FoundKey, ...] | None:
    """Asks for a credential's keys, in the window seen at the door where there is one: some vendors look at one instant."""
    window = next((item.seen.window for item in mine if item.seen and item.seen.window), None)
    kind = next((item.seen.kind for item in mine if item.seen), key.kind)
    wanted = window or Window(key.valid_from, key.valid_until)
    return inquiry.of_credential(device.door(), key.id, CredentialKind(kind), wanted, key.issue_key)


def _explains(mine: Sequence[Difference], *, found_count: int) -> bool:
    """Says whether a look-up is enough: it found at least as many keys as the list had, and some."""
    return found_count >= max(1, len({item.seen.fingerprint for item in mine if item.seen}))


def _belongs(item: Seen, mine: Sequence[Difference]) -> bool:
    """Says whether a key is of the credential that these differences are about."""
    references = {d.seen.fingerprint for d in mine if d.seen} | {d.expected.fingerprint for d in mine if d.expected}
    tags = {d.expected.tag for d in mine if d.expected} | {d.seen.tag for d in mine if d.seen}
    return item.fingerprint in references or (bool(item.tag) and item.tag in tags)


def _as_first(item: Seen, mine: Sequence[Difference]) -> Seen:
    """Keeps what only a list tells: a look-up need not say whose key it is."""
    before = next((d.seen for d in mine if d.seen and d.seen.fingerprint == item.fingerprint), None)
    return replace(item, tag=item.tag or before.tag, is_ours=before.is_ours) if before is not None else item


def _tags(seen: Iterable[Seen]) -> set[str]:
    return {item.tag for item in seen if item.tag}


def _credentials(tenant_id: str, differences: Iterable[Difference]) -> dict[str, KeyCredential]:
    ids = sorted({item.credential_id for item in differences if item.credential_id and item.kind is not Kind.STRANGER})
    rows = KeyCredential.objects.filter(tenant_id=tenant_id, id__in=ids).order_by("id") if ids else ()
    return {row.id: row for row in rows}
