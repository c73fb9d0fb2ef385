"""A card on the encoder that carries another live key: what the key that was to be written on it does then.

| whose key lies on the card | what happens |
|---|---|
| the key's own, of an earlier try or round | it is written over |
| one that is over in our books, which the lock system could not be told | it is written over |
| another key of the same stay that opens | it is written over; that key ends, and another one for it waits at the desk |
| a live key of another stay, or one that is not ours | the key waits, until a person confirms that very key |

One rule: what is on a card is lost only by the word of a person, and that word is for the key she was told of.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection

from credentials import notices
from credentials.lifecycle import LIVE, TERMINAL, WAITING, State
from credentials.models import CredentialDoor, DoorState, KeyCredential
from credentials.services import KeyBatch
from credentials.targets import Verb
from sagas.flows import issue_key, wake_sagas
from sagas.flows.call_keys import round_key
from sagas.models import Saga, SagaStatus
from sagas.steps import Call, StepContext, Work
from vendors.port.errors import CardKey, LockError, Reason
from vendors.port.secrets import CardNumber
from vendors.support.marks import mark_of, tag_of

CODE: Final = notices.CARD_IN_USE
WAITS_FOR_WORD: Final = "the card on the encoder carries another valid key"
TOLD: Final = "cardInUse"
"""The saga's argument that names the key a person was told of: `name` at the vendor, `credential` if it is one of ours."""
FIELD: Final = "confirmCardInUse"
"""The API's field for a confirmation; in a refusal, what would have to be confirmed."""
KEY_ON_CARD: Final = r"^[a-z]{2,8}_[0-9A-Za-z]{1,40}\Z"
"""What `subject_of` makes, as a pattern for input."""
NUMBER_OF: Final = "numberOf"
"""The saga's argument with the keys whose card's number a key has taken over, where a lock knows cards by their numbers."""
OVERWRITES: Final = "overwrites"
"""The saga's argument with the names of the keys that may be written over."""
AT_ONCE = 3
"""How many keys that nobody needs any more are written over in one saga without asking; a card holds no more."""
LOOK_BACK = timedelta(days=60)
"""How long after a key's end, as our books have it, a card may still carry it with another end."""


def take(
    context: StepContext, work: Work, key: KeyCredential, call: Call, doors: list[CredentialDoor], error: LockError
) -> bool:
    """Takes the answer that a card which was to be written carries another key. False for any other answer, and for a key that
    opens already: it is refused. Nothing was written, and nothing of the key is there: an adapter looks for its own first."""
    if error.reason is not Reason.CARD_IN_USE or call.verb is not Verb.ISSUE:
        return False
    found = error.on_card or CardKey("")
    owner = owner_of(key.tenant_id, key.property_id, found, context.now)
    over: list[str] = list(work.args.get(OVERWRITES, ()))
    if owner is not None and _needs_no_word(key, owner) and found.name not in over and len(over) < AT_ONCE:
        work.args = {**work.args, OVERWRITES: [*over, found.name]}
    elif key.state == State.PENDING:
        # A word is for one try: what was confirmed of an earlier card must not be read later, when that card lies there again.
        kept = {name: value for name, value in work.args.items() if name != OVERWRITES}
        work.args = {**kept, TOLD: {"name": found.name, "credential": owner.id if owner is not None else ""}}
        key.waiting_for = issue_key.DESK
        notices.clear(key, CODE)
        notices.warn(key, CODE, detail(owner), subject_of(work.args[TOLD]))
    else:
        return False
    for door in doors:
        door.verb, door.due_at, door.resume_token_sealed = "", None, None
        door.attempts = max(0, door.attempts - 1)
        door.rounds += 1  # what was refused is not asked again under its own name
        context.batch.touch_door(door)
    return True


def _needs_no_word(key: KeyCredential, owner: KeyCredential) -> bool:
    """Says whether nobody is asked before the owner's card becomes this key's: it is no live key of another stay."""
    if owner.id == key.id or owner.state in TERMINAL:
        return True
    return is_of_stay(key, owner) and owner.state not in WAITING


def is_of_stay(key: KeyCredential, other: KeyCredential) -> bool:
    """Says whether both are keys of one stay."""
    return key.reservation_id is not None and key.reservation_id == other.reservation_id


def has_stopped(key: KeyCredential) -> bool:
    """Says whether the key waits for a person to confirm, or to lay another card."""
    return key.state == State.PENDING and key.waiting_for == issue_key.DESK


def told_to(tenant_id: str, credential_id: str) -> Saga | None:
    """Returns the saga of a key that has stopped, whose arguments name what was on the card."""
    rows = Saga.objects.filter(tenant_id=tenant_id, credential_id=credential_id, status=SagaStatus.DEAD)
    return rows.filter(**{f"args__{TOLD}__isnull": False}).order_by("-position").first()


def subject_of(told: dict[str, Any]) -> str:
    """Returns the id by which a person confirms what she was told of: our key's, or one made of a strange key's name."""
    return told.get("credential") or f"card_{hashlib.sha256(told.get('name', '').encode()).hexdigest()[:20]}"


def owner_on_its_way(saga: Saga) -> KeyCredential | None:
    """Returns the key on the card that was told of while nobody knows yet what becomes of it: it cannot be ended properly."""
    told: dict[str, Any] = saga.args.get(TOLD, {})
    rows = KeyCredential.objects.filter(tenant_id=saga.tenant_id, id=told.get("credential", ""))
    return rows.filter(state__in=sorted(WAITING)).first()


def go_on(batch: KeyBatch, key: KeyCredential, saga: Saga, *, confirmed: bool) -> None:
    """Lets a stopped key be written, on another card, or over the key that was told of if that is confirmed."""
    told = saga.args.get(TOLD, {})
    args = {name: value for name, value in saga.args.items() if name != TOLD}
    if confirmed:
        args[OVERWRITES] = [*args.get(OVERWRITES, ()), told.get("name", "")]
    key.waiting_for = ""
    notices.clear(key, CODE)
    batch.touch(key)
    Saga.objects.filter(tenant_id=saga.tenant_id, id=saga.id).update(args=args, error_code="", error_detail="")
    wake_sagas.wake(Saga.objects.filter(tenant_id=saga.tenant_id, id=saga.id))


def owner_of(tenant_id: str, property_id: str, found: CardKey, now: datetime) -> KeyCredential | None:
    """Returns the key of the property that a card carries, read without a lock; None for one that is not ours."""
    owner_id = _owner_id(tenant_id, property_id, found, now)
    return KeyCredential.objects.get(tenant_id=tenant_id, id=owner_id) if owner_id else None


def _owner_id(tenant_id: str, property_id: str, found: CardKey, now: datetime) -> str:
    if found.tag is None and found.nonce is None:
        return ""
    rows = KeyCredential.objects.filter(
        tenant_id=tenant_id, property_id=property_id, valid_until__gt=now - LOOK_BACK, kind__in=sorted(notices.ON_CARDS)
    )
    keys = rows.values_list("id", "issue_key")
    if found.tag is not None:
        return next((key_id for key_id, _ in keys if tag_of(key_id) == found.tag), "")
    given_anew = CredentialDoor.objects.filter(tenant_id=tenant_id, credential__in=rows, rounds__gt=0)
    rounds = dict(given_anew.order_by("rounds").values_list("credential_id", "rounds"))
    return next((key_id for key_id, name in keys if found.nonce in _marks(name, rounds.get(key_id, 0))), "")


def _marks(issue_key_text: str, rounds: int) -> set[str]:
    return {mark_of(round_key(issue_key_text, number)) for number in range(rounds + 1)}


def with_number(key: KeyCredential, number: CardNumber, now: datetime) -> list[KeyCredential]:
    """Returns the property's other keys on the card of this number, where a key is known by it: live ones, also between their
    end and the moment that they are taken back, and those that a door may still hold. Until the transaction ends no other key
    is given a card by its number."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"card\x1f{key.tenant_id}\x1f{key.property_id}"]
        )
    rows = KeyCredential.objects.filter(tenant_id=key.tenant_id, card_number_sealed__isnull=False).exclude(id=key.id)
    live = rows.filter(property_id=key.property_id, state__in=sorted(LIVE)).order_by("id")
    over = rows.filter(state__in=sorted(TERMINAL), open_work=True).order_by("id")  # few, in all of a tenant's houses
    here = [*live, *(row for row in over if row.property_id == key.property_id)]
    return [row for row in here if _same(issue_key.card_of(row), number)]


def still_at(key: KeyCredential, device_ids: list[str]) -> set[str]:
    """Returns the devices that may still know the card's number as another key's. Given there now, the number would be taken
    away with that key."""
    if key.card_number_sealed is None:
        return set()
    rows = Saga.objects.filter(tenant_id=key.tenant_id, credential_id=key.id, args__has_key=NUMBER_OF)
    others = [other for args in rows.values_list("args", flat=True) for other in args[NUMBER_OF]]
    if not others:
        return set()
    held = CredentialDoor.objects.filter(tenant_id=key.tenant_id, credential_id__in=others, device_id__in=device_ids)
    held = held.exclude(state__in=[DoorState.NONE.value, DoorState.ABSENT.value], verb="")
    return set(held.values_list("device_id", flat=True))


def _same(held: CardNumber | None, number: CardNumber) -> bool:
    return held is not None and held.reveal().lstrip("0") == number.reveal().lstrip("0")


def detail(owner: KeyCredential | None) -> str:
    """Says what lies on the card. No guest's name: the text stands in bodies and records."""
    if owner is None:
        return "the card still holds a valid key that is not of this house's books; lay another card, or confirm"
    return f"the card still holds the valid key {owner.id}; lay another card, or confirm"
