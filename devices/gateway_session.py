"""One desk's connection: takes what it says, and sends it what is due.

One rule: every word of a desk is settled in a row before it is answered; what cannot be written down is not answered, and the
desk says it again on its next connection. A desk that leaves an offer unanswered is silent, however often it pings: it is
closed and told of, and its offers go to whoever connects.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TypeVar

import structlog
from django.db import connection
from websockets.asyncio.server import ServerConnection

from desktop_bridge.protocol import messages
from desktop_bridge.protocol.closing import Close
from desktop_bridge.protocol.reading import BadFrame
from devices import relay_desks, relay_jobs
from devices.relay_models import RelayDesk
from lockservice.core import tenancy

log = structlog.get_logger(__name__)
MAX_OPEN = 16
"""Jobs a desk holds at once, offered or begun. More would only wait there instead of here."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pace:
    """The times of a gateway, in seconds: a ping is expected each `heartbeat_s` and missed three times; a desk counts as
    connected for `presence_s` after the last; rows are looked at each `poll_s` without a wake-up; a frame must leave within
    `send_s`; the hello must come within `hello_s`; an offer must be answered within `offer_s`, for which a desk only has to
    write it down."""

    heartbeat_s: float = 5.0
    presence_s: float = 20.0
    poll_s: float = 1.0
    send_s: float = 5.0
    hello_s: float = 10.0
    offer_s: float = 15.0


class Closing(Exception):
    """The connection ends, with this code."""

    def __init__(self, code: Close, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class DeskSession:
    """A desk that was let in. `desk` is its row's content; `ends_at` the end of its token, unix seconds.
    `woken` says that something may be due, `replaced` that a newer connection of the same desk is here."""

    def __init__(self, socket: ServerConnection, desk: RelayDesk, ends_at: float, pace: Pace, pool: Executor) -> None:
        self.desk = desk
        self.woken = asyncio.Event()
        self.replaced = asyncio.Event()
        self._socket = socket
        self._ends_at = ends_at
        self._pace = pace
        self._pool = pool
        self._heard = time.monotonic()
        self._offered: dict[str, float] = {}
        self._held: set[str] = set()
        self._cancelled: set[str] = set()
        self._handlers: dict[type, Callable[[messages.FromDesk], Awaitable[None]]] = {
            messages.Hello: self._hello_again,
            messages.Ping: self._ping,
            messages.Accept: self._accept,
            messages.Progressed: self._progress,
            messages.Result: self._result,
        }

    async def run(self) -> None:
        """Serves until the connection ends. Raises Closing with the reason, or what the socket raises."""
        await self._ask_for_all()
        tasks = [asyncio.create_task(work) for work in (self._listen(), self._push(), self._yield_to_newer())]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        for task in done:
            task.result()

    async def _yield_to_newer(self) -> None:
        await self.replaced.wait()
        raise Closing(Close.REPLACED, "the desk has connected anew")

    async def in_tenant(self, act: Callable[[], T]) -> T:
        """Runs a short piece of database work in the desk's tenant, on a thread."""
        tenant_id = self.desk.tenant_id
        return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: in_block(tenant_id, act))

    async def _listen(self) -> None:
        async for frame in self._socket:
            self._heard = time.monotonic()
            try:
                message = messages.from_desk(frame)
            except BadFrame as error:
                await self._send(messages.Refused(error.code, error.detail))
                raise Closing(Close.BAD_MESSAGE, error.code) from error
            await self._handlers[type(message)](message)

    async def _push(self) -> None:
        """Renews the presence and sends what is due; sooner when woken."""
        renewed = float("-inf")
        while True:
            now = time.monotonic()
            if time.time() >= self._ends_at:
                raise Closing(Close.TOKEN_ENDED, "the token has ended")
            if now - self._heard > 3 * self._pace.heartbeat_s:
                raise Closing(Close.SILENT, "no ping came")
            if self._offered and now - min(self._offered.values()) > self._pace.offer_s:
                await self.in_tenant(lambda: relay_desks.tell_silent(self.desk, len(self._offered)))
                raise Closing(Close.SILENT, "an offer was not answered")
            if now - renewed >= self._pace.heartbeat_s:
                renewed = now
                if not await self.in_tenant(self._keep):
                    raise Closing(Close.REPLACED, "the desk has connected anew")
            await self._send_due()
            self.woken.clear()
            try:
                await asyncio.wait_for(self.woken.wait(), self._pace.poll_s)
            except TimeoutError:
                continue

    def _keep(self) -> bool:
        return relay_desks.keep(self.desk, self._pace.presence_s, is_encoder_ready=self.desk.is_encoder_ready)

    async def _send_due(self) -> None:
        room = MAX_OPEN - len(self._offered) - len(self._held)
        if room > 0:
            for job in await self.in_tenant(lambda: relay_jobs.offers(self.desk, room)):
                self._offered[job.job_id] = time.monotonic()
                await self._send(messages.Offer(job))
        for job_id in await self.in_tenant(lambda: relay_jobs.to_cancel(self.desk)):
            if job_id not in self._cancelled:
                self._cancelled.add(job_id)
                await self._send(messages.Cancel(job_id))
        for job_id in await self.in_tenant(lambda: relay_jobs.to_ask(self.desk)):
            await self._send(messages.Ask(job_id))

    async def _ask_for_all(self) -> None:
        """On every new connection the desk is asked for what it had begun."""
        for row in await self.in_tenant(lambda: relay_jobs.held_by(self.desk)):
            self._held.add(row.id)
            await self._send(messages.Ask(row.id))

    async def _hello_again(self, message: messages.FromDesk) -> None:
        raise Closing(Close.BAD_MESSAGE, "a desk introduces itself once")

    async def _ping(self, message: messages.FromDesk) -> None:
        if isinstance(message, messages.Ping):
            self.desk.is_encoder_ready = message.is_encoder_ready
        await self._send(messages.Pong())

    async def _accept(self, message: messages.FromDesk) -> None:
        job_id = message.job_id if isinstance(message, messages.Accept) else ""
        may_begin = await self.in_tenant(lambda: relay_jobs.accept(self.desk, job_id))
        self._offered.pop(job_id, None)
        if may_begin is None:
            await self._refuse(job_id)
        elif may_begin:
            self._held.add(job_id)
            await self._send(messages.Go(job_id))
        else:
            self._held.discard(job_id)
            await self._send(messages.Cancel(job_id))

    async def _progress(self, message: messages.FromDesk) -> None:
        if isinstance(message, messages.Progressed):
            job_id, stage = message.job_id, message.stage
            if not await self.in_tenant(lambda: relay_jobs.progress(self.desk, job_id, stage)):
                await self._refuse(job_id)

    async def _result(self, message: messages.FromDesk) -> None:
        if isinstance(message, messages.Result):
            job_id, said = message.job_id, message.result
            if not await self.in_tenant(lambda: relay_jobs.finish(self.desk, job_id, said)):
                await self._refuse(job_id)
                return
            self._offered.pop(job_id, None)
            self._held.discard(job_id)
            self._cancelled.discard(job_id)
            await self._send(messages.Taken(job_id))

    async def _refuse(self, job_id: str) -> None:
        log.warning("gateway.foreign_job", desk=self.desk.desk_id, tenant=self.desk.tenant_id)
        await self._send(messages.Refused("not_your_job", "this desk was given no such job", job_id))

    async def _send(self, message: messages.FromGateway) -> None:
        """Sends a frame. A desk that does not read is closed, not waited for: its jobs stay in their rows."""
        try:
            await asyncio.wait_for(self._socket.send(messages.encode(message)), self._pace.send_s)
        except TimeoutError as error:
            raise Closing(Close.TOO_SLOW, "the desk does not read") from error


def in_block(tenant_id: str, act: Callable[[], T]) -> T:
    """Runs database work in a tenant's block and gives the thread's connection back."""
    try:
        with tenancy.tenant(tenant_id):
            return act()
    finally:
        connection.close()
