"""Routes around one stay: its keys, and handing over what the guest receives.

The one rule: a secret leaves only by an exchange, once, to a caller that may, and never into a cache.
"""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from credentials import arrival_signs, artifacts, held_shut
from credentials.lifecycle import State
from credentials.models import Artifact, KeyCredential, Reservation
from lockservice.api.credential_body import CredentialBody, WarningBody, moment, render_all
from lockservice.api.openapi import documented
from lockservice.api.operations import find_key
from lockservice.api.route import Route, actor, principal, read_body, read_call, read_nothing, refused, reply
from lockservice.core import clock, wake
from lockservice.core.auth_permissions import Permission, Principal
from lockservice.core.http_idempotency import HEADER, Answer, once, read_key
from lockservice.core.http_problems import Problem
from lockservice.core.http_strict import OpaqueId, StrictBody, shape
from lockservice.core.tenancy import tenant
from sagas import acts
from sagas import verdict as verdicts
from sagas.acts import Refused

ArtifactBody = shape("ArtifactReference", type=serializers.CharField(), opaqueRef=serializers.CharField())
StayKeyBody = shape(
    "StayKey",
    credential=CredentialBody(),
    artifact=ArtifactBody(
        allow_null=True, help_text="What can be exchanged, for callers with `lock.key.exchange`, while the key opens."
    ),
)
DoorVerdictBody = shape(
    "DoorVerdict",
    roomId=serializers.CharField(allow_null=True, help_text="Null for a shared door, such as the street door."),
    deviceId=serializers.CharField(allow_null=True, help_text="Null where the room has no lock here."),
    label=serializers.CharField(allow_blank=True),
    answer=serializers.ChoiceField(choices=[str(answer) for answer in verdicts.Answer]),
    why=serializers.ChoiceField(choices=[str(why) for why in verdicts.Why], allow_blank=True),
    credentialId=serializers.CharField(allow_null=True),
    knownAt=serializers.DateTimeField(allow_null=True, help_text="When the lock was last heard of; null if never."),
    until=serializers.DateTimeField(allow_null=True, help_text="When this answer ends, in true time."),
)
VerdictBody = shape(
    "StayVerdict",
    answer=serializers.ChoiceField(
        choices=[str(answer) for answer in verdicts.Answer],
        help_text="Of the worst door. `opens`: every door is known to open; `coming`: not yet, and nothing is wrong; `doubt`:"
        " not known; `shut`: somebody is needed; `over`: the stay has ended.",
    ),
    why=serializers.ChoiceField(choices=[str(why) for why in verdicts.Why], allow_blank=True),
    doors=DoorVerdictBody(many=True),
)
StayBody = shape(
    "StayKeys",
    reservationId=serializers.CharField(),
    propertyId=serializers.CharField(),
    status=serializers.CharField(help_text="As last told by the booking service; `unknown` if it told nothing."),
    version=serializers.IntegerField(allow_null=True),
    rooms=serializers.ListField(child=serializers.CharField()),
    validFrom=serializers.DateTimeField(allow_null=True),
    validUntil=serializers.DateTimeField(allow_null=True),
    idVerified=serializers.BooleanField(),
    paymentStatus=serializers.CharField(allow_null=True),
    arrivedAt=serializers.DateTimeField(
        allow_null=True, help_text="The first that shows that the guest has come: an opened door, a card, a check-in, the desk."
    ),
    warnings=WarningBody(many=True, help_text="What could not be done for the stay, and where booking and door disagree."),
    keys=StayKeyBody(many=True),
)
ExchangeForm = shape("KeyExchange", StrictBody, opaqueRef=OpaqueId())
ExchangedBody = shape(
    "ExchangedArtifact",
    credentialId=serializers.CharField(),
    type=serializers.CharField(),
    value=serializers.CharField(help_text="The digits, or what the phone shows or stores. Keep it as a secret."),
    validFrom=serializers.DateTimeField(),
    validUntil=serializers.DateTimeField(),
)
_REPEAT = {"type": "string", "pattern": "^[!-~]{1,255}$", "minLength": 1, "maxLength": 255}


class StayKeysRoute(Route):
    """The keys of one stay."""

    needs: ClassVar = {"GET": Permission.STAY_READ}

    @documented(
        summary="Everything a booking app needs about one stay", tag="stays", answers={200: StayBody}, problems=[404],
        operation_id="stay_keys",
    )  # fmt: skip
    def get(self, request: Request, reservation_id: str) -> Response:
        """Answers with the stay as it is known here and all of its keys, newest first."""
        caller = principal(request)
        with tenant(caller.tenant_id):
            stay = _stay(caller, reservation_id)
            rows = KeyCredential.objects.filter(tenant_id=caller.tenant_id, reservation_id=reservation_id)
            keys = [key for key in rows.order_by("-requested_at", "-id") if caller.reaches(key.property_id)]
            if not keys and stay is None:
                raise Problem("NOT_FOUND", "no such reservation")
            return reply(_stay_body(caller, reservation_id, stay, keys), Cache_Control="no-store")


class ArrivedRoute(Route):
    """The desk's word that the guest of a stay is there."""

    needs: ClassVar = {"POST": Permission.KEY_ENCODE}

    @documented(
        summary="Say that the guest has come: a no-show does not suspend her keys", tag="stays", answers={200: StayBody},
        problems=[404, 409], operation_id="stay_arrived",
    )  # fmt: skip
    def post(self, request: Request, reservation_id: str) -> Response:
        """Notes it and answers with the stay. Moves no key."""
        read_nothing(request)
        caller, who = principal(request), actor(request)

        def work(_: str) -> Answer:
            stay = _stay(caller, reservation_id)
            if stay is None:
                raise Problem("NOT_FOUND", "no such reservation")
            try:
                acts.note_arrival(caller.tenant_id, reservation_id, who)
            except Refused as error:
                raise refused(error) from error
            return Answer(200, {"reservation": reservation_id})

        once(read_call(request), work)
        wake.hint("sagas.drain", "saga")
        return StayKeysRoute().get(request, reservation_id)


class ExchangeRoute(Route):
    """Hands over what a reference stands for."""

    needs: ClassVar = {"POST": Permission.KEY_EXCHANGE}

    @documented(
        summary="Exchange a reference for the PIN or mobile key it stands for, once", tag="stays", body=ExchangeForm,
        answers={200: ExchangedBody}, problems=[404, 409, 413, 415], operation_id="key_exchange",
        repeat_key=_REPEAT,
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        """Answers with the secret. The same caller may repeat for 60 seconds under the same Idempotency-Key."""
        form = read_body(request, ExchangeForm)
        key = read_key(request.headers) if HEADER in request.headers else uuid.uuid4().hex
        caller, reference = principal(request), form["opaqueRef"]
        with tenant(caller.tenant_id):
            row = Artifact.objects.filter(tenant_id=caller.tenant_id, id=reference).first()
            if row is None:
                raise Problem("NOT_FOUND", "no such reference")
            find_key(caller, row.credential_id)
            try:
                row, credential, value = acts.exchange(caller.tenant_id, reference, actor(request), key)
            except Refused as error:
                raise refused(error) from error
        body = {
            "credentialId": credential.id,
            "type": row.type,
            "value": value.reveal(),
            "validFrom": moment(credential.valid_from),
            "validUntil": moment(credential.valid_until),
        }
        return reply(body, Cache_Control="no-store")


def _stay(caller: Principal, reservation_id: str) -> Reservation | None:
    """Returns the projection. One that was moved to another house is not the caller's; of the keys it had here she may know."""
    row = Reservation.objects.filter(tenant_id=caller.tenant_id, reservation_id=reservation_id).first()
    return row if row is not None and caller.reaches(row.property_id) else None


def _stay_body(caller: Principal, reservation_id: str, stay: Reservation | None, keys: list[KeyCredential]) -> dict[str, Any]:
    references = _references(caller, keys)
    bodies = render_all(caller.tenant_id, keys)
    return {
        "reservationId": reservation_id,
        "propertyId": stay.property_id if stay else keys[0].property_id,
        "status": stay.status if stay else "unknown",
        "version": stay.version if stay else None,
        "rooms": list(stay.rooms) if stay else sorted({room for key in keys for room in key.rooms}),
        "validFrom": moment(stay.valid_from) if stay else None,
        "validUntil": moment(stay.valid_until) if stay else None,
        "idVerified": stay.id_verified if stay else False,
        "paymentStatus": (stay.payment_status or None) if stay else None,
        "verdict": _verdict(stay) if stay else None,
        "arrivedAt": _arrived_at(stay),
        "warnings": held_shut.warnings_of(stay, keys, clock.now()) if stay else [],
        "keys": [{"credential": body, "artifact": references.get(body["id"])} for body in bodies],
    }


def _arrived_at(stay: Reservation | None) -> str | None:
    signs = arrival_signs.of_stay(stay.tenant_id, stay.reservation_id, stay.incarnation) if stay else []
    return moment(signs[0].at) if signs else None


def _verdict(stay: Reservation) -> dict[str, Any]:
    found = verdicts.of_stays(stay.tenant_id, [stay], clock.now())[stay.reservation_id]
    return {
        "answer": found.answer.value,
        "why": found.why.value,
        "doors": [
            {
                "roomId": door.room_id or None,
                "deviceId": door.device_id or None,
                "label": door.label,
                "answer": door.answer.value,
                "why": door.why.value,
                "credentialId": door.key_id or None,
                "knownAt": moment(door.known_at),
                "until": moment(door.until),
            }
            for door in found.doors
        ],
    }


def _references(caller: Principal, keys: list[KeyCredential]) -> dict[str, dict[str, str]]:
    """What the caller may exchange: artifacts that nobody took yet, of keys that open."""
    if not caller.may(Permission.KEY_EXCHANGE):
        return {}
    open_keys = [key.id for key in keys if key.state == State.ACTIVE]
    rows = artifacts.current(caller.tenant_id, open_keys).values()
    return {row.credential_id: {"type": row.type, "opaqueRef": row.id} for row in rows if row.exchanged_at is None}
