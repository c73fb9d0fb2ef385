"""Does in the replay's own process what consumer, saga runner and publisher do, a turn at a time.

One rule: the same classes as in the service's processes, and beside them the same loops. Only who calls them differs: nobody
polls for what is not there, so a turn costs what the work costs.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from types import TracebackType
from typing import Self

from lockservice.core.tenancy import queues
from lockservice.replay.drive import Work
from sagas import bus
from sagas.consumer import Consumer
from sagas.management.commands.run_sagas import LOOPS, keep_doing
from sagas.publisher import Publisher, ensure_shards
from sagas.runner import Runner, Stop

ANSWER_S = 0.05
"""How long a vendor's answer is awaited before more work is looked for."""


class Hands:
    """A context whose `turn` works. `found` names the processes that run elsewhere: their part is left to them."""

    def __init__(self, found: Collection[str]) -> None:
        self._link = bus.from_settings()
        self._consumer = None if "consumer" in found else Consumer(self._link)
        self._publisher = None if "publisher" in found else Publisher(self._link)
        self._runner = Runner()
        self._stop = Stop()
        self._loops = [
            threading.Thread(target=keep_doing, args=(name, work, pause_s, self._stop), daemon=True)
            for name, work, pause_s in LOOPS
        ]

    def __enter__(self) -> Self:
        with queues():
            ensure_shards()
        for loop in self._loops:
            loop.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Records what is in flight as far as it ends soon, and gives back what is held."""
        self._stop.set()
        self._runner.run(until=self._stop)
        if self._publisher is not None:
            self._publisher.run(until=self._stop)
        self._link.close()

    def turn(self, waiting_count: int, work: Work) -> bool:
        """Does a part of what is left to do, and returns whether it did.

        It takes messages, of which `waiting_count` wait, and works on sagas. When there are none of either it publishes.
        """
        took = bool(waiting_count) and self._consumer is not None and self._consumer.round(0.0) > 0
        if took or work.is_due or work.is_retrying:
            went_on = self._runner.round()
            self._runner.wait_for_answer(ANSWER_S)
            return took or went_on
        return work.is_unpublished and self._publisher is not None and self._publisher.round() > 0
