"""The contract suite's live part, pointed at addresses as a real vendor's would be: here those of simulators, processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lockservice.embedded.local import REPOSITORY_ROOT
from tests.vendors import live
from tests.vendors.asking import over_http
from tests.vendors.site import Site
from vendors import registry

MOST = 60


def _live(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "LOCK_LIVE_"))}
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-rs",
            "-p",
            "no:cacheprovider",
            "tests/vendors/test_contract_live.py",
            *arguments,
        ],
        cwd=REPOSITORY_ROOT,
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def _file(site: Site, folder: Path, **changes: object) -> Path:
    door = site.doors[0]
    told = {
        "settings": dict(site.settings()),
        "secrets": dict(site.secrets()),
        "testLock": {"externalId": door.external_id, "label": door.label, "gateway": door.gateway},
        "kind": site.first_kind.value,
        "maxCalls": MOST,
    }
    file = folder / "live.json"
    file.write_text(json.dumps(told | changes))
    file.chmod(0o600)
    return file


@over_http
def test_an_address_that_is_told_is_visited_within_its_cap_and_left_as_it_was(site: Site, tmp_path: Path) -> None:
    before = site.request_count()
    done = _live("-k", site.code, **{live.variable(site.manifest): str(_file(site, tmp_path))})
    assert done.returncode == 0, done.stdout
    assert "5 passed" in done.stdout
    assert 10 < site.request_count() - before <= MOST
    assert [site.keys_at(door) for door in site.doors] == [0, 0, 0]


@over_http
def test_the_cap_ends_the_visit_and_what_was_given_is_still_taken_back(site: Site, tmp_path: Path) -> None:
    before = site.request_count()
    file = _file(site, tmp_path, maxCalls=live.KEPT_FOR_CLEANING + 3)
    done = _live("-k", f"{site.code} and whole_life", **{live.variable(site.manifest): str(file)})
    assert done.returncode == 1
    assert "VendorUnreachable" in done.stdout
    assert site.request_count() - before <= live.KEPT_FOR_CLEANING + 3
    assert [site.keys_at(door) for door in site.doors] == [0, 0, 0]


def test_without_an_address_every_vendor_is_skipped_with_the_reason() -> None:
    done = _live()
    assert done.returncode == 0
    for manifest in registry.manifests().values():
        assert f"{live.variable(manifest)} names no file with an address, secrets and a test lock" in done.stdout
    assert " passed" not in done.stdout


@pytest.mark.parametrize(
    ("changes", "mode", "why"),
    [
        ({}, 0o644, "mode 0600"),
        ({"kind": "fingerprint"}, 0o600, "fingerprint"),
        ({"maxCalls": 100_000}, 0o600, "maxCalls"),
        ({"maxCalls": live.KEPT_FOR_CLEANING}, 0o600, "maxCalls"),
        ({"testLocks": []}, 0o600, "exactly"),
    ],
)
@over_http
def test_a_file_that_cannot_be_meant_is_refused_before_any_call(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, object], mode: int, why: str
) -> None:
    file = _file(site, tmp_path, **changes)
    file.chmod(mode)
    monkeypatch.setenv(live.variable(site.manifest), str(file))
    before = site.request_count()
    with pytest.raises(ValueError, match=why):
        live.read(site.manifest)
    assert site.request_count() == before
