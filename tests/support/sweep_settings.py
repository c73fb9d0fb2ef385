"""The tests' settings with crash points in the database backend and retries twenty times quicker.

Rule: whoever starts a process with these names the database in LOCK_DB_NAME.
"""

from __future__ import annotations

import os

os.environ["LOCK_LOG_LEVEL"] = "CRITICAL"  # every second line would report a point of death

from lockservice.settings.testing import *

DATABASES["default"]["ENGINE"] = "tests.support.sweep_backend"
RETRY_SCALE = 0.05  # first retry after 100 ms in place of 2 s: later than an idle lane is given back
CELERY_BROKER_URL = "memory://"  # wake-ups are hints; what is due stands in rows
