"""Keys that die with the one that was lost, because the lock cannot tell them apart: they are issued again.

One rule: whom an answer names, by our id or by its mark or tag at the vendor, is looked up and given a new key, each stay
under its own lock. A key whose card was written over for another guest dies too. An adapter that cannot name them warns, and
then every other key of the stay at those rooms is meant. A key that starts the stay ends those of it that were there, named
or not. So does a card that has lost all of its rooms while it was suspended: a new one is written when somebody asks for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from credentials.lifecycle import State
from credentials.models import KeyCredential
from credentials.services import KeyBatch
from credentials.targets import Verb
from devices import adapters
from sagas.flows import card_in_use, shared_rooms, stay_start
from sagas.intake import Start, internal_lane, own_key
from sagas.outbox import Cause
from sagas.steps import Call, StepContext, Work
from vendors.port.types import COMPANIONS_DIE, CallResult, CredentialKind, Intent, Outcome
from vendors.support.marks import tag_of

FLOW = "reissue_killed"
OVERWRITTEN, MOVED_AWAY, OUTRANKED = "overwritten", "moved_away", "outranked"


def follow_up(context: StepContext, work: Work, key: KeyCredential, result: CallResult) -> None:
    """Starts the reissue of the keys that the answer to an issue, or to the question how it ended, says are killed: one saga
    for each stay. Inside the tenant's block."""
    unnamed = any(warning.code == COMPANIONS_DIE for warning in result.warnings)
    given = {door.device_id for door in result.doors if door.outcome is Outcome.DONE}
    put_out = stay_start.put_out(context.batch, key, given)
    stays: dict[str, list[str]] = defaultdict(list)
    for found in result.overwritten:
        owner = card_in_use.owner_of(key.tenant_id, key.property_id, found, context.now)
        if owner is not None and owner.id != key.id:
            reissue_overwritten(context.batch, key, owner, work.priority, work.cause)
    if not result.also_killed and not unnamed and not put_out:
        return
    for other in _neighbours(key):
        is_named = other.id in put_out or other.id in result.also_killed or tag_of(other.id) in result.also_killed
        if other.reservation_id and (is_named or (unnamed and other.reservation_id == key.reservation_id)):
            stays[other.reservation_id].append(other.id)
    for reservation_id, ids in sorted(stays.items()):
        _start(context.batch, key, reservation_id, sorted(ids), work.priority, work.cause)


def join_again(context: StepContext, work: Work, key: KeyCredential, call: Call, result: CallResult) -> None:
    """Starts the reissue of keys that one ends which was given as one that joins: the newest stay of its rooms is that of a key
    made ahead. Inside the tenant's block."""
    given = {door.device_id for door in result.doors if door.outcome is Outcome.DONE}
    if call.verb is Verb.UPDATE and call.change is not None:
        intent, given = call.change.intent, given & {door.device_id for door in call.change.added}
    elif call.verb is Verb.ISSUE:
        intent = Intent(key.intent)
    else:
        return
    if intent is not Intent.NEW and given:
        reissue_beside(context.batch, key, shared_rooms.left_behind(context.batch, key, given), work.priority, work.cause)


def reissue_overwritten(batch: KeyBatch, key: KeyCredential, other: KeyCredential, priority: int, cause: Cause) -> None:
    """Starts the reissue of a live key whose card is this one's from now on. Inside the tenant's block."""
    if other.reservation_id and other.state in (State.ACTIVE, State.SUSPENDED):
        _start(batch, key, other.reservation_id, [other.id], priority, cause, why=OVERWRITTEN)


def reissue_at_desk(batch: KeyBatch, key: KeyCredential, priority: int, cause: Cause) -> None:
    """Starts the reissue of a key that is resumed while its card opens none of its rooms any more: its guest left them while it
    was suspended. Inside the tenant's block."""
    if key.reservation_id:
        _start(batch, key, key.reservation_id, [key.id], priority, cause, why=MOVED_AWAY)


def reissue_beside(batch: KeyBatch, key: KeyCredential, others: Sequence[KeyCredential], priority: int, cause: Cause) -> None:
    """Starts the reissue of other stays' keys that this one ends when it is used: those that are given join it. Inside the
    tenant's block."""
    stays: dict[str, list[str]] = defaultdict(list)
    for other in others:
        stays[str(other.reservation_id)].append(other.id)
    for reservation_id, ids in sorted(stays.items()):
        _start(batch, key, reservation_id, sorted(ids), priority, cause, why=OUTRANKED)


def _start(
    batch: KeyBatch, key: KeyCredential, reservation_id: str, ids: list[str], priority: int, cause: Cause, *, why: str = ""
) -> None:
    item = Start(
        flow=FLOW,
        key=own_key("reissue-killed", key.id, reservation_id, *ids),  # a later answer may name others
        lane=internal_lane(key.tenant_id),
        reservation_id=reservation_id,
        priority=priority,
        args={"by": key.id, "keys": ids, **({"why": why} if why else {})},
    )
    batch.start(item, cause)


def _neighbours(key: KeyCredential) -> list[KeyCredential]:
    """The live keys at the same installation and a room of this one, of kinds that it can kill; itself and its predecessor
    not. Read without locks: whoever acts on them looks again."""
    spanning = [CredentialKind(kind).value for kind in adapters.manifest(key.vendor).spanning_kinds]
    rows = KeyCredential.objects.filter(
        tenant_id=key.tenant_id,
        installation_id=key.installation_id,
        kind__in=spanning,
        state__in=[State.ACTIVE.value, State.SUSPENDED.value],
        rooms__overlap=list(key.rooms),
    )
    return list(rows.exclude(id__in=[key.id, key.replaces or ""]).order_by("id"))
