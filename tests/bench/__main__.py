"""`make bench`: measures the service on servers of its own and writes `.local/bench.json`.

    python -m tests.bench [--only NAME …] [--runs N] [--queued N] [--bookings N --dead-s S --dead VENDOR --vendors V,V]

Method: fsync on, same machine, same minute; ours and raw in turn, all runs counted; the data is checked afterwards.
"""

from __future__ import annotations

import argparse
import os
import platform
import secrets
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
os.environ.setdefault("MELMASTOON_LOCAL", str(ROOT / ".local" / "bench"))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "lockservice.settings.embedded")
os.environ.setdefault("LOCK_LOG_LEVEL", "ERROR")
os.environ["LOCK_DB_NAME"] = f"bench_{secrets.token_hex(4)}"
os.environ.setdefault("LOCK_DB_POOL_MAX", "8")


def main() -> int:
    """Runs the benchmarks."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--queued", type=int, default=10_000)
    isolated = parser.add_argument_group("vendor_isolation")
    isolated.add_argument("--bookings", type=int, default=1000, help="at each vendor; default 1000")
    isolated.add_argument(
        "--dead-s", type=float, default=300.0, help="seconds of being dead, over which they arrive; default 300"
    )
    isolated.add_argument("--dead", default="", help="which vendor; default: the first")
    isolated.add_argument(
        "--how", choices=("hang", "drop"), default="hang", help="never answers (default), or hangs up at once"
    )
    isolated.add_argument("--pairs", type=int, default=1, help="of runs, all live and one dead; default 1")
    isolated.add_argument("--vendors", default="", help="such as ttlock,salto; default: the demo's")
    options = parser.parse_args()

    from lockservice.embedded import roles, servers
    from lockservice.embedded.local import LocalDirectory

    local = LocalDirectory.from_environment().prepare()
    servers.start(local)
    name = os.environ["LOCK_DB_NAME"]
    for left_over in roles.databases(local, "bench_"):
        roles.drop_database(local, left_over)
    roles.create_database(local, name)
    migrate = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
    subprocess.run(migrate, cwd=ROOT, env={**os.environ, "LOCK_DB_LOGIN": "owner"}, check=True)
    import django

    django.setup()
    from django.conf import settings

    from tests.bench import isolation, measures, raw
    from tests.bench.report import Report

    raw.prepare(local, name)
    print(f"python {platform.python_version()}, {os.cpu_count()} cores, {options.runs} runs each, fsync on", flush=True)
    report = Report()
    vendors = tuple(filter(None, options.vendors.split(","))) or settings.DEMO_VENDOR_CODES
    plan = isolation.Plan(vendors, options.dead or vendors[0], options.bookings, options.dead_s, options.how, options.pairs)
    bench = measures.Bench(local, name, options.runs, options.queued, report, plan)
    try:
        for measure in measures.ALL:
            if not options.only or measure in options.only:
                getattr(bench, measure)()
    finally:
        bench.close()
        servers.stop(local)
    report.write(ROOT / ".local" / "bench.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
