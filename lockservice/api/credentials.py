"""Routes of credentials: issue, look, change, and the acts on one.

The one rule: the credential is looked up within the caller's tenant and properties before anything is asked of it, and one of
somebody else's is not there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from django.db import connection
from drf_spectacular.utils import OpenApiResponse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from credentials.house import house
from credentials.models import KeyCredential, Reservation, Transition
from lockservice.api.acting import perform, record_act
from lockservice.api.credential_body import CredentialBody, IssuedBody, moment, render, render_all
from lockservice.api.credential_forms import (
    ChangeForm,
    EncodeForm,
    IssueForm,
    ListQuery,
    PinForm,
    ReplaceForm,
    RevokeForm,
    SuspendForm,
    TimelineQuery,
)
from lockservice.api.openapi import PREFER, documented
from lockservice.api.operations import OperationBody, find_key
from lockservice.api.places import require_property
from lockservice.api.route import Route, actor, principal, read_body, read_call, read_nothing, read_query, reply, require
from lockservice.core import clock
from lockservice.core.auth_permissions import Permission, Principal, to_revoke, to_suspend
from lockservice.core.http_pages import PageRequest, by_id, newest_first, scope_of
from lockservice.core.http_problems import Problem
from lockservice.core.http_strict import shape
from lockservice.core.tenancy import tenant
from sagas import acts, pin_acts
from sagas.acts import Act
from vendors.port.ids import canonical_property_id
from vendors.port.secrets import CardNumber, Pin
from vendors.port.types import CredentialKind, Intent, RevokeReason, SuspendReason, Window

TAG = "credentials"
CredentialPage = shape("CredentialPage", items=CredentialBody(many=True), nextCursor=serializers.CharField(allow_null=True))
EntryBody = shape(
    "TimelineEntry",
    sequence=serializers.IntegerField(),
    at=serializers.DateTimeField(),
    move=serializers.CharField(),
    source=serializers.CharField(allow_blank=True),
    target=serializers.CharField(),
    subject=serializers.CharField(),
    eventId=serializers.CharField(),
    actor=serializers.CharField(),
    reason=serializers.CharField(allow_null=True),
)
TimelineBody = shape("Timeline", items=EntryBody(many=True), nextCursor=serializers.CharField(allow_null=True))

_ACCEPTED = OpenApiResponse(OperationBody, "The work goes on, or has failed")
_MADE = OpenApiResponse(IssuedBody, "The key is there, or waits for a person")
_DONE = OpenApiResponse(CredentialBody, "Nothing is left to do")


class CredentialsRoute(Route):
    """All credentials."""

    needs: ClassVar = {"GET": Permission.KEY_READ, "POST": Permission.KEY_ISSUE}

    @documented(
        summary="Issue a key", tag=TAG, body=IssueForm, answers={201: _MADE, 202: _ACCEPTED}, parameters=[PREFER],
        idempotent=True, operation_id="credential_issue",
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        """Issues a key for a stay. A stay that no booking event has told of needs property, rooms, end, holder and a reason."""
        form = read_body(request, IssueForm)
        caller, who = principal(request), actor(request)
        asked = read_call(request).fingerprint

        def issue(act_id: str) -> Act:
            done = acts.issue(caller.tenant_id, _command(caller, form), who, act_id, asked=asked)
            if "reason" in form and not done.is_repeated:
                record_act(caller, "issue", done.credential_id, form["reason"])
            return done

        return perform(request, issue)

    @documented(
        summary="Credentials, newest first", tag=TAG, answers={200: CredentialPage}, parameters=[ListQuery], problems=[404],
        operation_id="credential_list",
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        """Lists credentials of the caller's properties by cursor."""
        query = read_query(request, ListQuery)
        caller = principal(request)
        page = PageRequest(*_page_of(caller, query))
        with tenant(caller.tenant_id):
            rows = _filtered(caller, query)
            found = newest_first(rows, page, "requested_at")
            return reply({"items": render_all(caller.tenant_id, found.rows), "nextCursor": found.next_cursor})


class CredentialRoute(Route):
    """One credential."""

    needs: ClassVar = {"GET": Permission.KEY_READ, "PATCH": None}

    @documented(summary="One credential", tag=TAG, answers={200: CredentialBody}, problems=[404], operation_id="credential_get")
    def get(self, request: Request, credential_id: str) -> Response:
        """Answers with the credential, its doors, and what may be asked of it."""
        caller = principal(request)
        with tenant(caller.tenant_id):
            return reply(render(find_key(caller, credential_id)))

    @documented(
        summary="Change window, rooms or areas of a key", tag=TAG, body=ChangeForm, answers={200: _DONE, 202: _ACCEPTED},
        parameters=[PREFER], idempotent=True, operation_id="credential_update",
    )  # fmt: skip
    def patch(self, request: Request, credential_id: str) -> Response:
        """Changes a live key, or lets one that waits for the guest's papers go on."""
        require(request, Permission.KEY_UPDATE)
        form = read_body(request, ChangeForm)
        who, tenant_id = actor(request), principal(request).tenant_id
        if "idVerified" in form:
            require(request, Permission.KEY_ENCODE)
            return _on(request, credential_id, lambda act_id: acts.confirm_identity(tenant_id, credential_id, who, act_id))

        def change(act_id: str) -> Act:
            return acts.update(
                tenant_id, credential_id, who, act_id, valid_from=form.get("validFrom"), valid_until=form.get("validUntil"),
                rooms=_tuple(form.get("rooms")), areas=_tuple(form.get("areas")),
            )  # fmt: skip

        return _on(request, credential_id, change)


class TimelineRoute(Route):
    """What happened to a credential."""

    needs: ClassVar = {"GET": Permission.KEY_READ}

    @documented(
        summary="Every move and event of a credential", tag=TAG, answers={200: TimelineBody}, parameters=[TimelineQuery],
        problems=[404], operation_id="credential_timeline",
    )  # fmt: skip
    def get(self, request: Request, credential_id: str) -> Response:
        """Lists the credential's story by cursor, oldest first."""
        query, caller = read_query(request, TimelineQuery), principal(request)
        scope = scope_of("timeline", caller.tenant_id, {"credentialId": credential_id})
        with tenant(caller.tenant_id):
            find_key(caller, credential_id)
            rows = Transition.objects.filter(tenant_id=caller.tenant_id, credential_id=credential_id)
            page = by_id(rows, PageRequest(scope, query["limit"], query.get("cursor", "")), "sequence")
            return reply({"items": [_entry(row) for row in page.rows], "nextCursor": page.next_cursor})


class RevokeRoute(Route):
    """Takes a key back."""

    needs: ClassVar = {"POST": None}

    @documented(
        summary="Revoke a key", tag=TAG, body=RevokeForm, answers={200: _DONE, 201: _MADE, 202: _ACCEPTED},
        parameters=[PREFER], idempotent=True, operation_id="credential_revoke",
    )  # fmt: skip
    def post(self, request: Request, credential_id: str) -> Response:
        """Revokes at once in our books; doors follow. A lost guest key is replaced unless that is declined."""
        form = read_body(request, RevokeForm)
        require(request, to_revoke(form["reason"]))
        who, tenant_id, kind = actor(request), principal(request).tenant_id, _kind(form)

        def revoke(act_id: str) -> Act:
            reason = RevokeReason(form["reason"])
            return acts.revoke(tenant_id, credential_id, reason, who, act_id, reissue=form.get("reissue"), kind=kind)

        return _on(request, credential_id, revoke)


class SuspendRoute(Route):
    """Lets a key rest."""

    needs: ClassVar = {"POST": None}

    @documented(
        summary="Suspend a key", tag=TAG, body=SuspendForm, answers={200: _DONE, 202: _ACCEPTED}, parameters=[PREFER],
        idempotent=True, operation_id="credential_suspend",
    )  # fmt: skip
    def post(self, request: Request, credential_id: str) -> Response:
        """Suspends an active key at once in our books; doors follow."""
        form = read_body(request, SuspendForm)
        require(request, to_suspend(form["reason"]))
        who, tenant_id, reason = actor(request), principal(request).tenant_id, SuspendReason(form["reason"])
        return _on(request, credential_id, lambda act_id: acts.suspend(tenant_id, credential_id, reason, who, act_id))


class UnsuspendRoute(Route):
    """Lets a key open again."""

    needs: ClassVar = {"POST": Permission.KEY_UNSUSPEND}

    @documented(
        summary="Resume a suspended key", tag=TAG, answers={200: _DONE, 202: _ACCEPTED}, parameters=[PREFER], idempotent=True,
        operation_id="credential_unsuspend",
    )  # fmt: skip
    def post(self, request: Request, credential_id: str) -> Response:
        """Starts to resume; the key is active when a door has confirmed."""
        read_nothing(request)
        who, tenant_id = actor(request), principal(request).tenant_id
        return _on(request, credential_id, lambda act_id: acts.unsuspend(tenant_id, credential_id, who, act_id))


class ReplaceRoute(Route):
    """Gives a new key for a lost one."""

    needs: ClassVar = {"POST": Permission.KEY_REPLACE}

    @documented(
        summary="Replace a lost key", tag=TAG, body=ReplaceForm, answers={201: _MADE, 202: _ACCEPTED}, parameters=[PREFER],
        idempotent=True, operation_id="credential_replace",
    )  # fmt: skip
    def post(self, request: Request, credential_id: str) -> Response:
        """Revokes the key and issues its successor; both name each other."""
        kind = _kind(read_body(request, ReplaceForm))
        who, tenant_id = actor(request), principal(request).tenant_id
        return _on(request, credential_id, lambda act_id: acts.replace(tenant_id, credential_id, who, act_id, kind=kind))


class EncodeRoute(Route):
    """Moves on a key that waits at the desk."""

    needs: ClassVar = {"POST": Permission.KEY_ENCODE}

    @documented(
        summary="Encode a card", tag=TAG, body=EncodeForm, answers={200: _DONE, 202: _ACCEPTED}, parameters=[PREFER],
        idempotent=True, operation_id="credential_encode",
    )  # fmt: skip
    def post(self, request: Request, credential_id: str) -> Response:
        """Takes the number of the card that was read; without a number a connected desk is needed. A card with another live key
        is not written: CARD_IN_USE, at once or as the operation's error, until it is confirmed."""
        form = read_body(request, EncodeForm)
        card = CardNumber(form["cardNumber"]) if "cardNumber" in form else None
        who, caller, over = actor(request), principal(request), form.get("confirmCardInUse", "")

        def encode(act_id: str) -> Act:
            done = acts.encode(caller.tenant_id, credential_id, who, act_id, card_number=card, confirm_card_in_use=over)
            if over and not done.is_repeated:
                record_act(caller, "encode", credential_id, f"confirmed that the key {over} on the card may be written over")
            return done

        return _on(request, credential_id, encode, masked="cardNumber")


class PinRoute(Route):
    """Takes digits chosen by staff."""

    needs: ClassVar = {"POST": Permission.PIN_CHOOSE}

    @documented(
        summary="Choose the digits of a PIN key", tag=TAG, body=PinForm, answers={200: _DONE, 201: _MADE, 202: _ACCEPTED},
        parameters=[PREFER], idempotent=True, operation_id="credential_choose_pin",
    )  # fmt: skip
    def post(self, request: Request, credential_id: str) -> Response:
        """Gives the key these digits under the rules of drawn ones; a failed key is issued anew with them."""
        form = read_body(request, PinForm)
        if form["pin"] in form["reason"]:
            raise Problem("VALIDATION_FAILED", "the reason is kept", {"reason": "must not hold the digits"})
        who, caller, pin = actor(request), principal(request), Pin(form["pin"])

        def choose(act_id: str) -> Act:
            find_key(caller, credential_id)
            done = pin_acts.choose(caller.tenant_id, credential_id, pin, who, act_id)
            if not done.is_repeated:
                record_act(caller, "choose_pin", credential_id, form["reason"])
            return done

        return perform(request, choose, about=credential_id, masked="pin", shows_pin=False)


class RetryRoute(Route):
    """Tries again what is open."""

    needs: ClassVar = {"POST": Permission.KEY_ISSUE}

    @documented(
        summary="Repair open doors, or issue a failed key anew", tag=TAG, answers={200: _DONE, 201: _MADE, 202: _ACCEPTED},
        parameters=[PREFER], idempotent=True, operation_id="credential_retry",
    )  # fmt: skip
    def post(self, request: Request, credential_id: str) -> Response:
        """Makes spent or waiting work due now; a failed key gets a successor."""
        read_nothing(request)
        who, tenant_id = actor(request), principal(request).tenant_id
        return _on(request, credential_id, lambda act_id: acts.retry(tenant_id, credential_id, who, act_id))


class LeaveOldRoomRoute(Route):
    """Takes the room that a guest moved out of before her new one opens."""

    needs: ClassVar = {"POST": Permission.KEY_UPDATE}

    @documented(
        summary="Take the old room of a guest who moved", tag=TAG, answers={200: _DONE, 202: _ACCEPTED}, parameters=[PREFER],
        idempotent=True, operation_id="credential_leave_old_room",
    )  # fmt: skip
    def post(self, request: Request, credential_id: str) -> Response:
        """Ends the keeping of the old room at once: she has her things, or is let in by somebody."""
        read_nothing(request)
        who, tenant_id = actor(request), principal(request).tenant_id
        return _on(request, credential_id, lambda act_id: acts.leave_old_room(tenant_id, credential_id, who, act_id))


def _on(request: Request, credential_id: str, act: Callable[[str], Act], *, masked: str = "") -> Response:
    """Performs an act on a credential of the caller's properties; `masked` as in `perform`. Raises Problem NOT_FOUND."""
    caller = principal(request)

    def guarded(act_id: str) -> Act:
        find_key(caller, credential_id)
        return act(act_id)

    return perform(request, guarded, about=credential_id, masked=masked)


def _command(caller: Principal, form: dict[str, Any]) -> acts.IssueCommand:
    """Completes what was sent by what is known of the stay. Inside the tenant's block. Raises Problem."""
    stay = _stay(caller, form["reservationId"])
    property_id = canonical_property_id(form.get("propertyId") or (stay.property_id if stay else ""))
    rooms = tuple(form.get("rooms") or (stay.rooms if stay else ()))
    holder = form.get("holderId") or (stay.guest_id if stay else "")
    missing = [name for name, value in (("propertyId", property_id), ("rooms", rooms), ("holderId", holder)) if not value]
    if missing:
        raise Problem("VALIDATION_FAILED", "not known from a stay", dict.fromkeys(missing, "is required"))
    if not caller.reaches(property_id):
        raise Problem("NOT_FOUND", "no such property")
    if stay is not None and stay.property_id != property_id:
        raise Problem("VALIDATION_FAILED", "the stay is at another property", {"propertyId": "is not the stay's"})
    return acts.IssueCommand(
        property_id=property_id,
        rooms=rooms,
        window=_window(caller.tenant_id, property_id, form, stay),
        holder_id=holder,
        reservation_id=form["reservationId"],
        preferred_kinds=tuple(CredentialKind(kind) for kind in form.get("preferredKinds", ())),
        areas=_tuple(form.get("areas")),
        floors=tuple(form.get("floors", ())),
        intent=Intent(form.get("intent", Intent.ADDITIONAL)),
        channel_hint=form.get("channelHint", ""),
        may_resume=caller.may(Permission.KEY_UNSUSPEND),
        reason=form.get("reason", ""),
        may_issue_unbooked=caller.may(Permission.KEY_ISSUE_UNBOOKED),
    )


def _stay(caller: Principal, reservation_id: str) -> Reservation | None:
    """The stay's projection; None when no booking event has told of it."""
    row = Reservation.objects.filter(tenant_id=caller.tenant_id, reservation_id=reservation_id).first()
    if row is None:
        _queue_up(caller.tenant_id, reservation_id)
    elif not caller.reaches(row.property_id):
        raise Problem("NOT_FOUND", "no such reservation")
    return row


def _queue_up(tenant_id: str, reservation_id: str) -> None:
    """Lets keys of a stay that has no row to lock be issued one after the other; held to the end of the transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"stay\x1f{tenant_id}\x1f{reservation_id}"])


def _window(tenant_id: str, property_id: str, form: dict[str, Any], stay: Reservation | None) -> Window:
    """As sent; an end not sent is the stay's with the house's grace, a start not sent is the stay's, or now."""
    known = house(tenant_id, stay.property_id).policy.widen(Window(stay.valid_from, stay.valid_until)) if stay else None
    until = form.get("validUntil") or (known.valid_until if known else None)
    if until is None:
        raise Problem("VALIDATION_FAILED", "not known from a stay", {"validUntil": "is required"})
    since = form.get("validFrom") or (known.valid_from if known else clock.now())
    if until <= clock.now():
        raise Problem("VALIDATION_FAILED", "the window is over", {"validUntil": "lies in the past"})
    if until <= since:
        raise Problem("VALIDATION_FAILED", "the window is inverted", {"validUntil": "must lie after validFrom"})
    return Window(since, until)


def _page_of(caller: Principal, query: dict[str, Any]) -> tuple[str, int, str]:
    filters = {name: value for name, value in query.items() if name not in ("limit", "cursor")}
    return scope_of("credentials", caller.tenant_id, filters), query["limit"], query.get("cursor", "")


def _filtered(caller: Principal, query: dict[str, Any]) -> Any:
    rows = KeyCredential.objects.filter(tenant_id=caller.tenant_id)
    if "propertyId" in query:
        property_id = require_property(caller, query["propertyId"])
        rows = rows.filter(property_id=property_id)
    elif caller.property_ids is not None:
        rows = rows.filter(property_id__in=sorted(caller.property_ids))
    columns = {"reservationId": "reservation_id", "state": "state", "kind": "kind", "holderId": "holder_id"}
    for name, column in columns.items():
        if name in query:
            rows = rows.filter(**{column: query[name]})
    return rows


def _entry(row: Transition) -> dict[str, Any]:
    return {
        "sequence": row.sequence,
        "at": moment(row.at),
        "move": row.move,
        "source": row.source,
        "target": row.target,
        "subject": row.subject,
        "eventId": row.event_id,
        "actor": row.actor,
        "reason": row.reason or None,
    }


def _kind(form: dict[str, Any]) -> CredentialKind | None:
    return CredentialKind(form["kind"]) if "kind" in form else None


def _tuple(values: list[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)
