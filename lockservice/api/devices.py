"""Routes of lock devices, and of the vendors behind them.

The one rule: a vendor is asked with no transaction open, and its error is told by its code, never by its own words.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar, Final

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from devices import adapters, call_counts, health_check
from devices.health_check import CheckRefused
from devices.health_rules import Source
from devices.models import DeviceReading, LockDevice
from lockservice.api.credential_body import moment
from lockservice.api.openapi import documented
from lockservice.api.places import require_property
from lockservice.api.route import Route, principal, read_call, read_nothing, read_query, reply
from lockservice.core import clock
from lockservice.core.auth_permissions import Permission, Principal
from lockservice.core.http_idempotency import Answer, once
from lockservice.core.http_pages import DEFAULT_ROWS, MAX_ROWS, PageRequest, by_id, scope_of
from lockservice.core.http_problems import PREFIX, PROBLEMS, Problem
from lockservice.core.http_strict import Instant, OpaqueId, StrictBody, Text, shape
from lockservice.core.tenancy import tenant
from vendors.port.errors import LockError
from vendors.port.types import CredentialKind, LockCapabilities

TAG: Final = "devices"
READINGS_SPAN: Final = timedelta(days=30)

HealthBody = shape(
    "DeviceHealth",
    deviceId=serializers.CharField(),
    online=serializers.BooleanField(),
    batteryPercent=serializers.IntegerField(min_value=0, max_value=100, allow_null=True),
    clockSkewMs=serializers.IntegerField(allow_null=True, help_text="Lock minus true time."),
    utcOffsetSeconds=serializers.IntegerField(
        allow_null=True, help_text="How far from UTC the vendor takes the lock's clock to be; east is positive."
    ),
    firmware=serializers.CharField(allow_null=True),
    lastSeenAt=serializers.DateTimeField(allow_null=True),
)
CapabilitiesBody = shape(
    "LockCapabilities",
    **{
        "".join((name.split("_")[0], *(part.title() for part in name.split("_")[1:]))): serializers.BooleanField()
        for name in LockCapabilities.__dataclass_fields__
    },
)
DeviceBody = shape(
    "LockDevice",
    id=serializers.CharField(),
    propertyId=serializers.CharField(),
    installationId=serializers.CharField(),
    vendor=serializers.CharField(),
    label=serializers.CharField(),
    rooms=serializers.ListField(child=serializers.CharField()),
    areas=serializers.ListField(child=serializers.CharField()),
    shared=serializers.BooleanField(),
    hasRemote=serializers.BooleanField(),
    capabilities=CapabilitiesBody(),
    health=HealthBody(),
)
DevicePage = shape("LockDevicePage", items=DeviceBody(many=True), nextCursor=serializers.CharField(allow_null=True))
DeviceQuery = shape(
    "LockDeviceList",
    StrictBody,
    propertyId=OpaqueId(required=False),
    limit=serializers.IntegerField(min_value=1, max_value=MAX_ROWS, required=False, default=DEFAULT_ROWS),
    cursor=Text(max_length=600, required=False),
)
ReadingBody = shape(
    "DeviceReading",
    at=serializers.DateTimeField(),
    source=serializers.ChoiceField(choices=[str(item) for item in Source]),
    online=serializers.BooleanField(allow_null=True),
    batteryPercent=serializers.IntegerField(min_value=0, max_value=100, allow_null=True),
    clockSkewMs=serializers.IntegerField(allow_null=True, help_text="Lock minus true time."),
    firmware=serializers.CharField(allow_null=True),
)
ReadingPage = shape("DeviceReadingPage", items=ReadingBody(many=True), nextCursor=serializers.CharField(allow_null=True))
ReadingQuery = shape(
    "DeviceReadingList",
    StrictBody,
    since=Instant(required=False, help_text="Start, included; 30 days ago if not given. Readings are kept for 90 days."),
    until=Instant(required=False, help_text="End, excluded; now if not given."),
    limit=serializers.IntegerField(min_value=1, max_value=MAX_ROWS, required=False, default=DEFAULT_ROWS),
    cursor=Text(max_length=600, required=False),
)
VendorBody = shape(
    "Vendor",
    vendor=serializers.CharField(),
    displayName=serializers.CharField(),
    kinds=serializers.ListField(child=serializers.ChoiceField(choices=[str(item) for item in CredentialKind])),
    deskKinds=serializers.ListField(child=serializers.ChoiceField(choices=[str(item) for item in CredentialKind])),
    capabilities=CapabilitiesBody(),
)
VendorList = shape("VendorList", items=VendorBody(many=True))


class DevicesRoute(Route):
    """The locks of the caller's properties."""

    needs: ClassVar = {"GET": Permission.DEVICE_READ}

    @documented(
        summary="Lock devices, by id", tag=TAG, answers={200: DevicePage}, parameters=[DeviceQuery], problems=[404],
        operation_id="device_list",
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        """Lists locks by cursor."""
        query, caller = read_query(request, DeviceQuery), principal(request)
        with tenant(caller.tenant_id):
            rows = LockDevice.objects.filter(tenant_id=caller.tenant_id, active=True).select_related("installation")
            if "propertyId" in query:
                rows = rows.filter(property_id=require_property(caller, query["propertyId"]))
            elif caller.property_ids is not None:
                rows = rows.filter(property_id__in=sorted(caller.property_ids))
            scope = scope_of("devices", caller.tenant_id, {"propertyId": query.get("propertyId")})
            page = by_id(rows, PageRequest(scope, query["limit"], query.get("cursor", "")))
            return reply({"items": [_device(row) for row in page.rows], "nextCursor": page.next_cursor})


class HealthRoute(Route):
    """A lock's condition as last read."""

    needs: ClassVar = {"GET": Permission.DEVICE_READ}

    @documented(
        summary="A lock's condition as last read", tag=TAG, answers={200: HealthBody}, problems=[404],
        operation_id="device_health",
    )  # fmt: skip
    def get(self, request: Request, device_id: str) -> Response:
        """Answers from our books, without asking the vendor."""
        caller = principal(request)
        with tenant(caller.tenant_id):
            return reply(_health(_find(caller, device_id)))


class ReadingsRoute(Route):
    """A lock's health over time, to plot."""

    needs: ClassVar = {"GET": Permission.DEVICE_READ}

    @documented(
        summary="A lock's health over time, in the order it was read", tag=TAG, answers={200: ReadingPage},
        parameters=[ReadingQuery], problems=[404], operation_id="device_readings",
    )  # fmt: skip
    def get(self, request: Request, device_id: str) -> Response:
        """Lists readings by cursor; what a reading did not say is null."""
        query, caller = read_query(request, ReadingQuery), principal(request)
        with tenant(caller.tenant_id):
            row, now = _find(caller, device_id), clock.now()
            since, until = query.get("since", now - READINGS_SPAN), query.get("until", now)
            rows = DeviceReading.objects.filter(tenant_id=caller.tenant_id, device_id=row.id, at__gte=since, at__lt=until)
            asked = {"deviceId": row.id, "since": str(query.get("since")), "until": str(query.get("until"))}
            page = by_id(
                rows, PageRequest(scope_of("readings", caller.tenant_id, asked), query["limit"], query.get("cursor", ""))
            )
            return reply({"items": [_reading(item) for item in page.rows], "nextCursor": page.next_cursor})


class HealthCheckRoute(Route):
    """Asks the vendor how a lock is."""

    needs: ClassVar = {"POST": Permission.DEVICE_CHECK}

    @documented(
        summary="Ask the vendor how a lock is, now", tag=TAG, answers={200: HealthBody}, idempotent=True,
        operation_id="device_health_check",
    )  # fmt: skip
    def post(self, request: Request, device_id: str) -> Response:
        """Reads the lock live where the vendor can, and notes what was read."""
        read_nothing(request)
        caller, call = principal(request), read_call(request)
        _, replayed = once(call, lambda _: _check(caller, device_id), atomic=False)
        with tenant(caller.tenant_id):
            body = _health(_find(caller, device_id))
        headers = {"Idempotent_Replayed": "true"} if replayed else {}
        return reply(body, 200, **headers)


class VendorsRoute(Route):
    """The vendors this service speaks to."""

    needs: ClassVar = {"GET": Permission.DEVICE_READ}

    @documented(
        summary="Vendors and what their locks can do at best", tag=TAG, answers={200: VendorList}, operation_id="vendor_list"
    )
    def get(self, request: Request) -> Response:
        """Lists the vendors as their adapters describe themselves."""
        return reply({"items": [_vendor(code) for code in sorted(adapters.manifests())]})


def _check(caller: Principal, device_id: str) -> Answer:
    with tenant(caller.tenant_id):
        _find(caller, device_id)
    try:
        health_check.check(caller.tenant_id, device_id)
    except CheckRefused as refusal:
        raise Problem(refusal.code, refusal.detail, retriable=refusal.retriable) from refusal
    except LockError as error:
        raise _vendor_problem(error) from error
    return Answer(200, {"device": device_id})


def _vendor_problem(error: LockError) -> Problem:
    code = error.code.removeprefix(PREFIX)
    if code not in PROBLEMS:
        code = "VENDOR_UNREACHABLE"
    wait_s = call_counts.wait_s(error)
    headers = {"Retry-After": str(max(1, int(wait_s)))} if wait_s else {}
    return Problem(code, f"{error.vendor}: {error.reason}", retriable=error.retriable, headers=headers)


def _find(caller: Principal, device_id: str) -> LockDevice:
    row = LockDevice.objects.filter(tenant_id=caller.tenant_id, id=device_id).first()
    if row is None or not caller.reaches(row.property_id):
        raise Problem("NOT_FOUND", "no such lock")
    return row


def _device(row: LockDevice) -> dict[str, Any]:
    return {
        "id": row.id,
        "propertyId": row.property_id,
        "installationId": row.installation_id,
        "vendor": row.installation.vendor,
        "label": row.label,
        "rooms": list(row.rooms),
        "areas": list(row.areas),
        "shared": row.shared,
        "hasRemote": row.has_remote,
        "capabilities": _capabilities(LockCapabilities(**row.capabilities)),
        "health": _health(row),
    }


def _health(row: LockDevice) -> dict[str, Any]:
    return {
        "deviceId": row.id,
        "online": row.online,
        "batteryPercent": row.battery_percent,
        "clockSkewMs": row.clock_skew_ms,
        "utcOffsetSeconds": row.utc_offset_s,
        "firmware": row.firmware or None,
        "lastSeenAt": moment(row.last_seen_at),
    }


def _reading(row: DeviceReading) -> dict[str, Any]:
    return {
        "at": moment(row.at),
        "source": row.source,
        "online": row.online,
        "batteryPercent": row.battery_percent,
        "clockSkewMs": row.clock_skew_ms,
        "firmware": row.firmware or None,
    }


def _capabilities(value: LockCapabilities) -> dict[str, bool]:
    return {
        "mobileKey": value.mobile_key,
        "cardEncoding": value.card_encoding,
        "pin": value.pin,
        "qr": value.qr,
        "nfc": value.nfc,
        "remoteRevoke": value.remote_revoke,
        "remoteIssue": value.remote_issue,
        "offlineIssuance": value.offline_issuance,
        "scopeFloors": value.scope_floors,
        "scopeAreas": value.scope_areas,
    }


def _vendor(code: str) -> dict[str, Any]:
    manifest = adapters.manifest(code)
    return {
        "vendor": manifest.code,
        "displayName": manifest.display_name,
        "kinds": [str(kind) for kind in manifest.kinds],
        "deskKinds": [str(kind) for kind in manifest.desk_kinds],
        "capabilities": _capabilities(manifest.capabilities),
    }
