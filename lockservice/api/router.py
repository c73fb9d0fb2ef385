"""Every address of the REST surface.

The one rule: an id in a path is 1 to 64 visible characters without a slash; anything else is no address of ours.
"""

from __future__ import annotations

from django.conf import settings
from django.urls import URLPattern, path, re_path, register_converter
from drf_spectacular.views import SpectacularJSONAPIView, SpectacularSwaggerSplitView

from lockservice.api import credentials, demo, devices, event_schemas, health, metrics, operations, pubsub, stays, webhooks


class IdConverter:
    """An id as a path segment."""

    regex = r"[!-.0-~]{1,64}"

    def to_python(self, value: str) -> str:
        """Returns the id."""
        return value

    def to_url(self, value: str) -> str:
        """Returns the id."""
        return value


register_converter(IdConverter, "opaque")
app_name = "lock"

_KEY = "lock/v1/credentials/<opaque:credential_id>"
urlpatterns: list[URLPattern] = [
    path("lock/v1/credentials", credentials.CredentialsRoute.as_view(), name="credentials"),
    path(_KEY, credentials.CredentialRoute.as_view(), name="credential"),
    path(f"{_KEY}/timeline", credentials.TimelineRoute.as_view(), name="credential-timeline"),
    path(f"{_KEY}/revoke", credentials.RevokeRoute.as_view()),
    path(f"{_KEY}/suspend", credentials.SuspendRoute.as_view()),
    path(f"{_KEY}/unsuspend", credentials.UnsuspendRoute.as_view()),
    path(f"{_KEY}/replace", credentials.ReplaceRoute.as_view()),
    path(f"{_KEY}/encode", credentials.EncodeRoute.as_view()),
    path(f"{_KEY}/pin", credentials.PinRoute.as_view()),
    path(f"{_KEY}/retry", credentials.RetryRoute.as_view()),
    path(f"{_KEY}/leave-old-room", credentials.LeaveOldRoomRoute.as_view()),
    path("lock/v1/devices", devices.DevicesRoute.as_view()),
    path("lock/v1/devices/<opaque:device_id>/health", devices.HealthRoute.as_view()),
    path("lock/v1/devices/<opaque:device_id>/readings", devices.ReadingsRoute.as_view()),
    path("lock/v1/devices/<opaque:device_id>/health-check", devices.HealthCheckRoute.as_view()),
    path("lock/v1/vendors", devices.VendorsRoute.as_view()),
    path("lock/v1/reservations/<opaque:reservation_id>/keys", stays.StayKeysRoute.as_view()),
    path("lock/v1/reservations/<opaque:reservation_id>/arrived", stays.ArrivedRoute.as_view()),
    path("lock/v1/key-exchange", stays.ExchangeRoute.as_view()),
    path("lock/v1/operations/<opaque:operation_id>", operations.OperationRoute.as_view(), name="operation"),
    path("lock/v1/webhooks/<opaque:vendor>/<opaque:installation_id>/<opaque:token>", webhooks.take),
    path("pubsub/push", pubsub.push),
    re_path(r"^schemas/(?P<path>[A-Za-z0-9_./-]{1,200})\Z", event_schemas.event_schema),
    path("healthz", health.AliveRoute.as_view()),
    path("readyz", health.ReadyRoute.as_view()),
    path("metrics", metrics.expose),
    path("api/schema/", SpectacularJSONAPIView.as_view(), name="schema"),
    path("api/docs/", SpectacularSwaggerSplitView.as_view(url_name="lock:schema", template_name="api/docs.html")),
]
if settings.EMBEDDED:
    urlpatterns += [
        path("demo/v1/bookings", demo.BookingsRoute.as_view()),
        path("demo/v1/jwks.json", demo.key_set),
    ]
