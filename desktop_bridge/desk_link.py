"""A desk's end of the relay: stays connected, takes jobs, has its drivers do them, and tells what came of them.

One rule: nothing is begun before the gateway says `go`, and no result is forgotten before it says `taken`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import ClientConnection, connect

from desktop_bridge.journal import Entry, Journal
from desktop_bridge.protocol import messages
from desktop_bridge.protocol.closing import FINAL
from desktop_bridge.protocol.reading import MAX_FRAME_BYTES, BadFrame
from vendors.port.relay import DeskDriver, DeskJob, DeskResult, Outcome, Refusal, Stage

PAUSES_S = (0.2, 5.0)
"""The first pause before a desk connects again, and the longest."""
OPEN_S = 10.0
MISSED_PINGS = 3


class Finished(Exception):
    """The gateway will not have this desk as it is: coming back makes no sense."""


class DeskLink:
    """One desk. `token` is asked before each connection; `drivers` are by vendor; `say` tells a person what happens."""

    def __init__(
        self, gateway: str, token: Callable[[], str], drivers: Mapping[str, DeskDriver], journal: Journal,
        say: Callable[[str], None], program: str = "virtual desk",
    ) -> None:  # fmt: skip
        self._gateway = gateway
        self._token = token
        self._drivers = drivers
        self._journal = journal
        self._say = say
        self._program = program
        self._socket: ClientConnection | None = None
        self._running: dict[str, _Running] = {}
        self._not_begun: tuple[str, ...] = ()
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Ends `run` soon. What is being written is finished first; what waits for a card is left for the next start."""
        self._stopped.set()
        socket = self._socket
        if socket is not None:
            threading.Thread(target=socket.close, daemon=True).start()

    def run(self) -> None:
        """Stays connected until stopped. Raises Finished."""
        pause = PAUSES_S[0]
        while not self._stopped.is_set():
            started = time.monotonic()
            try:
                self._connect_once()
            except InvalidHandshake as error:
                self._say(f"refused: {error}")
            except (OSError, TimeoutError) as error:
                self._say(f"no gateway: {type(error).__name__}")
            except ConnectionClosed as error:
                code = error.rcvd.code if error.rcvd else 1006
                self._say(f"closed: {code} {error.rcvd.reason if error.rcvd else ''}".rstrip())
                if code in FINAL:
                    raise Finished(f"closed with {code}") from error
            pause = PAUSES_S[0] if time.monotonic() - started > PAUSES_S[1] else min(PAUSES_S[1], pause * 2)
            self._stopped.wait(pause)
        for running in list(self._running.values()):
            running.thread.join(10)

    def _connect_once(self) -> None:
        headers = {"Authorization": f"Bearer {self._token()}"}
        with connect(
            self._gateway, additional_headers=headers, open_timeout=OPEN_S, close_timeout=2, max_size=MAX_FRAME_BYTES,
            compression=None, proxy=None,
        ) as socket:  # fmt: skip
            self._socket = socket
            try:
                self._talk(socket)
            finally:
                self._socket = None

    def _talk(self, socket: ClientConnection) -> None:
        holding = self._journal.open_jobs()[: messages.MAX_HOLDING]
        self._send(messages.Hello(messages.VERSION, self._program, tuple(self._drivers), "simulated encoder", holding))
        heartbeat_s, heard = OPEN_S, time.monotonic()
        while not self._stopped.is_set():
            try:
                frame = socket.recv(timeout=heartbeat_s)
            except TimeoutError:
                if time.monotonic() - heard > MISSED_PINGS * heartbeat_s:
                    return
                self._send(messages.Ping())
                continue
            heard = time.monotonic()
            try:
                message = messages.from_gateway(frame)
            except BadFrame as error:
                self._say(f"not understood: {error}")
                return
            if isinstance(message, messages.Welcome):
                heartbeat_s = message.heartbeat_s
                self._say(f"connected as {message.desk_id}")
                self._tell_results()
            else:
                if not isinstance(message, messages.Ask):
                    self._forget_offers()
                self._take(message)

    def _take(self, message: messages.FromGateway) -> None:
        if isinstance(message, messages.Offer):
            self._offered(message.job)
        elif isinstance(message, messages.Go):
            self._go(message.job_id)
        elif isinstance(message, messages.Cancel):
            self._call_off(message.job_id)
        elif isinstance(message, messages.Ask):
            self._asked(message.job_id)
        elif isinstance(message, messages.Taken):
            self._journal.forget(message.job_id)
        elif isinstance(message, messages.Refused):
            self._say(f"refused: {message.code}")
            if message.job_id:
                self._journal.drop(message.job_id)

    def _offered(self, job: DeskJob) -> None:
        self._journal.take(job)
        self._send(messages.Accept(job.job_id))

    def _go(self, job_id: str) -> None:
        entry = self._journal.find(job_id)
        if entry is None or entry.has_begun or job_id in self._running:
            return
        self._journal.begin(job_id)
        self._start(entry, lambda driver, running: driver.do(entry.job, running))

    def _call_off(self, job_id: str) -> None:
        entry, running = self._journal.find(job_id), self._running.get(job_id)
        if running is not None:
            running.called_off.set()
        elif entry is None:
            self._send(messages.Result(job_id, DeskResult(Outcome.NEVER_SEEN)))
        elif entry.result is not None:
            self._send(messages.Result(job_id, entry.result))
        elif entry.has_begun:
            self._recall(entry)
        else:
            self._finish(job_id, DeskResult(Outcome.CANCELLED, detail="called off before it was begun"))

    def _asked(self, job_id: str) -> None:
        entry, running = self._journal.find(job_id), self._running.get(job_id)
        if entry is None:
            self._send(messages.Result(job_id, DeskResult(Outcome.NEVER_SEEN)))
        elif running is not None:
            self._send(messages.Progressed(job_id, entry.stage or Stage.AWAITING_CARD))
        elif entry.result is not None and entry.result.outcome is not Outcome.UNKNOWN:
            self._send(messages.Result(job_id, entry.result))
        elif entry.has_begun:
            self._recall(entry)
        else:
            self._finish(job_id, DeskResult(Outcome.REFUSED, Refusal.NOT_DONE, "it had not been begun"))

    def _recall(self, entry: Entry) -> None:
        self._start(entry, lambda driver, running: driver.recall(entry.job, entry.stage, entry.note))

    def _start(self, entry: Entry, act: Callable[[DeskDriver, _Running], DeskResult]) -> None:
        job_id = entry.job.job_id
        running = _Running(job_id, self._journal, self._send, self._stopped)
        driver = self._drivers.get(entry.job.vendor)

        def work() -> None:
            result = DeskResult(Outcome.REFUSED, Refusal.NOT_SUPPORTED, "no driver for this vendor")
            try:
                if driver is not None:
                    result = act(driver, running)
                if result.outcome is not Outcome.CANCELLED or running.called_off.is_set():
                    self._finish(job_id, result)
            except OSError as error:  # the journal took nothing: what came of it is found out by reading back
                self._say(f"{job_id}: cannot be written down ({type(error).__name__})")
            finally:
                self._running.pop(job_id, None)

        running.thread = threading.Thread(target=work, daemon=True)
        self._running[job_id] = running
        running.thread.start()

    def _finish(self, job_id: str, result: DeskResult) -> None:
        self._journal.finish(job_id, result)
        self._say(f"{job_id}: {result.outcome.value}{f' ({result.detail})' if result.detail else ''}")
        self._send(messages.Result(job_id, result))

    def _tell_results(self) -> None:
        """Says again what the gateway has no receipt for, and notes what was accepted and not begun."""
        not_begun = []
        for job_id in self._journal.open_jobs():
            entry = self._journal.find(job_id)
            if entry is None or job_id in self._running:
                continue
            if entry.result is not None:
                self._send(messages.Result(job_id, entry.result))
            elif not entry.has_begun:
                not_begun.append(job_id)
        self._not_begun = tuple(not_begun)

    def _forget_offers(self) -> None:
        """Forgets what an earlier connection offered and was not asked about: it is offered again if wanted.

        The gateway asks before it says anything else. One that asks wrote down that the job was begun: its `go` was lost.
        """
        for job_id in self._not_begun:
            entry = self._journal.find(job_id)
            if entry is not None and not entry.has_begun and entry.result is None:
                self._journal.drop(job_id)
        self._not_begun = ()

    def _send(self, message: messages.FromDesk) -> None:
        """Sends, or leaves it: what matters is in the journal and is said again on the next connection."""
        socket = self._socket
        if socket is None:
            return
        try:
            socket.send(messages.encode(message))
        except (ConnectionClosed, OSError):
            return


class _Running:
    """A job in its thread; the driver's Progress."""

    def __init__(
        self, job_id: str, journal: Journal, send: Callable[[messages.FromDesk], None], stopped: threading.Event
    ) -> None:
        self.called_off = threading.Event()
        self._stopped = stopped
        self.thread = threading.Thread()
        self._job_id = job_id
        self._journal = journal
        self._send = send

    def reach(self, stage: Stage, note: str = "") -> None:
        """See vendors.port.relay.Progress."""
        self._journal.reach(self._job_id, stage, note)
        self._send(messages.Progressed(self._job_id, stage))

    @property
    def is_called_off(self) -> bool:
        """See vendors.port.relay.Progress."""
        return self.called_off.is_set() or self._stopped.is_set()
