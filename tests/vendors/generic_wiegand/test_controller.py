"""A controller in the house: what a desk may still enter is ended before a key is taken away, or taken away once more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.vendors.generic_wiegand.direct_relay import Work
from tests.vendors.generic_wiegand.harness import WiegandSite, process
from tests.vendors.site import handle_for, new_key, request_for
from vendors.port.protocol import Resume
from vendors.port.relay import JobState
from vendors.port.types import CallMeta, CredentialHandle, CredentialKind, Outcome, RevokeReason, SuspendReason

CARD = CredentialKind.RFID_CARD


@pytest.fixture
def site() -> Iterator[WiegandSite]:
    with process() as make:
        made = make()
        assert isinstance(made, WiegandSite)
        yield made


def meta() -> CallMeta:
    return CallMeta(new_key())


def begun(site: WiegandSite, state: JobState) -> tuple[CredentialHandle, Work, str]:
    """Returns a key that a desk has begun to enter and not ended, its job, and its card's number."""
    request = request_for(site, CARD)
    assert request.card_number is not None
    site.relay.is_held = True
    issued = site.port.issue_credential(request)
    site.relay.is_held = False
    assert [door.outcome for door in issued.doors] == [Outcome.DEFERRED] * len(request.doors)
    (work,) = site.relay.works
    work.standing = replace(work.standing, state=state)
    return handle_for(request, issued), work, request.card_number.reveal()


@pytest.mark.parametrize("verb", ["revoke", "suspend"])
def test_a_card_laid_down_after_the_key_was_called_off_opens_nothing(site: WiegandSite, verb: str) -> None:
    handle, work, number = begun(site, JobState.AT_DESK)
    call = meta()
    if verb == "revoke":
        asked = site.port.revoke_credential(handle, RevokeReason.CANCELLATION, call)
    else:
        asked = site.port.suspend_credential(handle, SuspendReason.MANUAL, call)
    assert {door.outcome for door in asked.doors} == {Outcome.DEFERRED}
    assert asked.resume_token is not None
    site.relay.do(work)  # the card is laid down in the last moment
    assert site.opens(handle.doors[0], CARD, number)
    port = site.port
    assert isinstance(port, Resume)
    done = port.resume(handle, asked.resume_token, call)
    assert {door.outcome for door in done.doors} == {Outcome.DONE}
    assert [site.opens(door, CARD, number) for door in handle.doors] == [False] * len(handle.doors)


def test_a_key_is_not_gone_for_certain_while_the_desk_that_enters_it_is_lost(site: WiegandSite) -> None:
    handle, work, number = begun(site, JobState.LOST)
    call = meta()
    asked = site.port.revoke_credential(handle, RevokeReason.CANCELLATION, call)
    assert {door.outcome for door in asked.doors} == {Outcome.UNKNOWN}
    assert [item.job.action for item in site.relay.works] == ["enrol", "withdraw"]
    site.relay.do(work)  # the desk was only cut off: it does the work, and says so when it is back
    assert site.opens(handle.doors[0], CARD, number)
    again = site.port.revoke_credential(handle, RevokeReason.CANCELLATION, call)
    assert {door.outcome for door in again.doors} == {Outcome.DONE}
    assert [site.opens(door, CARD, number) for door in handle.doors] == [False] * len(handle.doors)
