"""A plugin of pytest that ends a run in failure if a planted secret stands anywhere in what the run wrote.

It looks into everything tests print, log, raise and warn of, in all workers; the result file; the logs of processes and of the
database; Valkey's contents and its append-only file, which holds every message that was ever sent through it; and every row of every
table: outbox, inbox, sagas, dead letters, alerts and all others.

One rule: a leak is told by its place; the secret itself is not repeated.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lockservice.embedded import postgres, valkey
from lockservice.embedded.local import LocalDirectory
from tests.support import leak_search, marked
from tests.support.leak_search import Leak
from tests.support.marked import MARKS

DATABASE = "LOCK_DB_NAME"
_PLANTED = "planted"


class LeakWatch:
    """Registered by tests/conftest.py; does its work in the process that reports, not in parallel workers."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._is_worker = hasattr(config, "workerinput")
        self._exact: set[str] = set()
        self._texts: list[tuple[str, str]] = []
        self._leaks: list[Leak] = []
        self._searched: Counter[str] = Counter()
        self._local = LocalDirectory.from_environment()
        self._starts = {file: file.stat().st_size for file in self._files()}

    # --- while tests run

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keeps what a test's phase printed, logged, recorded and raised, if it may matter."""
        if self._is_worker:
            return
        for name, content in self._parts(report):
            self._searched["characters of output and failures"] += len(content)
            self._leaks += leak_search.in_text(MARKS, frozenset(), content, f"{report.nodeid}, {name}")
            self._texts.append((f"{report.nodeid}, {name}", content))

    def pytest_warning_recorded(self, warning_message: Any, nodeid: str) -> None:
        """Keeps warnings."""
        if not self._is_worker:
            self._texts.append((f"{nodeid}, warning", str(warning_message.message)))
            self._leaks += leak_search.in_text(MARKS, frozenset(), str(warning_message.message), f"{nodeid}, warning")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Takes over what a parallel worker planted."""
        self._exact |= set(getattr(node, "workeroutput", {}).get(_PLANTED, ()))

    # --- at the end

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Searches, and lets the run fail if something was found."""
        if self._is_worker:
            self._config.workeroutput[_PLANTED] = sorted(marked.planted())  # type: ignore[attr-defined]
            return
        exact = frozenset(self._exact | marked.planted())
        if exact:
            for place, text in self._texts:
                self._leaks += leak_search.in_text(MARKS, exact, text, place)
        self._search_files(exact)
        self._search_servers(exact)
        self._searched["unmarked secrets noted"] = len(exact)
        if self._leaks:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Says what was found, or what was searched in vain."""
        terminalreporter.section("planted secrets")
        searched = ", ".join(f"{count} {what}" for what, count in sorted(self._searched.items()))
        if self._leaks:
            lines = leak_search.told(self._leaks)
            terminalreporter.write_line(f"{len(lines)} places hold a planted secret:", red=True)
            terminalreporter.write("\n".join([*lines, ""]))
        terminalreporter.write_line(f"{'no planted secret in' if not self._leaks else 'searched'} {searched}")

    # --- parts

    def _parts(self, report: pytest.TestReport) -> list[tuple[str, str]]:
        parts = [(name, content) for name, content in report.sections if content]
        if report.longrepr:
            parts.append(("failure", report.longreprtext))
        parts += [(f"property {name}", str(value)) for name, value in report.user_properties]
        return parts

    def _files(self) -> list[Path]:
        folders = (self._local.log, self._local.valkey)
        return sorted(file for folder in folders if folder.is_dir() for file in folder.rglob("*") if file.is_file())

    def _search_files(self, exact: frozenset[str]) -> None:
        files = [(file, self._starts.get(file, 0)) for file in self._files()]
        if result := getattr(self._config.option, "xmlpath", None):
            files += [(Path(result), 0)] if Path(result).is_file() else []
        for file, start in files:
            try:
                found, size = leak_search.in_file(MARKS, exact, file, start if start <= file.stat().st_size else 0)
            except FileNotFoundError:
                continue  # Valkey rewrote its file meanwhile; the new one is in the list or is read through the server
            self._leaks += found
            self._searched["bytes of logs and Valkey's file"] += size

    def _search_servers(self, exact: frozenset[str]) -> None:
        if valkey.running_pid(self._local) is not None:
            found, keys = leak_search.in_valkey(MARKS, exact, self._local)
            self._leaks += found
            self._searched["keys in Valkey"] += keys
        name = os.environ.get(DATABASE, "")
        if name and (self._local.run / f"{name}.migrated").exists() and postgres.is_ready(self._local):
            leaks, rows = leak_search.in_database(MARKS, self._local, name)
            self._leaks += leaks
            self._searched["rows"] += sum(rows.values())
            self._searched["tables"] += len(rows)
