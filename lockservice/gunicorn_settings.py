"""What gunicorn does around its workers: `gunicorn --config python:lockservice.gunicorn_settings …`.

The one rule: figures of all workers lie in one folder (PROMETHEUS_MULTIPROC_DIR), emptied when the server starts.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from prometheus_client import multiprocess

_FOLDER = "PROMETHEUS_MULTIPROC_DIR"


def on_starting(server: Any) -> None:
    """Empties the folder of figures, before the first worker writes there."""
    folder = os.environ.get(_FOLDER)
    if folder:
        place = Path(folder)
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left_over in place.glob("*.db"):
            left_over.unlink()


def child_exit(server: Any, worker: Any) -> None:
    """Tells the figures that a worker is gone."""
    if os.environ.get(_FOLDER):
        multiprocess.mark_process_dead(worker.pid)
