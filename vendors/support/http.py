"""Speaks HTTP to a vendor within bounds: one total time limit, one size limit, no redirects, no proxies, no own retries.

One rule: a failure says whether the request can have reached the vendor, because that alone decides what may be repeated.
"""

from __future__ import annotations

import json
import re
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlencode, urlsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError
from urllib3.util import Timeout

MAX_BODY_BYTES = 4 * 1024 * 1024
"""Enough for 1,000 locks with their opaque blobs; what is larger is no answer of a lock vendor."""

CONNECT_TIMEOUT_S = 5.0

LONGEST_WAIT_S = 86_400.0
"""A vendor that asks to be left alone for longer is asked again after a day."""

_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_ABOUT_CERTIFICATES = ("CERTIFICATE", "UNKNOWN_CA")
"""What the names of TLS alerts contain by which a server turns our certificate away. Source: alert descriptions of RFC 8446,
6.2, as OpenSSL spells them."""


class NotSent(Exception):
    """The request never reached the vendor (refused, unknown host, bad certificate): nothing can have happened there."""


class AnswerLost(Exception):
    """The request may have reached the vendor and no usable answer came back: the effect is unknown."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A complete answer. `body` is at most the client's size limit; `headers` has lower-case names."""

    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    def json(self) -> Any:
        """Returns the body read as JSON, whatever its declared type. Raises ValueError for anything else, and for JSON that is
        nested too deep to be read."""
        try:
            return json.loads(self.body.decode("utf-8"))
        except RecursionError:
            raise ValueError("nested too deep") from None

    def retry_after_s(self) -> float | None:
        """Returns the wait that `Retry-After` asks for, 0 to LONGEST_WAIT_S seconds: given in seconds, or as a date, which is
        counted from the answer's own `Date`. None where the header is missing or says neither."""
        text = self.headers.get("retry-after", "").strip()
        if _SECONDS.fullmatch(text):
            wait_s = float(text)
        else:
            try:
                until, now = parsedate_to_datetime(text), parsedate_to_datetime(self.headers.get("date", ""))
                wait_s = (until - now).total_seconds()
            except (ValueError, TypeError, OverflowError):
                return None
        return min(max(wait_s, 0.0), LONGEST_WAIT_S)


class HttpClient:
    """A pool of connections to one vendor host. Safe to use from several threads.

    Raises ValueError for a base address that is not http(s) with a host.
    """

    def __init__(
        self,
        base_url: str,
        *,
        pool_size: int = 8,
        max_body_bytes: int = MAX_BODY_BYTES,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Notes the address. `tls` is for a vendor that asks for our certificate or has an authority of its own."""
        parts = urlsplit(base_url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("a vendor's address must be http:// or https:// with a host")
        if parts.username or parts.password:
            raise ValueError("a vendor's address must not carry a login")
        self._base = base_url.rstrip("/")
        self._max_body_bytes = max_body_bytes
        self._connect_timeout_s = connect_timeout_s
        self._pool = urllib3.PoolManager(num_pools=2, maxsize=pool_size, block=False, retries=False)
        self._pool.pool_classes_by_scheme = {"http": _BoundedPool, "https": _BoundedSecurePool}
        if parts.scheme == "https":
            self._pool.connection_pool_kw["ssl_context"] = _bounded_context(tls)
            if tls is not None and not tls.check_hostname:  # one certificate is trusted, whatever name it carries
                self._pool.connection_pool_kw["assert_hostname"] = False

    def post_form(self, path: str, fields: Mapping[str, str], *, timeout_s: float) -> HttpAnswer:
        """Posts fields as `application/x-www-form-urlencoded` in UTF-8.

        timeout_s bounds the whole answer, first byte to last. Raises NotSent or AnswerLost.
        """
        return self.send(
            "POST",
            path,
            body=urlencode(fields).encode("ascii"),
            headers={"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"},
            timeout_s=timeout_s,
        )

    def post_json(
        self,
        path: str,
        document: object,
        *,
        timeout_s: float,
        headers: Mapping[str, str] | None = None,
    ) -> HttpAnswer:
        """Posts a document as JSON. Bounds and errors as in `post_form`."""
        return self.send(
            "POST",
            path,
            body=json.dumps(document, ensure_ascii=False).encode(),
            headers={"Content-Type": "application/json", **(headers or {})},
            timeout_s=timeout_s,
        )

    def send(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float,
    ) -> HttpAnswer:
        """Sends one request and reads the whole answer. Raises NotSent or AnswerLost; a status of any kind is an answer."""
        response = None
        try:
            response = self._pool.request(
                method,
                f"{self._base}{path}",
                body=body,
                headers=dict(headers or {}),
                timeout=Timeout(connect=min(self._connect_timeout_s, timeout_s), read=max(timeout_s, 0.01)),
                preload_content=False,
                redirect=False,
                retries=False,
            )
            content = response.read(self._max_body_bytes + 1, decode_content=True)
            if len(content) > self._max_body_bytes:
                raise AnswerLost("the answer is larger than allowed")
            answer = HttpAnswer(
                response.status,
                response.headers.get("Content-Type", ""),
                content,
                {name.lower(): value for name, value in response.headers.items()},
            )
            response.release_conn()
            response = None
            return answer
        except (NewConnectionError, ConnectTimeoutError) as error:
            raise NotSent(_cause(error)) from error
        except urllib3.exceptions.SSLError as error:
            if response is None and _is_unheard(error):
                raise NotSent("a certificate was not accepted, or the line broke before") from error
            raise AnswerLost(_cause(error)) from error
        except (HTTPError, OSError, ValueError) as error:
            raise AnswerLost(_cause(error)) from error
        finally:
            if response is not None:
                response.close()


def _cause(error: BaseException) -> str:
    """Names the failure by its type: texts of network errors repeat addresses and queries."""
    return type(error).__name__


class _BrokeOff(ssl.SSLError):
    """TLS failed before a whole request had left: nobody can have acted on it."""


def _is_unheard(error: urllib3.exceptions.SSLError) -> bool:
    """Says whether TLS failed before a request was heard: at the handshake, while it was being sent, or, as TLS 1.3 has it, by
    the server's alert about our certificate, which comes only after our side's handshake."""
    cause = error.args[0] if error.args else None
    if isinstance(cause, _BrokeOff):
        return True
    reason = (cause.reason or "") if isinstance(cause, ssl.SSLError) else ""
    return "ALERT" in reason and any(word in reason for word in _ABOUT_CERTIFICATES)


class _DeadlineReads:
    """Reads that end at one moment, however slowly the bytes drip in. Mixed into a socket."""

    reads_until: float | None = None

    def _arm(self) -> None:
        if self.reads_until is None:
            return
        left = self.reads_until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the answer did not come in time")
        self.settimeout(left)  # type: ignore[attr-defined]

    def recv_into(self, *args: Any, **kwargs: Any) -> int:
        self._arm()
        return super().recv_into(*args, **kwargs)  # type: ignore[misc,no-any-return]


class _BoundedSocket(_DeadlineReads, socket.socket):
    """A plain socket with one end to all its reads."""


class _BoundedSecureSocket(_DeadlineReads, ssl.SSLSocket):
    """An SSL socket with one end to all its reads."""


def _bounded_context(given: ssl.SSLContext | None) -> ssl.SSLContext:
    context = given or ssl.create_default_context()
    context.sslsocket_class = _BoundedSecureSocket
    return context


class _BoundedConnection(HTTPConnection):
    def _new_conn(self) -> Any:
        plain = super()._new_conn()
        timeout = plain.gettimeout()
        bounded = _BoundedSocket(plain.family, plain.type, plain.proto, fileno=plain.detach())
        bounded.settimeout(timeout)
        return bounded

    def getresponse(self) -> Any:
        _start_reading(self)
        return super().getresponse()


class _BoundedSecureConnection(HTTPSConnection):
    def connect(self) -> None:
        try:
            super().connect()
        except ssl.SSLError as error:
            raise _BrokeOff(*error.args) from error

    def request(self, *args: Any, **kwargs: Any) -> None:
        try:
            super().request(*args, **kwargs)
        except ssl.SSLError as error:
            raise _BrokeOff(*error.args) from error

    def getresponse(self) -> Any:
        _start_reading(self)
        return super().getresponse()


def _start_reading(connection: HTTPConnection) -> None:
    """Sets the end of all reads of this answer; urllib3 puts the read time limit into `timeout` before it asks."""
    limit = connection.timeout
    if isinstance(connection.sock, _DeadlineReads) and isinstance(limit, int | float):
        connection.sock.reads_until = time.monotonic() + limit


class _BoundedPool(HTTPConnectionPool):
    ConnectionCls = _BoundedConnection


class _BoundedSecurePool(HTTPSConnectionPool):
    ConnectionCls = _BoundedSecureConnection
