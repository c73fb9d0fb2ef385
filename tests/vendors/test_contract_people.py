"""Names of every script, and secrets that no error and no result gives away, at every vendor."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.vendors.asking import issue, meta
from tests.vendors.site import Site, Trouble, handle_for, new_pin
from vendors.port.errors import LockError
from vendors.port.types import CallResult, CredentialKind, Holder, IssueInput, IssueResult


@pytest.mark.parametrize("name", ["عبدالرحمن خان", "زرغونه احمدزۍ", "Müller\u200f \u202e", "王小明", ""])
def test_names_of_every_script_get_a_key(site: Site, kind: CredentialKind, name: str) -> None:
    holder = Holder("gst_2", name, "guest@example.org", "+93700123456")
    request, result = issue(site, kind, doors=site.doors[:1], holder=holder)
    assert site.opens(site.doors[0], kind, site.presented(result, request))


def test_no_secret_is_in_an_error_or_a_result(site: Site, kind: CredentialKind) -> None:
    request, result = issue(site, kind)
    refused = replace(request, credential_id="key_other", meta=meta())
    seen = [repr(result), repr(request), repr(handle_for(request, result)), repr(site.context())]
    for act in _provocations(site, refused):
        site.refresh()
        try:
            seen.append(repr(act()))
        except LockError as error:
            seen += [str(error), repr(error), error.vendor_message, "".join(traceback.format_exception(error))]
    secrets = [request.pin.reveal(), request.card_number.reveal(), site.presented(result, request)]
    secrets += [r.ref.reveal() for r in result.doors]
    secrets += [value for value in site.secrets().values() if "@" not in value]
    secrets += [request.holder.display_name, request.holder.phone_e164]
    text = "\n".join(seen)
    assert [s for s in secrets if s in text] == []


def _provocations(site: Site, refused: IssueInput) -> Iterator[Callable[[], CallResult]]:
    yield lambda: site.port.issue_credential(refused)
    for trouble in (Trouble.RESET_BEFORE, Trouble.RESET_AFTER):
        site.trouble(trouble)
        yield lambda: site.port.issue_credential(replace(refused, meta=meta(), pin=new_pin()))
    site.kill_door(site.doors[0])
    yield lambda: site.port.issue_credential(replace(refused, meta=meta(), doors=site.doors[:1]))


def test_results_know_their_calls(site: Site, kind: CredentialKind) -> None:
    before = site.request_count()
    _, result = issue(site, kind)
    assert isinstance(result, IssueResult)
    assert result.calls == site.request_count() - before
