"""Every vendor's harness, found by its manifest: a new vendor adds one folder here.

A test that asks for `kind` runs for every kind its vendor's manifest names; one that asks for `trouble`, for every trouble its
harness can go through; one that asks for `harness` is told which one it runs on. The marks of `tests/vendors/asking.py` narrow it.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.vendors.site import Harness, Site
from tests.vendors.stranger import Stranger
from vendors import registry
from vendors.port.manifest import VendorManifest
from vendors.port.types import CredentialKind


def harnesses() -> list[tuple[VendorManifest, str, Harness]]:
    found = []
    for manifest in registry.manifests().values():
        folder = manifest.adapter.split(".")[1]
        module = importlib.import_module(f"tests.vendors.{folder}.harness")
        found += [(manifest, name, harness) for name, harness in module.HARNESSES.items()]
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Pairs each harness with what its vendor can do, so that nothing is skipped and nothing is forgotten."""
    if "new_site" not in metafunc.fixturenames:
        return
    over_http = getattr(metafunc.function, "over_http", False)
    names, rows = ["harness"], []
    wants = [name for name in ("kind", "trouble") if name in metafunc.fixturenames]
    for manifest, name, harness in harnesses():
        if over_http and not harness.over_http:
            continue
        if getattr(metafunc.function, "with_pins", False) and CredentialKind.PIN_CODE not in manifest.kinds:
            continue
        if not getattr(harness, getattr(metafunc.function, "needs_flag", "open")):
            continue
        if harness.lacks.intersection(getattr(metafunc.function, "protocols", ())):
            continue
        choices = {"kind": manifest.kinds, "trouble": [t for t in harness.troubles if t in _asked(metafunc)]}
        rows += [
            pytest.param(harness, *chosen, id="-".join([name, *chosen]))
            for chosen in itertools.product(*(choices[w] for w in wants))
        ]
    metafunc.parametrize([*names, *wants], rows, indirect=names, scope="session")


def _asked(metafunc: pytest.Metafunc) -> tuple[str, ...]:
    return getattr(metafunc.function, "troubles", tuple(t for _, _, h in harnesses() for t in h.troubles))


@pytest.fixture(scope="session")
def harness(request: pytest.FixtureRequest) -> Harness:
    found: Harness = request.param
    return found


@pytest.fixture(scope="session")
def new_site(harness: Harness) -> Iterator[Callable[[], Site]]:
    with harness.open() as make:
        yield make


@pytest.fixture
def site(new_site: Callable[[], Site]) -> Site:
    return new_site()


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Stranger]:
    server = Stranger(tmp_path)
    yield server
    server.stop()
