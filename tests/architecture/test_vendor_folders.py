"""Every vendor's folder is whole: what a person on call needs, every setting and every error explained, nothing half written."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture import generated_docs
from tests.architecture.generated_docs import ROOT, error_tables, folder_of, runbook_of
from vendors import registry
from vendors.port.manifest import VendorManifest

HEADINGS = ["Onboarding a property", "Rotating secrets", "Common errors", "Vendor contacts", "Known issues"]
FILES = {"README.md", "runbook.md", "prices.toml", "manifest.py", "adapter.py", "errors.py"}
UNWRITTEN = "not written yet"
NAMED_ELSEWHERE = {
    "lockservice/settings/embedded.py": "the demo's houses: which vendor stands in which house is their configuration",
    "lockservice/demo": "the demo's houses",
    "lockservice/replay": "the replay's house",
}
MOCK = "mock"
"""Tests and demos name it; no vendor is meant."""

each_vendor = pytest.mark.parametrize("manifest", registry.manifests().values(), ids=lambda m: m.code)


def _folder(manifest: VendorManifest) -> Path:
    return ROOT / "vendors" / folder_of(manifest)


@each_vendor
def test_its_folder_has_every_file(manifest: VendorManifest) -> None:
    assert {path.name for path in _folder(manifest).iterdir()} >= FILES
    assert (ROOT / "tests" / "vendors" / folder_of(manifest) / "harness.py").is_file()


@each_vendor
def test_its_runbook_has_the_five_parts_and_each_says_something(manifest: VendorManifest) -> None:
    text = runbook_of(manifest).read_text(encoding="utf-8")
    parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)[1:]
    assert parts[::2] == HEADINGS
    assert [head for head, body in zip(parts[::2], parts[1::2], strict=True) if len(body.split()) < 3] == []


@each_vendor
def test_nothing_in_its_folder_is_unwritten(manifest: VendorManifest) -> None:
    folders = (_folder(manifest), ROOT / "tests" / "vendors" / folder_of(manifest))
    pages = [path for folder in folders for path in folder.rglob("*") if path.suffix in {".py", ".md", ".toml"}]
    assert [path.name for path in pages if UNWRITTEN in path.read_text(encoding="utf-8").lower()] == []


@each_vendor
def test_every_code_of_its_tables_is_explained_in_the_runbook(manifest: VendorManifest) -> None:
    text = runbook_of(manifest).read_text(encoding="utf-8")
    codes = [code for table in error_tables(manifest).values() for code in table]
    assert [code for code in codes if f"| `{code}` |" not in text] == []
    assert bool(codes) == ("error-codes" in generated_docs.names_in(text))


@each_vendor
def test_every_setting_and_secret_is_explained_in_the_readme(manifest: VendorManifest) -> None:
    text = (_folder(manifest) / "README.md").read_text(encoding="utf-8")
    assert "](runbook.md)" in text
    assert [name for name in (*manifest.setting_names, *manifest.secret_names) if f"`{name}`" not in text] == []


def test_a_table_is_found_where_there_is_one() -> None:
    counted = {m.code: sum(map(len, error_tables(m).values())) for m in registry.manifests().values()}
    assert counted[MOCK] == 0
    assert len([code for code, count in counted.items() if count > 10]) >= 4


def test_a_vendors_names_stand_in_its_folder_and_nowhere_else() -> None:
    """In code, that is: texts for people may tell where a fact comes from."""
    names: dict[str, str] = {}
    for manifest in registry.manifests().values():
        if manifest.code != MOCK:
            names |= dict.fromkeys((manifest.code, folder_of(manifest), *manifest.aliases), folder_of(manifest))
    strays = [
        f"{place}: {text!r}"
        for place, text in _texts("vendors", "sagas", "credentials", "devices", "lockservice")
        if text in names and not place.startswith((f"vendors/{names[text]}/", *NAMED_ELSEWHERE))
    ]
    assert strays == []


def _texts(*rooms: str) -> Iterator[tuple[str, str]]:
    """Every text constant in the code of these rooms, with the file it stands in."""
    for room in rooms:
        for path in sorted((ROOT / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield path.relative_to(ROOT).as_posix(), node.value
