"""`manage.py bridge_gateway`: the WebSocket that the desks of all properties keep open (`/relay/v1`)."""

from __future__ import annotations

import argparse
import asyncio
import signal
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from devices.gateway import Gateway
from devices.gateway_session import Pace
from sagas.alive import SignsOfLife


class Command(BaseCommand):
    """Serves until stopped."""

    help = "Serves the desks' WebSocket, GET /relay/v1."
    requires_system_checks: list[str] = []  # a second of processor time at each start; `migrate` has made them

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds the options."""
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=8090, help="0: any free one, told on standard output")
        parser.add_argument("--max-desks", type=int, default=1000)
        parser.add_argument("--heartbeat", type=float, default=Pace().heartbeat_s, help="seconds between two pings of a desk")
        parser.add_argument("--patience", type=float, default=Pace().offer_s, help="seconds a desk has to answer an offer")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Serves."""
        heartbeat_s = options["heartbeat"]
        pace = Pace(heartbeat_s=heartbeat_s, presence_s=4 * heartbeat_s, offer_s=options["patience"])
        try:
            asyncio.run(self._serve(Gateway(pace, max_desks=options["max_desks"]), options["host"], options["port"]))
        except OSError as error:
            raise CommandError(f"cannot listen: {error}") from error

    async def _serve(self, gateway: Gateway, host: str, port: int) -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        with SignsOfLife("gateway"):
            await gateway.run(host, port, stop, self._tell)

    def _tell(self, host: str, port: int) -> None:
        self.stdout.write(f"ws://{host}:{port}/relay/v1")
        self.stdout.flush()
