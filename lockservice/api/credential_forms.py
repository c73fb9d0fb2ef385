"""What callers may send about credentials.

The one rule: whatever can be seen to be wrong without the database is refused here, by field.
"""

from __future__ import annotations

from typing import Any, Final

from django.core.validators import RegexValidator
from rest_framework import serializers

from credentials.lifecycle import State
from lockservice.core.http_pages import DEFAULT_ROWS, MAX_ROWS
from lockservice.core.http_strict import Instant, OpaqueId, StrictBody, Text, Truth, Word, Words, shape
from sagas.flows.card_in_use import KEY_ON_CARD
from vendors.port.types import Area, CredentialKind, Intent, RevokeReason, SuspendReason

MAX_ROOMS: Final = 50


def _rooms(**options: Any) -> Words:
    return Words(child=OpaqueId(), min_length=1, max_length=MAX_ROOMS, **options)


def _areas(**options: Any) -> Words:
    return Words(child=Word(Area), max_length=len(Area), **options)


class _Windowed(StrictBody):
    """Refuses a window that ends before it starts."""

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Compares both ends where both are given."""
        start, end = attrs.get("validFrom"), attrs.get("validUntil")
        if start is not None and end is not None and end <= start:
            raise serializers.ValidationError({"validUntil": ["must lie after validFrom"]})
        return attrs


class _Change(_Windowed):
    """Refuses a change of nothing, and of the papers together with something else."""

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Counts what is to be changed."""
        if not attrs:
            raise serializers.ValidationError({"body": ["must change something"]})
        if "idVerified" in attrs and (len(attrs) > 1 or not attrs["idVerified"]):
            raise serializers.ValidationError({"idVerified": ["may only be true, and stands alone"]})
        return super().validate(attrs)


IssueForm = shape(
    "CredentialIssue",
    _Windowed,
    reservationId=OpaqueId(help_text="The stay the key belongs to; what is not given is taken from it."),
    propertyId=OpaqueId(required=False),
    rooms=_rooms(required=False),
    validFrom=Instant(required=False, help_text="Included; now if neither given nor known from the stay."),
    validUntil=Instant(required=False, help_text="Excluded."),
    holderId=OpaqueId(required=False),
    preferredKinds=Words(child=Word(CredentialKind), max_length=len(CredentialKind), required=False),
    areas=_areas(required=False),
    floors=Words(child=Text(max_length=16), max_length=50, required=False),
    intent=Word([Intent.NEW, Intent.ADDITIONAL], required=False, help_text="`additional` kills no earlier key; the default."),
    channelHint=Word(["mobile", "desk", "kiosk"], required=False),
    reason=Text(
        min_length=3,
        max_length=200,
        required=False,
        help_text="Why a key is issued for a stay that no booking told of; needed there, with `lock.key.issue.unbooked`.",
    ),
)
ChangeForm = shape(
    "CredentialChange",
    _Change,
    validFrom=Instant(required=False),
    validUntil=Instant(required=False),
    rooms=_rooms(required=False),
    areas=_areas(required=False),
    idVerified=Truth(
        required=False, help_text="true: the desk has seen the guest's papers; a key that waits for them goes on."
    ),
)
RevokeForm = shape(
    "CredentialRevoke",
    StrictBody,
    reason=Word(RevokeReason),
    reissue=Truth(required=False, help_text="For `lost`: false gives no successor."),
    kind=Word(CredentialKind, required=False, help_text="For `lost`: the successor's kind; the same if not given."),
)
SuspendForm = shape("CredentialSuspend", StrictBody, reason=Word(SuspendReason))
ReplaceForm = shape("CredentialReplace", StrictBody, kind=Word(CredentialKind, required=False))
EncodeForm = shape(
    "CredentialEncode",
    StrictBody,
    cardNumber=serializers.RegexField(
        r"^[0-9]{1,20}\Z", required=False, help_text="The number of the card as the desk's reader shows it, in decimal."
    ),
    confirmCardInUse=serializers.RegexField(
        KEY_ON_CARD,
        required=False,
        help_text="A person confirms that this key may be written over: the key's `cardInUse`, or the field of this name in the"
        " answer CARD_IN_USE. The card's other guest gets another card. No other key is confirmed: then CARD_IN_USE again.",
    ),
)
PinForm = shape(
    "CredentialPin",
    StrictBody,
    pin=Text(
        write_only=True,
        validators=[RegexValidator(r"^[0-9]{4,9}\Z", "must be 4 to 9 digits")],
        help_text="As many digits as the house's PINs have. Never told again, and kept sealed.",
    ),
    reason=Text(min_length=3, max_length=200, help_text="Why the digits are chosen by hand; kept with who asked. No digits."),
)
ListQuery = shape(
    "CredentialList",
    StrictBody,
    reservationId=OpaqueId(required=False),
    propertyId=OpaqueId(required=False),
    state=Word(State, required=False),
    kind=Word(CredentialKind, required=False),
    holderId=OpaqueId(required=False),
    limit=serializers.IntegerField(min_value=1, max_value=MAX_ROWS, required=False, default=DEFAULT_ROWS),
    cursor=Text(max_length=600, required=False),
)
TimelineQuery = shape(
    "CredentialTimeline",
    StrictBody,
    limit=serializers.IntegerField(min_value=1, max_value=MAX_ROWS, required=False, default=MAX_ROWS),
    cursor=Text(max_length=600, required=False),
)
