"""Starts the simulator: two loopback ports, one JSON line when ready, a clean end on SIGTERM or SIGINT.

One rule: the vendor's side and the control side listen on different ports.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vendors.support.simulator_http import Reply, Request, serve
from vendors.support.simulator_trouble import Trouble
from vendors.support.trouble_port import PATH

from . import statefile
from .control import Control
from .model import House
from .visionline_side import VisionlineSide
from .vostio_side import VostioSide
from .world import World

SAVE_EVERY_S = 1.0
VISIONLINE_PATH = "/api/v1/"
_WORDS = re.compile(r"[A-Za-z0-9_-]+")


class Vendor:
    """Both products on one port: Visionline under `/api/v1/`, Vostio elsewhere. Breaks what it was told to break."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._visionline = VisionlineSide(world)
        self._vostio = VostioSide(world)

    def handle(self, request: Request) -> Reply:
        """Serves one request."""
        with self._world.lock:
            side = self._visionline if request.path.startswith(VISIONLINE_PATH) else self._vostio
            house = side.house_of(request)
            self._world.changes += 1
            entry = {"method": request.method, "path": request.path, "house": house.code if house else None}
            self._world.note(entry, _doors_in(request, _called(house) if house else {}))
            fault = self._fault(request, entry)
            if fault is None:
                return side.handle(request)
            if fault.get("drop") == "after":
                side.handle(request)
            if fault.get("drop"):
                return Reply(0, is_dropped=True)
            return Reply(int(fault["status"]), {"code": fault.get("code", "fault")}, dict(fault.get("headers", {})))

    def _fault(self, request: Request, entry: dict[str, Any]) -> dict[str, Any] | None:
        for fault in self._world.faults:
            if fault["path"] not in request.target or fault.get("method", request.method) != request.method:
                continue
            if fault.get("house", entry["house"]) != entry["house"] or fault["times"] == 0:
                continue
            if fault["times"] is not None:
                fault["times"] -= 1
            return fault
        return None


def main(argv: Sequence[str] | None = None) -> int:
    """Runs until SIGTERM or SIGINT. Returns 0, or 2 for a bad state file."""
    parser = argparse.ArgumentParser(
        prog="python -m vendors.assa_abloy.simulator", description="Simulated Vostio and Visionline with their locks."
    )
    parser.add_argument("--port", type=int, default=0, help="the vendor's APIs on 127.0.0.1 (0: any free port)")
    parser.add_argument("--control-port", type=int, default=0, help="the control API on 127.0.0.1 (0: any free port)")
    parser.add_argument("--state-file", type=Path, help="keep the houses here over restarts")
    options = parser.parse_args(argv)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    world = World()
    if options.state_file:
        try:
            world.houses = statefile.load(options.state_file)
        except (OSError, ValueError) as error:
            sys.stderr.write(f"assa-abloy simulator: {error}\n")
            return 2
    control, trouble = Control(world), Trouble()
    saved_at = world.changes  # before anybody can be served: what is told then is not saved yet

    def controlled(request: Request) -> Reply:
        if request.path == PATH:
            return trouble.serve(request)
        with world.lock:
            world.changes += 1
            return control.handle(request)

    servers = (serve(trouble.around(Vendor(world).handle), options.port), serve(controlled, options.control_port))
    ready = {name: f"http://127.0.0.1:{s.server_address[1]}" for name, s in zip(("url", "control"), servers, strict=True)}
    sys.stdout.write(json.dumps(ready) + "\n")
    sys.stdout.flush()
    while not stop.wait(SAVE_EVERY_S):
        saved_at = _saved(world, options.state_file, saved_at)
    for server in servers:
        server.shutdown()
        server.server_close()
    _saved(world, options.state_file, saved_at)
    return 0


def _saved(world: World, path: Path | None, saved_at: int) -> int:
    """Writes the state where there is a file and something has happened since; returns what is saved now."""
    with world.lock:
        if path is not None and world.changes != saved_at:
            statefile.save(world.houses, path)
        return world.changes


def _called(house: House) -> dict[str, str]:
    """Returns what requests may call the house's doors, and their ids."""
    names = {lock.name: lock.door_id for lock in house.locks.values()} if house.names_doors else {}
    return names | {door_id: door_id for door_id in house.locks}


def _doors_in(request: Request, doors: dict[str, str]) -> list[str]:
    """Names the doors a request is about, for the count per door."""
    text = request.target + request.body.decode("utf-8", "replace") if doors else ""
    return sorted({doors[word] for word in _WORDS.findall(text) if word in doors})
