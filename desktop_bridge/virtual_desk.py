"""A front desk without hardware: connects to the gateway and does its jobs at a vendor's simulated encoder.

    python -m desktop_bridge.virtual_desk VENDOR --gateway ws://127.0.0.1:8090/relay/v1 --encoder http://127.0.0.1:PORT
        --house CODE --journal FILE (--token-file FILE | --token-command 'COMMAND')

Runs until SIGTERM or Ctrl-C and connects again by itself. Whether cards are laid by themselves is the simulated encoder's
business (`POST /encoder`, `POST /place` at the simulator's control port).

One rule: it speaks the desk's protocol and nothing else of the service; vendors are loaded by their manifests.
"""

from __future__ import annotations

import argparse
import importlib
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from desktop_bridge.desk_link import DeskLink, Finished
from desktop_bridge.journal import Journal
from vendors import registry
from vendors.port.relay import DeskDriver

USAGE_ERROR = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the desk until it is stopped. Returns 0, or 2 where it cannot be or may not."""
    parser = argparse.ArgumentParser(prog="desktop_bridge.virtual_desk", description="A front desk without hardware.")
    parser.add_argument("vendor")
    parser.add_argument("--gateway", required=True, help="ws:// or wss:// address of /relay/v1")
    parser.add_argument("--encoder", required=True, help="where the simulated encoder's cable ends, http://127.0.0.1:PORT")
    parser.add_argument("--house", required=True, help="the house's name in the simulator")
    parser.add_argument("--journal", required=True, type=Path, help="what the desk remembers over a crash")
    token = parser.add_mutually_exclusive_group(required=True)
    token.add_argument("--token-file", type=Path, help="read before each connection")
    token.add_argument("--token-command", help="run before each connection; prints the token")
    options = parser.parse_args(argv)
    try:
        driver = _driver(options.vendor, options.encoder, options.house)
        journal = Journal(options.journal)
    except (registry.UnknownVendor, LookupError, ValueError, OSError) as error:
        return _refuse(str(error))
    link = DeskLink(options.gateway, _token_of(options), {registry.manifest(options.vendor).code: driver}, journal, _say)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: _stop_soon(link))
    try:
        link.run()
    except Finished as finished:
        return _refuse(str(finished))
    return 0


def _stop_soon(link: DeskLink) -> None:
    """Stops it from a thread: a signal may have come in the middle of anything."""
    threading.Thread(target=link.stop, daemon=True).start()


def _driver(vendor: str, encoder: str, house: str) -> DeskDriver:
    name = registry.manifest(vendor).virtual_desk
    if name is None:
        raise LookupError(f"{vendor} has no simulated encoder")
    module, _, function = name.partition(":")
    driver: DeskDriver = getattr(importlib.import_module(module), function)(encoder, house)
    return driver


def _token_of(options: argparse.Namespace) -> Callable[[], str]:
    if options.token_file is not None:
        path: Path = options.token_file
        return lambda: path.read_text(encoding="utf-8").strip()
    command = shlex.split(options.token_command)

    def ask() -> str:
        try:
            return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()
        except subprocess.SubprocessError as error:
            raise OSError("the command gave no token") from error

    return ask


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _refuse(reason: str) -> int:
    sys.stderr.write(f"{reason}\n")
    return USAGE_ERROR


if __name__ == "__main__":
    sys.exit(main())
