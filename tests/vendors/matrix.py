"""Which cases of the contract suite there are, and which of them `make test` runs.

A case is a test at one harness, with one kind, one trouble and whatever else the test is parametrized by. `make chaos` runs all.
`make test` runs all of them for the first kind of each harness. For every other kind it deals the values of each parameter out
over the harnesses: each harness runs some of them with that kind, and together they run all.

No pair of harness, kind, trouble, verb or other parameter is lost; `tests/vendors/pairs.py` counts them.
"""

from __future__ import annotations

import functools
import importlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.vendors.site import Harness, Trouble
from vendors import registry
from vendors.port.manifest import VendorManifest
from vendors.port.types import CredentialKind


@dataclass(frozen=True)
class Place:
    """A harness by its name, and its vendor."""

    name: str
    manifest: VendorManifest
    harness: Harness

    @property
    def dealt_kinds(self) -> tuple[CredentialKind, ...]:
        """The kinds with which `make test` runs some of the values of a parameter, not all."""
        return self.manifest.kinds if self.harness.runs_again else self.manifest.kinds[1:]


@functools.cache
def places() -> tuple[Place, ...]:
    """Return every vendor's harnesses."""
    found = []
    for manifest in registry.manifests().values():
        folder = manifest.adapter.split(".")[1]
        module = importlib.import_module(f"tests.vendors.{folder}.harness")
        found += [Place(name, manifest, harness) for name, harness in module.HARNESSES.items()]
    return tuple(found)


def applicable(test: Callable[..., None]) -> list[Place]:
    """Return the harnesses a test runs on, as its marks from `tests/vendors/asking.py` say."""

    def applies(place: Place) -> bool:
        return (
            (place.harness.over_http or not getattr(test, "over_http", False))
            and (CredentialKind.PIN_CODE in place.manifest.kinds or not getattr(test, "with_pins", False))
            and bool(getattr(place.harness, getattr(test, "needs_flag", "open")))
            and not place.harness.lacks.intersection(getattr(test, "protocols", ()))
        )

    return [place for place in places() if applies(place)]


def asked(test: Callable[..., None]) -> tuple[Trouble, ...]:
    """Return the troubles a test wants to go through; a harness may know fewer."""
    return getattr(test, "troubles", tuple(Trouble))


def cases(test: Callable[..., None], wants: Sequence[str]) -> list[Any]:
    """Return a test's parameters: the harness, and for each of `wants` ("kind", "trouble") what the harness can do."""
    rows = []
    for place in applicable(test):
        choices = {"kind": place.manifest.kinds, "trouble": [t for t in place.harness.troubles if t in asked(test)]}
        rows += [
            pytest.param(place.harness, *chosen, id="-".join([place.name, *chosen]))
            for chosen in itertools.product(*(choices[want] for want in wants))
        ]
    return rows


def is_left_to_chaos(item: pytest.Item) -> bool:
    """Return whether a collected item is a case that `make test` leaves out."""
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return False
    harness, kind = (item.callspec.params.get(name) for name in ("harness", "kind"))
    if not isinstance(harness, Harness) or not isinstance(kind, CredentialKind):
        return False
    place = next(place for place in places() if place.harness is harness)
    if kind not in place.dealt_kinds:
        return False
    position, hands = _hand(item, place, kind)
    return any(number % min(size, hands) != position % min(size, hands) for number, size in _other_parameters(item))


def _hand(item: pytest.Function, place: Place, kind: CredentialKind) -> tuple[int, int]:
    """Return which hand the values are dealt to, and of how many: a harness among those that deal out this kind.

    A harness that only runs again what another runs deals to its own kinds.
    """
    if place.harness.runs_again:
        return place.manifest.kinds.index(kind), len(place.manifest.kinds)
    trouble = item.callspec.params.get("trouble")
    hands = [
        one.name
        for one in applicable(item.function)
        if not one.harness.runs_again and kind in one.dealt_kinds and (trouble is None or trouble in one.harness.troubles)
    ]
    return hands.index(place.name), len(hands)


def _other_parameters(item: pytest.Function) -> list[tuple[int, int]]:
    """Return, for each parameter beside harness and kind, which value the item has, and of how many."""
    found = []
    if (trouble := item.callspec.params.get("trouble")) is not None:
        troubles = asked(item.function)
        found.append((troubles.index(Trouble(str(trouble))), len(troubles)))
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0].split(",") if isinstance(mark.args[0], str) else mark.args[0]
        values = list(mark.args[1])
        chosen = [item.callspec.params[name.strip()] for name in names]
        found.append((values.index(tuple(chosen) if len(chosen) > 1 else chosen[0]), len(values)))
    return found
