"""Asks the property's server over the PMS protocol: one connection at a time, and answers sorted into yes, no, unknown.

One rule: a connection is opened for one piece of work and closed after it, since the server serves one and answers match by
order. Commands that belong together (read a card and write it; a log from its first line to its last) share the connection:
some servers keep the place in a log by connection. In a process the work for one server queues here; over processes the
installation's lane (width 1) sees to it.
"""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from vendors.port.errors import LockError, Reason
from vendors.port.manifest import AdapterContext
from vendors.port.types import CallMeta
from vendors.support.per_door import Deadline

from .errors import PMS, Refused, Unclear, translate, unreachable
from .pms_driver import LineGone, NotTaken, OutcomeUnknown, PmsDriver
from .pms_frames import BadText, Frame
from .pms_line import Line, LineNotOpened, TcpLine
from .pms_words import COMMANDS, LOG_COMMANDS, LOG_ENDS, LOG_NEXT
from .settings import HUMAN_MARGIN_S, Settings

NOT_READY_WAIT_S = 5.0
QUICK_ANSWER_S = 15.0
MIN_ASK_S = 1.0
ERROR_LETTERS = re.compile("[A-Z]{2}")
"""What an error answer begins with. Source: the same clients; a pair that is not in the table is still a refusal."""
OpenLine = Callable[[float], Line]
_queues: defaultdict[tuple[str, int], threading.Lock] = defaultdict(threading.Lock)
"""One lock for each server this process speaks to; whatever adapter objects there are."""


class PmsCall:
    """One verb under way."""

    def __init__(self, meta: CallMeta, *, revoking: bool = False) -> None:
        self.meta = meta
        self.revoking = revoking
        self.deadline = Deadline(meta.deadline_s)
        self.requests = 0


class PmsClient:
    """Commands to one property's server."""

    def __init__(self, settings: Settings, context: AdapterContext, open_line: OpenLine | None = None) -> None:
        self._settings = settings
        self._context = context
        self._open_line = open_line or (lambda limit_s: TcpLine.open(settings.pms_host, settings.pms_port, limit_s))

    def ask(self, call: PmsCall, fields: Sequence[str], *, with_card: bool = False) -> Frame:
        """Sends one command on a connection of its own. Raises as PmsTalk.ask."""
        with self.talk(call, None if with_card else QUICK_ANSWER_S) as talk:
            return talk.ask(fields, with_card=with_card)

    @contextmanager
    def talk(self, call: PmsCall, patience_s: float | None = None) -> Iterator[PmsTalk]:
        """Holds the server's one connection for several commands. Raises a LockError when another holds it for `patience_s`,
        or, where that is not told, for longer than a person at the encoder takes."""
        queue = _queues[(self._settings.pms_host, self._settings.pms_port)]
        patience_s = min(patience_s or self._settings.encoder_timeout_s + HUMAN_MARGIN_S, call.deadline.left_s)
        if patience_s < MIN_ASK_S:
            raise no_time_left()
        if not queue.acquire(timeout=patience_s):
            raise unreachable("another command holds the property's one connection", Reason.BUSY, throttled=True)
        talk = PmsTalk(self._settings, self._context, self._open_line, call)
        try:
            yield talk
        finally:
            talk.close()
            queue.release()

    def error(self, call: PmsCall, refused: Refused, device_id: str | None = None) -> LockError:
        """Builds the port's error for the server's letters."""
        return translate(PMS, refused.code, revoking=call.revoking, device_id=device_id)


class PmsTalk:
    """Several commands over one connection, which is opened with the first. Not for several threads.

    After an answer that was lost the line may bring it later: the line is closed, and the next command opens another.
    """

    def __init__(self, settings: Settings, context: AdapterContext, open_line: OpenLine, call: PmsCall) -> None:
        self._settings = settings
        self._context = context
        self._open_line = open_line
        self._call = call
        self._line: Line | None = None
        self._driver: PmsDriver | None = None

    def ask(self, fields: Sequence[str], *, with_card: bool = False) -> Frame:
        """Sends one command. `with_card` gives the person at the encoder time.

        Raises Refused (the server's letters), Unclear (taken, or perhaps taken, and no sound answer, or one that answers
        something else), or a LockError when nothing was done.
        """
        limit_s = self._settings.encoder_timeout_s + HUMAN_MARGIN_S if with_card else QUICK_ANSWER_S
        limit_s = min(limit_s, self._call.deadline.left_s)
        if limit_s < MIN_ASK_S:
            raise no_time_left()
        answer = self._converse(fields, limit_s)
        asked, said = fields[0], answer.field(0)
        if said[:2] == asked[:2] or (asked in LOG_COMMANDS and said in (*LOG_COMMANDS, LOG_ENDS)):
            return answer
        if ERROR_LETTERS.fullmatch(said) and said not in COMMANDS:
            raise Refused(said)
        self.close()
        raise Unclear(unreachable("the answer is to something else", Reason.TIMEOUT))

    def close(self) -> None:
        """Hangs up. Never fails."""
        if self._line is not None:
            self._line.close()
            self._line = self._driver = None

    def _converse(self, fields: Sequence[str], limit_s: float) -> Frame:
        self._context.limiter.acquire(1, self._call.meta.priority)
        self._call.requests += 1
        try:
            return self._sent(fields, limit_s)
        except NotTaken as error:
            self.close()
            # Nothing was done, so this counts as no attempt and the next one need not look.
            raise unreachable(str(error), Reason.BUSY, throttled=True, wait_s=NOT_READY_WAIT_S) from error
        except OutcomeUnknown as error:
            self.close()
            raise Unclear(unreachable(str(error), Reason.TIMEOUT)) from error
        except BadText as error:
            raise translate(PMS, "ES") from error

    def _sent(self, fields: Sequence[str], limit_s: float) -> Frame:
        """A server may hang up after each answer: then the next command goes on another line, but for the next line of a log,
        whose place may be gone with the line."""
        was_open = self._driver is not None
        try:
            return self._opened(limit_s).ask(fields, limit_s)
        except LineGone:
            if not was_open or fields[0] == LOG_NEXT:
                raise
        self.close()
        return self._opened(limit_s).ask(fields, limit_s)

    def _opened(self, limit_s: float) -> PmsDriver:
        if self._driver is None:
            try:
                self._line = self._open_line(limit_s)
            except LineNotOpened as error:
                raise unreachable(f"the property's PMS port is not reached: {error}") from error
            self._driver = PmsDriver(self._line, self._context.sleep)
        return self._driver


def no_time_left() -> LockError:
    """Builds the error of a call whose time is over. Nothing was asked."""
    return unreachable("no time left in this call", Reason.BUSY, throttled=True)
