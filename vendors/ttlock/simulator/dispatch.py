"""The vendor's address space: which call goes where, and the checks that come before any of them.

One rule: whatever is wrong, the answer is HTTP 200 with an errcode, unless a fault says otherwise.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from . import accounts, cards, ekeys, locks, passage, passcodes, records
from .calls import Call
from .context import Context
from .errcodes import VendorError, error_body
from .faults import Effect, Rule
from .model import Application
from .params import INVALID, Params
from .services import Services
from .wire import Delivery, Reply, Request

Handler = Callable[[Context], Awaitable[dict[str, object]]]
DATE_WINDOW_MS = 300_000
SIGN_IN = "oauth2/token"
SECRET_CALLS: dict[str, Handler] = {
    SIGN_IN: accounts.token,
    "user/register": accounts.register,
    "user/resetPassword": accounts.reset_password,
    "user/delete": accounts.delete_user,
    "user/list": accounts.list_users,
    "app/getMonthRequestCount": accounts.month_count,
}
TOKEN_CALLS: dict[str, Handler] = {
    "user/getUid": accounts.get_uid,
    "lock/list": locks.list_own,
    "lock/detail": locks.detail,
    "lock/queryDate": locks.query_date,
    "lock/updateDate": locks.update_date,
    "lock/queryElectricQuantity": locks.query_battery,
    "lock/updateElectricQuantity": locks.update_battery,
    "lock/queryOpenState": locks.query_open_state,
    "lock/queryStatus": locks.query_status,
    "lock/unlock": locks.unlock,
    "lock/lock": locks.lock_now,
    "lock/freeze": locks.freeze,
    "lock/unfreeze": locks.unfreeze,
    "lock/changeTimezoneRawOffset": locks.change_offset,
    "lock/setAutoLockTime": locks.set_auto_lock,
    "lock/configPassageMode": passage.configure,
    "lock/getPassageModeConfig": passage.read,
    "lock/configurePassageMode": passage.configure_periods,
    "lock/getPassageModeConfiguration": passage.read_periods,
    "lock/rename": locks.rename,
    "lock/transfer": locks.transfer,
    "lock/listKey": ekeys.list_of_lock,
    "lock/listKeyboardPwd": passcodes.list_of_lock,
    "gateway/list": locks.gateways,
    "gateway/listByLock": locks.gateways_of_lock,
    "gateway/listLock": locks.locks_of_gateway,
    "gateway/detail": locks.gateway_detail,
    "gateway/transfer": locks.gateway_transfer,
    "wifiLock/detail": locks.wifi_detail,
    "keyboardPwd/get": passcodes.get,
    "keyboardPwd/add": passcodes.add,
    "keyboardPwd/change": passcodes.change,
    "keyboardPwd/delete": passcodes.delete,
    "keyboardPwd/deleteByCode": passcodes.delete_by_code,
    "key/send": ekeys.send,
    "key/changePeriod": ekeys.change_period,
    "key/freeze": ekeys.freeze,
    "key/unfreeze": ekeys.unfreeze,
    "key/delete": ekeys.delete,
    "key/modify": ekeys.modify,
    "key/authorize": ekeys.authorize,
    "key/unauthorize": ekeys.unauthorize,
    "key/get": ekeys.get,
    "key/list": ekeys.list_own,
    "key/getUnlockLink": ekeys.unlock_link,
    "identityCard/add": cards.add,
    "identityCard/addForReversedCardNumber": cards.add_reversed,
    "identityCard/changePeriod": cards.change_period,
    "identityCard/rename": cards.rename,
    "identityCard/delete": cards.delete,
    "identityCard/deleteByCardNumber": cards.delete_by_number,
    "identityCard/list": cards.list_cards,
    "qrCode/add": cards.qr_add,
    "qrCode/update": cards.qr_update,
    "qrCode/getData": cards.qr_data,
    "qrCode/delete": cards.qr_delete,
    "qrCode/list": cards.qr_list,
    "fingerprint/delete": locks.no_fingerprint,
    "fingerprint/list": locks.no_fingerprints,
    "lockRecord/list": records.list_records,
    "lockRecord/clear": records.clear,
}
HTML = b"<html><head><title>Bad Gateway</title></head><body><h1>Bad Gateway</h1></body></html>"
HTML_TYPE = "text/html;charset=UTF-8"
INSTEAD = frozenset(
    {
        Effect.ERRCODE,
        Effect.DROP_BEFORE,
        Effect.HANG,
        Effect.HTML,
        Effect.EMPTY,
        Effect.EMPTY_LIST,
        Effect.HTTP500,
        Effect.WORDLESS,
    }
)

SENSELESS: dict[Effect, dict[str, object]] = {
    Effect.WORDLESS: {"weird": 1},
    Effect.EMPTY_LIST: {"list": [], "pageNo": 1, "pageSize": 20, "pages": 0, "total": 0},
}

TAKEN_AWAY = frozenset({Effect.APPLY_THEN_DROP, Effect.APPLY_THEN_HANG, Effect.APPLY_THEN_HTML, Effect.APPLY_THEN_HTTP500})


@dataclass(slots=True)
class Result:
    """What a call came to: the body, its errcode (0 for success) and whether it was done."""

    body: dict[str, object]
    errcode: int
    applied: bool


class Cloud:
    """Answers the vendor's HTTP API."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._minute: dict[str, deque[float]] = {}

    async def handle(self, request: Request) -> Reply:
        """Answers one request, spoilt by at most one fault."""
        name = _name(request.path)
        if name is None or request.method not in ("GET", "POST"):
            return Reply(HTML, 404, HTML_TYPE)
        params = Params.of(request)
        call = self._services.calls.begin(name, request.method, params, request.arrived_ms)
        rule = self._services.faults.pick(name, call.lock_id, call.client_id)
        call.fault = rule.effect.value if rule else None
        if rule is not None and rule.effect is Effect.SLOW:
            await asyncio.sleep(rule.seconds)
        if rule is not None and rule.effect in INSTEAD:
            return self._instead(rule, call)
        if self._services.world.timing.cloud_ms > 0:
            await asyncio.sleep(self._services.world.timing.cloud_ms / 1000)
        result, habits = await self._run(name, params, call, rule)
        self._services.calls.finish(call, result.errcode, result.applied)
        return _reply(result, rule, habits)

    def _instead(self, rule: Rule, call: Call) -> Reply:
        """The call is not done at all."""
        if rule.effect is Effect.ERRCODE:
            self._services.calls.finish(call, rule.errcode, False)
            return _json(error_body(rule.errcode))
        self._services.calls.finish(call, None, False)
        return _broken(rule)

    async def _run(self, name: str, params: Params, call: Call, rule: Rule | None) -> tuple[Result, bool]:
        world = self._services.world
        as_text = False
        try:
            app = world.application(call.client_id)
            as_text = app.habits.numbers_as_strings
            context = Context(self._services, app, params, call, world.now(), effect=rule.effect if rule else None)
            self._admit(name, context)
            handler = SECRET_CALLS.get(name) or TOKEN_CALLS.get(name)
            if handler is None:
                raise VendorError(INVALID)
            body = await handler(context)
            world.changes += 1
            return Result(body, 0, True), as_text
        except VendorError as error:
            return Result(error_body(error.errcode), error.errcode, False), as_text

    def _admit(self, name: str, context: Context) -> None:
        """The checks before every call, in this order (assumed): region, review, rate, quota, date, token, permission."""
        app = context.app
        if app.region != self._services.world.region:
            raise VendorError(30008)
        if not app.reviewed:
            raise VendorError(10006)
        self._count(app)
        if name == SIGN_IN:
            return
        if abs(context.params.integer("date") - context.now) > DATE_WINDOW_MS:
            raise VendorError(80000)
        if name not in SECRET_CALLS:
            token = context.params.either("accessToken", "access_token")
            context.account = accounts.caller(self._services.world, app, token, context.now)
        if name in app.forbidden_paths:
            raise VendorError(30001)

    def _count(self, app: Application) -> None:
        """Counts against the minute (real time, sliding) and the month (Beijing, simulator's clock). Raises 30006, 30007."""
        if app.minute_limit is not None:
            recent = self._minute.setdefault(app.client_id, deque())
            now = time.monotonic()
            while recent and recent[0] <= now - 60:
                recent.popleft()
            if len(recent) >= app.minute_limit:
                raise VendorError(30006)
            recent.append(now)
        month = self._services.world.month()
        if app.month != month:
            app.month, app.month_count = month, 0
        if app.month_limit is not None and app.month_count >= app.month_limit:
            raise VendorError(30007)
        app.month_count += 1


def _name(path: str) -> str | None:
    if path == "/oauth2/token":
        return SIGN_IN
    if path.startswith("/v3/"):
        return path[4:].strip("/") or None
    return "app/getMonthRequestCount" if path == "/app/getMonthRequestCount" else None


def _broken(rule: Rule) -> Reply:
    if rule.effect in (Effect.HTML, Effect.APPLY_THEN_HTML):
        return Reply(HTML, rule.status, HTML_TYPE)
    if rule.effect in (Effect.HTTP500, Effect.APPLY_THEN_HTTP500):
        return Reply(b"", 500, HTML_TYPE)
    if rule.effect is Effect.EMPTY:
        return Reply(b"", 200)
    if rule.effect in SENSELESS:
        return _json(SENSELESS[rule.effect])
    if rule.effect in (Effect.HANG, Effect.APPLY_THEN_HANG):
        return Reply(b"", delivery=Delivery.HANG)
    return Reply(b"", delivery=Delivery.DROP)


def _reply(result: Result, rule: Rule | None, as_text: bool) -> Reply:
    """Gives the answer of a call that was done, unless the fault takes it away."""
    effect = rule.effect if rule else None
    if rule is not None and effect in TAKEN_AWAY:
        return _broken(rule)
    if rule is not None and effect in (Effect.APPLY_THEN_ERRCODE1, Effect.APPLY_THEN_ERRCODE):
        return _json(error_body(1 if effect is Effect.APPLY_THEN_ERRCODE1 else rule.errcode))
    body = {key: _as_text(key, value) for key, value in result.body.items()} if as_text else result.body
    if rule is not None and effect is Effect.DRIP:
        return _json(body, Delivery.DRIP, rule.seconds or 0.05)
    return _json(body, Delivery.CUT if effect is Effect.CUT else Delivery.WHOLE)


def _as_text(key: str, value: object) -> object:
    """Turns numbers into texts all the way down, except the errcode."""
    if isinstance(value, dict):
        return {k: _as_text(k, v) for k, v in value.items()}
    if isinstance(value, list):
        return [_as_text(key, item) for item in value]
    return str(value) if isinstance(value, int) and key != "errcode" else value


def _json(body: dict[str, object], delivery: Delivery = Delivery.WHOLE, interval_s: float = 0.05) -> Reply:
    data = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    return Reply(data, delivery=delivery, interval_s=interval_s)
