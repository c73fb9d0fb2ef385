"""A plugin of pytest that prints how long the tests of each folder took, so that one sees where the suite's time goes.

The seconds are those of setup, call and teardown, added up over parallel workers. Session fixtures count for the test that
needed them first.
"""

from __future__ import annotations

from collections import Counter
from pathlib import PurePosixPath

import pytest


class FolderSeconds:
    """Registered by tests/conftest.py; counts in the process that reports, not in parallel workers."""

    def __init__(self) -> None:
        self._seconds: Counter[str] = Counter()
        self._tests: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a phase of a test to its folder."""
        folder = "/".join(PurePosixPath(report.nodeid.partition("::")[0]).parts[:2])
        self._seconds[folder] += report.duration
        self._tests[folder] += report.when == "setup"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the folders, the slowest first."""
        terminalreporter.section("seconds by folder")
        for folder, seconds in self._seconds.most_common():
            terminalreporter.write_line(f"{seconds:8.1f} s {self._tests[folder]:6} tests  {folder}")
        terminalreporter.write_line(f"{self._seconds.total():8.1f} s {self._tests.total():6} tests  in all")
