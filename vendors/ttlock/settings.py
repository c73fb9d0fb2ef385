"""Reads an installation's settings and secrets, and refuses what cannot work before any call is made.

One rule: a secret is never part of a message here, not even its length.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from vendors.port.manifest import AdapterContext
from vendors.port.secrets import Token

DEFAULT_TIMEOUT_S = 65.0
"""A command through a gateway takes 3 to 8 s and can hang until about 58 s; the cloud then answers errcode 1."""

DEFAULT_CLOUD_TIMEOUT_S = 20.0
REGION_HOSTS = {
    "world": frozenset({"euapi.ttlock.com", "api.ttlock.com"}),
    "china": frozenset({"cnapi.ttlock.com", "api.sciener.com"}),
}
"""Region → API hosts. Source: the vendor's platform pages; `custom` (a proxy, a simulator) allows any host."""

_MD5 = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Settings:
    """An installation, checked. `timeout_s` bounds a call through a gateway, `cloud_timeout_s` one the cloud answers itself.
    `reverse_cards` says that the desk reader gives card numbers in the other byte order."""

    base_url: str
    client_id: str
    client_secrets: tuple[Token, ...]
    username: Token | None
    password_md5: Token | None
    user_secret: Token
    webhook_secrets: tuple[Token, ...]
    password_grant: bool
    timeout_s: float
    cloud_timeout_s: float
    reverse_cards: bool
    user_prefix: str | None


def read_settings(context: AdapterContext) -> Settings:
    """Reads the context. Raises ValueError naming a setting or secret that is missing or malformed."""
    settings, secrets = context.settings, context.secrets
    password_grant = _choice(settings, "grant", ("password", "client_credentials")) == "password"
    client_secret = _secret(secrets, "client_secret")
    return Settings(
        base_url=_base_url(settings),
        client_id=_text(settings, "client_id"),
        client_secrets=(client_secret, *_optional(secrets, "client_secret_next")),
        username=_secret(secrets, "username") if password_grant else None,
        password_md5=_password(secrets) if password_grant else None,
        user_secret=secrets.get("user_secret", client_secret),
        webhook_secrets=(
            *_optional(secrets, "webhook_secret"),
            *_optional(secrets, "webhook_secret_next"),
        ),
        password_grant=password_grant,
        timeout_s=_seconds(settings, "timeout_s", DEFAULT_TIMEOUT_S),
        cloud_timeout_s=_seconds(settings, "cloud_timeout_s", DEFAULT_CLOUD_TIMEOUT_S),
        reverse_cards=_choice(settings, "reader_byte_order", ("as_read", "reversed")) == "reversed",
        user_prefix=_text(settings, "user_prefix") if settings.get("user_prefix") else None,
    )


def _base_url(settings: Mapping[str, object]) -> str:
    url = _text(settings, "base_url").rstrip("/")
    region = _choice(settings, "region", ("custom", *REGION_HOSTS))
    host = urlsplit(url).hostname or ""
    if region != "custom" and host not in REGION_HOSTS[region]:
        raise ValueError(f"base_url is not a host of the region {region}")
    known = frozenset().union(*REGION_HOSTS.values())
    if host in known and not url.startswith("https://"):
        raise ValueError("base_url of the vendor must be https")
    return url


def _text(settings: Mapping[str, object], name: str) -> str:
    value = settings.get(name)
    if not isinstance(value, str) or not value:
        raise ValueError(f"setting {name} is missing")
    return value


def _choice(settings: Mapping[str, object], name: str, allowed: tuple[str, ...]) -> str:
    value = settings.get(name) or allowed[0]
    if value not in allowed:
        raise ValueError(f"setting {name} must be one of {', '.join(allowed)}")
    return str(value)


def _seconds(settings: Mapping[str, object], name: str, default: float) -> float:
    value = settings.get(name, default)
    try:
        seconds = float(str(value))
    except ValueError:
        raise ValueError(f"setting {name} must be a number of seconds") from None
    if not 0 < seconds <= 600:
        raise ValueError(f"setting {name} must lie between 0 and 600 seconds")
    return seconds


def _secret(secrets: Mapping[str, Token], name: str) -> Token:
    if name not in secrets or not secrets[name].reveal():
        raise ValueError(f"secret {name} is missing")
    return secrets[name]


def _optional(secrets: Mapping[str, Token], name: str) -> tuple[Token, ...]:
    return (secrets[name],) if name in secrets and secrets[name].reveal() else ()


def _password(secrets: Mapping[str, Token]) -> Token:
    secret = _secret(secrets, "password_md5")
    if not _MD5.fullmatch(secret.reveal()):
        raise ValueError("secret password_md5 must be 32 lower-case hex digits")
    return secret
