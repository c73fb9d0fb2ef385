"""A loop that meets an error goes on, says so in its log and its heartbeat row, and says when it is well again."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest
from django.db import connection

from lockservice.core import loops
from lockservice.core.heartbeat import Heartbeat
from lockservice.core.loops import LoopGuard
from lockservice.core.tenancy import queues
from sagas import alive
from sagas.alive import SignsOfLife
from sagas.bus.port import BusMessage, Delivery
from sagas.consumer import Consumer
from sagas.management.commands.run_sagas import keep_doing
from sagas.publisher import Publisher
from sagas.runner import Runner, Stop

TURNS = 3


class StumblingBus:
    """A bus whose every call fails a few times in a way that nobody foresaw, and then finds nothing to do."""

    def __init__(self) -> None:
        self.calls = 0

    def publish(self, messages: Sequence[BusMessage]) -> None:
        raise AssertionError("nothing is to be published")

    def receive(self, *_: object) -> list[Delivery]:
        self.calls += 1
        if self.calls <= TURNS:
            raise ZeroDivisionError("a defect in the bus")
        return []


class StumblingPublisher(Publisher):
    calls = 0

    def round(self) -> int:
        self.calls += 1
        if self.calls <= TURNS:
            raise ZeroDivisionError("a defect in the relay")
        return 0


class StumblingRunner(Runner):
    calls = 0

    def round(self) -> bool:
        self.calls += 1
        if self.calls <= TURNS:
            raise ZeroDivisionError("a defect in the runner")
        return False


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "PAUSES_S", (0.2, 0.4))
    monkeypatch.setattr(alive, "EVERY_S", 0.02)


@contextmanager
def beside(work: Callable[[Callable[[], bool]], object]) -> Iterator[str]:
    """Runs the work in a thread beside a heartbeat; gives the row's name."""
    name, over = f"loop-{uuid.uuid4().hex[:8]}", threading.Event()
    thread = threading.Thread(target=lambda: (work(over.is_set), connection.close()))
    with SignsOfLife(name):
        thread.start()
        yield name
        over.set()
        thread.join(10)
        assert not thread.is_alive()


def _eventually(condition: Callable[[], bool]) -> None:
    ends = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.02)


def _detail(name: str) -> str:
    with queues():
        row = Heartbeat.objects.filter(name=name).first()
        return row.detail if row else ""


@pytest.mark.parametrize("loop", ["consumer", "publisher", "runner", "sweep"])
def test_a_loop_outlives_a_defect_and_its_heartbeat_names_it_until_it_is_well(
    loop: str, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    bus = StumblingBus()
    turns: list[int] = []

    def stumble() -> None:
        turns.append(1)
        if len(turns) <= TURNS:
            raise ZeroDivisionError("a defect in the sweep")

    publisher, runner = StumblingPublisher(bus), StumblingRunner(only=[])  # type: ignore[arg-type]  # never asked to publish

    def sweep(until: Callable[[], bool]) -> None:
        stop = Stop()
        threading.Thread(target=keep_doing, args=("sweep", stumble, 0.02, stop)).start()
        while not until():
            time.sleep(0.02)
        stop.set()

    work: dict[str, Callable[[Callable[[], bool]], object]] = {
        "consumer": lambda until: Consumer(bus, topics=["t"]).run(until=until),  # type: ignore[arg-type]  # as above
        "publisher": lambda until: publisher.run(until=until),
        "runner": lambda until: runner.run(until=until),
        "sweep": sweep,
    }
    calls = {
        "consumer": lambda: bus.calls, "publisher": lambda: publisher.calls, "runner": lambda: runner.calls,
        "sweep": lambda: len(turns),
    }[loop]  # fmt: skip
    with beside(work[loop]) as row:
        _eventually(lambda: _detail(row).startswith(f"{loop}: ZeroDivisionError"))
        _eventually(lambda: calls() > TURNS + 1)
        _eventually(lambda: _detail(row) == "")
    assert caplog.text.count(f"{loop}.failed") == TURNS
    assert caplog.text.count(f"{loop}.recovered") == 1
    assert "a defect in the" in caplog.text  # with its traceback


def test_a_drain_tells_its_defect_to_who_called_it(database: str) -> None:
    with pytest.raises(ZeroDivisionError):
        StumblingRunner(only=[]).run(until=lambda: False, drain=True, max_s=5)


def test_the_heartbeat_of_a_process_with_a_hanging_loop_grows_old(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def beats(name: str) -> object:
        with queues():
            row = Heartbeat.objects.filter(name=name).first()
            return row.beat_at if row else None

    with SignsOfLife(name := f"loop-{uuid.uuid4().hex[:8]}"):
        _eventually(lambda: beats(name) is not None)
        monkeypatch.setattr(loops, "STUCK_AFTER_S", 0.3)
        with LoopGuard("hanging"):
            _eventually(loops.is_stuck)
            time.sleep(0.1)  # a beat that was under way
            before = beats(name)
            time.sleep(0.3)
            assert beats(name) == before
            assert "hanging: no turn for" in loops.faults()
        _eventually(lambda: beats(name) != before)


def test_a_pause_grows_with_each_failure_and_ends_when_the_loop_is_stopped() -> None:
    stopped = threading.Event()
    guard = LoopGuard("pausing", stopped=stopped.is_set)
    took = []
    for _ in range(3):
        started = time.monotonic()
        guard.failed(ValueError("ours"))
        took.append(time.monotonic() - started)
    assert took[0] >= 0.2
    assert took[1] >= 0.4
    stopped.set()
    started = time.monotonic()
    guard.failed(ValueError("ours"))
    assert time.monotonic() - started < 0.2
