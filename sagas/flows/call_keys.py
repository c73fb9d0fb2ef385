"""Names the calls of a credential, so that one intended effect has one idempotency key over all of its attempts.

One rule: the mark that a vendor keeps is computed again from these keys alone; nothing of it is stored.
"""

from __future__ import annotations

from credentials.models import KeyCredential
from credentials.targets import Verb
from sagas.intake import own_key


def call_key(key: KeyCredential, verb: Verb, rounds: int, version: int | None = None) -> str:
    """Returns the key of one intended effect at doors: retries share it, giving a key anew after taking it back does not."""
    if verb is Verb.ISSUE:
        return issue_call_key(key, rounds)
    return own_key("call", verb.value, key.issue_key, str(key.desired_version if version is None else version), str(rounds))


def issue_call_key(key: KeyCredential, rounds: int) -> str:
    """Returns the idempotency key under which a key is given at a door for the (rounds + 1)-th time; its mark lies there."""
    return round_key(key.issue_key, rounds)


def round_key(issue_key: str, rounds: int) -> str:
    """Returns the same of a key of which only the issue key is known."""
    return own_key("round", issue_key, str(rounds)) if rounds else issue_key
