"""Celery tasks: wake-ups that drain due work. Losing any of them loses nothing.

One rule: a task carries no data; what is due stands in PostgreSQL.
"""

from __future__ import annotations

import signal
import threading

from celery import shared_task

from devices import health_poll, secret_upkeep
from sagas import figures
from sagas.flows import read_log
from sagas.flows.take_webhook import take_due
from sagas.housekeeping import sweep, tidy
from sagas.reconcile.run import work_due
from sagas.runner import Runner, Stop

DRAIN_S = 20.0
"""Longest a drain task works; below the task's soft time limit."""


@shared_task(name="sagas.drain", ignore_result=True)
def drain() -> int:
    """Works until nothing is due, or DRAIN_S seconds; returns the number of steps."""
    return Runner(pool_size=32).run(until=Stop(), max_s=DRAIN_S, drain=True)


@shared_task(name="sagas.sweep", ignore_result=True)
def sweep_due() -> int:
    """Starts what the hotel's clock made due (ended windows), and frees what has rested."""
    return sweep()


@shared_task(name="sagas.keep_house", ignore_result=True)
def keep_house() -> int:
    """Frees, erases and forgets what is over, once per hour whoever schedules it."""
    return tidy()


@shared_task(name="sagas.take_webhooks", ignore_result=True)
def take_webhooks() -> int:
    """Works on pushes that were taken in; returns how many."""
    return take_due()


@shared_task(name="sagas.poll_health", ignore_result=True)
def poll_health() -> int:
    """Asks the vendors whose installations are due how their locks are; returns how many were asked."""
    return len(health_poll.poll_due())


@shared_task(name="sagas.read_logs", ignore_result=True)
def read_logs() -> int:
    """Reads the locks' logs that are due; returns how many."""
    return len(read_log.read_due())


@shared_task(name="sagas.rotate_secrets", ignore_result=True)
def rotate_secrets() -> int:
    """Keeps keys and secrets in order and tells of what is late, once per hour whoever schedules it."""
    return secret_upkeep.run_hourly()


@shared_task(name="sagas.reconcile_vendors", ignore_result=True)
def reconcile_vendors() -> int:
    """Compares the installations whose night it is with their doors, for DRAIN_S seconds; returns how many were at work."""
    return len(work_due(DRAIN_S))


@shared_task(name="sagas.count_figures", ignore_result=True)
def count_figures() -> int:
    """Counts what `/metrics` shows of all tenants; returns how many figures, 0 where another scheduler has just done it."""
    return figures.count_due()


def stop_on_signals() -> Stop:
    """Returns a stop flag that SIGINT and SIGTERM set; for long-running commands in the main thread."""
    stop = Stop()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop.set)
    return stop
