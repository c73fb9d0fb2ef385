"""Faults planted in the product, each of which random stays must find: the proof that the oracle sees.

`make oracle-proof` plays lives on the product with one fault after the other, and prints after how many steps each was found
(`find_mutations`).

One rule: a mutation is a small, plausible mistake in one function, put there for the length of a `with` block.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from credentials import overlaps, reservations
from credentials.policy import KeyKindPolicy
from credentials.targets import Verb
from devices import adapters, registration
from lockservice.core import http_idempotency
from sagas import housekeeping, known_actions, runner, steps
from sagas.flows import (
    card_in_use,
    follow_booking,
    follow_rest,
    follow_stays,
    guest_came,
    issue_key,
    rest_key,
    revoke_key,
    update_key,
)
from vendors.port.types import CallResult, CredentialKind, DoorResult, IssueResult, Outcome, RevokeReason

Patched = AbstractContextManager[Any]


@dataclass(frozen=True)
class Mutation:
    """A planted fault, and the house in whose lives it is looked for."""

    name: str
    plant: Callable[[], Patched]
    house: str = "ttlock"
    faults: bool = False


def _answered(call: steps.Call, devices: tuple[str, ...]) -> CallResult:
    return CallResult(tuple(DoorResult(device, Outcome.DONE) for device in devices))


def _pretend(verb: Verb) -> Patched:
    """Answer that a verb was done, and ask nobody."""
    real = steps.act

    def act(call: steps.Call) -> steps.Answer:
        if call.verb is not verb or call.issue is not None:
            return real(call)
        return steps.Answer(call, _answered(call, call.device_ids), None, "", 1)

    return patch.object(runner, "act", act)


def _leave_a_door(verb: Verb) -> Patched:
    """Ask for all doors but the last, and say that all are done. A call for one door alone is left as it is."""
    real = steps.act

    def act(call: steps.Call) -> steps.Answer:
        if call.verb is not verb or call.issue is not None or len(call.device_ids) < 2:
            return real(call)
        fewer = replace(call, handle=replace(call.handle, doors=call.handle.doors[:-1]))
        if call.change is not None:
            fewer = replace(fewer, change=replace(call.change, handle=fewer.handle))
        answer = real(fewer)
        if answer.result is None:
            return replace(answer, call=call)
        rest = _answered(call, call.device_ids[-1:]).doors
        return replace(answer, call=call, result=replace(answer.result, doors=(*answer.result.doors, *rest)))

    return patch.object(runner, "act", act)


def _believe_a_hang_up() -> Patched:
    """Take a revoke whose answer was lost for one that was done."""
    real = steps.act

    def act(call: steps.Call) -> steps.Answer:
        answer = real(call)
        if call.verb is not Verb.REVOKE or (answer.error is None and answer.result is not None and _all_done(answer.result)):
            return answer
        return steps.Answer(call, _answered(call, call.device_ids), None, "", 1)

    return patch.object(runner, "act", act)


def _all_done(result: CallResult) -> bool:
    return all(door.outcome is Outcome.DONE for door in result.doors)


def _no_grace() -> Patched:
    return patch.object(KeyKindPolicy, "widen", lambda self, window: window)


def _older_versions() -> Patched:
    def advance(row: Any, event: Any, now: Any) -> reservations.Applied:
        before = row.status
        reservations._overwrite(row, event, now)
        row.save()
        return reservations.Applied(row, before, is_new_version=True)

    return patch.object(reservations, "_advance", advance)


def _no_incarnation() -> Patched:
    real = reservations._overwrite

    def overwrite(row: Any, event: Any, now: Any) -> None:
        incarnation = row.incarnation
        real(row, event, now)
        row.incarnation = incarnation

    return patch.object(reservations, "_overwrite", overwrite)


def _a_lobby_forgotten() -> Patched:
    real = issue_key.doors_for
    return patch.object(
        issue_key,
        "doors_for",
        lambda *given, **named: [d for d in real(*given, **named) if not d.shared] or real(*given, **named),
    )


def _no_show_of_who_came() -> Patched:
    return patch.object(guest_came, "tell", lambda *given, **named: False)


def _no_show_forgotten() -> Patched:
    return patch.object(follow_booking, "run_no_show", lambda *given, **named: None)


@contextmanager
def _same_request_twice() -> Iterator[None]:
    real = http_idempotency.once

    def once(call: Any, work: Any, *, atomic: bool = True) -> Any:
        return real(replace(call, key=os.urandom(16).hex()), work, atomic=atomic)

    with (
        patch.object(http_idempotency, "once", once),
        patch("lockservice.api.acting.once", once),
        patch.object(known_actions, "take", lambda *given: None),
    ):
        yield


def _ending_keeps_keys() -> Patched:
    return patch.object(follow_booking, "_end", lambda *given, **named: None)


def _only_first_key_ends() -> Patched:
    real = revoke_key.begin

    def begin(batch: Any, key: Any, reason: RevokeReason, *given: Any, **named: Any) -> bool:
        by_booking = reason in (RevokeReason.CANCELLATION, RevokeReason.CHECKOUT)
        return False if key.ordinal and by_booking else real(batch, key, reason, *given, **named)

    return patch.object(revoke_key, "begin", begin)


def _only_first_key_follows() -> Patched:
    real = update_key.begin

    def begin(batch: Any, place: Any, key: Any, *given: Any, **named: Any) -> bool:
        return False if key.ordinal and not named.get("grace_included") else real(batch, place, key, *given, **named)

    return patch.object(update_key, "begin", begin)


def _old_room_kept() -> Patched:
    real = update_key._regroup_doors

    def regroup(batch: Any, key: Any, standing: Any, wanted: Any) -> None:
        real(batch, key, standing, wanted)
        for door in standing.values():
            door.dropped = False

    return patch.object(update_key, "_regroup_doors", regroup)


def _new_room_missed() -> Patched:
    real = update_key._regroup_doors

    def regroup(batch: Any, key: Any, standing: Any, wanted: Any) -> None:
        real(batch, key, standing, {device: facts for device, facts in wanted.items() if device in standing} or wanted)

    return patch.object(update_key, "_regroup_doors", regroup)


def _end_not_moved() -> Patched:
    real = update_key._change_window

    def change(batch: Any, place: Any, key: Any, window: Any, *, grace_included: bool) -> dict[str, Any]:
        until, ends = key.valid_until, key.ends_at
        changes = real(batch, place, key, window, grace_included=grace_included)
        if changes and until > batch.now:
            key.valid_until, key.ends_at = until, ends
        return changes

    return patch.object(update_key, "_change_window", change)


def _another_zone() -> Patched:
    """Take another zone for the one that locks keep their wall clocks in."""
    real = adapters.registry.build

    def build(code: str, context: Any) -> Any:
        settings = {name: "Asia/Tokyo" if name == "time_zone" else value for name, value in context.settings.items()}
        return real(code, replace(context, settings=settings, time_zone="Asia/Tokyo"))

    return patch.object(adapters.registry, "build", build)


def _suspended_moves_wake() -> Patched:
    return patch.object(follow_rest, "_followed", lambda *given: [])


def _resumed_by_any_booking() -> Patched:
    real = follow_booking._match_rooms

    def match(batch: Any, place: Any, row: Any, event_id: str, cause: Any, **named: Any) -> None:
        real(batch, place, row, event_id, cause, **named)
        for key in batch.of_stay(row.reservation_id):
            if key.state == "suspended" and key.valid_until > batch.now:
                rest_key.unsuspend(batch, key, f"mutation-{event_id}-{key.id}", cause)

    return patch.object(follow_booking, "_match_rooms", match)


def _card_in_use_unasked() -> Patched:
    return patch.object(card_in_use, "_needs_no_word", lambda *given: True)


def _unwritten_cards_count() -> Patched:
    """Take a card for written whatever the encoder says."""
    real = steps.act

    def act(call: steps.Call) -> steps.Answer:
        answer = real(call)
        if call.verb is not Verb.ISSUE or answer.error is None:
            return answer
        written = IssueResult(_answered(call, call.device_ids).doors, kind=CredentialKind.RFID_CARD)
        return steps.Answer(call, written, None, "", 1)

    return patch.object(runner, "act", act)


MUTATIONS = [
    Mutation("a revoke is skipped", lambda: _pretend(Verb.REVOKE)),
    Mutation("a suspension is skipped", lambda: _pretend(Verb.SUSPEND)),
    Mutation("a resumption is skipped", lambda: _pretend(Verb.UNSUSPEND)),
    Mutation("a revoke leaves a door", lambda: _leave_a_door(Verb.REVOKE), "mock"),
    Mutation("a suspension leaves a door", lambda: _leave_a_door(Verb.SUSPEND), "mock"),
    Mutation("a change leaves a door", lambda: _leave_a_door(Verb.UPDATE), "mock"),
    Mutation("a revoke that hung up is believed", _believe_a_hang_up, "ttlock", faults=True),
    Mutation("grace is ignored", _no_grace),
    Mutation("the lobby is forgotten", _a_lobby_forgotten),
    Mutation("an older version counts", _older_versions),
    Mutation("a reinstated booking is the old one", _no_incarnation),
    Mutation("a no-show who came is suspended", _no_show_of_who_came),
    Mutation("a no-show is forgotten", _no_show_forgotten),
    Mutation("an old request acts again", _same_request_twice),
    Mutation("an ended booking keeps its keys", _ending_keeps_keys),
    Mutation("a companion's key outlives the stay", _only_first_key_ends),
    Mutation("a companion's key follows no change", _only_first_key_follows),
    Mutation("the old room is kept", _old_room_kept),
    Mutation("the new room is missed", _new_room_missed),
    Mutation("a moved end is ignored", _end_not_moved),
    Mutation("the wrong zone", _another_zone, "visionline"),
    Mutation("a room on another system wakes a suspended guest", _suspended_moves_wake, "mixed"),
    Mutation("a booking event resumes what a person suspended", _resumed_by_any_booking),
    Mutation("a card in use is written over unasked", _card_in_use_unasked, "salto"),
    Mutation("a phone keeps its key", lambda: _pretend(Verb.REVOKE), "vostio phones"),
    Mutation("two stays in one room are not told", lambda: patch.object(overlaps, "neighbours", lambda *given: {}), "mock"),
    Mutation("changed hours move nobody", lambda: patch.object(follow_stays, "_moves", lambda *given: False)),
    Mutation("keys do not follow a swapped lock", lambda: patch.object(registration, "_let_keys_follow", lambda *given: None)),
    Mutation("what an absent desk did not write counts", _unwritten_cards_count, "salto"),
    Mutation("ended windows are not swept", lambda: patch.object(housekeeping, "_due", dict)),
]

BY_NAME = {mutation.name: mutation for mutation in MUTATIONS}
