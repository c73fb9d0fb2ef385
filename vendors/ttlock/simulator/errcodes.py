"""The vendor's error numbers and how an error looks on the wire.

One rule: an error travels inside HTTP 200; the number decides, the text never. Source: the vendor's error page and public
clients, see the README beside this file (tags there).
"""

from __future__ import annotations

SUCCESS_TEXT = "none error message or means yes"
SUCCESS_DESCRIPTION = "表示成功或是"

ERROR_TEXTS: dict[int, str] = {
    1: "failed or means no",
    -1: "operation failed",
    -3: "invalid parameter",
    10000: "invalid client_id",
    10001: "invalid client",
    10002: "authorization code required",
    10003: "token does not exist",
    10004: "invalid token",
    10005: "scope not granted",
    10006: "application not reviewed",
    10007: "invalid account or invalid password",
    10008: "authorization code invalid",
    10009: "redirect_uri mismatch",
    10010: "invalid grant_type",
    10011: "invalid refresh_token",
    20000: "openid invalid",
    20001: "not a user",
    20002: "not lock admin",
    20003: "key does not belong to lock",
    20004: "key does not exist",
    20006: "receiver does not exist",
    20007: "passcode version mismatch",
    30001: "application may not call this interface",
    30002: "username may hold letters and digits only",
    30003: "user already registered",
    30004: "invalid user",
    30005: "password must be md5",
    30006: "exceeding the limit of requests",
    30007: "monthly request quota used up",
    30008: "wrong region",
    80000: "date must be current time, in 5 minutes",
    80002: "invalid json",
    90000: "internal server error",
    -1003: "lock does not exist",
    -1007: "no passcode data of this lock",
    -1008: "ekey does not exist",
    -1016: "name already exists",
    -1018: "group does not exist",
    -1021: "card does not exist",
    -1023: "fingerprint does not exist",
    -1026: "passcode of this period was deleted before",
    -1027: "account bound to another account",
    -2009: "passcode does not exist",
    -2012: "lock not connected to any gateway",
    -2018: "permission denied",
    -2019: "cannot send ekey to yourself",
    -2020: "cannot send ekey to the administrator",
    -2023: "period of this ekey cannot be changed now",
    -2025: "lock is frozen",
    -2032: "passcode too simple",
    -3002: "gateway offline",
    -3003: "gateway busy",
    -3006: "invalid passcode length",
    -3007: "same passcode already exists",
    -3008: "passcode never used, cannot be changed",
    -3009: "no space for more customized passcodes",
    -3011: "cannot transfer to yourself",
    -3016: "cannot transfer to yourself",
    -3034: "no network configured for this lock",
    -3035: "lock in power saving mode",
    -3036: "lock offline",
    -3037: "lock busy",
    -3039: "end date beyond your own ekey",
    -3046: "no right to unlock remotely",
    -4037: "gateway does not exist",
    -4043: "function not supported",
    -4056: "lock memory full",
    -4063: "delete the locks first",
    -4064: "receiver not registered",
    -4067: "device not registered at the NB platform",
    -4082: "auto lock time out of range",
}


class VendorError(Exception):
    """Ends a call with the vendor's number. Never leaves the simulator as an exception."""

    def __init__(self, errcode: int) -> None:
        super().__init__(errcode)
        self.errcode = errcode


def success_body() -> dict[str, object]:
    """Returns what a mutation answers when it worked."""
    return {"errcode": 0, "errmsg": SUCCESS_TEXT, "description": SUCCESS_DESCRIPTION}


def error_body(errcode: int) -> dict[str, object]:
    """Returns what the vendor answers, with HTTP 200, when it refuses."""
    text = ERROR_TEXTS.get(errcode, "unknown error")
    return {"errcode": errcode, "errmsg": text, "description": text}
