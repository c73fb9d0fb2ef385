"""Starts the simulator: two loopback ports, one JSON line when ready, a clean end on SIGTERM or SIGINT.

One rule: the cloud side and the control side listen on different ports.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from . import statefile
from .control import Control
from .dispatch import Cloud
from .seed import seed, seed_hotel
from .services import assemble
from .wire import HttpServer
from .world import World

SAVE_EVERY_S = 1.0
SAVE_SHARE = 20
"""Saving stops the answers: it may take one twentieth of the time, so a big state is saved less often."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs until SIGTERM or SIGINT. Returns 0, or 2 for a bad seed or state file."""
    options = _options(argv)
    try:
        return asyncio.run(_Program(options).run())
    except (OSError, ValueError) as error:
        sys.stderr.write(f"ttlock simulator: {error}\n")
        return 2


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m vendors.ttlock.simulator", description="A simulated TTLock cloud with its locks."
    )
    parser.add_argument("--port", type=int, default=0, help="the vendor's API on 127.0.0.1 (0: any free port)")
    parser.add_argument("--control-port", type=int, default=0, help="the control API on 127.0.0.1 (0: any free port)")
    parser.add_argument("--region", choices=("eu", "cn"), default="eu", help="which regional host this is")
    parser.add_argument("--seed-file", type=Path, help='JSON: a seed, {"hotel": …}, or a list of these')
    parser.add_argument("--state-file", type=Path, help="keep the state here over restarts")
    return parser.parse_args(argv)


class _Program:
    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        state = statefile.load(options.state_file) if options.state_file else None
        self._world = World(state, options.region)
        self._saved_at = 0
        self._save_took_s = 0.0
        if options.seed_file:
            _seed_from(self._world, options.seed_file)
        self._services = assemble(self._world)

    async def run(self) -> int:
        cloud = HttpServer(Cloud(self._services).handle)
        control = HttpServer(Control(self._services, self._save).handle)
        port = await cloud.start(self._options.port)
        control_port = await control.start(self._options.control_port)
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopped.set)
        gc.freeze()
        ready = {"url": f"http://127.0.0.1:{port}", "control": f"http://127.0.0.1:{control_port}"}
        sys.stdout.write(json.dumps(ready) + "\n")
        sys.stdout.flush()
        while not stopped.is_set():
            try:
                await asyncio.wait_for(stopped.wait(), max(SAVE_EVERY_S, self._save_took_s * SAVE_SHARE))
            except TimeoutError:
                self._save_if_changed()
        await cloud.stop()
        await control.stop()
        self._save_if_changed()
        return 0

    def _save_if_changed(self) -> None:
        if self._world.changes != self._saved_at:
            self._save()

    def _save(self) -> None:
        began = time.monotonic()
        if self._options.state_file:
            statefile.save(self._world.state, self._options.state_file)
        self._save_took_s = time.monotonic() - began
        self._saved_at = self._world.changes


def _seed_from(world: World, path: Path) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    for one in content if isinstance(content, list) else [content]:
        if "hotel" in one:
            seed_hotel(world, one["hotel"])
        else:
            seed(world, one)
