"""One flow of the sweep as a program.

    python -m tests.support.sweep_run "issue" '{"setting": "mock://…", "control": "http://…", "redis": "redis://…"}' distinct

prints one line of JSON: the names of the points, which were chosen, where the processes died, the undisturbed end, and what differed.

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
    json.dump(sweep(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]), sys.stdout)


if __name__ == "__main__":
    main()
