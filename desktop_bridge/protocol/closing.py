"""Why a gateway closes a connection: the close codes, and whether a desk should come back.

One rule: a code of ours lies between 4400 and 4499; the library's own (1009 too large, 1011 no pong) keep their meaning.
"""

from __future__ import annotations

from enum import IntEnum


class Close(IntEnum):
    """The codes. After BAD_MESSAGE, SCOPE and VERSION coming back with the same makes no sense."""

    GOING_AWAY = 1001
    TRY_LATER = 1013
    BAD_MESSAGE = 4400
    TOKEN_ENDED = 4401
    SCOPE = 4403
    SILENT = 4408
    REPLACED = 4409
    VERSION = 4426
    TOO_SLOW = 4429


FINAL = frozenset({Close.BAD_MESSAGE, Close.SCOPE, Close.VERSION})
