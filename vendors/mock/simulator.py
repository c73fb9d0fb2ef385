"""The mock vendor as a process of its own: one port for the service, another for tests and the demo.

    python -m vendors.mock.simulator --port 0 --control-port 0 [--state-file F]

prints one line of JSON with `url`, `control` and `setting` once both ports listen. With a state file the doors and their keys
survive a restart; it is written every second when something changed, and at the end. Control port, JSON over HTTP:

| request | body | answer |
|---|---|---|
| POST /seed | `{"doors": [{"externalId", "label"?, "online"?, "batteryPercent"?, … as /door}], "additive": true}` | count |
| GET /dump?device=a,b | | `{"now", "doors": [{"device", "label", "created", "removed", "keys": […]}]}`; all, if none is named |
| POST /clock | `{"now": iso or null, "running"?: true}` | moves the vendor's and doors' clock; it runs on, or stands still |
| POST /faults | `{"profile": "fail=issue&pct=20"}` (see vendors/mock/profile.py), `{}` heals | goes before what callers ask |
| POST /door | `{"device", "reachable"?, "clockSkewS"?, "utcOffsetS"?}` | cuts a lock off, sets its clock wrong |
| POST /trouble | see vendors/support/simulator_trouble.py | all of the vendor goes wrong or is slow |
| POST /try | `{"device", "kind", "value", "at"?, "dry"?}` | `{"open", "why"}`; `at` and `dry` leave no trace |
| POST /try-many | `{"tries": […]}`, each as for /try | `{"results": […]}` |
| POST /plant | `{"device", "kind", "value", "from", "until", "name"?, "mark"?, "tag"?}` | a key nobody asked for; `{"ref"}` |
| POST /drop, /alter | `{"device", "ref", "from"?, "until"?, "suspended"?}` | takes or changes a key behind everybody's back |
| GET /calls | | `{"calls": [{"verb", "key", "doors", "attempt", "at"}]}` |
| GET /counts | | `{"byDoor": {door: n}}`: requests since the start |
| POST /reset | | forgets everything |

One rule: the two ports never mix, so that no service can reach the control side by mistake.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from collections.abc import Callable
from datetime import datetime
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from vendors.port.types import Window
from vendors.support.simulator_clock import MovableClock
from vendors.support.simulator_http import Reply, Request
from vendors.support.simulator_http import serve as http_serve
from vendors.support.simulator_trouble import Trouble
from vendors.support.trouble_port import PATH

from . import statefile
from .client import PROFILE_HEADER
from .cloud import Dropped, MockCloud
from .doors import Key, new_ref
from .profile import Profile, parse_profile

SAVE_EVERY_S = 1.0
LOOKING = frozenset({"/dump", "/calls", "/counts", "/healthz"})
BAD_STATE_FILE = 2


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
            "/try-many": lambda body: {"results": [self._try(one) for one in body["tries"]]},
            "/door": self._door,
            "/calls": lambda _: {"calls": list(self.cloud.calls)},
            "/counts": lambda _: {"byDoor": dict(self.cloud.calls_by_door)},
            "/plant": self._plant,
            "/drop": self._drop,
            "/alter": self._alter,
            "/reset": self._reset,
            "/healthz": lambda _: {"ok": True},
        }

    def _seed(self, body: dict[str, Any]) -> dict[str, Any]:
        self.cloud.ledger.seed(body["doors"], body.get("additive", True))
        return {"doors": len(self.cloud.ledger.all_doors())}

    def _dump(self, body: dict[str, Any]) -> dict[str, Any]:
        wanted = set(body["device"].split(",")) if "device" in body else None
        with self.cloud.ledger.lock:
            off, doors = self.cloud.unreachable, self.cloud.ledger.all_doors()
            found = [door for door in doors if wanted is None or door.external_id in wanted]
            rows = [_dump_door(door) | {"reachable": door.external_id not in off} for door in found]
        return {"now": self.clock.now().isoformat(), "doors": rows}

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

    def _door(self, body: dict[str, Any]) -> dict[str, Any]:
        with self.cloud.ledger.lock:
            door = self.cloud.ledger.door(body["device"])
            door.clock_skew_s = float(body.get("clockSkewS", door.clock_skew_s))
            door.utc_offset_s = body.get("utcOffsetS", door.utc_offset_s)
            reached = bool(body.get("reachable", door.external_id not in self.cloud.unreachable))
            (self.cloud.unreachable.discard if reached else self.cloud.unreachable.add)(door.external_id)
        return {"device": door.external_id, "reachable": reached}

    def _plant(self, body: dict[str, Any]) -> dict[str, Any]:
        window = _window_in(body)
        mark, tag = body.get("mark", ""), body.get("tag", "")
        ref = new_ref()
        key = Key(ref, f"planted:{ref}", mark, tag, body["kind"], body["value"], window, name=body.get("name", ""))
        self.cloud.ledger.plant(body["device"], key)
        return {"ref": ref}

    def _drop(self, body: dict[str, Any]) -> dict[str, Any]:
        self.cloud.ledger.drop(body["device"], body["ref"])
        return {"ref": body["ref"]}

    def _alter(self, body: dict[str, Any]) -> dict[str, Any]:
        with self.cloud.ledger.lock:
            key = self.cloud.ledger.door(body["device"]).keys[body["ref"]]
            key.window = _window_in(body) if "from" in body else key.window
            key.suspended = bool(body.get("suspended", key.suspended))
        return {"ref": body["ref"]}

    def _reset(self, _: dict[str, Any]) -> dict[str, Any]:
        self.cloud.reset()
        self._forced = None
        self.clock.move(None)
        return {"ok": True}


def _window_in(body: dict[str, Any]) -> Window:
    return Window(datetime.fromisoformat(body["from"]), datetime.fromisoformat(body["until"]))


def _dump_door(door: Any) -> dict[str, Any]:
    return {
        "device": door.external_id,
        "label": door.label,
        "clockSkewS": door.clock_skew_s,
        "utcOffsetS": door.utc_offset_s,
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


def serve(
    simulator: Simulator, trouble: Trouble, host: str, port: int, control_port: int
) -> tuple[ThreadingHTTPServer, ThreadingHTTPServer]:
    """Opens both ports (0 = any free one) and serves them in threads. Returns the vendor's and the control server."""

    def vendor(request: Request) -> Reply:
        return _answer(lambda: simulator.vendor(request.path, request.json(), request.headers.get(PROFILE_HEADER.lower(), "")))

    def control(request: Request) -> Reply:
        if request.path == PATH:
            return trouble.serve(request)
        query = dict(parse_qsl(request.target.partition("?")[2]))
        return _answer(lambda: simulator.control(request.path, query | request.json()))

    return http_serve(trouble.around(vendor), port, host), http_serve(control, control_port, host)


def _answer(work: Callable[[], dict[str, Any]]) -> Reply:
    try:
        return Reply(200, work())
    except Dropped:
        return Reply(0, is_dropped=True)
    except (KeyError, ValueError, TypeError) as error:
        return Reply(400, {"problem": f"{type(error).__name__}: {error}"})


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
    vendor, control = serve(simulator, Trouble(), options.host, options.port, options.control_port)
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
