"""Finds the vendors and loads their adapters when first asked.

One rule: a vendor is known by its folder's manifest alone; no vendor's code is written here.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from functools import cache

import vendors

from .port.manifest import AdapterContext, VendorManifest
from .port.protocol import LockPort


class UnknownVendor(LookupError):
    """No folder claims this vendor code or alias. Trying again makes no sense."""


@cache
def manifests() -> dict[str, VendorManifest]:
    """Returns every vendor's manifest by code. Raises ValueError when two claim one code or alias."""
    found: dict[str, VendorManifest] = {}
    for module in pkgutil.iter_modules(vendors.__path__):
        if module.ispkg and _has_manifest(module.name):
            manifest = getattr(importlib.import_module(f"vendors.{module.name}.manifest"), "MANIFEST", None)
            if manifest is None:  # the port's own module of that name
                continue
            for name in (manifest.code, *manifest.aliases):
                if name in _names(found):
                    raise ValueError(f"two vendors claim {name!r}")
            found[manifest.code] = manifest
    return found


def manifest(code: str) -> VendorManifest:
    """Returns the manifest for a code or alias. Raises UnknownVendor."""
    for candidate in manifests().values():
        if code == candidate.code or code in candidate.aliases:
            return candidate
    raise UnknownVendor(code)


def build(code: str, context: AdapterContext) -> LockPort:
    """Builds the vendor's adapter. Raises UnknownVendor, or ValueError for bad settings."""
    module_name, function_name = manifest(code).adapter.split(":")
    adapter: LockPort = getattr(importlib.import_module(module_name), function_name)(context)
    return adapter


def _has_manifest(package: str) -> bool:
    return importlib.util.find_spec(f"vendors.{package}.manifest") is not None


def _names(found: dict[str, VendorManifest]) -> set[str]:
    return {name for m in found.values() for name in (m.code, *m.aliases)}
