"""A vendor added for some tests, as anybody adds one: a folder with manifest and adapter, and no other edit."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import vendors
from vendors import registry


@contextmanager
def added_vendor(root: Path, code: str, manifest: str, adapter: str) -> Iterator[None]:
    """Inside the block the vendor is known to this process; `root` is an empty folder, the rest the modules' texts."""
    folder = root / code
    folder.mkdir()
    for name, text in (("__init__", ""), ("manifest", manifest), ("adapter", adapter)):
        (folder / f"{name}.py").write_text(text)
    vendors.__path__.append(str(root))
    registry.manifests.cache_clear()
    try:
        yield
    finally:
        vendors.__path__.remove(str(root))
        registry.manifests.cache_clear()
        for name in [name for name in sys.modules if name.startswith(f"vendors.{code}")]:
            del sys.modules[name]
