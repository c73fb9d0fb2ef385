"""Starts the simulator: `python -m vendors.simulate generic-wiegand --port 0 --control-port 0`.

Prints one line of JSON when both ports listen: `url` (the cables of encoder and controller, for a virtual desk) and `control`.
Ends on SIGTERM or Ctrl-C; with 2 at once where the state file is none.

One rule: cables and control listen on different ports, both on loopback.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from collections.abc import Sequence
from http.server import ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl

from vendors.support import simulator_http as http
from vendors.support.simulator_trouble import Trouble
from vendors.support.trouble_port import PATH

from . import cable, statefile
from .control import Control
from .world import World

SAVE_EVERY_S = 1.0
BAD_STATE_FILE = 2


def serve(world: World, host: str, port: int, control_port: int) -> tuple[ThreadingHTTPServer, ThreadingHTTPServer]:
    """Opens both ports (0: any free one) and serves them in threads. Returns the cables' and the control server."""
    trouble, control = Trouble(), Control(world)

    def controlled(request: http.Request) -> http.Reply:
        if request.path == PATH:
            return trouble.serve(request)
        query = dict(parse_qsl(request.target.partition("?")[2]))
        try:
            return http.Reply(200, control.serve(request.path, query, request.json()))
        except (KeyError, ValueError, TypeError) as error:
            return http.Reply(400, {"problem": f"{type(error).__name__}: {error}"})

    cables = trouble.around(lambda request: cable.serve(world, request))
    return http.serve(cables, port, host), http.serve(controlled, control_port, host)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs until SIGTERM or Ctrl-C. Prints the addresses when ready."""
    parser = argparse.ArgumentParser(
        prog="vendors.generic_wiegand.simulator", description="A simulated encoder, its cards, locks and a controller."
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--control-port", type=int, default=0)
    parser.add_argument("--state-file", type=Path, help="keep houses, cards and lists over restarts")
    options = parser.parse_args(argv)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    world = World()
    try:
        if options.state_file is not None:
            statefile.load(world, options.state_file)
    except (ValueError, KeyError, TypeError) as error:
        sys.stderr.write(f"{options.state_file}: {error}\n")
        return BAD_STATE_FILE
    saved = world.changes  # before anybody can be served: what is told then is not saved yet
    servers = serve(world, options.host, options.port, options.control_port)
    names = [f"http://{options.host}:{server.server_address[1]}" for server in servers]
    sys.stdout.write(json.dumps({"url": names[0], "control": names[1]}) + "\n")
    sys.stdout.flush()
    while not stop.wait(SAVE_EVERY_S):
        saved = _save(world, options.state_file, saved)
    for server in servers:
        server.shutdown()
        server.server_close()
    _save(world, options.state_file, saved)
    return 0


def _save(world: World, path: Path | None, saved: int) -> int:
    """Writes the state where it changed since; returns the count it has now."""
    changes = world.changes
    if path is not None and changes != saved:
        statefile.save(world, path)
    return changes
