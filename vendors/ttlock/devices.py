"""Reads locks and gateways: what they can do, whether they answer, what their clocks say.

One rule: a lock's features are the bits the vendor stored when it was paired; its online flags lag by minutes, so only a live
read says that a lock answers now.
Source: the vendor's lock, gateway and feature value pages.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from vendors.port.clock import Clock
from vendors.port.types import DeviceHealth, Door, LockCapabilities, LockDevice
from vendors.support.skew import bounded_skew_ms

from .client import Call, TtlockClient
from .door_keys import BY_GATEWAY, rows_in
from .errors import NOT_REACHED, Refused, Unclear
from .wire import from_ms, offset_s, to_int, to_ms

LOCK_PAGE_SIZE = 1000
GATEWAY_PAGE_SIZE = 200
PAGES_MAX = 20
PASSCODE, CARD, NB_IOT, QR, WIFI, CUSTOM_QR = 0, 1, 16, 44, 56, 108
_YES = 1
_NO_SIGNAL = -1000


def read_features(feature_value: object) -> frozenset[int]:
    """Returns the numbers of the set bits of a hex text; empty for anything else. Newer locks have more than 64 bits.

    `C2F44354CF1F3` has bits 0 1 4 5 6 7 8 12 13 14 15 18 19 22 24 26 28 29 34 38 40 41 42 43 45 50 51.
    """
    try:
        number = int(str(feature_value), 16)
    except ValueError:
        return frozenset()
    return frozenset(n for n in range(number.bit_length()) if number >> n & 1) if number > 0 else frozenset()


def capabilities_of(features: frozenset[int], has_gateway: bool) -> LockCapabilities:
    """Maps feature bits to the port's capabilities. Random codes and eKeys are given without any gateway; taking back, and
    custom codes and cards, need one, or Wi-Fi, or NB-IoT."""
    return LockCapabilities(
        mobile_key=True,
        card_encoding=CARD in features,
        pin=PASSCODE in features,
        qr=False,
        nfc=False,
        remote_revoke=is_reached(features, has_gateway),
        remote_issue=True,
    )


def is_reached(features: frozenset[int], has_gateway: bool) -> bool:
    """Says whether a network reaches the lock."""
    return has_gateway or WIFI in features or NB_IOT in features


class Devices:
    """The installation's locks."""

    def __init__(self, client: TtlockClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    def list_devices(self, call: Call) -> tuple[LockDevice, ...]:
        """Lists locks with the gateway that hears each best: one request a thousand locks, one a gateway, one a Wi-Fi lock."""
        locks = self._pages(call, "lock/list", {}, LOCK_PAGE_SIZE)
        gateways = self._pages(call, "gateway/list", {}, GATEWAY_PAGE_SIZE)
        best = self._best_gateways(call, gateways)
        online = {str(g.get("gatewayId")) for g in gateways if to_int(g.get("isOnline")) == _YES}
        return tuple(self._device(call, row, best, online) for row in locks)

    def health(self, call: Call, door: Door) -> DeviceHealth:
        """Reads the cloud's record of the lock, then its clock live where a network reaches it."""
        detail = self._client.ask(call, "lock/detail", {"lockId": door.external_id})
        online, skew_ms = self._live_clock(call, door) if door.has_remote else (False, None)
        return DeviceHealth(
            device_id=door.device_id,
            online=online,
            battery_percent=_percent(detail.get("electricQuantity")),
            clock_skew_ms=skew_ms,
            firmware=_text(detail.get("firmwareRevision")),
            checked_at=self._clock.now(),
            utc_offset_s=offset_s(detail),
        )

    def set_clock(self, call: Call, door: Door, utc_offset_s: int) -> None:
        """Tells cloud and lock the distance from UTC, then sets the lock's clock."""
        fields: dict[str, object] = {"lockId": door.external_id, "timezoneRawOffset": utc_offset_s * 1000, "type": BY_GATEWAY}
        self._client.ask(call, "lock/changeTimezoneRawOffset", fields, gateway=True)
        self._client.ask(call, "lock/updateDate", {"lockId": door.external_id}, gateway=True)

    def _live_clock(self, call: Call, door: Door) -> tuple[bool, int | None]:
        asked_at = to_ms(self._clock.now())
        try:
            answer = self._client.ask(call, "lock/queryDate", {"lockId": door.external_id}, gateway=True)
        except Refused as refused:
            if refused.code not in NOT_REACHED:
                raise
            return False, None
        except Unclear:
            return False, None
        lock_ms = to_int(answer.get("date"))
        if lock_ms is None:
            return True, None
        # The lock was asked somewhere within the round trip, which is seconds through a gateway.
        asked_between = (asked_at + to_ms(self._clock.now())) // 2
        return True, bounded_skew_ms(lock_ms - asked_between)

    def _device(self, call: Call, row: dict[str, Any], best: dict[str, str], online: set[str]) -> LockDevice:
        lock_id = str(row.get("lockId"))
        features = read_features(row.get("featureValue"))
        gateway = best.get(lock_id, "")
        has_gateway = bool(gateway) or to_int(row.get("hasGateway")) == _YES
        is_online = gateway in online
        if not gateway and WIFI in features:
            is_online = self._wifi_online(call, lock_id)
        return LockDevice(
            external_id=lock_id,
            label=_text(row.get("lockAlias")) or _text(row.get("lockName")) or lock_id,
            online=is_online,
            capabilities=capabilities_of(features, has_gateway),
            gateway=gateway,
            has_remote=is_reached(features, has_gateway),
            battery_percent=_percent(row.get("electricQuantity")),
            firmware=_text(row.get("firmwareRevision")),
            last_seen_at=_seen_at(row),
            utc_offset_s=offset_s(row),
        )

    def _best_gateways(self, call: Call, gateways: Iterable[dict[str, Any]]) -> dict[str, str]:
        best: dict[str, tuple[int, str]] = {}
        for gateway in gateways:
            gateway_id = str(gateway.get("gatewayId"))
            document = self._client.ask(call, "gateway/listLock", {"gatewayId": gateway_id})
            for row in rows_in(document):
                lock_id, rssi = str(row.get("lockId")), to_int(row.get("rssi"))
                heard = (_NO_SIGNAL if rssi is None else rssi, gateway_id)
                best[lock_id] = max(best.get(lock_id, heard), heard)
        return {lock_id: gateway_id for lock_id, (_, gateway_id) in best.items()}

    def _wifi_online(self, call: Call, lock_id: str) -> bool:
        try:
            answer = self._client.ask(call, "wifiLock/detail", {"lockId": lock_id})
        except Refused:
            return False
        return to_int(answer.get("isOnline")) == _YES

    def _pages(self, call: Call, path: str, fields: dict[str, object], size: int) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for page in range(1, PAGES_MAX + 1):
            document = self._client.ask(call, path, fields | {"pageNo": page, "pageSize": size})
            part = rows_in(document)
            rows += part
            if len(part) < size:
                break
        return rows


def _percent(value: object) -> int | None:
    number = to_int(value)
    return number if number is not None and 0 <= number <= 100 else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _seen_at(row: dict[str, Any]) -> datetime | None:
    return from_ms(row.get("electricQuantityUpdateDate"))
