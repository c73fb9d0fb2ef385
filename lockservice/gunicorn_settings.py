"""What gunicorn does around its workers: `gunicorn --config python:lockservice.gunicorn_settings …`.

The one rule: figures of all workers lie in one folder (PROMETHEUS_MULTIPROC_DIR), emptied when the server starts.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

from prometheus_client import multiprocess

worker_class = "lockservice.web_worker.Worker"
TEND_EVERY_S = 1.0
_FOLDER = "PROMETHEUS_MULTIPROC_DIR"


def on_starting(server: Any) -> None:
    """Empties the folder of figures, before the first worker writes there."""
    folder = os.environ.get(_FOLDER)
    if folder:
        place = Path(folder)
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left_over in place.glob("*.db"):
            left_over.unlink()


def post_worker_init(worker: Any) -> None:
    """Looks after the idle connections of a worker, so that those a database restart has cut are gone within a second."""
    threading.Thread(target=_tend_pool, name="pool", daemon=True).start()


def _tend_pool() -> None:
    from django.db import connection

    from lockservice.core.loops import LoopGuard

    with LoopGuard("pool") as guard:
        while True:
            time.sleep(TEND_EVERY_S)
            try:
                pool = getattr(connection, "pool", None)  # Django's type does not tell of it
                if pool is not None and not pool.closed:  # it opens with the worker's first query
                    pool.check()
            except Exception as error:  # noqa: BLE001 - the guard logs it; idle connections are then found by whoever uses them
                guard.failed(error)
            else:
                guard.succeeded()


def child_exit(server: Any, worker: Any) -> None:
    """Tells the figures that a worker is gone."""
    if os.environ.get(_FOLDER):
        multiprocess.mark_process_dead(worker.pid)
