"""The tests' settings with crash points in the database backend.

Rule: whoever starts a process with these names the database in LOCK_DB_NAME.
"""

from __future__ import annotations

import os

os.environ["LOCK_LOG_LEVEL"] = "CRITICAL"  # every second line would report a point of death

from lockservice.settings.testing import *  # noqa: F403 - settings build on each other

DATABASES["default"]["ENGINE"] = "tests.support.sweep_backend"  # noqa: F405 - as above
CELERY_BROKER_URL = "memory://"  # wake-ups are hints; what is due stands in rows
