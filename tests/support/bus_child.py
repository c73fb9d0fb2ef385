"""A consumer or producer process for the bus tests, to be killed at will.

python -m tests.support.bus_child '<bus description>' hold TOPIC GROUP CONSUMER COUNT
    receives until it holds COUNT messages, prints their bodies as one line of JSON, keeps them and waits
python -m tests.support.bus_child '<bus description>' fork TOPIC
    makes one bus, forks, and publishes one message from parent and child each
"""

from __future__ import annotations

import json
import os
import sys
import time

from sagas.bus.port import BusMessage, EventBus
from tests.support.brokers import make_bus


def hold(bus: EventBus, topic: str, group: str, consumer: str, count: int) -> None:
    bodies: list[str] = []
    while len(bodies) < count:
        bodies += [one.message.body.decode() for one in bus.receive([topic], group, consumer, count - len(bodies), 5.0)]
    print(json.dumps(bodies), flush=True)  # noqa: T201 - the answer to the test
    time.sleep(600)  # until it is killed


def fork(bus: EventBus, topic: str) -> None:
    child = os.fork()
    bus.publish([BusMessage(topic, "", b"child" if child == 0 else b"parent")])
    bus.close()
    if child == 0:
        os._exit(0)
    _, status = os.waitpid(child, 0)
    sys.exit(os.waitstatus_to_exitcode(status))


def main() -> None:
    bus = make_bus(json.loads(sys.argv[1]))
    if sys.argv[2] == "hold":
        topic, group, consumer, count = sys.argv[3:7]
        hold(bus, topic, group, consumer, int(count))
    else:
        fork(bus, sys.argv[3])


if __name__ == "__main__":
    main()
