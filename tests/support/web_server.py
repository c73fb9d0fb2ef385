"""The real web stack for tests: gunicorn in a process of its own, on the login that web processes use.

One rule: whatever a test knows of an answer came over HTTP.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from typing import Any

import requests

from lockservice.core.auth import issue_token
from lockservice.embedded.local import REPOSITORY_ROOT, free_port

TETHER = REPOSITORY_ROOT / "lockservice" / "embedded" / "tether.py"


class WebServer:
    """One gunicorn with one worker. `environment` overrides what the tests' settings read."""

    def __init__(self, *, threads: int = 12, **environment: str) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._process = subprocess.Popen(
            [
                sys.executable, str(TETHER), str(os.getpid()), str(int(signal.SIGTERM)), sys.executable, "-m", "gunicorn", "lockservice.wsgi:application", "--bind", f"127.0.0.1:{port}", "--workers", "1",
                "--config", "python:lockservice.gunicorn_settings", "--threads", str(threads), "--no-control-socket", "--log-level", "warning",
            ],
            cwd=REPOSITORY_ROOT,
            env={
                **os.environ, "DJANGO_SETTINGS_MODULE": "lockservice.settings.testing", "LOCK_DB_LOGIN": "web",
                "LOCK_DB_POOL_MAX": "12", **environment,
            },
        )  # fmt: skip
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise

    def _wait(self) -> None:
        ends = time.monotonic() + 30
        while time.monotonic() < ends:
            assert self._process.poll() is None, "gunicorn has ended"
            try:
                if requests.get(f"{self.url}/healthz", timeout=2).status_code == 200:
                    return
            except requests.RequestException:
                time.sleep(0.05)
        raise AssertionError("gunicorn does not answer")

    def stop(self) -> None:
        """Ends the process and its worker."""
        self._process.terminate()
        self._process.wait(15)


@dataclass
class Caller:
    """Somebody with a token. Without one (`token` empty) no Authorization is sent."""

    url: str
    token: str = ""

    def get(self, path: str, **options: Any) -> requests.Response:
        return self.send("GET", path, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> requests.Response:
        return self.send("POST", path, body, **options)

    def patch(self, path: str, body: Any = None, **options: Any) -> requests.Response:
        return self.send("PATCH", path, body, **options)

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = None,
        headers: dict[str, str] | None = None,
        **options: Any,
    ) -> requests.Response:
        """Sends JSON. POST and PATCH get a fresh Idempotency-Key unless one is given; `key=""` sends none."""
        sent = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        if method in ("POST", "PATCH") and key != "":
            sent["Idempotency-Key"] = key or uuid.uuid4().hex
        sent |= headers or {}
        if body is not None:
            options["json"] = body
        return requests.request(method, self.url + path, headers=sent, timeout=20, **options)


def caller(
    web: WebServer, tenant_id: str, *roles: str, properties: tuple[str, ...] = ("*",), subject: str = "usr_test", **more: Any
) -> Caller:
    """Returns a caller with a signed token."""
    return Caller(web.url, issue_token(tenant_id, subject, roles, properties, **more))
