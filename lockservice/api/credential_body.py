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

from credentials.lifecycle import State, allowed_actions
from credentials.models import CredentialDoor, DoorState, KeyCredential
from credentials.targets import next_verb
from devices.models import LockDevice
from lockservice.core.http_strict import shape
from sagas.events.instants import format_instant
from vendors.port.types import CredentialKind, Intent, Propagation

ON_CARDS: Final = frozenset({CredentialKind.RFID_CARD, CredentialKind.NFC_TAG})
GONE: Final = frozenset({DoorState.NONE, DoorState.ABSENT})

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
    """Returns the bodies of credentials, with two queries for all of their doors. Inside the tenant's block."""
    doors: dict[str, list[CredentialDoor]] = defaultdict(list)
    rows = CredentialDoor.objects.filter(tenant_id=tenant_id, credential_id__in=[key.id for key in keys])
    for door in rows.order_by("id"):
        doors[door.credential_id].append(door)
    labels = _labels(tenant_id, (door.device_id for found in doors.values() for door in found))
    return [_render(key, doors[key.id], labels) for key in keys]


def render(key: KeyCredential) -> dict[str, Any]:
    """Returns a credential's body. Inside the tenant's block."""
    return render_all(key.tenant_id, [key])[0]


def moment(value: datetime | None) -> str | None:
    """Returns an instant as bodies carry it."""
    return None if value is None else format_instant(value)


def _render(key: KeyCredential, doors: Sequence[CredentialDoor], labels: dict[str, str]) -> dict[str, Any]:
    shown = [door for door in doors if not (door.dropped and door.state in GONE and not door.verb)]
    bodies = [_door(key, door, labels) for door in shown]
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
        "propagation": key.propagation,
        "effectiveNotAfter": moment(key.effective_not_after),
        "doors": bodies,
        "doorsConfirmed": f"{sum(body['isConfirmed'] for body in bodies)} of {len(bodies)}",
        "card": _card(key, shown),
        "warnings": [{"code": item.get("code", ""), "detail": item.get("detail", "")} for item in key.warnings],
        "allowedActions": list(allowed_actions(key.state)),
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


def _door(key: KeyCredential, door: CredentialDoor, labels: dict[str, str]) -> dict[str, Any]:
    settled = next_verb(key, door) is None
    return {
        "deviceId": door.device_id,
        "label": labels.get(door.device_id, ""),
        "roomId": door.room_id or None,
        "state": door.state,
        "propagation": door.propagation,
        "isConfirmed": settled and (door.propagation == Propagation.CONFIRMED or door.state == DoorState.NONE),
        "errorCode": door.error_code or None,
    }


def _card(key: KeyCredential, doors: Sequence[CredentialDoor]) -> dict[str, Any] | None:
    """A card shows what it was last written with; every door it opens was written by then."""
    if key.kind not in ON_CARDS:
        return None
    carried = min((door.carried_version for door in doors if not door.dropped), default=0)
    live = key.state in (State.ACTIVE, State.SUSPENDED)
    return {"desired": key.desired_version, "carried": carried, "mustBeUpdated": live and carried < key.desired_version}


def _labels(tenant_id: str, device_ids: Iterable[str]) -> dict[str, str]:
    ids = sorted(set(device_ids))
    if not ids:
        return {}
    return dict(LockDevice.objects.filter(tenant_id=tenant_id, id__in=ids).values_list("id", "label"))
