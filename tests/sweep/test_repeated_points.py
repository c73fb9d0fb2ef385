"""A point is left out of `make test` only where nothing that outlives the process happened since the point before."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lockservice.embedded.local import REPOSITORY_ROOT

CHILD = """
import json, os, sys, urllib.request
import redis
from tests.support import crash_points
crash_points.watch()
points = crash_points.arm(crash_points.CrashPoints())
crash_points.reach("first")
{between}
crash_points.reach("second")
print(json.dumps(points.repeats))
"""


@pytest.mark.parametrize(
    ("between", "repeats"),
    [
        ("", [2]),
        ("open(os.devnull).read()", [2]),
        ("with crash_points.paused(): crash_points.leave_trace()", [2]),
        ("crash_points.leave_trace()", []),
        ("open(sys.argv[1], 'w').close()", []),
        ("os.mkdir(sys.argv[1])", []),
        ("redis.Redis(unix_socket_path=sys.argv[1]).connection_pool.get_encoder()", [2]),
        ("redis.Redis.from_url(sys.argv[2]).ping()", []),
    ],
)
def test_only_what_leaves_nothing_repeats_the_point_before(
    between: str, repeats: list[int], tmp_path: Path, valkey_url: str
) -> None:
    argv = [sys.executable, "-c", CHILD.format(between=between), str(tmp_path / "trace"), valkey_url]
    told = subprocess.run(argv, cwd=REPOSITORY_ROOT, check=True, capture_output=True, text=True)
    assert json.loads(told.stdout) == repeats
