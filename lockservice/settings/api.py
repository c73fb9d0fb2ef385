"""The REST surface: how it reads, answers, and whom it believes.

The one rule: nobody is believed until a mode names the keys, the issuer and the audience.
"""

from __future__ import annotations

import os

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["lockservice.core.auth.BearerAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_PARSER_CLASSES": ["lockservice.core.http_strict.StrictJsonParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "lockservice.core.http_strict.JsonAlways",
    "DEFAULT_SCHEMA_CLASS": "lockservice.api.openapi.RouteSchema",
    "DEFAULT_VERSIONING_CLASS": None,
    "EXCEPTION_HANDLER": "lockservice.core.http.problem_handler",
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
    "UNAUTHENTICATED_USER": None,
}

SPECTACULAR_SETTINGS = {
    "TITLE": "Lock & key service",
    "DESCRIPTION": (
        "Keys for hotel guests and staff, on the locks of several vendors.\n\n"
        "Every call carries a bearer token (RS256 or EdDSA) with `tenantId`, `sub`, `roles` and `propertyIds`; what is outside"
        " of them is 404. Every POST and PATCH of `/lock/v1` carries an `Idempotency-Key`, except the key exchange. Errors are"
        " `application/problem+json` with a stable `code`. Event schemas are served under `/schemas/`."
    ),
    "VERSION": "1.0.0",
    "OAS_VERSION": "3.1.1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_AUTHENTICATION": [],
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "COMPONENT_SPLIT_REQUEST": True,
    "POSTPROCESSING_HOOKS": [],
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
}

# Tokens of callers: a JWKS (`file:/…`, `https://…`; `embedded:` is this machine's own), and what a token must say.
API_JWKS = ""
API_ISSUER = ""
API_AUDIENCE = ""
# Who shows it to `/metrics` is also told of single installations. Empty: nobody is.
METRICS_TOKEN = ""

# Push deliveries of Pub/Sub: the audience set at the subscription and the account that signs. Empty: not served.
PUBSUB_PUSH_AUDIENCE = os.environ.get("LOCK_PUBSUB_PUSH_AUDIENCE", "")
PUBSUB_PUSH_ACCOUNT = os.environ.get("LOCK_PUBSUB_PUSH_ACCOUNT", "")
PUBSUB_PUSH_JWKS = os.environ.get("LOCK_PUBSUB_PUSH_JWKS", "https://www.googleapis.com/oauth2/v3/certs")
PUBSUB_PUSH_ISSUERS = os.environ.get("LOCK_PUBSUB_PUSH_ISSUERS", "https://accounts.google.com,accounts.google.com").split(",")

# The demo's addresses are served, and this installation signs tokens itself.
EMBEDDED = False
