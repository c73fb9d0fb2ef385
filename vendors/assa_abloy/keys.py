"""What both products share about keys: which doors are listed, what a card holds, the label, what the holder receives.

One rule: an entrance or an elevator is never listed; it opens because the room does (Seam's Visionline guide, high confidence).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from vendors.port.errors import KeyIssueFailed, LockError, Reason
from vendors.port.secrets import Token
from vendors.port.types import (
    Area,
    Artifact,
    CardArtifact,
    CredentialKind,
    Door,
    DoorResult,
    Holder,
    LockCapabilities,
    LockDevice,
    Outcome,
    Propagation,
    TokenArtifact,
    Warning,  # noqa: A004 - the contract calls it so
)
from vendors.support.marks import mark_of, tag_of
from vendors.support.per_door import failed

from .errors import DOOR_UNKNOWN, Refused
from .manifest import MANIFEST

CARD_KINDS = frozenset({CredentialKind.RFID_CARD, CredentialKind.NFC_TAG})
MAX_GUEST_ROOMS = 33
MAX_COMMON_DOORS = 28
"""What the 48-byte card image holds. The rooms must also follow each other; only the vendor knows their order."""

INVITED = Warning("APP_INVITATION", "the guest's app must redeem its invitation before the key reaches the phone")
COMMON, ENTRANCE, ELEVATOR = "common", "entrance", "elevator"
_TYPED = re.compile(rf"({COMMON}|{ENTRANCE}|{ELEVATOR}):(.+)")
_LABEL = re.compile(r"([0-9a-f]{16})([0-9a-f]{16})")


def choose_kind(preferred: Sequence[CredentialKind]) -> CredentialKind:
    """Returns the first wanted kind that can be made. Raises KeyIssueFailed for none."""
    for kind in preferred:
        if kind in MANIFEST.kinds:
            return kind
    raise KeyIssueFailed(MANIFEST.code, "no wanted kind can be made here", retriable=False, reason=Reason.KIND_UNSUPPORTED)


def external_id(kind: str, vendor_id: str) -> str:
    """Returns the id a door has with us: the vendor's own for a bedroom, `common:…`, `entrance:…`, `elevator:…` for others."""
    return f"{kind}:{vendor_id}" if kind in {COMMON, ENTRANCE, ELEVATOR} else vendor_id


def is_typed(name: str) -> bool:
    """Says whether a vendor's name for a door reads like our id for a shared one, so that the two cannot be told apart."""
    return _TYPED.fullmatch(name) is not None


def refused_device(label: str, vendor_id: str, why: str) -> LockDevice:
    """Returns a door of the vendor's list that cannot be a lock of ours, with why; nothing unprintable leaves here."""
    return LockDevice(
        external_id=_printable(vendor_id, 60),
        label=_printable(label or vendor_id, 60),
        online=False,
        capabilities=LockCapabilities(),
        refused=_printable(why, 120),
    )


def _printable(text: str, most: int) -> str:
    return "".join(letter for letter in text if letter.isprintable())[:most]


def vendor_id(door: Door) -> str:
    """Returns what the vendor calls the door."""
    found = _TYPED.fullmatch(door.external_id)
    return found[2] if found else door.external_id


def follows(door: Door) -> bool:
    """Says whether the door opens because the room does, so that it is not listed."""
    return door.external_id.startswith((f"{ENTRANCE}:", f"{ELEVATOR}:"))


@dataclass(frozen=True, slots=True)
class Listed:
    """The doors a key names, by the vendor's ids, in order and without doubles."""

    guest: tuple[str, ...]
    common: tuple[str, ...]

    def with_doors(self, more: Listed) -> Listed:
        """Returns these doors and more."""
        return Listed(_once((*self.guest, *more.guest)), _once((*self.common, *more.common)))

    def without(self, fewer: Listed) -> Listed:
        """Returns these doors but for some."""
        return Listed(
            tuple(d for d in self.guest if d not in fewer.guest), tuple(d for d in self.common if d not in fewer.common)
        )

    def names(self, door: Door) -> bool:
        """Says whether the key is for this door."""
        if follows(door):
            return bool(self.guest)
        return vendor_id(door) in (self.common if door.external_id.startswith(f"{COMMON}:") else self.guest)


def listed(doors: Iterable[Door], areas: Sequence[Area] = (), common_doors: Mapping[Area, str] | None = None) -> Listed:
    """Returns what to list for doors and shared areas; an area without a configured door is left out."""
    named = [door for door in doors if not follows(door)]
    common = [vendor_id(d) for d in named if d.external_id.startswith(f"{COMMON}:")]
    common += [door for area in areas if (door := (common_doors or {}).get(area))]
    guest = [vendor_id(d) for d in named if not d.external_id.startswith(f"{COMMON}:")]
    return Listed(_once(guest), _once(common))


def unknown_doors(doors: Sequence[Door], refused: Refused) -> list[Door]:
    """Returns those of the doors that a refusal says the vendor does not know; none where it refuses for something else."""
    return [door for door in doors if vendor_id(door) in refused.doors] if refused.code == DOOR_UNKNOWN else []


def receiver_of(holder: Holder) -> dict[str, str]:
    """Returns whom a phone's key goes to."""
    return {"phoneE164": holder.phone_e164} if holder.phone_e164 else {"appUserRef": holder.id}


def check_card(kind: CredentialKind, doors: Listed) -> None:
    """Raises KeyIssueFailed for more doors than a card holds, before the vendor is asked."""
    if kind in CARD_KINDS and (len(doors.guest) > MAX_GUEST_ROOMS or len(doors.common) > MAX_COMMON_DOORS):
        raise KeyIssueFailed(
            MANIFEST.code,
            f"a card holds {MAX_GUEST_ROOMS} rooms and {MAX_COMMON_DOORS} common doors",
            retriable=False,
            reason=Reason.DOOR_FULL,
        )


def label_of(idempotency_key: str, credential_id: str) -> str:
    """Returns the key's label at the vendor: 32 hex digits, which is all a label may have. The first half is our mark of the
    intended effect, the second of the credential; neither says anything of the guest."""
    return mark_of(idempotency_key)[3:] + tag_of(credential_id)[2:]


def mark_in(label: object) -> str | None:
    """Finds our mark in a label; None on a stranger's."""
    found = _LABEL.fullmatch(str(label or ""))
    return f"gk-{found[1]}" if found else None


def tag_in(label: object) -> str | None:
    """Finds the credential's tag in a label; None on a stranger's."""
    found = _LABEL.fullmatch(str(label or ""))
    return f"c-{found[2]}" if found else None


def phone_artifact(endpoint_id: str | None, invitation_code: str | None, credential_id: str) -> TokenArtifact:
    """Returns what the guest's app needs: its endpoint, the invitation to redeem where it has not, and which key is meant."""
    document = {"endpointId": endpoint_id, "invitationCode": invitation_code, "key": tag_of(credential_id)}
    return TokenArtifact("mobile_token", Token(json.dumps(document)))


def card_artifact(encoder: str | None, doors: Sequence[Door]) -> Artifact:
    """Returns where the card waits."""
    return CardArtifact(encoder or doors[0].device_id)


def reached(door: Door, until: datetime) -> tuple[Propagation, datetime | None]:
    """Returns how far a changed key has got: a lock on the network has heard of it, any other learns it from the next guest's
    key, or when the key ends."""
    return (Propagation.CONFIRMED, None) if door.has_remote else (Propagation.PROPAGATING, until)


def refused_door(door: Door, error: LockError) -> DoorResult:
    """Returns the result of a door the vendor refused, with the error naming it."""
    error.device_id = error.device_id or door.device_id
    return failed(door, error)


def gone(door: Door, until: datetime) -> DoorResult:
    """Returns the result of a door that has lost the key, or will."""
    propagation, not_after = reached(door, until)
    return DoorResult(door.device_id, Outcome.DONE, ref=None, propagation=propagation, effective_not_after=not_after)


def stale_card(kind: CredentialKind, rows: Sequence[DoorResult]) -> tuple[Warning, ...]:
    """Returns the warning after a change that locks off the network learn of only from the card, once it is written again."""
    if kind not in CARD_KINDS or all(row.propagation is Propagation.CONFIRMED for row in rows):
        return ()
    return (Warning("CARD_MUST_BE_UPDATED", "the card carries the earlier key until it is written again at the desk"),)


def capabilities_of(*, is_online: bool) -> LockCapabilities:
    """Returns what one lock can do: without a network it hears of a revoke only from the next key."""
    return LockCapabilities(
        mobile_key=True,
        card_encoding=True,
        nfc=True,
        remote_revoke=is_online,
        remote_issue=True,
        scope_areas=True,
    )


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
