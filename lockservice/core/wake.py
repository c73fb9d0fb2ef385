"""The Redis client, and wake-ups through it.

One rule: whatever goes through here is a hint that makes things faster. Losing all of it loses nothing: due work is in rows.
"""

from __future__ import annotations

import time
from functools import lru_cache

import redis
import structlog
from django.conf import settings
from kombu.exceptions import OperationalError

log = structlog.get_logger(__name__)

PAUSE_S = 5.0
_silent_until = 0.0


@lru_cache(maxsize=1)
def client() -> redis.Redis:
    """Returns this process's client. Calls fail within two seconds when Redis is away (redis.RedisError)."""
    pool = redis.BlockingConnectionPool.from_url(
        settings.REDIS_URL, max_connections=16, timeout=1, socket_timeout=1, socket_connect_timeout=1, retry=None
    )
    return redis.Redis(connection_pool=pool)


def hint(task: str, queue: str) -> bool:
    """Asks a worker to look at due work now; False when the broker is away (then it is left alone for five seconds)."""
    global _silent_until  # noqa: PLW0603 - one small pause per process, on purpose
    from celery import current_app

    if not settings.WAKE_WORKERS or time.monotonic() < _silent_until:
        return False
    try:
        current_app.send_task(task, queue=queue, retry=False, ignore_result=True)
    except (OperationalError, redis.RedisError, OSError) as error:
        _silent_until = time.monotonic() + PAUSE_S
        log.warning("wake.broker_away", error=type(error).__name__)
        return False
    return True
