"""Starts benchmark children, lets them go together, and collects what they say."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any


class Workers:
    """A set of children of given roles."""

    def __init__(self, *roles: str) -> None:
        self._children = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.bench.child", role], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for role in roles
        ]
        for child in self._children:
            assert child.stdout is not None
            assert child.stdout.readline().strip() == "ready"

    def go(self) -> None:
        """Lets all begin (or, called again, end)."""
        for child in self._children:
            assert child.stdin is not None
            child.stdin.write("\n")
            child.stdin.flush()

    def answers(self) -> list[dict[str, Any]]:
        """Waits for all and returns what each did."""
        return [json.loads(child.communicate(timeout=300)[0]) for child in self._children]

    def kill(self) -> None:
        """Ends all at once."""
        for child in self._children:
            if child.poll() is None:
                child.kill()
                child.communicate()
