"""Embedded mode: a laptop, the demo and the tests, on the servers that the project brings along.

The one rule: it starts nothing. Ports and passwords come from the local directory; if the servers
are down, the first query says that nobody listens (`python -m lockservice.embedded start`).
"""

from __future__ import annotations

import os
from typing import Any

from lockservice.demo import places
from lockservice.embedded import postgres, roles, valkey
from lockservice.embedded.local import Addresses, LocalDirectory
from lockservice.settings.base import *
from lockservice.settings.base import DATABASE_LOGIN, database

LOCAL_DIRECTORY = LocalDirectory.from_environment().prepare()
_postgres = postgres.endpoint(LOCAL_DIRECTORY)

SECRET_KEY = LOCAL_DIRECTORY.secret("django.key")
DATA_KEY_FILE = str(LOCAL_DIRECTORY.data_key_file)
KEK_FOLDER = str(LOCAL_DIRECTORY.key_encryption_folder)
SECRET_STORE_FOLDER = str(LOCAL_DIRECTORY.secret_store_folder)
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]

EMBEDDED = True
API_JWKS = "embedded:"
API_ISSUER = "melmastoon-embedded"
API_AUDIENCE = "melmastoon-lock"
API_SIGNING_SECRET = LOCAL_DIRECTORY.secret("api-signing.key")
METRICS_TOKEN = LOCAL_DIRECTORY.secret("metrics.token")

# The host is the folder of the Unix socket unless a test puts something in between.
DATABASES = {
    "default": database(
        name=os.environ.get("LOCK_DB_NAME", roles.DATABASE),
        host=os.environ.get("LOCK_DB_HOST", str(_postgres.socket_directory)),
        port=os.environ.get("LOCK_DB_PORT", str(_postgres.port)),
        password=roles.password(LOCAL_DIRECTORY, DATABASE_LOGIN),  # type: ignore[arg-type]  # checked in base
    )
}

# Database 0: wake-ups and the event bus; 1: Celery's messages.
REDIS_URL = os.environ.get("LOCK_REDIS_URL") or valkey.endpoint(LOCAL_DIRECTORY).url()
CELERY_BROKER_URL = os.environ.get("LOCK_BROKER_URL") or f"{REDIS_URL.rpartition('/')[0]}/1"

# On one machine the next start is seconds away; an idle worker need not wait for unacknowledged messages to return.
CELERY_WORKER_ENABLE_SOFT_SHUTDOWN_ON_IDLE = False

# Serves files straight from the applications, without a collecting step; the folder stays empty.
WHITENOISE_USE_FINDERS = True
STATIC_ROOT = LOCAL_DIRECTORY.root / "static"
STATIC_ROOT.mkdir(mode=0o700, exist_ok=True)

# --- `manage.py up` ---------------------------------------------------------------------------

# Management commands that make the demo hotel, in order, run as the worker after migrating.
UP_SEEDERS: list[str] = ["seed_demo"]

# Which vendor each lock system of the demo's houses is of.
DEMO_VENDORS = {
    "hotel-silk": {"house": "ttlock"},
    "guesthouse-rudaki": {"floor-1": "salto", "floor-2": "assa-abloy", "floor-3": "generic-wiegand"},
}

# Where a simulated encoder stands at a desk: house, lock system, and the vendor whose encoder the virtual desk drives.
DEMO_DESK = (places.GUESTHOUSE_RUDAKI, places.GUESTHOUSE_RUDAKI.systems[-1], "generic-wiegand")
_DESK_HOUSE, _DESK_SYSTEM, _DESK_VENDOR = DEMO_DESK

_MANAGE = ["{python}", "manage.py"]
_CELERY = ["{python}", "-m", "celery", "--quiet", "-A", "lockservice.celery"]

# Vendors that have a simulator here, with further arguments, and where they listen. `up` runs those the demo uses.
_SIMULATED = ("ttlock", "salto", "assa-abloy", "generic-wiegand", "mock")
SIMULATED_VENDORS: dict[str, list[str]] = {vendor: ["--state-file", f"{{local}}/sim-{vendor}.json"] for vendor in _SIMULATED}
DEMO_VENDOR_CODES = tuple(dict.fromkeys(vendor for systems in DEMO_VENDORS.values() for vendor in systems.values()))
SIMULATORS = {
    vendor: Addresses(LOCAL_DIRECTORY, {"address": ("", f"sim-{vendor}"), "control": ("http://", f"sim-{vendor}-control")})
    for vendor in SIMULATED_VENDORS
}

# What `up` runs beside the servers; the fields are those of `lockservice.supervisor.ProcessSpec`.
# Filled in: {python}, {local} (the local directory), {instance} (random for each start), {port} (of
# this process) and {port:NAME}.
_WORKER = {"LOCK_DB_LOGIN": "worker"}
UP_PROCESSES: list[dict[str, Any]] = [
    {
        "name": "web",
        "port": 8080,
        "argv": [
            "{python}", "-m", "gunicorn", "lockservice.wsgi:application", "--config", "python:lockservice.gunicorn_settings",
            "--bind", "127.0.0.1:{port}", "--workers", "2", "--threads", "6", "--worker-tmp-dir", "{local}/run",
            "--graceful-timeout", "5", "--no-control-socket", "--log-level", "warning",
        ],
        "env": {"LOCK_DB_LOGIN": "web", "LOCK_DB_POOL_MAX": "6", "PROMETHEUS_MULTIPROC_DIR": "{local}/run/metrics"},
        "ready": "http:/healthz",
    },
    {
        "name": "worker",
        "argv": [
            *_CELERY, "worker", "--queues", "security,saga,bulk,webhooks", "--concurrency", "2",
            "--without-gossip", "--without-mingle", "--loglevel", "warning", "--hostname", "worker@{instance}",
        ],
        "env": _WORKER,
    },
    {
        "name": "beat",
        "argv": [*_CELERY, "beat", "--loglevel", "warning", "--pidfile", ""],
        "env": {**_WORKER, "LOCK_DB_POOL_MAX": "1"},
    },
    {"name": "consumer", "argv": [*_MANAGE, "consume_events"], "env": _WORKER, "ready": "heartbeat:consumer"},
    {"name": "publisher", "argv": [*_MANAGE, "publish_outbox"], "env": _WORKER, "ready": "heartbeat:publisher"},
    {"name": "sagas", "argv": [*_MANAGE, "run_sagas"], "env": {**_WORKER, "LOCK_DB_POOL_MAX": "8"}, "ready": "heartbeat:sagas"},
    {
        "name": "gateway",
        "port": 8090,
        "argv": [*_MANAGE, "bridge_gateway", "--port", "{port}"],
        "env": {"LOCK_DB_LOGIN": "worker", "LOCK_DB_POOL_MAX": "2"},
        "ready": "heartbeat:gateway",
    },
    {
        "name": "desk",
        "argv": [
            "{python}", "-m", "desktop_bridge.virtual_desk", _DESK_VENDOR, "--house", _DESK_SYSTEM.code,
            "--gateway", "ws://127.0.0.1:{port:gateway}/relay/v1", "--encoder", f"http://127.0.0.1:{{port:sim-{_DESK_VENDOR}}}",
            "--journal", "{local}/desk-journal.ndjson", "--token-command",
            f"{{python}} manage.py issue_token --tenant {places.TENANT_ID} --role desk --property {_DESK_HOUSE.property_id}",
        ],
    },
    *(
        {
            "name": f"sim-{vendor}",
            "port": 0,
            "more_ports": (f"sim-{vendor}-control",),
            "argv": [
                "{python}", "-m", "vendors.simulate", vendor,
                "--port", "{port}", "--control-port", f"{{port:sim-{vendor}-control}}", *more,
            ],
            "ready": "listens",
            "before_seeding": True,
        }
        for vendor, more in SIMULATED_VENDORS.items()
        if vendor in DEMO_VENDOR_CODES
    ),
]  # fmt: skip

# Dotted name of a function that gets {process: url} and gives the text shown when all is ready.
UP_ANNOUNCE = "lockservice.demo.announcement.announce"
