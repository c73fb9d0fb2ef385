"""Bearer tokens: who calls. The token is checked without any query; then one asks whether the caller's access has ended.

One rule: everything about a token that is not exactly as it must be (algorithm, key, signature, issuer, audience, times,
claims) is one answer, 401; what was wrong stands in its detail, never the token.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

import jwt
from django.conf import settings
from rest_framework import exceptions
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from lockservice.core import ended_access
from lockservice.core.auth_keys import EMBEDDED, KeysUnavailable, embedded_key, embedded_key_set, key_set
from lockservice.core.auth_permissions import ALL_PROPERTIES, ROLES, Principal
from vendors.port.ids import canonical_property_id, is_opaque_id

ALGORITHMS: Final = ("RS256", "EdDSA")
LEEWAY_S: Final = 30
MAX_TTL_S: Final = 24 * 60 * 60


class TokenRefused(Exception):
    """The token is not good here. Not retriable with the same token."""


class BearerAuthentication(BaseAuthentication):
    """Reads `Authorization: Bearer …`; the caller becomes the request's user."""

    def authenticate(self, request: Request) -> tuple[Principal, None] | None:
        """Returns the caller, or None without a header. Raises AuthenticationFailed, KeysUnavailable."""
        header = request.META.get("HTTP_AUTHORIZATION", "")
        if not header:
            return None
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise exceptions.AuthenticationFailed("a bearer token is needed")
        try:
            caller, issued_at_s = _read(token.strip())
        except TokenRefused as error:
            raise exceptions.AuthenticationFailed(str(error)) from error
        if ended_access.covers(caller.tenant_id, caller.id, issued_at_s):
            raise exceptions.AuthenticationFailed("the caller's access has ended")
        return caller, None

    def authenticate_header(self, request: Request) -> str:
        """Returns what a 401 asks for."""
        return 'Bearer realm="lock"'


def read_token(token: str) -> Principal:
    """Returns the caller that a token speaks for, without any query. Raises TokenRefused, KeysUnavailable."""
    return _read(token)[0]


def _read(token: str) -> tuple[Principal, int]:
    """Return the caller and when the token was issued, in Unix seconds."""
    claims = verified_claims(token, settings.API_JWKS, settings.API_ISSUER, settings.API_AUDIENCE)
    caller = Principal(
        tenant_id=_id(claims, "tenantId"),
        id=_id(claims, "sub"),
        roles=frozenset(_texts(claims, "roles")),
        property_ids=_properties(claims),
        amr=frozenset(_texts(claims, "amr")),
    )
    return caller, int(claims["iat"])


def verified_claims(token: str, source: str, issuer: str | Sequence[str], audience: str) -> dict[str, Any]:
    """Returns the claims of a token signed by a key of `source` for this audience. Raises TokenRefused, KeysUnavailable."""
    if not (source and issuer and audience):
        raise TokenRefused("no tokens are taken here")
    try:
        header = jwt.get_unverified_header(token)
        kid = header.get("kid")
        key = key_set(source).find(kid) if isinstance(kid, str) else None
        if key is None:
            raise TokenRefused("signed with a key that is not known here")
        if header.get("alg") != key.algorithm or key.algorithm not in ALGORITHMS:
            raise TokenRefused("signed with an algorithm that is not the key's")
        return jwt.decode(
            token,
            key.key,
            algorithms=[key.algorithm],
            audience=audience,
            issuer=issuer if isinstance(issuer, str) else list(issuer),
            leeway=LEEWAY_S,
            options={"require": ["exp", "iat", "iss", "aud", "sub"]},
        )
    except jwt.ExpiredSignatureError as error:
        raise TokenRefused("expired") from error
    except jwt.PyJWTError as error:
        raise TokenRefused(f"not valid: {type(error).__name__}") from error
    except (ValueError, TypeError, RecursionError) as error:  # claims of a form that the library does not expect
        raise TokenRefused("malformed") from error


def issue_token(
    tenant_id: str, subject: str, roles: Sequence[str], properties: Sequence[str] = (ALL_PROPERTIES,), *,
    ttl_s: int = 3600, amr: Sequence[str] = ("pwd",),
) -> str:  # fmt: skip
    """Signs a token of embedded mode, for the demo and tests. `ttl_s` is 1 to MAX_TTL_S.

    Raises ValueError for a role, id or time to live that is not one, RuntimeError outside embedded mode.
    """
    unknown = sorted(set(roles) - set(ROLES))
    if unknown:
        raise ValueError(f"no such role: {', '.join(unknown)}")
    if not (is_opaque_id(tenant_id) and is_opaque_id(subject)):
        raise ValueError("tenant and subject are ids of at most 64 characters")
    if not 0 < ttl_s <= MAX_TTL_S:
        raise ValueError(f"a token lives for 1 to {MAX_TTL_S} seconds")
    now = int(time.time())
    claims = {
        "iss": settings.API_ISSUER, "aud": settings.API_AUDIENCE, "iat": now, "exp": now + ttl_s, "sub": subject,
        "tenantId": tenant_id, "roles": list(roles), "propertyIds": list(properties), "amr": list(amr),
    }  # fmt: skip
    return jwt.encode(claims, embedded_key(), algorithm="EdDSA", headers={"kid": embedded_key_set()["keys"][0]["kid"]})


def _id(claims: dict[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not is_opaque_id(value):
        raise TokenRefused(f"the claim {name} is missing or malformed")
    return value


def _texts(claims: dict[str, Any], name: str) -> list[str]:
    value = claims.get(name, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TokenRefused(f"the claim {name} is no list of texts")
    return value


def _properties(claims: dict[str, Any]) -> frozenset[str] | None:
    """None for every property of the tenant; a token without the claim reaches none."""
    values = _texts(claims, "propertyIds")
    return None if ALL_PROPERTIES in values else frozenset(canonical_property_id(value) for value in values)


__all__ = ["ALGORITHMS", "EMBEDDED", "BearerAuthentication", "KeysUnavailable", "TokenRefused", "issue_token", "read_token"]
