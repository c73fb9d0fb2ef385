"""One conversation of the PMS protocol: ask, be taken, wait for the one answer.

    we            server
    ENQ      →
             ←    ACK   (NAK or silence: not ready)
    frame    →
             ←    ACK   taken: from here on the effect may happen      NAK: not taken, safe to send again (3 times)
             ←    frame (one answer; we do not acknowledge it)

One rule: once a frame went out and was not refused by NAK, a missing or damaged answer is an unknown outcome, and this module
never sends it again.
Source: public clients of the protocol (high); ENQ again every 0.2 s and the three tries: one of them (medium).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Protocol

from .pms_frames import ACK, ENQ, NAK, Frame, FrameReader, Signal, Token, encode
from .pms_line import Line, LineBroken

TRIES = 3
ACK_WAIT_S = 2.0
ENQ_PAUSE_S = 0.2


class NotTaken(Exception):
    """The server was not ready or refused the frame: nothing was done. Safe to ask again, later."""


class LineGone(NotTaken):
    """The line broke before the command was sent. Safe to ask again, on another line."""


class OutcomeUnknown(Exception):
    """The frame may have been taken and no sound answer came: done or not, we cannot tell."""


class Sleep(Protocol):
    """Waits the given seconds."""

    def __call__(self, seconds: float, /) -> object: ...


class PmsDriver:
    """Speaks over one line, one conversation at a time."""

    def __init__(self, line: Line, sleep: Sleep, clock_s: Callable[[], float] = monotonic) -> None:
        self._line = line
        self._sleep = sleep
        self._clock_s = clock_s
        self._reader = FrameReader()
        self._waiting: list[Token] = []
        self._unanswered = 0
        self.sent_count = 0

    def ask(self, fields: Sequence[str], answer_within_s: float) -> Frame:
        """Sends one command and returns its answer. Raises NotTaken (LineGone), OutcomeUnknown, or BadText before anything goes
        out.

        `answer_within_s` must cover the person who lays the card down: the encoder's own limit and 15 s more.
        """
        frame = encode(fields)
        end = self._clock_s() + answer_within_s
        self._wait_until_ready(end)
        for _ in range(TRIES):
            if self._is_taken(frame, end):
                return self._answer(end)
            self._sleep(ENQ_PAUSE_S)
        raise NotTaken("the frame was refused three times")

    def _wait_until_ready(self, end: float) -> None:
        for attempt in range(TRIES):
            try:
                self._line.send(bytes([ENQ]))
                self._unanswered += 1
                signal = self._signal(min(end, self._clock_s() + ACK_WAIT_S))
            except (LineBroken, ValueError) as error:
                raise LineGone("the line broke before the command") from error
            self._unanswered -= signal is not None
            if signal == ACK:
                return
            if attempt + 1 < TRIES:
                self._sleep(ENQ_PAUSE_S)
        raise NotTaken("the interface is not ready")

    def _is_taken(self, frame: bytes, end: float) -> bool:
        """Sends the frame; says True for ACK, False for NAK. Silence is neither: the ACK may be what got lost. Nor is a NAK
        while an ENQ is unanswered: it may be that one's, come late, and the frame be taken."""
        self.sent_count += 1
        try:
            self._line.send(frame)
            signal = self._signal(min(end, self._clock_s() + ACK_WAIT_S))
        except (LineBroken, ValueError) as error:
            raise OutcomeUnknown("the line broke at the command") from error
        if signal is None:
            raise OutcomeUnknown("neither taken nor refused")
        if signal == NAK and self._unanswered:
            raise OutcomeUnknown("a refusal, perhaps of an earlier question")
        return signal == ACK

    def _answer(self, end: float) -> Frame:
        try:
            while (token := self._token(end)) is not None:
                if isinstance(token, Frame):
                    if not token.is_sound:
                        raise OutcomeUnknown("the answer was damaged")
                    return token
        except (LineBroken, ValueError) as error:
            raise OutcomeUnknown("the line broke before the answer") from error
        raise OutcomeUnknown("no answer came in time")

    def _signal(self, end: float) -> int | None:
        """Waits for ACK or NAK. A frame here is the answer to something older; it is dropped."""
        while (token := self._token(end)) is not None:
            if isinstance(token, Signal) and token.byte in (ACK, NAK):
                return token.byte
        return None

    def _token(self, end: float) -> Token | None:
        while not self._waiting:
            left = end - self._clock_s()
            if left <= 0:
                return None
            self._waiting.extend(self._reader.feed(self._line.receive(left)))
        return self._waiting.pop(0)
