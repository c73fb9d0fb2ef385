"""A run of the suite ends with the seconds of each folder, and pytest's closing line after them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lockservice.embedded.local import REPOSITORY_ROOT

CONFTEST = """
import pytest
from tests.support.folder_seconds import FolderSeconds

def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(FolderSeconds())

@pytest.hookimpl(tryfirst=True, wrapper=True)
def pytest_runtest_makereport(item, call):
    call.duration = 2.0 if "slow" in item.nodeid else 0.25
    return (yield)
"""


@pytest.mark.parametrize("options", [(), ("-p", "xdist", "-n", "2")], ids=["one process", "two workers"])
def test_a_run_prints_the_seconds_of_each_folder_before_its_closing_line(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for name, tests in {"quick": 2, "slow": 3}.items():
        folder = tmp_path / "tests" / name / "deeper"
        folder.mkdir(parents=True)
        (folder / f"test_{name}.py").write_text("\n".join(f"def test_{n}(): pass" for n in range(tests)))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-c",
            os.devnull,
            "--rootdir",
            str(tmp_path),
            "-p",
            "no:cacheprovider",
            *options,
            "tests",
        ],
        cwd=tmp_path,
        env=kept | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(REPOSITORY_ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    *_, slow, quick, total, closing = done.stdout.splitlines()
    assert [line.split() for line in (slow, quick, total)] == [
        ["18.0", "s", "3", "tests", "tests/slow"],
        ["1.5", "s", "2", "tests", "tests/quick"],
        ["19.5", "s", "5", "tests", "in", "all"],
    ]
    assert re.fullmatch(r"=+ 5 passed in [0-9.]+s =+", closing)
