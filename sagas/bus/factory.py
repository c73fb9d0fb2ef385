"""Makes the bus that the settings ask for.

Rule: this is the only module of the bus that reads settings.

    BUS_BACKEND            "redis" (default) or "pubsub"
    REDIS_URL              redis: the server
    BUS_PREFIX             redis: beginning of all keys, default "{bus}"
    BUS_LEASE_S            how long a consumer may hold a delivery; default 6 with Redis, 30 with Pub/Sub, which extends it
    PUBSUB_PROJECT_ID      pubsub: the Google Cloud project
    PUBSUB_EMULATOR_HOST   pubsub: host:port of a local server; empty in production
"""

from __future__ import annotations

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from sagas.bus.port import EventBus
from sagas.bus.redis_streams import RedisStreamsBus


def from_settings() -> EventBus:
    """A new bus; it opens no connection yet. Close it when done.

    Raises ``ImproperlyConfigured`` for an unknown backend or a missing setting.
    """
    backend = getattr(settings, "BUS_BACKEND", "redis")
    lease_s = getattr(settings, "BUS_LEASE_S", 6 if backend == "redis" else 30)
    if backend == "redis":
        return RedisStreamsBus(settings.REDIS_URL, prefix=getattr(settings, "BUS_PREFIX", "{bus}"), lease_s=float(lease_s))
    if backend == "pubsub":
        # The Google client takes half a second to import; embedded mode does without it.
        from sagas.bus.google_pubsub import GooglePubSubBus
        from sagas.bus.topology import from_registry

        host = emulator_host()
        return GooglePubSubBus(
            project_id(), topology=from_registry(), emulator_host=host, lease_s=int(lease_s), make_missing=host is not None
        )
    raise ImproperlyConfigured(f"BUS_BACKEND is {backend!r}; it may be 'redis' or 'pubsub'")


def project_id() -> str:
    """The Google Cloud project. Raises ``ImproperlyConfigured`` when it is not set."""
    project = getattr(settings, "PUBSUB_PROJECT_ID", "")
    if not project:
        raise ImproperlyConfigured("PUBSUB_PROJECT_ID is not set")
    return str(project)


def emulator_host() -> str | None:
    """Where a local Pub/Sub server listens; None means the real service."""
    return getattr(settings, "PUBSUB_EMULATOR_HOST", "") or None
