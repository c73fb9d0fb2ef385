"""Runs a vendor's simulator on loopback: `python -m vendors.simulate VENDOR [--port N --control-port N …]`.

One rule: it knows vendors by their manifests only and loads a simulator by name.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence

from . import registry

USAGE_ERROR = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the named vendor's simulator with the remaining arguments until it is stopped; returns its exit status.

    Returns 2, with a line on standard error, for an unknown vendor or one without a simulator.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0].startswith("-"):
        return _refuse("usage: python -m vendors.simulate VENDOR [--port N --control-port N …]")
    vendor, *rest = arguments
    try:
        module = registry.manifest(vendor).simulator
    except registry.UnknownVendor:
        return _refuse(f"unknown vendor {vendor!r}; known: {', '.join(sorted(registry.manifests()))}")
    if module is None:
        return _refuse(f"{vendor} has no simulator")
    run: Callable[[Sequence[str]], int] = importlib.import_module(module).main
    return run(rest)


def _refuse(reason: str) -> int:
    sys.stderr.write(f"{reason}\n")
    return USAGE_ERROR


if __name__ == "__main__":
    sys.exit(main())
