"""Small files that must be there whole or not at all, also after the power went out in the middle.

One rule: a reader sees the old or the new content, never half; every file has mode 0600, every folder made here 0700.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def make_folder(folder: Path) -> None:
    """Makes the folder and what is missing above it, each synced into its parent; safe to repeat and in parallel."""
    missing = []
    place = folder
    while not place.exists():
        missing.append(place)
        place = place.parent
    for place in reversed(missing):
        place.mkdir(mode=0o700, exist_ok=True)
        _sync_folder(place.parent)


def write_new(file: Path, content: bytes) -> bool:
    """Writes a file that must not exist yet; of several writers one wins and gets True, nobody sees half."""
    candidate = _write_beside(file, content)
    try:
        os.link(candidate, file)
    except FileExistsError:
        return False
    finally:
        candidate.unlink()
    _sync_folder(file.parent)
    return True


def replace(file: Path, content: bytes) -> None:
    """Puts new content in place of a file's old."""
    _write_beside(file, content).replace(file)
    _sync_folder(file.parent)


def _write_beside(file: Path, content: bytes) -> Path:
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")  # mode 0600
    with os.fdopen(handle, "wb") as new:
        new.write(content)
        new.flush()
        os.fsync(new.fileno())
    return Path(name)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
