"""Signing in, users made by an application, and the monthly counter.

One rule: a failed sign-in is HTTP 200 with an errcode; a success has no errcode at all.
"""

from __future__ import annotations

import re
import secrets

from .context import Context
from .errcodes import VendorError, success_body
from .model import Account, Application, Grant
from .world import World

MD5 = re.compile(r"[0-9a-f]{32}")
PLAIN_NAME = re.compile(r"[A-Za-z0-9]{1,64}")
BAD_SECRET, NOT_REVIEWED, BAD_LOGIN, BAD_GRANT, BAD_REFRESH = 10001, 10006, 10007, 10010, 10011
BAD_NAME, NAME_TAKEN, NO_USER, NOT_MD5, LOCKS_LEFT = 30002, 30003, 30004, 30005, -4063


def check_secret(context: Context) -> None:
    """Compares the client secret. Raises VendorError(10001)."""
    given = context.params.either("clientSecret", "client_secret")
    if not any(secrets.compare_digest(given.encode(), known.encode()) for known in context.app.client_secrets):
        raise VendorError(BAD_SECRET)


async def token(context: Context) -> dict[str, object]:
    """oauth2/token: password (default), refresh_token, and client_credentials where the application's flag allows it."""
    check_secret(context)
    if not context.app.reviewed:
        raise VendorError(NOT_REVIEWED)
    grant_type = context.params.text("grant_type", "password")
    if grant_type == "password":
        account = _sign_in(context)
        return _answer(context, _issue(context, account.uid), with_refresh=True, account=account)
    if grant_type == "refresh_token":
        return _refresh(context)
    if grant_type == "client_credentials" and context.app.client_credentials:
        return _answer(context, _issue(context, context.app.owner_uid), with_refresh=False)
    raise VendorError(BAD_GRANT)


def _sign_in(context: Context) -> Account:
    account = context.world.account_named(context.params.either("username"))
    password = context.params.either("password")
    foreign = account is not None and account.made_by not in ("", context.app.client_id)
    if account is None or account.developer or foreign:
        raise VendorError(BAD_LOGIN)
    if not secrets.compare_digest(password.encode(), account.password_md5.encode()):
        raise VendorError(BAD_LOGIN)
    return account


def _issue(context: Context, uid: int) -> Grant:
    habits = context.app.habits
    grants = context.world.state.grants
    if habits.single_token:
        for old in grants.values():
            if old.uid == uid and old.client_id == context.app.client_id:
                old.withdrawn = True
    grant = Grant(
        access=secrets.token_hex(16),
        refresh=secrets.token_hex(16),
        uid=uid,
        client_id=context.app.client_id,
        expires_at=context.now + habits.access_token_s * 1000,
        refresh_expires_at=context.now + habits.refresh_token_s * 1000,
    )
    grants[grant.access] = grant
    return grant


def _refresh(context: Context) -> dict[str, object]:
    given = context.params.either("refresh_token", "refreshToken")
    grants = context.world.state.grants
    old = next((g for g in grants.values() if g.refresh == given and g.client_id == context.app.client_id), None)
    if old is None or old.withdrawn or context.now >= old.refresh_expires_at:
        raise VendorError(BAD_REFRESH)
    del grants[old.access]
    fresh = _issue(context, old.uid)
    if not context.app.habits.rotate_refresh:
        fresh.refresh, fresh.refresh_expires_at = old.refresh, old.refresh_expires_at
    return _answer(context, fresh, with_refresh=True)


def _answer(context: Context, grant: Grant, *, with_refresh: bool, account: Account | None = None) -> dict[str, object]:
    body: dict[str, object] = {"access_token": grant.access, "expires_in": context.app.habits.access_token_s}
    if with_refresh:
        body["refresh_token"] = grant.refresh
    if account is not None:
        body["uid"] = account.uid
    if context.app.habits.old_token_fields:
        body |= {"openid": grant.uid, "scope": "user,key,room", "token_type": "Bearer"}
    return body


def caller(world: World, app: Application, access_token: str, now: int) -> Account:
    """Returns whose token this is. Raises VendorError: 10003 unknown, 10004 expired or withdrawn, 20001 user gone."""
    grant = world.state.grants.get(access_token)
    if grant is None or grant.client_id != app.client_id:
        raise VendorError(10003)
    if grant.withdrawn or now >= grant.expires_at:
        raise VendorError(10004)
    account = world.state.accounts.get(grant.uid)
    if account is None or account.deleted:
        raise VendorError(20001)
    return account


async def register(context: Context) -> dict[str, object]:
    """user/register: the vendor puts the application's prefix before the name."""
    check_secret(context)
    name, password = context.params.text("username"), context.params.text("password")
    if not PLAIN_NAME.fullmatch(name):
        raise VendorError(BAD_NAME)
    if not MD5.fullmatch(password):
        raise VendorError(NOT_MD5)
    full_name = f"{context.app.prefix}_{name}"
    if context.world.account_named(full_name) is not None:
        raise VendorError(NAME_TAKEN)
    account = Account(context.world.new_id(), full_name, password, made_by=context.app.client_id, registered_at=context.now)
    context.world.add_account(account)
    return {"username": full_name}


def _made_user(context: Context) -> Account:
    account = context.world.account_named(context.params.text("username"))
    if account is None or account.made_by != context.app.client_id:
        raise VendorError(NO_USER)
    return account


async def reset_password(context: Context) -> dict[str, object]:
    """user/resetPassword: only users the application made; earlier tokens die (10004)."""
    check_secret(context)
    account = _made_user(context)
    password = context.params.text("password")
    if not MD5.fullmatch(password):
        raise VendorError(NOT_MD5)
    account.password_md5 = password
    for grant in context.world.state.grants.values():
        if grant.uid == account.uid:
            grant.withdrawn = True
    return success_body()


async def delete_user(context: Context) -> dict[str, object]:
    """user/delete: -4063 while the user still owns locks."""
    check_secret(context)
    account = _made_user(context)
    if context.world.owned_locks(account.uid):
        raise VendorError(LOCKS_LEFT)
    account.deleted = True
    return success_body()


async def list_users(context: Context) -> dict[str, object]:
    """user/list: users the application made, in the given span of registration."""
    check_secret(context)
    start, end = context.params.integer("startDate", 0), context.params.integer("endDate", 0)
    found: list[dict[str, object]] = [
        {"userid": account.username, "regtime": account.registered_at}
        for account in context.world.state.accounts.values()
        if account.made_by == context.app.client_id
        and not account.deleted
        and start <= account.registered_at
        and (not end or account.registered_at <= end)
    ]
    return context.page(found)


async def get_uid(context: Context) -> dict[str, object]:
    """user/getUid."""
    return {"uid": context.account.uid}


async def month_count(context: Context) -> dict[str, object]:
    """app/getMonthRequestCount."""
    check_secret(context)
    return {"monthRequestCount": context.app.month_count}
