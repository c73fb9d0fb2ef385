"""Embedded mode for the test suite: servers of its own, a database for each session.

The one rule: the first process of a session chooses directory and database name and leaves both in
the environment, so that parallel workers and child processes of tests meet in the same place.
"""

import os
import secrets

from lockservice.embedded.local import ENVIRONMENT_NAME, REPOSITORY_ROOT

os.environ.setdefault(ENVIRONMENT_NAME, str(REPOSITORY_ROOT / ".local" / "test-servers"))
# The process id tells later sessions whether this database is still in use.
os.environ.setdefault("LOCK_DB_NAME", f"test_{os.getpid()}_{secrets.token_hex(4)}")
os.environ.setdefault("LOCK_LOG_LEVEL", "WARNING")

from lockservice.settings.embedded import *  # reads the environment set above

# Raises where something slow happens inside a transaction.
DATABASES["default"]["ENGINE"] = "tests.support.guarded_backend"

# Each Client of a test makes its middleware anew; without this each would first look through all static files.
WHITENOISE_AUTOREFRESH = True
