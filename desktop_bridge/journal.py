"""What a desk must know after a crash: every job it accepted, how far it came, and what came of it.

One rule: it is on disk before the next step is taken, as one file that is written beside and moved into place.
"""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vendors.port.relay import DeskJob, DeskResult, Outcome, Refusal, Stage

FORMAT = 1


@dataclass
class Entry:
    """A job at this desk. `has_begun` says that it was told to; `result` is there once something came of it."""

    job: DeskJob
    has_begun: bool = False
    stage: Stage | None = None
    note: str = ""
    result: DeskResult | None = None


class Journal:
    """The jobs of one desk. Safe in threads. Raises OSError where the disk takes nothing: the step must not be taken then."""

    def __init__(self, path: Path) -> None:
        """Reads what an earlier process left. Raises ValueError for a file that is none of ours."""
        self._path = path
        self._lock = threading.Lock()
        self._entries: dict[str, Entry] = {}
        if path.exists():
            self._entries = _read(json.loads(path.read_text(encoding="utf-8")))

    def find(self, job_id: str) -> Entry | None:
        """Returns a job of this desk."""
        with self._lock:
            return self._entries.get(job_id)

    def open_jobs(self) -> tuple[str, ...]:
        """Returns the jobs without a receipt, oldest first."""
        with self._lock:
            return tuple(self._entries)

    def take(self, job: DeskJob) -> Entry:
        """Notes a job, or returns the one noted under its id."""
        with self._lock:
            entry = self._entries.setdefault(job.job_id, Entry(job))
            self._save()
            return entry

    def begin(self, job_id: str) -> None:
        """Notes that the job was told to begin."""
        self._change(job_id, has_begun=True)

    def reach(self, job_id: str, stage: Stage, note: str) -> None:
        """Notes a stage."""
        self._change(job_id, stage=stage, note=note)

    def finish(self, job_id: str, result: DeskResult) -> None:
        """Notes what came of a job."""
        self._change(job_id, result=result)

    def forget(self, job_id: str) -> None:
        """Drops a job the service has a receipt for; one in doubt stays, since it will be asked for again."""
        with self._lock:
            entry = self._entries.get(job_id)
            if entry is not None and (entry.result is None or entry.result.outcome is not Outcome.UNKNOWN):
                del self._entries[job_id]
                self._save()

    def drop(self, job_id: str) -> None:
        """Drops a job the service knows nothing of, or will offer again."""
        with self._lock:
            if self._entries.pop(job_id, None) is not None:
                self._save()

    def _change(self, job_id: str, **changes: Any) -> None:
        with self._lock:
            entry = self._entries.get(job_id)
            if entry is None:
                return
            for name, value in changes.items():
                setattr(entry, name, value)
            self._save()

    def _save(self) -> None:
        rows = [_row(entry) for entry in self._entries.values()]
        beside = self._path.with_name(f"{self._path.name}.new")
        with open(beside, "w", encoding="utf-8", opener=_private) as file:
            json.dump({"format": FORMAT, "jobs": rows}, file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _row(entry: Entry) -> dict[str, Any]:
    job, result = entry.job, entry.result
    row: dict[str, Any] = {
        "jobId": job.job_id, "vendor": job.vendor, "action": job.action, "body": dict(job.body), "numbers": dict(job.numbers),
        "needsCard": job.needs_card, "begun": entry.has_begun, "stage": entry.stage, "note": entry.note,
    }  # fmt: skip
    if result is not None:
        row["result"] = {
            "outcome": result.outcome, "refusal": result.refusal, "detail": result.detail, "body": dict(result.result),
        }  # fmt: skip
    return row


def _read(document: Any) -> dict[str, Entry]:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError("not a desk's journal")
    return {row["jobId"]: _entry(row) for row in document["jobs"]}


def _entry(row: dict[str, Any]) -> Entry:
    job = DeskJob(row["jobId"], row["vendor"], row["action"], row["body"], row["numbers"], row["needsCard"])
    said = row.get("result")
    result = None
    if said is not None:
        refusal = Refusal(said["refusal"]) if said["refusal"] else None
        result = DeskResult(Outcome(said["outcome"]), refusal, said["detail"], said["body"])
    stage = Stage(row["stage"]) if row["stage"] else None
    return Entry(job, row["begun"], stage, row["note"], result)
