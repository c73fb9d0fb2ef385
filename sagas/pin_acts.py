"""What a person may ask for about digits: to choose them.

One rule: the digits go to the key, sealed, and nowhere else: no event, no log, no text of a refusal.
"""

from __future__ import annotations

from credentials.house import House
from credentials.lifecycle import State
from credentials.models import KeyCredential
from credentials.services import KeyBatch
from lockservice.core import crypto
from sagas.acts import Act, Actor, Refused, act_on_key, issue_anew
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

    def do(batch: KeyBatch, place: House, key: KeyCredential, cause: Cause) -> KeyCredential | None:
        if key.kind != CredentialKind.PIN_CODE:
            raise Refused("TRANSITION_REFUSED", "the key is not a PIN")
        made = _anew(batch, place, key, cause) if key.state == State.FAILED else None
        if made is None and key.valid_until <= batch.now:
            raise Refused("CREDENTIAL_EXPIRED", "the key's window is over")
        try:
            choose_pin.begin(batch, place, made or key, pin, own_key("choose-pin", key.id, act_id), cause)
        except choose_pin.DigitsRefused as error:
            raise Refused("VALIDATION_FAILED", "these digits cannot be taken", {"pin": str(error)}) from None
        return made

    asked = (crypto.blind_index("pin", tenant_id, pin.reveal()).hex(),)
    return act_on_key(tenant_id, credential_id, "choose_pin", actor, act_id, asked, do, whole_stay=True)


def _anew(batch: KeyBatch, place: House, key: KeyCredential, cause: Cause) -> KeyCredential:
    made = issue_anew(batch, place, key, cause)
    if made.kind != CredentialKind.PIN_CODE:
        raise Refused("TRANSITION_REFUSED", "no PIN is possible at the stay's doors")
    batch.flush()
    return made
