"""A vendor that says *too fast* between two requests of a verb: what was done is never taken for nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.vendors.asking import Tipping, issue, meta, stepwise
from tests.vendors.site import Site, handle_for, request_for, stay
from vendors.port.errors import LockError
from vendors.port.secrets import VendorRef
from vendors.port.types import (
    CallMeta,
    CallResult,
    CredentialHandle,
    CredentialKind,
    Door,
    DoorResult,
    IssueResult,
    Outcome,
    RevokeReason,
    SuspendReason,
    UpdateInput,
)

Verb = Callable[[CallMeta, tuple[Door, ...]], CallResult]
State = Callable[[Door], object]
LATER = timedelta(hours=60)
TRIES = 7


@pytest.fixture
def tipping(site: Site) -> Tipping:
    """The limiter of an adapter that has logged in already."""
    site.limiter = limiter = Tipping()
    site.refresh()
    site.port.list_devices("ppt_test")
    return limiter


def until_done(verb: Verb, doors: tuple[Door, ...], state: State) -> list[CallResult]:
    """Asks as the service does: what was refused as no attempt is asked again as if for the first time, whatever else is in
    doubt is asked again as a later attempt, and what is done is asked no more. Where it counts as no attempt, nothing at all
    may have changed."""
    first, answers = meta(), []
    left, doubtful = {door.device_id: door for door in doors}, set[str]()
    for _ in range(TRIES):
        before = {name: state(door) for name, door in left.items()}
        answer = _asked(verb, replace(first, attempt=2 if doubtful & set(left) else 1), tuple(left.values()))
        answers.append(answer)
        for row in answer.doors:
            if row.outcome not in {Outcome.FAILED, Outcome.UNKNOWN}:
                del left[row.device_id]
            elif row.error is not None and row.error.throttled:
                assert state(left[row.device_id]) == before[row.device_id]
            else:
                doubtful.add(row.device_id)
        if not left:
            return answers
    raise AssertionError("not done")


def _asked(verb: Verb, m: CallMeta, doors: tuple[Door, ...]) -> CallResult:
    """What a verb that raises says, it says of each door."""
    try:
        return verb(m, doors)
    except LockError as error:
        if not error.retriable:
            raise
        return CallResult(tuple(DoorResult(door.device_id, Outcome.UNKNOWN, error=error) for door in doors))


def refs_of(answers: list[CallResult]) -> dict[str, VendorRef | None]:
    return {row.device_id: row.ref for answer in answers for row in answer.doors if row.outcome is Outcome.DONE}


@stepwise
@pytest.mark.parametrize("number", [2, 3])
def test_a_key_whose_making_was_cut_by_a_limit_is_there_once(
    site: Site, kind: CredentialKind, tipping: Tipping, number: int
) -> None:
    doors = site.doors[:2]
    request = request_for(site, kind, doors)
    tipping.before(number, site.limit)
    answers = until_done(
        lambda m, some: site.port.issue_credential(replace(request, doors=some, meta=replace(request.meta, attempt=m.attempt))),
        doors,
        site.keys_at,
    )
    made = max(
        (answer for answer in answers if isinstance(answer, IssueResult)), key=lambda answer: answer.artifact is not None
    )
    whole = replace(made, doors=tuple(replace(row, ref=refs_of(answers).get(row.device_id)) for row in made.doors))
    value = site.presented(whole, request)
    assert [site.keys_at(door) for door in doors] == [1, 1]
    assert [site.opens(door, kind, value) for door in doors] == [True, True]


@stepwise
@pytest.mark.parametrize("number", [2, 3, 4])
@pytest.mark.parametrize("verb", ["update", "suspend", "unsuspend", "revoke"])
def test_a_verb_cut_by_a_limit_ends_as_if_it_had_not_been(
    site: Site, kind: CredentialKind, tipping: Tipping, verb: str, number: int
) -> None:
    doors = site.doors[:2]
    request, result = issue(site, kind, doors=doors)
    value = site.presented(result, request)
    handle = handle_for(request, result)
    if verb == "unsuspend":
        handle = handle_for(request, site.port.suspend_credential(handle, SuspendReason.MANUAL, meta()))

    def at(some: tuple[Door, ...]) -> CredentialHandle:
        names = {door.device_id for door in some}
        return replace(handle, doors=tuple(door for door in handle.doors if door.device_id in names))

    verbs: dict[str, Verb] = {
        "update": lambda m, some: site.port.update_credential(UpdateInput(replace(at(some), window=stay(-1, 90)), m)),
        "suspend": lambda m, some: site.port.suspend_credential(at(some), SuspendReason.MANUAL, m),
        "unsuspend": lambda m, some: site.port.unsuspend_credential(at(some), m),
        "revoke": lambda m, some: site.port.revoke_credential(at(some), RevokeReason.SECURITY, m),
    }

    def state(door: Door) -> object:
        later = datetime.now(UTC) + LATER
        return site.keys_at(door), site.opens(door, kind, value), site.opens(door, kind, value, later)

    tipping.before(number, site.limit)
    until_done(verbs[verb], doors, state)
    gone = verb == "revoke" or (verb == "suspend" and not site.keeps_resting_keys)
    opens = verb in {"update", "unsuspend"}
    assert [state(door) for door in doors] == [(0 if gone else 1, opens, verb == "update")] * 2


@stepwise
def test_a_key_that_an_earlier_attempt_made_gets_the_window_asked_for_now(site: Site, kind: CredentialKind) -> None:
    """The stay was made longer while nobody knew whether its key was there."""
    request, _ = issue(site, kind, doors=site.doors[:1])
    site.refresh()
    again = replace(request, window=stay(-1, 90), meta=replace(request.meta, attempt=2))
    result = site.port.issue_credential(again)
    assert [row.outcome for row in result.doors] == [Outcome.DONE]
    value = site.presented(result, again)
    assert site.opens(site.doors[0], kind, value, datetime.now(UTC) + LATER)
    assert site.keys_at(site.doors[0]) == 1
