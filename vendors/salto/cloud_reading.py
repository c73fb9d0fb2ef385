"""Reads the cloud: doors and their condition, keys at a door, the log.

One rule: reading changes nothing, so an unanswered question is an error to be retried, never an unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from vendors.port.errors import DeviceNotPaired, Reason
from vendors.port.types import (
    AccessRecord,
    CallMeta,
    CredentialHandle,
    DeviceHealth,
    Door,
    FoundKey,
    FoundPage,
    LockCapabilities,
    LockDevice,
)
from vendors.support.skew import bounded_skew_ms

from .answers import found_key, is_in_force, moment, places_in
from .client import Call, SaltoClient, path_of
from .cloud_keys import CloudKeys
from .errors import CLOUD, Refused, Unclear, translate, unreachable
from .operations import attempt_in
from .reading import MAX_PAGES, checked_listed, reading, rows_in

PAGE = 200
UNKNOWN_BATTERY = -1


class CloudReading:
    """Questions to the cloud. Safe from several threads."""

    def __init__(self, client: SaltoClient, keys: CloudKeys, deny_list_places: int) -> None:
        self._client = client
        self._keys = keys
        self._deny_list_places = deny_list_places

    def devices(self) -> tuple[LockDevice, ...]:
        """Returns the doors; of several that share an authorisation, the first."""
        call = Call(CallMeta("devices", priority=3))
        found: dict[str, LockDevice] = {}
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = self._read(call, path_of("doors"), {"cursor": cursor})
            with _asked_again():
                for row in rows_in(page):
                    device = _device(row, self._deny_list_places)
                    found.setdefault(device.external_id, device)
            cursor = page.get("next")
            if cursor is None:
                return tuple(found.values())
        raise unreachable("a list without end", Reason.TIMEOUT)

    def health(self, door: Door, now: datetime) -> DeviceHealth:
        """Reads one door. Raises DeviceNotPaired."""
        row = self._read(Call(CallMeta("health", priority=3)), path_of("doors", door.external_id), {}, door)
        with _asked_again():
            return DeviceHealth(
                device_id=door.device_id,
                online=bool(row["online"]),
                battery_percent=_battery(row),
                clock_skew_ms=bounded_skew_ms(float(row["clockSkewSec"]) * 1000),
                checked_at=now,
            )

    def find(self, call: Call, handle: CredentialHandle) -> tuple[FoundKey, ...]:
        """Returns the credential's live keys at the handle's doors, without those whose place a later stay's key took."""
        rows = [row for row in self._keys.of_credential(call, handle.credential_id) if is_in_force(row)]
        wanted = [door.external_id for door in handle.doors]
        return tuple(found_key(row, place) for row in rows for place in places_in(row) if place in wanted)

    def keys_at(self, door: Door, cursor: str | None) -> FoundPage:
        """Returns a page of live keys at a door, without those whose place a later stay's key took."""
        query = {"room": door.external_id, "status": "live", "limit": str(PAGE), "cursor": cursor}
        page = self._read(Call(CallMeta("inventory", priority=3)), path_of("keys"), query, door)
        with _asked_again():
            keys = tuple(found_key(row, door.external_id) for row in map(checked_listed, rows_in(page)) if is_in_force(row))
        return FoundPage(keys, page.get("next"))

    def records(self, door: Door, since: datetime, until: datetime) -> tuple[AccessRecord, ...]:
        """Returns the attempts at a door in the span, oldest first."""
        call = Call(CallMeta("records", priority=3))
        span = {"since": since.astimezone(UTC).isoformat(), "until": until.astimezone(UTC).isoformat()}
        found: list[AccessRecord] = []
        after = "0"
        for _ in range(MAX_PAGES):
            query = {"door": door.external_id, **span, "after": after, "limit": str(PAGE)}
            page = self._read(call, path_of("events"), query, door)
            with _asked_again():
                rows = rows_in(page)
                found += [attempt for row in rows if (attempt := attempt_in(row)) is not None]
                after = str(rows[-1]["id"]) if rows else after
            if len(rows) < PAGE:
                return tuple(sorted(found, key=lambda record: record.attempted_at))
        raise unreachable("a log without end", Reason.TIMEOUT)

    def _read(self, call: Call, path: str, query: Mapping[str, str | None], door: Door | None = None) -> dict[str, Any]:
        try:
            return self._client.get(call, path, query)
        except Refused as refused:
            device_id = door.device_id if door else None
            error = translate(CLOUD, refused.code, device_id=device_id, retry_after_s=refused.retry_after_s)
            if isinstance(error, DeviceNotPaired):
                raise error from None
            raise error from refused


@contextmanager
def _asked_again() -> Iterator[None]:
    """Goes around reading: an answer that makes no sense is no answer. Raises VendorUnreachable."""
    try:
        with reading():
            yield
    except Unclear as unclear:
        raise unclear.error from None


def _device(row: Mapping[str, Any], deny_list_places: int) -> LockDevice:
    number, is_wired = row.get("authorization"), row.get("type") == "online"
    seen = row.get("lastSeenAt")
    return LockDevice(
        external_id=f"auth:{number}" if number is not None else str(row["name"]),
        label=str(row.get("label") or row["name"]),
        online=bool(row["online"]),
        capabilities=LockCapabilities(
            mobile_key=True,
            card_encoding=True,
            pin=is_wired and bool(row.get("keypad")),
            remote_revoke=is_wired,
            remote_issue=is_wired,
            scope_areas=number is not None,
        ),
        has_remote=is_wired,
        battery_percent=_battery(row),
        last_seen_at=moment(str(seen)) if seen else None,
        deny_list_percent=_percent(row.get("denylistSize"), deny_list_places),
    )


def _percent(cards: object, places: int) -> int | None:
    """Returns how full a lock's deny list is; None where its size is not told."""
    if cards is None:
        return None
    if not isinstance(cards, int) or isinstance(cards, bool) or cards < 0:
        raise ValueError("denylistSize is no number of cards")
    return min(100, cards * 100 // places)


def _battery(row: Mapping[str, Any]) -> int | None:
    level = int(row.get("battery", UNKNOWN_BATTERY))
    return None if level == UNKNOWN_BATTERY else level
