"""Writes a new vendor's folder and its tests' folder, to be filled: see docs/adding-a-vendor.md.

    python -m vendors.scaffold CODE NAME [--kinds KIND,…] [--into ROOT]

One rule: it overwrites nothing, edits nothing that exists, and what it writes says of itself that it is not written yet: the
contract suite fails on it until it is filled.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from importlib import resources
from pathlib import Path
from string import Template
from typing import Final

from vendors.port.types import CredentialKind, LockCapabilities

ROOT: Final = Path(__file__).resolve().parents[2]
CODE: Final = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
CARDS: Final = (CredentialKind.RFID_CARD, CredentialKind.NFC_TAG)
CODE_CHARS_MAX: Final = 40
USAGE_ERROR: Final = 2

FILES: Final[Mapping[str, str]] = {
    "init.py.txt": "vendors/{folder}/__init__.py",
    "manifest.py.txt": "vendors/{folder}/manifest.py",
    "errors.py.txt": "vendors/{folder}/errors.py",
    "adapter.py.txt": "vendors/{folder}/adapter.py",
    "README.md.txt": "vendors/{folder}/README.md",
    "runbook.md.txt": "vendors/{folder}/runbook.md",
    "prices.toml.txt": "vendors/{folder}/prices.toml",
    "harness.py.txt": "tests/vendors/{folder}/harness.py",
}
"""Template → the file it becomes."""


class CannotWrite(ValueError):
    """The folder cannot be written as asked; the message says why. Nothing was written."""


def write(root: Path, code: str, name: str, kinds: Sequence[CredentialKind]) -> list[Path]:
    """Writes the folders under `root` and returns the files. Raises CannotWrite."""
    if not CODE.fullmatch(code) or len(code) > CODE_CHARS_MAX:
        raise CannotWrite(f"a code is at most {CODE_CHARS_MAX} small letters, digits and single hyphens, a letter first")
    if not name.strip() or not name.isprintable() or set(name) & set("\"'\\"):
        raise CannotWrite("a name is printable and has no quotes")
    if not kinds:
        raise CannotWrite("a vendor carries at least one kind of key")
    folder = code.replace("-", "_")
    for taken in (root / "vendors" / folder, root / "tests" / "vendors" / folder):
        if taken.exists():
            raise CannotWrite(f"{taken.relative_to(root)} exists")
    words = _words(code, folder, name, kinds)
    texts = {root / place.format(folder=folder): _filled(template, words) for template, place in FILES.items()}
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(texts)


def _words(code: str, folder: str, name: str, kinds: Sequence[CredentialKind]) -> dict[str, str]:
    able = [field.name for field in fields(LockCapabilities) if any(_can(field.name).supports(kind) for kind in kinds)]
    return {
        "code": code,
        "folder": folder,
        "name": name,
        "cls": "".join(part.capitalize() for part in folder.split("_")),
        "kinds": _tuple(kinds),
        "desk": _desk([kind for kind in kinds if kind in CARDS]),
        "capabilities": ", ".join(f"{field}=True" for field in able),
    }


def _tuple(kinds: Sequence[CredentialKind]) -> str:
    return ", ".join(f"CredentialKind.{kind.name}" for kind in kinds) + ("," if len(kinds) == 1 else "")


def _desk(cards: Sequence[CredentialKind]) -> str:
    if not cards:
        return ""
    why = "Kinds that need a person at the desk: a clerk writes them. Leave out what the vendor gives without one."
    return f"    # {why}\n    desk_kinds=({_tuple(cards)}),\n"


def _can(capability: str) -> LockCapabilities:
    return LockCapabilities(**{capability: True})


def _filled(template: str, words: Mapping[str, str]) -> str:
    text = (resources.files("vendors.scaffold") / "templates" / template).read_text(encoding="utf-8")
    return Template(text).substitute(words)


def main(argv: Sequence[str] | None = None) -> int:
    """Writes what the command line asks; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m vendors.scaffold", description="Writes the folder of a new vendor.")
    parser.add_argument("code", help="the vendor's code, such as acme-locks")
    parser.add_argument("name", help="its name for people")
    parser.add_argument("--kinds", default="pin_code", help=f"kinds of key, by comma: {', '.join(CredentialKind)}")
    parser.add_argument("--into", type=Path, default=ROOT, help="the repository (this one)")
    asked = parser.parse_args(argv)
    try:
        kinds = [CredentialKind(kind) for kind in asked.kinds.split(",") if kind]
        written = write(asked.into, asked.code, asked.name, kinds)
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return USAGE_ERROR
    sys.stdout.write("".join(f"{path.relative_to(asked.into)}\n" for path in written))
    sys.stdout.write("next: docs/adding-a-vendor.md; `pytest tests/vendors` fails on it until it is filled\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
