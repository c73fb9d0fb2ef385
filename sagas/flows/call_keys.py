"""Names the calls of a credential, so that one intended effect has one idempotency key over all of its attempts.

One rule: the mark that a vendor keeps is computed again from these keys alone; nothing of it is stored.
"""

from __future__ import annotations

from collections.abc import Sequence

from credentials.models import CredentialDoor, KeyCredential
from credentials.services import KeyBatch
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


def level_rounds(batch: KeyBatch, key: KeyCredential, doors: Sequence[CredentialDoor]) -> None:
    """Lets one key for several doors be given at `doors` in one round, which no door of it, also one left meanwhile, has had.

    A new door counts from 0, and what was taken back or refused at another one would be asked for again under its own name. An
    answer that is still out keeps its round: what it may have made is looked for there.
    """
    open_rounds = [door.rounds for door in doors if door.verb]
    rounds = max(open_rounds or (door.rounds for door in batch.doors_at(key)), default=0)
    for door in doors:
        if not door.verb and door.rounds != rounds:
            door.rounds = rounds
            batch.touch_door(door)
