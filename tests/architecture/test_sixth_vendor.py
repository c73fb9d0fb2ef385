"""One more vendor needs one folder (and one of tests) and no other edit: shown on a copy of the repository."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.generated_docs import ROOT

CODE, FOLDER, NAME = "acme-locks", "acme_locks", "Acme locks"
LEFT_OUT = shutil.ignore_patterns(".git", ".venv*", ".local", ".*_cache", ".hypothesis", "staticfiles")
# What the settings in pyproject.toml need, and no more: the others take longer to load than these tests take to run. Planted
# secrets are looked for by the run that starts these.
PLUGINS = ["-p", "pytest_django.plugin", "-p", "pytest_socket", "-p", "pytest_timeout", "-p", "no:leak-watch"]
OWN = (f"vendors/{FOLDER}/", f"tests/vendors/{FOLDER}/")

THROUGH_THE_SERVICE = '''
"""A hotel on the sixth vendor: its locks are registered, the API lists it, a booking opens a door, the month has its lines."""

import json

from devices import costs, registration
from devices.models import LockDevice
from lockservice.core.tenancy import tenant
from tests.flows.conftest import keys, settle  # noqa: F401
from tests.api.conftest import web  # noqa: F401
from tests.support.hotel import build_hotel
from tests.support.mock_locks import MockLocks
from tests.support.web_server import caller
from vendors.port.ids import new_id


def test_it_is_there(database, web, settle):
    doors = MockLocks()
    try:
        a, b = new_id("lck"), new_id("lck")
        hotel = build_hotel(vendor="acme-locks", settings={"url": doors.setting}, rooms={"101": a})
        doors.ask("/seed", {"doors": [{"externalId": a, "label": "101"}, {"externalId": b, "label": "Room 101 balcony"}]})
        lines = registration.survey(hotel.tenant_id, hotel.installation_id)
        assert registration.apply(hotel.tenant_id, hotel.installation_id, lines) >= 1
        with tenant(hotel.tenant_id):
            assert LockDevice.objects.filter(tenant_id=hotel.tenant_id, installation__vendor="acme-locks").count() == 2
        listed = caller(web, hotel.tenant_id, "gm").get("/lock/v1/vendors").json()["items"]
        assert {"Acme locks", "Mock locks"} <= {item["displayName"] for item in listed}
        hotel.tell("booking.confirmed", hotel.booking(new_id("rsv"), 1, ["101"]))
        settle(hotel)
        (key,) = keys(hotel)
        assert (key.state, key.vendor) == ("active", "acme-locks")
        assert len(doors.keys_at(a)) == 1
        with tenant(hotel.tenant_id):
            report = costs.report(hotel.tenant_id, "2026-11")
        assert report.unpriced == ("acme-locks",)
    finally:
        doors.stop()
'''


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a copy of the repository to add a vendor to."""
    place = tmp_path_factory.mktemp("sixth") / "copy"
    shutil.copytree(ROOT, place, ignore=LEFT_OUT)
    return place


def _python(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return subprocess.run(
        [sys.executable, *arguments], cwd=copy, env=environment, capture_output=True, text=True, timeout=250, check=False
    )


def _suite(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return _python(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", *PLUGINS, *arguments)


def _fingerprint(copy: Path) -> dict[str, str]:
    files = [path for path in copy.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {path.relative_to(copy).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _fill(copy: Path) -> None:
    """Fills the scaffold with a vendor that works: what the mock does, under the new vendor's own names."""
    for room in ("vendors", "tests/vendors"):
        shutil.rmtree(copy / room / FOLDER)
        shutil.copytree(copy / room / "mock", copy / room / FOLDER, ignore=LEFT_OUT)
        for path in (copy / room / FOLDER).rglob("*"):
            if path.suffix not in {".py", ".md"}:
                continue
            text = path.read_text(encoding="utf-8").replace("vendors.mock", f"vendors.{FOLDER}").replace("Mock locks", NAME)
            text = text.replace('code = "mock"', f'code = "{CODE}"').replace('code="mock"', f'code="{CODE}"')
            text = text.replace('start("mock")', f'start("{CODE}")')
            path.write_text(text.replace('"mock in-process"', '"acme in-process"').replace('"mock": H', '"acme": H'), "utf-8")


@pytest.mark.timeout(600)
def test_a_scaffold_is_found_and_fails_until_it_is_filled_and_then_everything_knows_it(copy: Path, database: str) -> None:
    before = _fingerprint(copy)
    written = _python(copy, "-m", "vendors.scaffold", CODE, NAME)
    assert written.returncode == 0, written.stderr
    assert {line for line in written.stdout.splitlines() if "/" in line and " " not in line} == {
        name for name in _fingerprint(copy) if name.startswith(OWN)
    }
    again = _python(copy, "-m", "vendors.scaffold", CODE, NAME)
    assert (again.returncode, again.stderr) == (2, f"vendors/{FOLDER} exists\n")

    unfilled = _suite(copy, "tests/vendors/test_contract.py", "-k", f"{CODE} and opens_its_doors")
    assert unfilled.returncode == 1
    assert "its harness is not written yet" in unfilled.stdout
    honest = _suite(copy, "tests/architecture/test_vendor_folders.py", "-k", f"{CODE} and unwritten")
    assert honest.returncode == 1
    assert "Left contains 5 more items" in honest.stdout  # each of its texts

    _fill(copy)
    contract = _suite(
        copy, "tests/vendors/test_contract.py", "-k", "acme and (opens_its or taken or gone or names or harness_too)"
    )
    assert contract.returncode == 0, contract.stdout[-4000:]
    assert int(contract.stdout.rpartition(" passed")[0].split()[-1]) > 20
    folders = _suite(copy, "tests/architecture/test_vendor_folders.py")
    assert folders.returncode == 0, folders.stdout[-4000:]
    simulator = _python(copy, "-m", "vendors.simulate", "no-such-vendor")
    assert CODE in simulator.stderr

    (copy / "tests" / "vendors" / FOLDER / "test_service.py").write_text(THROUGH_THE_SERVICE)
    service = _suite(copy, f"tests/vendors/{FOLDER}/test_service.py")
    assert service.returncode == 0, service.stdout[-4000:]

    after = {name: digest for name, digest in _fingerprint(copy).items() if not name.startswith(OWN)}
    assert after == before

    assert _python(copy, "-m", "tests.architecture.generated_docs").returncode == 0
    assert f"| `{CODE}` | {NAME} |" in (copy / "README.md").read_text()
    assert f"vendors/{FOLDER}/runbook.md" in (copy / "docs" / "runbooks" / "lock" / "vendor.md").read_text()


@pytest.mark.parametrize(
    ("kinds", "line"),
    [
        ("pin_code,rfid_card", "desk_kinds=(CredentialKind.RFID_CARD,),"),
        ("rfid_card,nfc_tag", "desk_kinds=(CredentialKind.RFID_CARD, CredentialKind.NFC_TAG),"),
        ("pin_code,mobile_app", None),
    ],
)
def test_cards_are_written_down_as_kinds_for_the_desk(tmp_path: Path, kinds: str, line: str | None) -> None:
    _python(ROOT, "-m", "vendors.scaffold", CODE, NAME, "--kinds", kinds, "--into", str(tmp_path))
    text = (tmp_path / "vendors" / FOLDER / "manifest.py").read_text()
    compile(text, "manifest.py", "exec")
    assert [found.strip() for found in text.splitlines() if "desk_kinds" in found] == ([line] if line else [])
    assert ("need a person at the desk" in text) == (line is not None)


@pytest.mark.parametrize("code", ["Acme", "-acme", "acme--locks", "a" * 41, "acme/../x", ""])
def test_a_code_that_is_none_is_refused_and_nothing_is_written(tmp_path: Path, code: str) -> None:
    done = _python(ROOT, "-m", "vendors.scaffold", "--into", str(tmp_path), "--", code, NAME)
    assert done.returncode == 2
    assert list(tmp_path.iterdir()) == []
