"""The rooms keep to their walls: by the import contract, and by what is really loaded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PURE_ROOMS = [
    "vendors",
    "sagas.events",
    "credentials.lifecycle",
    "credentials.policy",
    "credentials.scopes",
    "lockservice.embedded",
    "lockservice.supervisor",
    "lockservice.replay.generate",
    "lockservice.replay.timeline",
    "lockservice.demo.places",
]

# Loads a room with everything in it and tells what came along.
LOAD_ALL = """
import importlib, json, pkgutil, sys
room = importlib.import_module(sys.argv[1])
loaded = [room.__name__]
for found in pkgutil.walk_packages(getattr(room, "__path__", []), room.__name__ + "."):
    if not found.name.endswith("__main__") and not found.name.endswith(".tether"):
        importlib.import_module(found.name)
        loaded.append(found.name)
print(json.dumps({"loaded": loaded, "modules": sorted({name.partition(".")[0] for name in sys.modules})}))
"""


@pytest.mark.timeout(300)
def test_the_import_contract_holds() -> None:
    # In a process of its own: it sets logging up anew, and every logger of this one would be silent from then on.
    command = [Path(sys.executable).with_name("lint-imports"), "--config", ROOT / "pyproject.toml", "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("room", PURE_ROOMS)
def test_a_pure_room_loads_no_framework(room: str) -> None:
    done = subprocess.run([sys.executable, "-c", LOAD_ALL, room], cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert room in found["loaded"]
    frameworks = {"django", "rest_framework", "celery", "django_fsm", "channels"}
    assert frameworks.intersection(found["modules"]) == set()


def test_the_search_for_frameworks_would_find_one() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOAD_ALL, "lockservice.wsgi"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "django" in json.loads(done.stdout)["modules"]
