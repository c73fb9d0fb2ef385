"""Speaks to a Visionline server: session, signature, limits and time bounds around one request.

One rule: exactly the bytes and header values that were signed are sent.
Source: public clients (README, Sources C1, C2; high). How long a session lives and how much clocks may differ is not public: a
refused session is renewed once, and the server's own Date is followed when it refuses ours.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

from vendors.port.errors import LockError, Reason
from vendors.port.manifest import AdapterContext
from vendors.port.secrets import Token
from vendors.support.http import AnswerLost, HttpAnswer, HttpClient, NotSent

from .calls import Call, sent
from .errors import VISIONLINE, Answer, Refused, Unclear, refusal_in, stands_for_all, translate, unreachable
from .settings import VisionlineSettings
from .signature import CONTENT_TYPE, authorization, content_md5, http_date, resource, string_to_sign

SESSIONS_PATH = "/api/v1/sessions"
DOUBTFUL = frozenset({500, 502, 503, 504})
WORTH_CORRECTING_S = 60.0
_PRIORITY = 0  # without a session nothing else gets through


@dataclass(frozen=True, slots=True)
class Session:
    """An open session. `ahead` is the server's clock minus ours."""

    id: str = field(repr=False)
    access_key: Token
    ahead: timedelta


class VisionlineClient:
    """The server as one function. Safe from several threads; only one of them ever logs in."""

    def __init__(self, settings: VisionlineSettings, context: AdapterContext) -> None:
        self._settings = settings
        self._context = context
        self._http = HttpClient(settings.base_url, pool_size=16, tls=settings.tls)
        self._lock = threading.Lock()
        self._session: Session | None = None

    def ask(
        self,
        call: Call,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
        limit_s: float | None = None,
    ) -> Answer:
        """Sends one signed request. `limit_s` replaces the usual time bound where a person is waited for.

        A refused session is opened anew once and the request repeated: a 401 comes before any work. Raises Refused (not done),
        Unclear (perhaps done), or a LockError when nothing was asked or what failed is the account.
        """
        with call.effects.noted(Unclear, changes=method != "GET"):
            return self._ask(call, method, path, query or {}, body, limit_s)

    def _ask(
        self,
        call: Call,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Mapping[str, object] | None,
        limit_s: float | None,
    ) -> Answer:
        target = resource(path, query)
        raw = json.dumps(body, ensure_ascii=False).encode() if body is not None else b""
        session = self._current(call)
        answer = self._sent(call, method, target, raw, session, limit_s)
        if answer.status == 401:
            answer = self._sent(call, method, target, raw, self._renewed(call, session), limit_s)
        return self._weighed(call, answer)

    def error(self, call: Call, refused: Refused, device_id: str | None = None) -> LockError:
        """Builds the port's error for a refusal."""
        return translate(VISIONLINE, refused, revoking=call.revoking, device_id=device_id)

    def _current(self, call: Call) -> Session:
        with self._lock:
            if self._session is None:
                self._session = self._open(call)
            return self._session

    def _renewed(self, call: Call, refused: Session) -> Session:
        with self._lock:
            if self._session is None or self._session.id == refused.id:
                self._session = self._open(call)
            return self._session

    def _open(self, call: Call) -> Session:
        """Logs in. When the server refuses and its clock is far from ours, logs in once more by the server's clock."""
        answer, ahead = self._login(call, timedelta()), timedelta()
        if answer.status == 401:
            ahead = self._ahead(answer)
            if abs(ahead.total_seconds()) > WORTH_CORRECTING_S:
                answer = self._login(call, ahead)
        if answer.status in {400, 401, 403}:
            raise translate(VISIONLINE, Refused(answer.status, "unauthorized"), revoking=False)
        try:
            document = answer.json()
            return Session(str(document["id"]), Token(str(document["accessKey"])), ahead)
        except (ValueError, KeyError, TypeError):
            raise unreachable(f"no session: status {answer.status}") from None

    def _login(self, call: Call, ahead: timedelta) -> HttpAnswer:
        document = {"username": self._settings.username.reveal(), "password": self._settings.password.reveal()}
        raw = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
        headers = {"Content-Type": CONTENT_TYPE, "Content-MD5": content_md5(raw), **self._date(ahead)}
        self._context.limiter.acquire(1, _PRIORITY)
        timeout_s = call.time_for(self._settings.timeout_s)
        try:
            return self._http.send("POST", SESSIONS_PATH, body=raw, headers=headers, timeout_s=timeout_s)
        except (NotSent, AnswerLost) as error:
            raise unreachable(f"no session: {error}") from error

    def _ahead(self, answer: HttpAnswer) -> timedelta:
        try:
            theirs = parsedate_to_datetime(answer.headers.get("date", ""))
        except ValueError:
            return timedelta()
        return theirs - self._context.clock.now() if theirs.tzinfo else timedelta()

    def _date(self, ahead: timedelta) -> dict[str, str]:
        value = http_date(self._now(ahead))
        return {"X-Aah-Date" if self._settings.uses_own_date else "Date": value}

    def _now(self, ahead: timedelta) -> datetime:
        return self._context.clock.now() + ahead

    def _sent(self, call: Call, method: str, target: str, raw: bytes, session: Session, limit_s: float | None) -> HttpAnswer:
        timeout_s = call.time_for(limit_s or self._settings.timeout_s)
        (name, value), *_ = self._date(session.ahead).items()
        date_line = f"{self._settings.date_line}:{value}" if self._settings.uses_own_date else value
        headers = {name: value}
        if raw:
            headers |= {"Content-Type": CONTENT_TYPE, "Content-MD5": content_md5(raw)}
        text = string_to_sign(method, content_md5(raw), CONTENT_TYPE if raw else "", date_line, target)
        headers["Authorization"] = authorization(session.id, session.access_key, text)
        return sent(
            call,
            self._context.limiter,
            lambda: self._http.send(method, target, body=raw or None, headers=headers, timeout_s=timeout_s),
        )

    def _weighed(self, call: Call, answer: HttpAnswer) -> Answer:
        if answer.status == 204:
            return Answer(204, {})
        if answer.status == 401:
            raise self.error(call, Refused(401, "unauthorized"))
        try:
            document = answer.json()
        except ValueError:
            document = None
        if isinstance(document, list):
            document = {"items": document}
        if answer.status in DOUBTFUL or not isinstance(document, dict):
            raise Unclear(unreachable(f"status {answer.status}", Reason.TIMEOUT))
        if answer.status < 300:
            return Answer(answer.status, document)
        refused = refusal_in(answer.status, document, answer.retry_after_s())
        if stands_for_all(VISIONLINE, refused):
            raise self.error(call, refused)
        raise refused
