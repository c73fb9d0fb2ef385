"""The relay's gateway: the WebSocket that the desks of all properties keep open.

One rule: a process of its own that holds nothing. Killed, it loses no job; any number of them may run.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus

import jwt
import redis
import structlog
from django.db import Error
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from desktop_bridge.protocol import messages
from desktop_bridge.protocol.closing import Close
from desktop_bridge.protocol.reading import MAX_FRAME_BYTES, BadFrame
from devices import relay_desks
from devices.gateway_session import Closing, DeskSession, Pace
from devices.relay import CHANNEL
from devices.relay_models import RelayDesk
from lockservice.core import wake
from lockservice.core.auth import KeysUnavailable, TokenRefused, read_token
from lockservice.core.auth_permissions import Permission, Principal
from lockservice.core.loops import LoopGuard

log = structlog.get_logger(__name__)
MAX_QUEUED_FRAMES = 16
THREADS = 8
LISTEN_AGAIN_S = 5.0


@dataclass(frozen=True, slots=True)
class Caller:
    """A desk whose token was read: who it is, of which property, and when the token ends (unix seconds)."""

    principal: Principal
    property_id: str
    ends_at: float


class Refusal(Exception):
    """The handshake is refused with this status."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Gateway:
    """Serves desks until stopped. `max_desks` bounds the connections of this process."""

    def __init__(self, pace: Pace | None = None, *, max_desks: int = 1000) -> None:
        self._pace = pace or Pace()
        self._max_desks = max_desks
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="gateway")
        self._sessions: dict[tuple[str, str], DeskSession] = {}
        self._callers: weakref.WeakKeyDictionary[ServerConnection, Caller] = weakref.WeakKeyDictionary()

    async def run(self, host: str, port: int, stop: asyncio.Event, on_ready: Callable[[str, int], None]) -> None:
        """Listens until `stop` is set; `on_ready` is told the address. Raises OSError when the port is taken."""
        ears = threading.Event()
        loop = asyncio.get_running_loop()
        listener = threading.Thread(target=self._hear_wakes, args=(loop, ears), daemon=True)
        async with serve(
            self._handle, host, port, process_request=self._admit, compression=None, max_size=MAX_FRAME_BYTES,
            max_queue=MAX_QUEUED_FRAMES, ping_interval=self._pace.heartbeat_s * 2, ping_timeout=self._pace.heartbeat_s * 2,
            close_timeout=2, server_header=None,
        ) as server:  # fmt: skip
            address = next(iter(server.sockets)).getsockname()
            listener.start()
            on_ready(address[0], address[1])
            await stop.wait()
        ears.set()
        self._pool.shutdown(wait=False)

    async def _admit(self, socket: ServerConnection, request: Request) -> Response | None:
        """Reads the token before the connection is opened."""
        try:
            caller = await asyncio.get_running_loop().run_in_executor(self._pool, lambda: self._read(request))
        except Refusal as refusal:
            return socket.respond(refusal.status, f"{refusal.reason}\n")
        self._callers[socket] = caller
        return None

    def _read(self, request: Request) -> Caller:
        if request.path.partition("?")[0] != messages.PATH:
            raise Refusal(HTTPStatus.NOT_FOUND, "nothing is here")
        if len(self._sessions) >= self._max_desks:
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "this gateway is full")
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        try:
            if scheme.lower() != "bearer":
                raise TokenRefused("a bearer token is needed")
            principal = read_token(token.strip())
        except TokenRefused as error:
            raise Refusal(HTTPStatus.UNAUTHORIZED, str(error)) from error
        except KeysUnavailable as error:
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "keys cannot be read now") from error
        return Caller(principal, _property_of(principal), _end_of(token.strip()))

    async def _handle(self, socket: ServerConnection) -> None:
        caller = self._callers.pop(socket)
        try:
            session = await self._greet(socket, caller)
        except Closing as closing:
            await socket.close(closing.code, closing.reason)
            return
        except (Error, ConnectionClosed):
            await socket.close(Close.TRY_LATER, "the service cannot write now")
            return
        await self._serve(socket, session)

    async def _greet(self, socket: ServerConnection, caller: Caller) -> DeskSession:
        try:
            async with asyncio.timeout(self._pace.hello_s):
                hello = messages.from_desk(await socket.recv())
        except TimeoutError:
            raise Closing(Close.SILENT, "no hello came") from None
        except BadFrame as error:
            await socket.send(messages.encode(messages.Refused(error.code, error.detail)))
            raise Closing(Close.BAD_MESSAGE, error.code) from error
        if not isinstance(hello, messages.Hello):
            raise Closing(Close.BAD_MESSAGE, "the first message is hello")
        if hello.version != messages.VERSION:
            raise Closing(Close.VERSION, f"this gateway speaks version {messages.VERSION}")
        desk = RelayDesk(
            tenant_id=caller.principal.tenant_id, desk_id=caller.principal.id, property_id=caller.property_id,
            connection=secrets.token_hex(16), vendors=list(hello.vendors), program=hello.program, encoder=hello.encoder,
        )  # fmt: skip
        session = DeskSession(socket, desk, caller.ends_at, self._pace, self._pool)
        replaced = await session.in_tenant(lambda: relay_desks.arrive(desk, self._pace.presence_s))
        log.info("gateway.desk_arrived", desk=desk.desk_id, tenant=desk.tenant_id, replaced=bool(replaced))
        await socket.send(messages.encode(messages.Welcome(messages.VERSION, desk.desk_id, self._pace.heartbeat_s)))
        return session

    async def _serve(self, socket: ServerConnection, session: DeskSession) -> None:
        name = (session.desk.tenant_id, session.desk.desk_id)
        older = self._sessions.get(name)
        self._sessions[name] = session
        if older is not None:
            older.replaced.set()
        code, reason = Close.GOING_AWAY, "the gateway stops"
        try:
            await session.run()
        except Closing as closing:
            code, reason = closing.code, closing.reason
        except ConnectionClosed:
            reason = "the desk is gone"
        except Error as error:
            log.warning("gateway.database", error=type(error).__name__)
            code, reason = Close.TRY_LATER, "the service cannot write now"
        finally:
            if self._sessions.get(name) is session:
                del self._sessions[name]
            await self._part(session)
        log.info("gateway.desk_left", desk=session.desk.desk_id, tenant=session.desk.tenant_id, code=int(code), reason=reason)
        await socket.close(code, reason)

    async def _part(self, session: DeskSession) -> None:
        try:
            await session.in_tenant(lambda: relay_desks.leave(session.desk))
        except (Error, RuntimeError) as error:  # its presence then ends by itself
            log.warning("gateway.leave_unwritten", error=type(error).__name__)

    def _hear_wakes(self, loop: asyncio.AbstractEventLoop, stopped: threading.Event) -> None:
        """Passes wake-ups on to the sessions they concern. Without Redis the sessions look by themselves."""
        waits_for = (redis.RedisError, OSError)
        with LoopGuard("gateway.wakes", waits_for=waits_for, stopped=stopped.is_set) as guard:
            while not (stopped.is_set() or loop.is_closed()):
                try:
                    self._pass_on(loop, stopped, guard)
                except Exception as error:  # noqa: BLE001 - the guard logs it; without wake-ups the sessions look by themselves
                    if not loop.is_closed():
                        guard.failed(error)
                        stopped.wait(LISTEN_AGAIN_S)

    def _pass_on(self, loop: asyncio.AbstractEventLoop, stopped: threading.Event, guard: LoopGuard) -> None:
        with wake.client().pubsub(ignore_subscribe_messages=True) as ears:
            ears.subscribe(CHANNEL)
            while not stopped.is_set():
                note = ears.get_message(timeout=0.5)
                guard.succeeded()
                if note is not None:
                    loop.call_soon_threadsafe(self._wake, note["data"])

    def _wake(self, data: bytes) -> None:
        try:
            tenant_id, property_id = json.loads(data)
        except (ValueError, TypeError):
            return
        for session in self._sessions.values():
            if (session.desk.tenant_id, session.desk.property_id) == (tenant_id, property_id):
                session.woken.set()


def _property_of(principal: Principal) -> str:
    """A desk stands in one house."""
    if not principal.may(Permission.DESK_RELAY):
        raise Refusal(HTTPStatus.FORBIDDEN, "the token is not a desk's")
    if principal.property_ids is None or len(principal.property_ids) != 1:
        raise Refusal(HTTPStatus.FORBIDDEN, "a desk's token names one property")
    return next(iter(principal.property_ids))


def _end_of(token: str) -> float:
    """The end of a token that was verified just now."""
    claims = jwt.decode(token, options={"verify_signature": False})
    return min(float(claims["exp"]), time.time() + 24 * 60 * 60)
