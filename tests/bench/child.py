"""One worker of a benchmark in a process of its own: says `ready`, waits for a line, works, prints what it did.

python -m tests.bench.child drain            runs sagas until nothing is due
python -m tests.bench.child sagas|consume|publish     works until the second line arrives
"""

from __future__ import annotations

import json
import sys
import threading
import time

import django


def main(role: str) -> None:
    """Works as told."""
    django.setup()
    from sagas import bus
    from sagas.consumer import Consumer
    from sagas.publisher import Publisher
    from sagas.runner import Runner, Stop

    stop = Stop()
    link = bus.from_settings() if role in {"consume", "publish"} else None
    print("ready", flush=True)
    sys.stdin.readline()
    started = time.monotonic()
    if role == "drain":
        done = Runner().run(until=stop, drain=True)
    else:
        threading.Thread(target=lambda: (sys.stdin.readline(), stop.set()), daemon=True).start()
        if role == "sagas":
            done = Runner().run(until=stop)
        elif role == "consume":
            done = Consumer(link).run(until=stop)  # type: ignore[arg-type]
        else:
            done = Publisher(link).run(until=stop)  # type: ignore[arg-type]
    print(json.dumps({"done": done, "seconds": time.monotonic() - started}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
