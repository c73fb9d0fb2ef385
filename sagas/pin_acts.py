"""What a person may ask for about digits: to choose them.

One rule: the digits go to the key, sealed, and nowhere else: no event, no log, no text of a refusal.
"""

from __future__ import annotations

from credentials.house import House
from credentials.lifecycle import State
from credentials.models import KeyCredential
from credentials.services import KeyBatch
from sagas.acts import Act, Actor, Refused, act_on_key, issue_anew, read_act
from sagas.flows import choose_pin
from sagas.intake import own_key
from sagas.outbox import Cause
from vendors.port.secrets import Pin
from vendors.port.types import CredentialKind


def choose(tenant_id: str, credential_id: str, pin: Pin, actor: Actor, act_id: str) -> Act:
    """Takes digits for a PIN key; a failed one is issued anew with them, and the returned credential is its successor.

    Refused: NOT_FOUND, TRANSITION_REFUSED (no PIN key, or over), STAY_ENDED, CREDENTIAL_EXPIRED, VALIDATION_FAILED (a rule
    for digits).
    """
    made: list[KeyCredential] = []

    def do(batch: KeyBatch, place: House, key: KeyCredential, cause: Cause) -> None:
        if key.kind != CredentialKind.PIN_CODE:
            raise Refused("TRANSITION_REFUSED", "the key is not a PIN")
        target = key
        if key.state == State.FAILED:
            target = _anew(batch, place, key, cause)
            made.append(target)
        elif key.valid_until <= batch.now:
            raise Refused("CREDENTIAL_EXPIRED", "the key's window is over")
        try:
            choose_pin.begin(batch, place, target, pin, own_key("choose-pin", key.id, act_id), cause)
        except choose_pin.DigitsRefused as error:
            raise Refused("VALIDATION_FAILED", "these digits cannot be taken", {"pin": str(error)}) from None

    act = act_on_key(tenant_id, credential_id, "choose_pin", actor, do, whole_stay=True)
    return read_act(tenant_id, made[0].id) if made else act


def _anew(batch: KeyBatch, place: House, key: KeyCredential, cause: Cause) -> KeyCredential:
    made = issue_anew(batch, place, key, cause)
    if made.kind != CredentialKind.PIN_CODE:
        raise Refused("TRANSITION_REFUSED", "no PIN is possible at the stay's doors")
    batch.flush()
    return made
