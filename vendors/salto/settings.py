"""Reads an installation's settings and secrets, and refuses what cannot work before any call is made.

One rule: a secret is never part of a message here, not even its length.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from zoneinfo import ZoneInfo

from vendors.port.manifest import AdapterContext
from vendors.port.secrets import Token

DEFAULT_TIMEOUT_S = 20.0
DENY_LIST_PLACES = 65_535
"""How many cards the deny list holds. Source: the vendor's user documentation on deny lists (high)."""

DEFAULT_ENCODER_TIMEOUT_S = 20.0
"""How long the encoder waits for a card. Source: default of a public client of the vendor's host interface (medium)."""

HUMAN_MARGIN_S = 15.0
"""What a read waits beyond the encoder's own limit (proposed)."""


class Transport(StrEnum):
    """Which way an installation is reached."""

    CLOUD = "cloud"
    CONNECTOR = "connector"
    PMS = "pms"


@dataclass(frozen=True, slots=True)
class Settings:
    """An installation, checked. Which parts are set depends on `transport`: CLOUD needs `base_url`, CONNECTOR `connector_url`
    with certificate and key (and falls back to `base_url` where that is set), PMS `pms_host` and `pms_port`. `deny_list_places`
    is how many cancelled cards the site's locks can refuse."""

    transport: Transport
    property_ref: str
    base_url: str
    connector_url: str
    connector_ca: str
    connector_cert: Token | None
    connector_key: Token | None
    api_keys: tuple[Token, ...]
    webhook_secrets: tuple[Token, ...]
    pms_host: str
    pms_port: int
    encoder: str
    encoder_device_id: str
    time_zone: ZoneInfo | None
    timeout_s: float
    encoder_timeout_s: float
    cancellable: bool
    is_month_first: bool = False
    deny_list_places: int = DENY_LIST_PLACES


def read_settings(context: AdapterContext) -> Settings:
    """Reads the context. Raises ValueError naming a setting or secret that is missing or malformed."""
    settings, secrets = context.settings, context.secrets
    transport = _transport(settings)
    is_pms, is_connector = transport is Transport.PMS, transport is Transport.CONNECTOR
    host, port = _address(_text(settings, "pms_address")) if is_pms else ("", 0)
    return Settings(
        transport=transport,
        property_ref="" if is_pms else _text(settings, "property_ref"),
        base_url=_text(settings, "base_url", is_needed=transport is Transport.CLOUD).rstrip("/"),
        connector_url=_text(settings, "connector_url", is_needed=is_connector).rstrip("/"),
        connector_ca=_text(settings, "connector_ca", is_needed=False),
        connector_cert=_secret(secrets, "connector_cert") if is_connector else None,
        connector_key=_secret(secrets, "connector_key") if is_connector else None,
        api_keys=() if is_pms else (_secret(secrets, "api_key"), *_optional(secrets, "api_key_next")),
        webhook_secrets=(*_optional(secrets, "webhook_secret"), *_optional(secrets, "webhook_secret_next")),
        pms_host=host,
        pms_port=port,
        encoder=_text(settings, "encoder", is_needed=is_pms),
        encoder_device_id=_text(settings, "encoder_device_id", is_needed=False),
        time_zone=_zone(settings.get("time_zone") or context.time_zone),
        timeout_s=_seconds(settings, "timeout_s", DEFAULT_TIMEOUT_S),
        encoder_timeout_s=_seconds(settings, "encoder_timeout_s", DEFAULT_ENCODER_TIMEOUT_S),
        cancellable=settings.get("cancellable_keys", True) not in (False, "false"),
        is_month_first=_is_month_first(settings),
        deny_list_places=_places(settings),
    )


def _transport(settings: Mapping[str, object]) -> Transport:
    try:
        return Transport(str(settings.get("transport") or Transport.CLOUD))
    except ValueError:
        raise ValueError(f"setting transport must be one of {', '.join(Transport)}") from None


def _is_month_first(settings: Mapping[str, object]) -> bool:
    order = settings.get("log_dates") or "dd/mm"
    if order not in ("dd/mm", "mm/dd"):
        raise ValueError("setting log_dates must be dd/mm or mm/dd")
    return order == "mm/dd"


def _places(settings: Mapping[str, object]) -> int:
    given = settings.get("deny_list_places")
    text = str(DENY_LIST_PLACES if given in (None, "") else given)
    if not text.isascii() or not text.isdigit() or not 0 < len(text) < 6 or not 0 < int(text) <= DENY_LIST_PLACES:
        raise ValueError(f"setting deny_list_places must lie between 1 and {DENY_LIST_PLACES}")
    return int(text)


def _text(settings: Mapping[str, object], name: str, *, is_needed: bool = True) -> str:
    value = settings.get(name)
    if isinstance(value, str) and value:
        return value
    if is_needed or value not in (None, ""):
        raise ValueError(f"setting {name} is missing")
    return ""


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError("setting pms_address must be host:port")
    return host, int(port)


def _zone(name: object) -> ZoneInfo | None:
    if not name:
        return None
    try:
        return ZoneInfo(str(name))
    except (KeyError, ValueError, OSError):
        raise ValueError("setting time_zone must be an IANA time zone") from None


def _seconds(settings: Mapping[str, object], name: str, default: float) -> float:
    try:
        seconds = float(str(settings.get(name, default)))
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
