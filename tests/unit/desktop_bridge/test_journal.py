"""What a desk remembers over a crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from desktop_bridge.journal import Journal
from vendors.port.relay import DeskJob, DeskResult, Outcome, Refusal, Stage

JOB = DeskJob("job_1", "a-vendor", "encode", {"uid": "04AB"}, {"301": 2}, True, 30.0)


def test_a_job_is_there_after_a_crash_at_every_step(tmp_path: Path) -> None:
    path = tmp_path / "journal.json"
    journal = Journal(path)
    steps = [
        (lambda: journal.take(JOB), (False, None, "", None)),
        (lambda: journal.begin("job_1"), (True, None, "", None)),
        (lambda: journal.reach("job_1", Stage.WRITING, "04AB"), (True, Stage.WRITING, "04AB", None)),
        (
            lambda: journal.finish("job_1", DeskResult(Outcome.REFUSED, Refusal.FAILED, "no", {"a": 1})),
            (True, Stage.WRITING, "04AB", DeskResult(Outcome.REFUSED, Refusal.FAILED, "no", {"a": 1})),
        ),
    ]
    for step, expected in steps:
        step()
        entry = Journal(path).find("job_1")
        assert entry is not None
        assert (entry.has_begun, entry.stage, entry.note, entry.result) == expected
        assert (entry.job.body, entry.job.numbers) == (JOB.body, JOB.numbers)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_job_offered_again_keeps_what_is_known_of_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.json")
    journal.take(JOB)
    journal.begin("job_1")
    assert journal.take(JOB).has_begun
    assert journal.open_jobs() == ("job_1",)


def test_a_receipt_ends_a_job_unless_its_fate_is_open(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.json")
    journal.take(JOB)
    journal.begin("job_1")
    journal.finish("job_1", DeskResult(Outcome.UNKNOWN))
    journal.forget("job_1")
    assert journal.open_jobs() == ("job_1",)
    journal.finish("job_1", DeskResult(Outcome.DONE))
    journal.forget("job_1")
    assert journal.open_jobs() == ()


def test_a_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.json"
    path.write_text('{"format": 9}', encoding="utf-8")
    with pytest.raises(ValueError, match="journal"):
        Journal(path)
