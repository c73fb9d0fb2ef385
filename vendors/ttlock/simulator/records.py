"""Access records: from the lock's own log into the cloud, and out by `lockRecord/list` and push.

One rule: a record reaches the cloud only when something carries it: a gateway or Wi-Fi at once, otherwise a phone, later.
"""

from __future__ import annotations

from .context import Context
from .door import LogLine
from .errcodes import success_body
from .model import Lock, Record
from .services import Services
from .world import World

KEPT_MS = 183 * 86_400_000
KEPT_COUNT = 5_000


def collect(services: Services, lock: Lock, *, by_phone: bool = False) -> int:
    """Carries the lock's log to the cloud if something reaches the lock; returns how many records came."""
    if not lock.door.log or not (by_phone or services.radio.can_reach(lock)):
        return 0
    lines, lock.door.log = lock.door.log, []
    records = [_record(services.world, lock, line) for line in lines]
    lock.records.extend(records)
    oldest = services.world.now() - KEPT_MS
    lock.records = [r for r in lock.records[-KEPT_COUNT:] if r.server_date >= oldest]
    services.world.changes += 1
    services.pushes.records(lock, records)
    return len(records)


def _record(world: World, lock: Lock, line: LogLine) -> Record:
    return Record(
        record_id=world.new_id(),
        raw=line.raw,
        type=line.cloud,
        success=line.success,
        username=line.username or _name_of(lock, line),
        typed=line.typed,
        lock_date=(line.wall - lock.timezone_raw_offset) // 1000 * 1000,
        server_date=world.now(),
        battery=lock.battery,
        uid=line.uid,
    )


def _name_of(lock: Lock, line: LogLine) -> str:
    if line.cloud == 4:
        return next((p.name for p in lock.passcodes.values() if p.code == line.typed), "")
    if line.cloud in (7, 51):
        return next((c.name for c in lock.cards.values() if c.number == line.typed), "")
    return next((q.name for q in lock.qr_codes.values() if q.content == line.typed), "") if line.typed else ""


async def list_records(context: Context) -> dict[str, object]:
    """lockRecord/list: by lock time, newest first; typed digits in clear, as the vendor gives them."""
    lock = context.admin_lock()
    params = context.params
    start, end = params.integer("startDate", 0), params.integer("endDate", 0)
    uid, kind = params.integer("uid", 0), params.integer("recordType", 0)
    wanted = params.text("searchStr", "")
    found = [
        _item(lock, record)
        for record in lock.records
        if start <= record.lock_date
        and (not end or record.lock_date <= end)
        and (not uid or record.uid == uid)
        and (not kind or record.type == kind)
        and (not wanted or wanted in record.username or wanted == record.typed)
    ]
    return context.page(context.order(found, "username", "lockDate"))


def _item(lock: Lock, record: Record) -> dict[str, object]:
    return {
        "recordId": record.record_id,
        "lockId": lock.lock_id,
        "recordTypeFromLock": record.raw,
        "recordType": record.type,
        "success": record.success,
        "username": record.username,
        "keyboardPwd": record.typed,
        "lockDate": record.lock_date,
        "serverDate": record.server_date,
    }


async def clear(context: Context) -> dict[str, object]:
    """lockRecord/clear: wipes the cloud's records of a lock."""
    context.admin_lock().records.clear()
    return success_body()
