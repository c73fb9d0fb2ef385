"""Passcodes: random ones the cloud makes (`keyboardPwd/get`) and custom ones the caller brings (`keyboardPwd/add`).

One rule: a type left out means 1, *already done over BLE*, and then only the cloud's record changes; the door learns nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from .context import Context
from .door import ERASE, ONCE, PERIOD, PERMANENT, WEEKDAYS, Door
from .errcodes import VendorError, success_body
from .model import ADDING, Lock, Passcode
from .params import INVALID
from .radio import ASYNCHRONOUS, BY_GATEWAY, BY_NB, BY_PHONE
from .random_codes import check_long_period, floor_hour, make_code

PASSCODE_BIT = 0
NOT_FOUND, TOO_SIMPLE, BAD_LENGTH, DUPLICATE, NEVER_USED, NO_SPACE = -2009, -2032, -3006, -3007, -3008, -3009
MAX_NAME = 50
NEW_ID = "new_id"
BY_LIST = "list"


async def get(context: Context) -> dict[str, object]:
    """keyboardPwd/get: a random code for a whole-hour window, valid at the lock without any gateway."""
    lock = _lock(context)
    if not lock.has_passcode_data:
        raise VendorError(-1007)
    if context.params.integer("keyboardPwdVersion", lock.passcode_version) != lock.passcode_version:
        raise VendorError(20007)
    code_type = context.params.choice("keyboardPwdType", (ONCE, PERMANENT, PERIOD, ERASE, *WEEKDAYS))
    start, end = _random_window(context, lock, code_type)
    name = context.params.text("keyboardPwdName", "")
    repeated = _same_period(lock, code_type, start, end)
    if repeated is not None:
        if context.app.habits.same_window == NEW_ID:
            again = _record(context, lock, _Draft(repeated.code, name, code_type, (start, end), custom=False))
            again.window = repeated.window
            return {"keyboardPwd": again.code, "keyboardPwdId": again.passcode_id}
        return {"keyboardPwd": repeated.code, "keyboardPwdId": repeated.passcode_id}
    code, mark = make_code(lock, lock.door, code_type, start, end)
    lock.door.learn_random(code)
    passcode = _record(context, lock, _Draft(code.value, name, code_type, (start, end), custom=False))
    passcode.window = mark
    return {"keyboardPwd": code.value, "keyboardPwdId": passcode.passcode_id}


def _random_window(context: Context, lock: Lock, code_type: int) -> tuple[int, int]:
    start = floor_hour(context.params.integer("startDate"), lock)
    if code_type != PERIOD and code_type not in WEEKDAYS:
        return start, 0
    end = floor_hour(context.params.integer("endDate"), lock)
    if start <= 0 or end <= start:
        raise VendorError(INVALID)
    check_long_period(lock, start, end)
    return start, end


def _same_period(lock: Lock, code_type: int, start: int, end: int) -> Passcode | None:
    """Find the code that a window was given before. There is one period code per lock and window; asking again gives the
    same digits (assumed), under the same id or a new one as the application's habit says."""
    if code_type in (ONCE, PERMANENT):
        return None
    mark = f"{code_type}:{start}:{end}:0"
    return next((p for p in lock.passcodes.values() if p.window == mark), None)


@dataclass(frozen=True, slots=True)
class _Draft:
    """What a new record of a code holds."""

    code: str
    name: str
    type: int
    window: tuple[int, int]
    custom: bool = True


async def add(context: Context) -> dict[str, object]:
    """keyboardPwd/add: a code of the caller's own, 4 to 9 digits."""
    lock = _lock(context)
    way = context.params.choice("addType", (BY_PHONE, BY_GATEWAY, BY_NB, ASYNCHRONOUS), BY_PHONE)
    draft = _custom_draft(context, lock)
    if way == ASYNCHRONOUS:
        return _add_later(context, lock, draft)
    if way == BY_PHONE and sum(p.custom for p in lock.passcodes.values()) >= lock.door.code_capacity:
        raise VendorError(NO_SPACE)
    await context.write(lock, way, _adder(lock, draft.code, draft.window))
    return {"keyboardPwdId": _record(context, lock, draft).passcode_id}


def _custom_draft(context: Context, lock: Lock) -> _Draft:
    params = context.params
    code = params.text("keyboardPwd")
    code_type = params.choice("keyboardPwdType", (PERMANENT, PERIOD), PERIOD)
    window = context.window() if code_type == PERIOD else (0, 0)
    name = params.text("keyboardPwdName", "")
    if len(name) > MAX_NAME:
        raise VendorError(INVALID)
    check_digits(code)
    _refuse_duplicate(lock, code)
    if context.app.habits.unique_names and name and any(p.name == name for p in lock.passcodes.values()):
        raise VendorError(-1016)
    return _Draft(code, name, code_type, window)


def check_digits(code: str) -> None:
    """Raises VendorError: -3 not digits, -3006 not 4 to 9 of them, -2032 one digit repeated or a run."""
    if not (code.isascii() and code.isdigit()):
        raise VendorError(INVALID)
    if not 4 <= len(code) <= 9:
        raise VendorError(BAD_LENGTH)
    steps = {int(b) - int(a) for a, b in itertools.pairwise(code)}
    if steps in ({0}, {1}, {-1}):
        raise VendorError(TOO_SIMPLE)


def _refuse_duplicate(lock: Lock, code: str, own: Passcode | None = None) -> None:
    if any(p.code == code and p is not own for p in lock.passcodes.values()):
        raise VendorError(DUPLICATE)


def _adder(lock: Lock, code: str, window: tuple[int, int]) -> Callable[[Door], None]:
    start, end = lock.wall_window(*window)

    def act(door: Door) -> None:
        if door.holds_code(code):
            raise VendorError(DUPLICATE)
        if len(door.codes) >= door.code_capacity:
            raise VendorError(NO_SPACE)
        door.codes[code] = door.stored(code, start, end)

    return act


def _add_later(context: Context, lock: Lock, draft: _Draft) -> dict[str, object]:
    """A sleeping Wi-Fi lock takes it when it wakes: status 4, then 1, or 5 with a push of type 4."""
    if lock.wifi is None:
        raise VendorError(-3034)
    passcode = _record(context, lock, draft)
    passcode.status = ADDING
    context.later(lock, passcode, _adder(lock, draft.code, draft.window))
    return {"keyboardPwdId": passcode.passcode_id}


def _record(context: Context, lock: Lock, draft: _Draft) -> Passcode:
    passcode = Passcode(
        passcode_id=context.world.new_id(),
        code=draft.code,
        name=draft.name,
        type=draft.type,
        start=draft.window[0],
        end=draft.window[1],
        sent_at=context.now,
        custom=draft.custom,
        sender=context.account.username,
        nonce=context.params.fields.get("clientNonce", "")[:64],
    )
    lock.passcodes[passcode.passcode_id] = passcode
    return passcode


async def change(context: Context) -> dict[str, object]:
    """keyboardPwd/change. Both dates or no change of the window; only one of them is a success without effect."""
    lock = _lock(context)
    params = context.params
    passcode = _passcode(context, lock)
    new_code = params.fields.get("newKeyboardPwd", "")
    name = params.fields.get("keyboardPwdName", "")
    moves = params.has("startDate") and params.has("endDate")
    way = params.choice("changeType", (BY_PHONE, BY_GATEWAY, BY_NB), BY_PHONE)
    window = context.window() if moves else (passcode.start, passcode.end)
    if new_code:
        check_digits(new_code)
        _refuse_duplicate(lock, new_code, passcode)
    if moves or new_code:
        await context.write(lock, way, _changer(lock, passcode, new_code or passcode.code, window))
        passcode.start, passcode.end = window
        passcode.type = PERMANENT if window == (0, 0) else PERIOD if passcode.type == PERMANENT else passcode.type
        passcode.code = new_code or passcode.code
    passcode.name = name[:MAX_NAME] or passcode.name
    return success_body()


def _changer(lock: Lock, passcode: Passcode, code: str, window: tuple[int, int]) -> Callable[[Door], None]:
    start, end = lock.wall_window(*window)
    old, custom = passcode.code, passcode.custom

    def act(door: Door) -> None:
        if not custom:
            known = door.random_codes.get(old)
            if known is None or not known.used_at:
                raise VendorError(NEVER_USED)
            if code != old and door.holds_code(code):
                raise VendorError(DUPLICATE)
            del door.random_codes[old]
            known.value, known.start, known.end = code, door.floor(start), door.floor(end)
            door.random_codes[code] = known
            return
        if old not in door.codes:
            raise VendorError(NOT_FOUND)
        if code != old and door.holds_code(code):
            raise VendorError(DUPLICATE)
        del door.codes[old]
        door.codes[code] = door.stored(code, start, end)

    return act


async def delete(context: Context) -> dict[str, object]:
    """keyboardPwd/delete by id. An unknown id is -2009, or 0 where the application's habit says so."""
    lock = _lock(context)
    passcode = lock.passcodes.get(context.params.integer("keyboardPwdId"))
    way = _delete_way(context)
    if passcode is None:
        return unknown_delete(context, NOT_FOUND)
    await context.write(lock, way, _deleter(context, passcode.code, passcode.custom))
    _forget(lock, passcode)
    return success_body()


async def delete_by_code(context: Context) -> dict[str, object]:
    """keyboardPwd/deleteByCode: also reaches a code that sits at the lock unrecorded, unless the application's habit says that
    the cloud looks into its own list only."""
    lock = _lock(context)
    code = context.params.text("keyboardPwd")
    way = _delete_way(context)
    passcode = next((p for p in lock.passcodes.values() if p.code == code), None)
    unrecorded = way != BY_PHONE and code in lock.door.codes and context.app.habits.delete_by_code != BY_LIST
    if passcode is None and not unrecorded:
        return unknown_delete(context, NOT_FOUND)
    await context.write(lock, way, _deleter(context, code, passcode is None or passcode.custom))
    if passcode is not None:
        _forget(lock, passcode)
    return success_body()


def unknown_delete(context: Context, not_found: int) -> dict[str, object]:
    """Answers a delete of something unknown the way the application's habit says."""
    if context.app.habits.unknown_delete == 0:
        return success_body()
    raise VendorError(not_found)


def _delete_way(context: Context) -> int:
    return context.params.choice("deleteType", (BY_PHONE, BY_GATEWAY, BY_NB), BY_PHONE)


def _deleter(context: Context, code: str, custom: bool) -> Callable[[Door], None]:
    def act(door: Door) -> None:
        if custom:
            if door.codes.pop(code, None) is None and context.app.habits.absent_delete:
                raise VendorError(context.app.habits.absent_delete)
            return
        known = door.random_codes.get(code)
        if known is None or not known.used_at:
            raise VendorError(NEVER_USED)
        known.blacklisted = True

    return act


def _forget(lock: Lock, passcode: Passcode) -> None:
    lock.passcodes.pop(passcode.passcode_id, None)
    if passcode.window:
        lock.withdrawn_windows.append(passcode.window)


async def list_of_lock(context: Context) -> dict[str, object]:
    """lock/listKeyboardPwd: searchStr is fuzzy on the name and exact on the code."""
    lock = _lock(context)
    wanted = context.params.text("searchStr", "")
    found = [_item(lock, p) for p in lock.passcodes.values() if not wanted or wanted in p.name or wanted == p.code]
    return context.page(context.order(found, "keyboardPwdName", "sendDate"))


def _item(lock: Lock, passcode: Passcode) -> dict[str, object]:
    return {
        "keyboardPwdId": passcode.passcode_id,
        "lockId": lock.lock_id,
        "keyboardPwd": passcode.code,
        "keyboardPwdName": passcode.name,
        "keyboardPwdVersion": lock.passcode_version,
        "keyboardPwdType": passcode.type,
        "startDate": passcode.start,
        "endDate": passcode.end,
        "sendDate": passcode.sent_at,
        "isCustom": int(passcode.custom),
        "senderUsername": passcode.sender,
        "status": passcode.status,
    }


def _lock(context: Context) -> Lock:
    lock = context.admin_lock()
    if not lock.has_feature(PASSCODE_BIT):
        raise VendorError(-4043)
    return lock


def _passcode(context: Context, lock: Lock) -> Passcode:
    passcode = lock.passcodes.get(context.params.integer("keyboardPwdId"))
    if passcode is None:
        raise VendorError(NOT_FOUND)
    return passcode
