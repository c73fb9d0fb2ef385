"""The mock vendor as a process of its own: one port for the service, another for tests and the demo.

    python -m vendors.mock.simulator --port 0 --control-port 0 [--state-file F]

prints one line of JSON with `url`, `control` and `setting` once both ports listen. With a state file the doors and their keys
survive a restart; it is written every second when something changed, and at the end. Control port, JSON over HTTP:

| request | body | answer |
|---|---|---|
| POST /seed | `{"doors": [{"externalId", "label"?, "online"?, "batteryPercent"?, "clockSkewS"?}], "additive": true}` | count |
| GET /dump | | `{"now", "doors": [{"device", "label", "created", "removed", "keys": […]}]}` |
| POST /clock | `{"now": iso or null, "running"?: true}` | moves the vendor's and doors' clock; it runs on, or stands still |
| POST /faults | `{"profile": "fail=issue&pct=20"}` (see vendors/mock/profile.py), `{}` heals | goes before what callers ask |
| POST /try | `{"device", "kind", "value", "at"?, "dry"?}` | `{"open", "why"}`; `at` and `dry` leave no trace |
| GET /calls | | `{"calls": [{"verb", "key", "doors", "attempt", "at"}]}` |
| GET /counts | | `{"byDoor": {door: n}}`: requests since the start |
| POST /reset | | forgets everything |

One rule: the two ports never mix, so that no service can reach the control side by mistake.
"""

from __future__ import annotations

import argparse
import json
import signal
import socket
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from . import statefile
from .client import PROFILE_HEADER
from .cloud import Dropped, MockCloud
from .profile import Profile, parse_profile

MAX_REQUEST_BYTES = 1024 * 1024
SAVE_EVERY_S = 1.0
LOOKING = frozenset({"/dump", "/calls", "/counts", "/healthz"})
BAD_STATE_FILE = 2


class MovableClock:
    """A clock that runs, and can be moved or stopped."""

    def __init__(self) -> None:
        self._shift = timedelta()
        self._stopped_at: datetime | None = None

    def now(self) -> datetime:
        """Returns the present instant of the mock's world."""
        return self._stopped_at or datetime.now(UTC) + self._shift

    def move(self, instant: str | None, *, running: bool = True) -> None:
        """Sets it to an instant with a zone, or back to the machine's time. Raises ValueError without a zone."""
        self._stopped_at = None
        if instant is None:
            self._shift = timedelta()
            return
        wanted = datetime.fromisoformat(instant)
        if wanted.tzinfo is None:
            raise ValueError("an instant needs a time zone")
        self._shift = wanted - datetime.now(UTC)
        self._stopped_at = None if running else wanted


class Simulator:
    """The mock's cloud behind its two ports."""

    def __init__(self) -> None:
        self.clock = MovableClock()
        self.cloud = MockCloud(self.clock.now)
        self._forced: Profile | None = None
        self.changed = threading.Event()

    def vendor(self, path: str, body: dict[str, Any], profile_text: str) -> dict[str, Any]:
        """Serves the service's side: `POST /v1/<verb>`. Raises Dropped for an answer that must not come."""
        profile = self._forced or parse_profile(profile_text)
        self.changed.set()
        return self.cloud.call(path.removeprefix("/v1/"), body, profile)

    def control(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Serves the control side. Raises KeyError for a path or part that is missing, ValueError for one that is wrong."""
        answer = self._controls[path](body)
        if path not in LOOKING:
            self.changed.set()
        return answer

    @property
    def _controls(self) -> dict[str, Callable[[dict[str, Any]], dict[str, Any]]]:
        return {
            "/seed": self._seed,
            "/dump": self._dump,
            "/clock": self._clock,
            "/faults": self._faults,
            "/try": self._try,
            "/calls": lambda _: {"calls": list(self.cloud.calls)},
            "/counts": lambda _: {"byDoor": dict(self.cloud.calls_by_door)},
            "/reset": self._reset,
            "/healthz": lambda _: {"ok": True},
        }

    def _seed(self, body: dict[str, Any]) -> dict[str, Any]:
        self.cloud.ledger.seed(body["doors"], body.get("additive", True))
        return {"doors": len(self.cloud.ledger.all_doors())}

    def _dump(self, _: dict[str, Any]) -> dict[str, Any]:
        with self.cloud.ledger.lock:
            doors = [_dump_door(door) for door in self.cloud.ledger.all_doors()]
        return {"now": self.clock.now().isoformat(), "doors": doors}

    def _clock(self, body: dict[str, Any]) -> dict[str, Any]:
        self.clock.move(body["now"], running=bool(body.get("running", True)))
        return {"now": self.clock.now().isoformat()}

    def _faults(self, body: dict[str, Any]) -> dict[str, Any]:
        text = body.get("profile")
        self._forced = parse_profile(text) if text else None
        return {"profile": text}

    def _try(self, body: dict[str, Any]) -> dict[str, Any]:
        at = datetime.fromisoformat(body["at"]) if body.get("at") else None
        opened, why = self.cloud.ledger.open(
            body["device"], body.get("kind", "pin_code"), body["value"], at=at, dry=body.get("dry", False)
        )
        return {"open": opened, "why": why}

    def _reset(self, _: dict[str, Any]) -> dict[str, Any]:
        self.cloud.reset()
        self._forced = None
        self.clock.move(None)
        return {"ok": True}


def _dump_door(door: Any) -> dict[str, Any]:
    return {
        "device": door.external_id,
        "label": door.label,
        "created": door.created_count,
        "removed": door.removed_count,
        "keys": [
            {
                "ref": key.ref,
                "name": f"{key.mark} {key.tag}",
                "kind": key.kind,
                "value": key.value,
                "validFrom": key.window.valid_from.isoformat(),
                "validUntil": key.window.valid_until.isoformat(),
                "suspended": key.suspended,
            }
            for key in door.keys.values()
        ],
    }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 120
    wbufsize = -1  # one segment an answer; unbuffered writes cost 40 ms each with delayed acknowledgement

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if length > MAX_REQUEST_BYTES:
            self.close_connection = True
            self._answer(413, {"problem": "too large"})
            return
        raw = self.rfile.read(length)
        try:
            body = json.loads(raw) if raw else {}
            self._answer(200, self._route(body))
        except Dropped:
            self.close_connection = True
        except (KeyError, ValueError, TypeError) as error:
            self._answer(400, {"problem": f"{type(error).__name__}: {error}"})

    def _route(self, body: dict[str, Any]) -> dict[str, Any]:
        raise LookupError(self.path)

    def _answer(self, status: int, document: dict[str, Any]) -> None:
        content = json.dumps(document, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the server's name for it
        """Says nothing: bodies and paths are for the dump, not for a terminal."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, peer = super().get_request()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection, peer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that hangs up is no news; anything else is printed as usual."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def serve(simulator: Simulator, host: str, port: int, control_port: int) -> tuple[_Server, _Server]:
    """Opens both ports (0 = any free one) and serves them in threads. Returns the vendor's and the control server."""

    class VendorSide(_Handler):
        def _route(self, body: dict[str, Any]) -> dict[str, Any]:
            return simulator.vendor(self.path, body, self.headers.get(PROFILE_HEADER, ""))

    class ControlSide(_Handler):
        def _route(self, body: dict[str, Any]) -> dict[str, Any]:
            return simulator.control(self.path, body)

    servers = (_Server((host, port), VendorSide), _Server((host, control_port), ControlSide))
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    return servers


def main(argv: list[str] | None = None) -> int:
    """Runs until SIGTERM or Ctrl-C. Prints the addresses when ready."""
    parser = argparse.ArgumentParser(prog="vendors.mock.simulator", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--control-port", type=int, default=0)
    parser.add_argument("--state-file", type=Path)
    options = parser.parse_args(argv)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    simulator = Simulator()
    try:
        if options.state_file is not None:
            statefile.load(simulator.cloud.ledger, options.state_file)
    except (ValueError, KeyError, TypeError) as error:
        sys.stderr.write(f"{options.state_file}: {error}\n")
        return BAD_STATE_FILE
    vendor, control = serve(simulator, options.host, options.port, options.control_port)
    address = f"{options.host}:{vendor.server_address[1]}"
    ready = {
        "url": f"http://{address}",
        "control": f"http://{options.host}:{control.server_address[1]}",
        "setting": f"mock://{address}",
    }
    sys.stdout.write(json.dumps(ready) + "\n")
    sys.stdout.flush()
    while not stop.wait(SAVE_EVERY_S):
        _save(simulator, options.state_file)
    for server in (vendor, control):
        server.shutdown()
        server.server_close()
    _save(simulator, options.state_file)
    return 0


def _save(simulator: Simulator, path: Path | None) -> None:
    if path is not None and simulator.changed.is_set():
        simulator.changed.clear()
        statefile.save(simulator.cloud.ledger, path)


if __name__ == "__main__":
    sys.exit(main())
