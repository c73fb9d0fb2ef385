"""Replace: a lost key is taken back and its successor issued in one act; both records name each other.

One rule: the old key is over before the new one exists, so that never two intended keys live.
"""

from __future__ import annotations

from credentials.house import House
from credentials.lifecycle import State
from credentials.models import KeyCredential
from credentials.services import KeyBatch
from devices import selectors
from sagas.flows import issue_key, revoke_key
from sagas.intake import PRIORITY_SECURITY, own_key
from sagas.outbox import Cause
from vendors.port.types import CredentialKind, Intent, RevokeReason, Window


def begin(
    batch: KeyBatch, place: House, key: KeyCredential, saga_key: str, cause: Cause, *, reason: RevokeReason = RevokeReason.LOST,
    kind: CredentialKind | None = None,
) -> KeyCredential | None:  # fmt: skip
    """Revokes a locked active key and starts its successor, of the same kind unless another is given.

    None when the key is not active: a suspended one has no successor that opens. Inside the tenant's block. Raises
    issue_key.NoKindFits, NoDoors.
    """
    if key.state != State.ACTIVE:
        return None
    revoke_key.begin(batch, key, reason, saga_key, cause, trigger="replaced")
    batch.flush()  # the successor may only exist once the old key is over: one live key per intended key
    wanted = CredentialKind(kind or key.kind)
    successor = issue_key.begin(batch, place, request(key, wanted, cause), cause)
    key.replaced_by = successor.id
    batch.touch(key)
    return successor


def request(
    key: KeyCredential, kind: CredentialKind, cause: Cause, intent: Intent = Intent.REPLACEMENT
) -> issue_key.KeyRequest:
    """Returns what asks for a key in the place of this one, at the same rooms for the same window."""
    return issue_key.KeyRequest(
        installation=selectors.installation(key.tenant_id, key.installation_id),
        rooms=tuple(key.rooms),
        window=Window(key.valid_from, key.valid_until),
        issue_key=own_key("replace", key.id),
        holder_id=key.holder_id,
        reservation_id=key.reservation_id,
        incarnation=key.incarnation,
        ordinal=key.ordinal,
        holder_kind=key.holder_kind,
        preferred_kinds=(kind,),
        areas=tuple(key.areas),
        floors=tuple(key.floors),
        intent=intent,
        replaces=key.id,
        requested_by=cause.actor,
        id_verified=True,
        priority=PRIORITY_SECURITY,
        grace_included=True,
    )
