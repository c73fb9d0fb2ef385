"""The secrets that the cloud hands out with a lock's details: what opens it over BLE, and its administrator's code.

One rule: all of them follow from the lock's own secret, so they stay the same over restarts and differ from lock to lock.
Source: recorded answers of `lock/detail` and `lock/list` in the issues of a public Home Assistant integration (README). The way
`adminPwd` and `lockKey` are disguised is described by public BLE clients.
"""

from __future__ import annotations

import base64
import hashlib
import hmac

from .model import Lock

DIGITS = 9
"""How many digits stand behind `adminPwd` and `lockKey`."""


def lock_secrets(lock: Lock) -> dict[str, str]:
    """Return the secret fields of `lock/detail` by name."""
    return {
        "noKeyPwd": lock.admin_code or _digits(lock, "noKeyPwd", 7),
        "adminPwd": disguised(_digits(lock, "adminPwd", DIGITS)),
        "lockKey": disguised(_digits(lock, "lockKey", DIGITS)),
        "deletePwd": "",
        "aesKeyStr": ",".join(f"{byte:02x}" for byte in _bytes(lock, "aesKeyStr")[:16]),
    }


def lock_data(lock: Lock) -> str:
    """Return the `lockData` of `lock/list`: an opaque text from which the vendor's phone library reads all of them."""
    return base64.b64encode(b"".join(_bytes(lock, f"lockData {part}") for part in range(8))).decode()


def disguised(digits: str) -> str:
    """Disguise digits as the vendor does: base64 of decimal bytes, the last of which is a letter of the mask.

    `135792468` with the last byte 198 is `MTA3LDEwNSwxMTEsMTA5LDk5LDEwNCwxMTAsMTA4LDk4LDE5OA==`.
    """
    last = 198
    mask = _table_entry(len(digits)) ^ last
    numbers = [ord(digit) ^ mask for digit in digits] + [last]
    return base64.b64encode(",".join(str(number) for number in numbers).encode()).decode()


def _table_entry(index: int) -> int:
    """Return an entry of the reflected CRC-8 table with polynomial 0x8C."""
    for _ in range(8):
        index = index >> 1 ^ 0x8C if index & 1 else index >> 1
    return index


def _digits(lock: Lock, use: str, count: int) -> str:
    return f"{int.from_bytes(_bytes(lock, use)[:8], 'big') % 10**count:0{count}d}"


def _bytes(lock: Lock, use: str) -> bytes:
    return hmac.new(lock.secret.encode(), use.encode(), hashlib.sha256).digest()
