"""Reads an installation's settings and secrets, and refuses what cannot work before any call is made.

One rule: a secret is never part of a message here, not even its length.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Literal

from vendors.port.manifest import AdapterContext
from vendors.port.secrets import Token
from vendors.port.types import Area

from .local_time import read_zone

Mode = Literal["vostio", "visionline"]

DOOR_TYPES = ("guest", "common", "entrance", "elevator")

DEFAULT_TIMEOUT_S = 20.0
DEFAULT_ENCODE_TIMEOUT_S = 60.0
"""A person has to lay a card on the encoder while the request waits; below a minute she is cut off."""

DEFAULT_ISSUE_POLLS = 3
"""How often a request that is still issuing is asked after before the call ends as deferred, half a second apart."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What both products need. `encoder` names the desk's encoder; `common_doors` maps an area to the vendor's common door."""

    mode: Mode
    base_url: str
    timeout_s: float
    encode_timeout_s: float
    encoder: str | None
    common_doors: Mapping[Area, str]
    webhook_secrets: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class VostioSettings(Settings):
    """A Vostio environment. `uses_user_pool` chooses the login of the Guest API credential over client credentials;
    `token_url` is where tokens come from, the environment itself where not given."""

    property_id: str = ""
    uses_user_pool: bool = False
    client_id: str = ""
    client_secrets: tuple[Token, ...] = ()
    username: Token | None = None
    password: Token | None = None
    token_url: str = ""
    issue_polls: int = DEFAULT_ISSUE_POLLS


@dataclass(frozen=True, slots=True)
class VisionlineSettings(Settings):
    """A Visionline server. `uses_own_date` sends X-Aah-Date in place of Date; `date_line` is its name in the signed text;
    `has_online_cards` registers known card numbers at networked doors without an encoder; `door_types` says what
    the numbers mean that the server gives for types of doors; `tls` trusts the site's certificate
    and no other, None for plain HTTP or a public certificate."""

    username: Token = field(default_factory=lambda: Token(""))
    password: Token = field(default_factory=lambda: Token(""))
    zone: tzinfo = field(default_factory=lambda: read_zone("UTC"))
    uses_own_date: bool = True
    date_line: str = "x-aah-date"
    has_online_cards: bool = False
    door_types: Mapping[int, str] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None


def read_settings(context: AdapterContext) -> VostioSettings | VisionlineSettings:
    """Reads the context. Raises ValueError naming a setting or secret that is missing or malformed."""
    mode = _choice(context.settings, "mode", ("vostio", "visionline"), required=True)
    return _vostio(context) if mode == "vostio" else _visionline(context)


def _vostio(context: AdapterContext) -> VostioSettings:
    settings, secrets = context.settings, context.secrets
    pool = _choice(settings, "grant", ("client_credentials", "user_pool")) == "user_pool"
    base_url = _text(settings, "base_url")
    return VostioSettings(
        mode="vostio",
        base_url=base_url,
        timeout_s=_number(settings, "timeout_s", DEFAULT_TIMEOUT_S),
        encode_timeout_s=_number(settings, "encode_timeout_s", DEFAULT_ENCODE_TIMEOUT_S),
        encoder=_optional_text(settings, "encoder"),
        common_doors=_common_doors(settings),
        webhook_secrets=_several(secrets, "webhook_secret"),
        property_id=_text(settings, "property_id"),
        uses_user_pool=pool,
        client_id=_text(settings, "client_id"),
        client_secrets=() if pool else _required(secrets, "client_secret"),
        username=_secret(secrets, "username") if pool else None,
        password=_secret(secrets, "password") if pool else None,
        token_url=_token_url(settings, base_url, pool=pool),
        issue_polls=int(_number(settings, "issue_polls", DEFAULT_ISSUE_POLLS)),
    )


def _visionline(context: AdapterContext) -> VisionlineSettings:
    settings, secrets = context.settings, context.secrets
    base_url = _text(settings, "base_url")
    return VisionlineSettings(
        mode="visionline",
        base_url=base_url,
        timeout_s=_number(settings, "timeout_s", DEFAULT_TIMEOUT_S),
        encode_timeout_s=_number(settings, "encode_timeout_s", DEFAULT_ENCODE_TIMEOUT_S),
        encoder=_optional_text(settings, "encoder"),
        common_doors=_common_doors(settings),
        webhook_secrets=_several(secrets, "webhook_secret"),
        username=_secret(secrets, "username"),
        password=_secret(secrets, "password"),
        zone=read_zone(_text(settings, "time_zone")),
        uses_own_date=_choice(settings, "date_header", ("X-Aah-Date", "Date")) == "X-Aah-Date",
        date_line=_choice(settings, "date_line", ("x-aah-date", "X-Aah-Date")),
        has_online_cards=settings.get("has_online_cards") is True,
        door_types=_door_types(settings),
        tls=_pinned(_optional_text(settings, "site_certificate")),
    )


def _token_url(settings: Mapping[str, object], base_url: str, *, pool: bool) -> str:
    given = _optional_text(settings, "token_url")
    if given or not pool:
        return given or base_url
    region, sign, _ = _text(settings, "user_pool_id").partition("_")
    if not sign:
        raise ValueError("setting user_pool_id must read <region>_<id>")
    return f"https://cognito-idp.{region}.amazonaws.com"


def _pinned(certificate: str | None) -> ssl.SSLContext | None:
    """Trusts exactly this certificate, whatever name it carries: sites sign their own, often for a name nobody resolves."""
    if certificate is None:
        return None
    try:
        context = ssl.create_default_context(cadata=certificate)
    except ssl.SSLError as error:
        raise ValueError("setting site_certificate is no PEM certificate") from error
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _common_doors(settings: Mapping[str, object]) -> Mapping[Area, str]:
    given = settings.get("common_doors") or {}
    if not isinstance(given, Mapping) or not all(isinstance(door, str) and door for door in given.values()):
        raise ValueError("setting common_doors must map areas to doors")
    try:
        return {Area(name): str(door) for name, door in given.items()}
    except ValueError as error:
        raise ValueError("setting common_doors names an unknown area") from error


def _door_types(settings: Mapping[str, object]) -> Mapping[int, str]:
    given = settings.get("door_types") or {}
    if not isinstance(given, Mapping) or not all(str(code).isascii() and str(code).isdigit() for code in given):
        raise ValueError("setting door_types must map the server's numbers to door types")
    if not all(kind in DOOR_TYPES for kind in given.values()):
        raise ValueError(f"setting door_types must name {', '.join(DOOR_TYPES)}")
    return {int(str(code)): str(kind) for code, kind in given.items()}


def _text(settings: Mapping[str, object], name: str) -> str:
    value = settings.get(name)
    if not isinstance(value, str) or not value:
        raise ValueError(f"setting {name} is missing")
    return value


def _optional_text(settings: Mapping[str, object], name: str) -> str | None:
    return _text(settings, name) if settings.get(name) else None


def _choice(settings: Mapping[str, object], name: str, allowed: tuple[str, ...], *, required: bool = False) -> str:
    value = settings.get(name) or (None if required else allowed[0])
    if value not in allowed:
        raise ValueError(f"setting {name} must be one of {', '.join(allowed)}")
    return str(value)


def _number(settings: Mapping[str, object], name: str, default: float) -> float:
    try:
        number = float(str(settings.get(name, default)))
    except ValueError:
        raise ValueError(f"setting {name} must be a number") from None
    if not 0 < number <= 600:
        raise ValueError(f"setting {name} must lie between 0 and 600")
    return number


def _secret(secrets: Mapping[str, Token], name: str) -> Token:
    if name not in secrets or not secrets[name].reveal():
        raise ValueError(f"secret {name} is missing")
    return secrets[name]


def _several(secrets: Mapping[str, Token], name: str) -> tuple[Token, ...]:
    return tuple(secrets[n] for n in (name, f"{name}_next") if n in secrets and secrets[n].reveal())


def _required(secrets: Mapping[str, Token], name: str) -> tuple[Token, ...]:
    _secret(secrets, name)
    return _several(secrets, name)
