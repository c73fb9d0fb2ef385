"""A credential as the API shows it: one body for lists, stays, operations and answers of acts.

The one rule: no vendor reference, no guest's name, and digits only where the caller may see them and asked for a key just now.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from django.urls import reverse
from rest_framework import serializers

from credentials import notices
from credentials.lifecycle import State
from credentials.models import CredentialDoor, DoorState, KeyCredential
from credentials.targets import next_verb
from devices.models import LockDevice
from lockservice.core import clock
from lockservice.core.http_strict import shape
from sagas import offered
from sagas.events.instants import format_instant
from vendors.port.types import CredentialKind, Intent, Propagation

_text = serializers.CharField
_moment = serializers.DateTimeField

WindowBody = shape(
    "Window",
    validFrom=_moment(help_text="Included."),
    validUntil=_moment(help_text="Excluded."),
)
DoorBody = shape(
    "CredentialDoor",
    deviceId=_text(),
    label=_text(allow_blank=True),
    roomId=_text(allow_null=True),
    state=serializers.ChoiceField(choices=DoorState.values),
    propagation=serializers.ChoiceField(choices=[str(item) for item in Propagation]),
    effectiveNotAfter=_moment(allow_null=True, help_text="When the door follows at the latest, while propagating."),
    isConfirmed=serializers.BooleanField(help_text="The door is known to carry what it shall."),
    errorCode=_text(allow_null=True),
)
WarningBody = shape("CredentialWarning", code=_text(), detail=_text(allow_blank=True))
CardBody = shape(
    "CardVersions",
    desired=serializers.IntegerField(),
    carried=serializers.IntegerField(),
    mustBeUpdated=serializers.BooleanField(help_text="The card in the guest's pocket is older than our books."),
)
LinksBody = shape("CredentialLinks", self=_text(), timeline=_text())

_COMMON: Final = {
    "id": _text(),
    "propertyId": _text(),
    "reservationId": _text(allow_null=True),
    "holderKind": serializers.ChoiceField(choices=["guest", "staff"]),
    "holderId": _text(allow_blank=True),
    "state": serializers.ChoiceField(choices=[str(item) for item in State]),
    "kind": serializers.ChoiceField(choices=[str(item) for item in CredentialKind]),
    "intent": serializers.ChoiceField(choices=[str(item) for item in Intent]),
    "vendor": _text(),
    "installationId": _text(),
    "rooms": serializers.ListField(child=_text()),
    "floors": serializers.ListField(child=_text()),
    "areas": serializers.ListField(child=_text()),
    "window": WindowBody(),
    "waitingFor": serializers.ChoiceField(choices=["desk", "room", "id"], allow_null=True),
    "propagation": serializers.ChoiceField(choices=[str(item) for item in Propagation]),
    "effectiveNotAfter": _moment(allow_null=True, help_text="When the last door follows at the latest, while propagating."),
    "doors": DoorBody(many=True),
    "doorsConfirmed": _text(help_text="For people: `2 of 3`."),
    "card": CardBody(allow_null=True, help_text="For keys on cards."),
    "warnings": WarningBody(many=True),
    "cardInUse": _text(
        allow_null=True,
        help_text="With the warning `CARD_IN_USE`: which key the card carries, as `encode` takes it to confirm.",
    ),
    "allowedActions": serializers.ListField(child=_text()),
    "suspendReason": _text(allow_null=True),
    "revokeReason": _text(allow_null=True),
    "failureCode": _text(allow_null=True),
    "replaces": _text(allow_null=True),
    "replacedBy": _text(allow_null=True),
    "provisional": serializers.BooleanField(),
    "requestedAt": _moment(),
    "issuedAt": _moment(allow_null=True),
    "endedAt": _moment(allow_null=True),
    "links": LinksBody(),
}
CredentialBody = shape("Credential", **_COMMON)
_PIN: Final = _text(help_text="Only in the answer to issuing or replacing, for callers with `lock.pin.reveal`.", required=False)
IssuedBody = shape("IssuedCredential", **_COMMON, pin=_PIN)


def render_all(tenant_id: str, keys: Sequence[KeyCredential]) -> list[dict[str, Any]]:
    """Returns the bodies of credentials, with a few queries for all of them. Inside the tenant's block."""
    doors: dict[str, list[CredentialDoor]] = defaultdict(list)
    rows = CredentialDoor.objects.filter(tenant_id=tenant_id, credential_id__in=[key.id for key in keys])
    for door in rows.order_by("id"):
        doors[door.credential_id].append(door)
    labels = _labels(tenant_id, (door.device_id for found in doors.values() for door in found))
    now = clock.now()
    actions = offered.actions_of(tenant_id, keys)
    return [_render(key, doors[key.id], labels, now) | {"allowedActions": list(actions[key.id])} for key in keys]


def render(key: KeyCredential) -> dict[str, Any]:
    """Returns a credential's body. Inside the tenant's block."""
    return render_all(key.tenant_id, [key])[0]


def moment(value: datetime | None) -> str | None:
    """Returns an instant as bodies carry it."""
    return None if value is None else format_instant(value)


def _render(key: KeyCredential, doors: Sequence[CredentialDoor], labels: dict[str, str], now: datetime) -> dict[str, Any]:
    shown = [door for door in doors if notices.concerns(key, door, now)]
    bodies = [_door(key, door, labels, now) for door in shown]
    propagation, bound = notices.propagation_now(key, doors, now, open_work=key.open_work)
    return {
        "id": key.id,
        "propertyId": key.property_id,
        "reservationId": key.reservation_id,
        "holderKind": key.holder_kind,
        "holderId": key.holder_id,
        "state": key.state,
        "kind": key.kind,
        "intent": key.intent,
        "vendor": key.vendor,
        "installationId": key.installation_id,
        "rooms": list(key.rooms),
        "floors": list(key.floors),
        "areas": list(key.areas),
        "window": {"validFrom": moment(key.valid_from), "validUntil": moment(key.valid_until)},
        "waitingFor": key.waiting_for or None,
        "propagation": propagation,
        "effectiveNotAfter": moment(bound),
        "doors": bodies,
        "doorsConfirmed": f"{sum(body['isConfirmed'] for body in bodies)} of {len(bodies)}",
        "card": _card(key, shown),
        "warnings": notices.told(key),
        "cardInUse": notices.subject_of(key, notices.CARD_IN_USE) or None,
        "suspendReason": key.suspend_reason or None,
        "revokeReason": key.revoke_reason or None,
        "failureCode": key.failure_code or None,
        "replaces": key.replaces,
        "replacedBy": key.replaced_by,
        "provisional": key.provisional,
        "requestedAt": moment(key.requested_at),
        "issuedAt": moment(key.issued_at),
        "endedAt": moment(key.ended_at),
        "links": {
            "self": reverse("lock:credential", args=[key.id]),
            "timeline": reverse("lock:credential-timeline", args=[key.id]),
        },
    }


def _door(key: KeyCredential, door: CredentialDoor, labels: dict[str, str], now: datetime) -> dict[str, Any]:
    settled = next_verb(key, door) is None
    spreads = notices.is_spreading(key, door, now)
    is_over = door.propagation == Propagation.PROPAGATING and not spreads
    propagation = Propagation.CONFIRMED.value if is_over else door.propagation
    return {
        "deviceId": door.device_id,
        "label": labels.get(door.device_id, ""),
        "roomId": door.room_id or None,
        "state": door.state,
        "propagation": propagation,
        "effectiveNotAfter": moment(door.effective_not_after) if spreads else None,
        "isConfirmed": settled and (propagation == Propagation.CONFIRMED or door.state == DoorState.NONE),
        "errorCode": door.error_code or None,
    }


def _card(key: KeyCredential, doors: Sequence[CredentialDoor]) -> dict[str, Any] | None:
    """A card shows what it was last written with; every door it opens was written by then."""
    if key.kind not in notices.ON_CARDS:
        return None
    is_stale = notices.card_is_stale(key)
    written = min((door.carried_version for door in doors if not door.dropped), default=0)
    carried = written if is_stale or not written or key.open_work else key.desired_version
    return {"desired": key.desired_version, "carried": carried, "mustBeUpdated": is_stale}


def _labels(tenant_id: str, device_ids: Iterable[str]) -> dict[str, str]:
    ids = sorted(set(device_ids))
    if not ids:
        return {}
    return dict(LockDevice.objects.filter(tenant_id=tenant_id, id__in=ids).values_list("id", "label"))
