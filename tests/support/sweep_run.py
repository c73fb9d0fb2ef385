"""One flow of the sweep as a program.

    python -m tests.support.sweep_run "issue" '{"setting": "mock://…", "control": "http://…", "redis": "redis://…"}' [point]

prints one line of JSON: the names of the points, where the processes died, the undisturbed end, and what differed.

Rule: Django is set up here, once, before anything is imported that needs it.
"""

from __future__ import annotations

import json
import os
import sys

import django


def main() -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.support.sweep_settings"
    django.setup()
    from tests.support.sweep_points import sweep, warm_up  # needs the settings

    warm_up()
    only = int(sys.argv[3]) if len(sys.argv) > 3 else None
    json.dump(sweep(sys.argv[1], json.loads(sys.argv[2]), only), sys.stdout)


if __name__ == "__main__":
    main()
