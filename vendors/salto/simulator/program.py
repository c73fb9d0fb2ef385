"""Starts the simulator: `python -m vendors.simulate salto --port 0 --control-port 0`.

Prints one line of JSON when all ports listen: `url` (cloud REST), `connector` (the same behind mutual TLS), `control`. A
property's PMS port is opened by /seed and named in its answer. Ends on SIGTERM or Ctrl-C; with 2 at once where the state file
is none.

One rule: vendor side, connector and control listen on different ports, all of them on loopback.
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

from vendors.support import simulator_http as http
from vendors.support.simulator_trouble import Trouble
from vendors.support.trouble_port import PATH

from . import statefile
from .control import Control
from .rest import Request, handle, split_query
from .tls import Authority, property_in
from .world import World

SAVE_EVERY_S = 1.0
BAD_STATE_FILE = 2


def serve(world: World, control: Control, authority: Authority, host: str, ports: Sequence[int]) -> list[ThreadingHTTPServer]:
    """Opens cloud, connector and control ports (0: any free one) and serves them in threads."""
    trouble = Trouble()

    def asked(request: http.Request, certified: str | None) -> http.Reply:
        path, query = split_query(request.target)
        try:
            body = json.loads(request.body) if request.body else {}
        except ValueError:
            return http.Reply(400, {"code": "bad_request"})
        with world.lock:
            answer = handle(world, Request(request.method, path, query, request.headers, body, certified))
        return http.Reply(answer.status, answer.body, answer.headers)

    def controlled(request: http.Request) -> http.Reply:
        if request.path == PATH:
            return trouble.serve(request)
        path, query = split_query(request.target)
        try:
            return http.Reply(200, control.serve(path, query, request.json()))
        except (KeyError, ValueError, TypeError, LookupError) as error:
            return http.Reply(400, {"problem": f"{type(error).__name__}: {error}"})

    cloud = trouble.around(lambda request: asked(request, None))
    connector = trouble.around(lambda request: asked(request, property_in(request.certificate)))
    servers = [
        http.serve(cloud, ports[0], host),
        http.serve(connector, ports[1], host, tls=authority.server_context()),
        http.serve(controlled, ports[2], host),
    ]
    control.connector_url = f"https://{host}:{servers[1].server_address[1]}"
    return servers


def main(argv: Sequence[str] | None = None) -> int:
    """Runs until SIGTERM or Ctrl-C. Prints the addresses when ready."""
    parser = argparse.ArgumentParser(prog="vendors.salto.simulator", description="A simulated SALTO cloud, server and doors.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--connector-port", type=int, default=0)
    parser.add_argument("--control-port", type=int, default=0)
    parser.add_argument("--state-file", type=Path, help="keep properties, keys and what doors and cards know over restarts")
    options = parser.parse_args(argv)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    world, authority = World(), Authority()
    try:
        if options.state_file is not None:
            statefile.load(world, options.state_file)
    except ValueError as error:
        sys.stderr.write(f"salto simulator: {error}\n")
        return BAD_STATE_FILE
    saved = world.changes  # before anybody can be served: what is told then is not saved yet
    control = Control(world, authority, options.host)
    servers = serve(world, control, authority, options.host, (options.port, options.connector_port, options.control_port))
    names = [f"{options.host}:{server.server_address[1]}" for server in servers]
    ready = {"url": f"http://{names[0]}", "connector": f"https://{names[1]}", "control": f"http://{names[2]}"}
    sys.stdout.write(json.dumps(ready) + "\n")
    sys.stdout.flush()
    while not stop.wait(SAVE_EVERY_S):
        saved = _saved(world, options.state_file, saved)
    for server in servers:
        server.shutdown()
        server.server_close()
    control.close()
    _saved(world, options.state_file, saved)
    return 0


def _saved(world: World, path: Path | None, saved: int) -> int:
    """Writes the state where there is a file and something has happened since; returns what is saved now."""
    with world.lock:
        if path is not None and world.changes != saved:
            statefile.save(world, path)
        return world.changes
