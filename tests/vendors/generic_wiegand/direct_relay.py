"""A relay with the desk right behind it: the same promises as the one of rows and frames, without either.

Used where adapter, desk driver and doors are the matter; the real relay has tests of its own in tests/relay.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

from vendors.generic_wiegand.virtual_encoder import VirtualEncoder
from vendors.port.relay import DeskJob, DeskResult, JobStanding, JobState, Outcome, RelayJob, Stage, no_desk

_ENDED = {JobState.REFUSED, JobState.CANCELLED, JobState.EXPIRED}
_STATES = {Outcome.NEVER_SEEN: JobState.UNKNOWN}


class Work:
    """A job at the desk; the driver's Progress."""

    def __init__(self, job: RelayJob, job_id: str, numbers: dict[str, int]) -> None:
        self.job = job
        self.desk_job = DeskJob(job_id, "generic-wiegand", job.action, job.body, numbers, job.needs_card, job.timeout_s)
        self.standing = JobStanding(
            job_id,
            job.action,
            job.credential_id,
            JobState.WAITING,
            job.doors,
            numbers,
            lasts_until=job.lasts_until,
            desk_id="dev_desk",
        )
        self.stage: Stage | None = None
        self.note = ""
        self.is_called_off = False

    def reach(self, stage: Stage, note: str = "") -> None:
        self.stage, self.note = stage, note

    def settle(self, said: DeskResult) -> None:
        state = _STATES.get(said.outcome) or JobState(said.outcome.value)
        self.standing = replace(
            self.standing, state=state, stage=self.stage, refusal=said.refusal, detail=said.detail, result=said.result
        )


class DirectRelay:
    """Implements vendors.port.relay.Relay. `is_held` leaves jobs waiting, as a desk does whose person is away."""

    def __init__(self, driver: VirtualEncoder) -> None:
        self.driver = driver
        self.works: list[Work] = []
        self.submitted = 0
        self.is_connected = True
        self.is_held = False
        self._ids = itertools.count(1)
        self._given: dict[str, int] = {}
        self._written: dict[str, int] = {}

    def submit(self, job: RelayJob) -> JobStanding:
        if not self.is_connected:
            raise no_desk("generic-wiegand")
        self.submitted += 1
        work = next((w for w in reversed(self.works) if w.job.key == job.key), None)
        if work is not None and work.standing.state is JobState.UNKNOWN:
            work.settle(self.driver.recall(work.desk_job, work.stage, work.note))
        elif work is None or work.standing.state in _ENDED:
            work = self._begin(job)
        return work.standing

    def await_end(self, job_id: str, wait_s: float) -> JobStanding:
        return self._of(job_id).standing

    def cancel(self, job_id: str) -> JobStanding:
        work = self._of(job_id)
        if work.standing.state is JobState.WAITING:
            work.settle(DeskResult(Outcome.CANCELLED))
        return work.standing

    def of_credential(self, credential_id: str) -> tuple[JobStanding, ...]:
        return tuple(w.standing for w in self.works if w.job.credential_id == credential_id)

    def do(self, work: Work) -> None:
        """Lets the desk do a job that was held."""
        work.settle(self.driver.do(work.desk_job, work))
        if work.standing.state in (JobState.DONE, JobState.UNKNOWN):
            self._written |= {p: max(n, self._written.get(p, 0)) for p, n in work.standing.numbers.items()}

    def _begin(self, job: RelayJob) -> Work:
        numbers = {place: self._written.get(place, 0) for place in job.keep}
        before = {place: self._written.get(place, 0) for place in job.advance}
        for place in job.advance:
            numbers[place] = self._given[place] = max(self._given.get(place, 0), self._written.get(place, 0)) + 1
        outranked = [
            w.job.credential_id
            for w in self.works
            if w.standing.state is JobState.DONE
            and w.job.credential_id != job.credential_id
            and any(w.standing.numbers.get(place) == number for place, number in before.items())
        ]
        work = Work(job, f"job_{next(self._ids)}", numbers)
        work.standing = replace(work.standing, outranked=tuple(dict.fromkeys(outranked)))
        self.works.append(work)
        if not self.is_held:
            self.do(work)
        return work

    def _of(self, job_id: str) -> Work:
        return next(w for w in self.works if w.standing.job_id == job_id)
