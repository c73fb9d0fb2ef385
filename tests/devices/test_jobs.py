"""The scheduler's jobs of locks and pushes are known to the workers, on queues that are served."""

from __future__ import annotations

import inspect

import pytest
from django.conf import settings

from devices import health_poll
from lockservice.celery import app
from sagas import tasks
from sagas.flows import read_log, take_webhook
from sagas.management.commands import run_sagas


@pytest.mark.parametrize(("job", "every_s"), [("webhooks", 5.0), ("health", 60.0), ("logs", 20.0)])
def test_a_job_names_a_task_and_a_queue_that_exist(job: str, every_s: float) -> None:
    entry = settings.CELERY_BEAT_SCHEDULE[job]
    app.loader.import_default_modules()
    assert entry["task"] in app.tasks
    assert entry["options"]["queue"] in {queue.name for queue in settings.CELERY_TASK_QUEUES}
    assert entry["schedule"] == every_s
    assert entry["options"]["expires"] <= 2 * every_s


def test_a_job_fits_into_a_tasks_time() -> None:
    longest_call_s = 75
    assert health_poll.MAX_S + longest_call_s < settings.CELERY_TASK_SOFT_TIME_LIMIT
    assert health_poll.MAX_S + longest_call_s < health_poll.LEASE_S


def test_the_wake_up_of_a_push_is_the_schedulers_task_and_run_sagas_needs_neither() -> None:
    from devices import webhooks

    entry = settings.CELERY_BEAT_SCHEDULE["webhooks"]
    assert (entry["task"], entry["options"]["queue"]) == (webhooks.TASK, webhooks.QUEUE)
    assert tasks.take_due is take_webhook.take_due
    assert ("webhooks", take_webhook.take_due) in {(name, work) for name, work, _ in run_sagas.LOOPS}


def test_run_sagas_asks_back_without_the_scheduler() -> None:
    assert run_sagas.read_due is read_log.read_due
    assert "hinted=True" in inspect.getsource(run_sagas._read_logs)
    assert ("read_back", run_sagas._read_logs) in {(name, work) for name, work, _ in run_sagas.LOOPS}
