"""What `make test` leaves out of the contract suite costs no pair of harness, kind, trouble, verb or other parameter."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from lockservice.embedded.local import REPOSITORY_ROOT
from tests.vendors import matrix, pairs
from tests.vendors.site import Trouble

pytestmark = pytest.mark.timeout(300)  # collecting is slow where many others work
SUITE = sorted(str(file.relative_to(REPOSITORY_ROOT)) for file in (REPOSITORY_ROOT / "tests/vendors").glob("test_contract*.py"))


# Collects and says of each case whether it stays or is left out by the usual selection of marks.
COLLECT = """
import sys
import pytest

class Say:
    def pytest_deselected(self, items):
        print("\\n".join(f"left {item.nodeid}" for item in items))

    def pytest_collection_finish(self, session):
        print("\\n".join(f"runs {item.nodeid}" for item in session.items))

sys.exit(pytest.main(sys.argv[1:], plugins=[Say()]))
"""
# What the settings in pyproject.toml need, and no more: the others take longer to load than the collection does.
PLUGINS = ["-p", "pytest_django.plugin", "-p", "pytest_socket", "-p", "pytest_timeout"]


@pytest.fixture(scope="module")
def collected() -> dict[str, list[pairs.Case]]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "LOCK_"))}
    done = subprocess.run(
        [sys.executable, "-c", COLLECT, "--collect-only", "-qq", *PLUGINS, *SUITE],
        cwd=REPOSITORY_ROOT,
        env=kept | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    return {word: pairs.words().read("\n".join(line for line in lines if line.startswith(word))) for word in ("runs", "left")}


@pytest.fixture
def run_by_test(collected: dict[str, list[pairs.Case]]) -> list[pairs.Case]:
    return collected["runs"]


@pytest.fixture
def left_to_chaos(collected: dict[str, list[pairs.Case]]) -> list[pairs.Case]:
    return collected["left"]


def test_every_pair_of_the_registry_is_run_by_make_test(run_by_test: list[pairs.Case]) -> None:
    found = pairs.pairs(run_by_test)
    harnesses = matrix.places()
    assert found["harness × trouble"] == {(place.name, trouble) for place in harnesses for trouble in place.harness.troubles}
    assert found["harness × verb"] == {(place.name, verb) for place in harnesses for verb in pairs.VERBS}
    assert found["harness × kind"] == {(place.name, kind) for place in harnesses for kind in place.manifest.kinds}
    broken = (Trouble.RESET_BEFORE, Trouble.RESET_AFTER, Trouble.HTML_AFTER)
    assert found["verb × trouble"] >= {("issue", trouble) for trouble in Trouble}
    assert found["verb × trouble"] >= {(verb, trouble) for verb in pairs.VERBS for trouble in broken}


def test_no_pair_is_run_by_make_chaos_alone(run_by_test: list[pairs.Case], left_to_chaos: list[pairs.Case]) -> None:
    assert left_to_chaos
    assert pairs.lost(pairs.pairs(left_to_chaos), pairs.pairs(run_by_test)) == {}


def test_every_case_of_a_harness_first_kind_is_run_by_make_test(left_to_chaos: list[pairs.Case]) -> None:
    first = {place.name: place.manifest.kinds[0] for place in matrix.places() if not place.harness.runs_again}
    assert [case for case in left_to_chaos if case["kind"] == first.get(case["harness"])] == []


def test_a_lost_pair_is_named() -> None:
    known = pairs.words()
    one = "tests/vendors/test_contract_faults.py::test_x[mock-pin_code-reset_after-update]\n"
    other = "tests/vendors/test_contract_faults.py::test_x[mock in-process-pin_code-reset_before-update]\n"
    assert known.read(f"{one}some other line\n") == [
        {
            "test": "tests/vendors/test_contract_faults.py::test_x",
            "harness": "mock",
            "kind": "pin_code",
            "trouble": "reset_after",
            "verb": "update",
        }
    ]
    gone = pairs.lost(pairs.pairs(known.read(one + other)), pairs.pairs(known.read(one)))
    assert gone["harness × trouble"] == {("mock in-process", "reset_before")}
    assert gone["verb × trouble"] == {("update", "reset_before")}
    assert "harness × kind" in gone
    assert "verb × test" not in gone
