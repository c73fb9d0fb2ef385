"""`manage.py` run by the wrong interpreter: it says what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_an_interpreter_without_django_is_told_which_one_to_take() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "manage.py", "try_door", "101"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    (said,) = done.stderr.splitlines()
    assert "no Django" in said
    assert ".venv/bin/python manage.py" in said
