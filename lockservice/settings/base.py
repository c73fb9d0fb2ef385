"""What is the same in every mode.

The one rule: no address, password or path of a machine stands here; `embedded` and `production`
bring those.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from csp.constants import NONE, SELF
from kombu.entity import Queue

from lockservice.settings import logs
from lockservice.settings.api import *
from lockservice.settings.languages import LANGUAGES, LANGUAGES_BIDI  # noqa: F401 - they are settings

BASE_DIR = Path(__file__).resolve().parents[2]

# --- Applications -----------------------------------------------------------------------------

INSTALLED_APPS = [
    "lockservice.console.apps.ConsoleAdminConfig",
    "lockservice.console.apps.ConsoleConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "csp",
    "django_structlog",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "lockservice",
    "lockservice.core",
    "credentials",
    "devices",
    "sagas",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django_structlog.middlewares.RequestMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "lockservice.urls"
WSGI_APPLICATION = "lockservice.wsgi.application"
ASGI_APPLICATION = "lockservice.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.i18n",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

# --- Database ---------------------------------------------------------------------------------

DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASE_ENGINE = "django.db.backends.postgresql"

# Which of the three logins this process uses: owner (migrations), web, worker.
DATABASE_LOGIN = os.environ.get("LOCK_DB_LOGIN", "worker")
if DATABASE_LOGIN not in {"owner", "web", "worker"}:
    _message = f"LOCK_DB_LOGIN must be owner, web or worker, not {DATABASE_LOGIN!r}"
    raise ValueError(_message)

# Shown in pg_stat_activity, so that a stuck session can be told from its neighbours.
PROCESS_NAME = os.environ.get("LOCK_PROCESS_NAME", DATABASE_LOGIN)


def database(*, name: str, host: str, port: str, password: str) -> dict[str, Any]:
    """Give the entry for DATABASES of this process's login.

    The owner connects directly; the others share a pool of at most LOCK_DB_POOL_MAX connections in
    each process. A web request waits 0.8 s for one of them, so that it can still answer 503 within
    a second; a worker waits 3 s, since only a new call makes the pool try again after an outage.
    """
    # application_name is cut by PostgreSQL at 63 bytes.
    options: dict[str, Any] = {"application_name": f"melmastoon-{PROCESS_NAME}"[:63], "connect_timeout": 5}
    if DATABASE_LOGIN != "owner":
        options["pool"] = {
            "min_size": 0,
            "max_size": int(os.environ.get("LOCK_DB_POOL_MAX", "4")),
            "timeout": 0.8 if DATABASE_LOGIN == "web" else 3.0,
            "max_idle": 300.0,
            # A failed attempt ends soon, so that the next caller tries at once; the pool's own patience doubles up to minutes.
            "reconnect_timeout": 0.3,
        }
    return {
        "ENGINE": DATABASE_ENGINE,
        "NAME": name,
        "HOST": host,
        "PORT": port,
        "USER": f"lock_{DATABASE_LOGIN}",
        "PASSWORD": password,
        "CONN_MAX_AGE": 0,  # required with a pool
        # The pool's own check waits a second and more between two dead connections; `core.tenancy` drops them at once.
        "CONN_HEALTH_CHECKS": False,
        "DISABLE_SERVER_SIDE_CURSORS": True,  # they do not survive a transaction pooler
        "ATOMIC_REQUESTS": False,  # views call out, and tenancy opens its own transactions
        "OPTIONS": options,
    }


# --- Language and time ------------------------------------------------------------------------

LANGUAGE_CODE = "en"
LOCALE_PATHS = [BASE_DIR / "locale"]
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"

# --- Security ---------------------------------------------------------------------------------

DEBUG = False
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = 12 * 60 * 60  # one long shift at the desk
CSRF_COOKIE_SAMESITE = "Strict"
DATA_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "base-uri": [NONE],
        "object-src": [NONE],
    }
}

# --- Files for browsers -----------------------------------------------------------------------

STATIC_URL = "/static/"
STATIC_ROOT = BASE_DIR / "staticfiles"

# --- Work -------------------------------------------------------------------------------------

# Lanes keep vendors apart, not queues; queues only keep urgent wake-ups from waiting behind bulk.
CELERY_TASK_QUEUES = [Queue(name) for name in ("security", "saga", "bulk", "webhooks")]
CELERY_TASK_DEFAULT_QUEUE = "saga"
CELERY_TASK_CREATE_MISSING_QUEUES = False
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_RESULT_BACKEND = None
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
# A drain lasts at most 20 s and a vendor call 60 s; beyond that something hangs.
CELERY_TASK_SOFT_TIME_LIMIT = 100
CELERY_TASK_TIME_LIMIT = 120
CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT = 8.0  # below the 10 s that a container is given to end
CELERY_WORKER_ENABLE_SOFT_SHUTDOWN_ON_IDLE = True
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = True
CELERY_WORKER_MAX_MEMORY_PER_CHILD = 400_000  # KiB
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_SEND_TASK_EVENTS = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_BROKER_CHANNEL_ERROR_RETRY = True
# A wake-up that cannot be sent now is not worth waiting for: the sweep finds the row.
CELERY_TASK_PUBLISH_RETRY = False
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 900,  # longer than the hard time limit
    "socket_connect_timeout": 0.5 if DATABASE_LOGIN == "web" else 5.0,
    "socket_timeout": 0.5 if DATABASE_LOGIN == "web" else 10.0,
    "socket_keepalive": True,
    "health_check_interval": 25,
    "retry_on_timeout": False,
    # Whoever sends a wake-up gives up after one try; kombu's own habit is to stay with it for six seconds.
    "max_retries": 1,
    "interval_start": 0.0,
}
# In memory: any number of beats may run, since (job, slot) is a unique row.
CELERY_BEAT_SCHEDULER = "celery.beat:Scheduler"
CELERY_BEAT_MAX_LOOP_INTERVAL = 1.0
# Static, and harmless to run twice: each task looks for due rows. Progress needs none of it (see `run_sagas`).
CELERY_BEAT_SCHEDULE = {
    # Each second: what a dead process held is free after eight, and work goes on within ten.
    "drain": {"task": "sagas.drain", "schedule": 1.0, "options": {"queue": "saga", "expires": 5}},
    "sweep": {"task": "sagas.sweep", "schedule": 5.0, "options": {"queue": "security", "expires": 10}},
    "tidy": {"task": "sagas.keep_house", "schedule": 600.0, "options": {"queue": "bulk", "expires": 600}},
    "webhooks": {"task": "sagas.take_webhooks", "schedule": 5.0, "options": {"queue": "webhooks", "expires": 10}},
    "health": {"task": "sagas.poll_health", "schedule": 60.0, "options": {"queue": "bulk", "expires": 60}},
    "secrets": {"task": "sagas.rotate_secrets", "schedule": 600.0, "options": {"queue": "bulk", "expires": 600}},
    "reconcile": {"task": "sagas.reconcile_vendors", "schedule": 60.0, "options": {"queue": "bulk", "expires": 60}},
    "figures": {"task": "sagas.count_figures", "schedule": 15.0, "options": {"queue": "bulk", "expires": 15}},
    "logs": {"task": "sagas.read_logs", "schedule": 20.0, "options": {"queue": "bulk", "expires": 20}},
}
CELERY_TIMEZONE = "UTC"
# Whether the nightly comparison with the doors also repairs what its rules allow; without it, it only tells.
RECONCILE_REPAIRS = os.environ.get("LOCK_RECONCILE_REPAIRS", "0") == "1"

# --- Keys and secrets -------------------------------------------------------------------------

# Key-encryption keys: `file` (a folder) or `kms`; CONFIG_KEY_NAME is the service's own, a tenant may have another.
KEY_ENCRYPTION = os.environ.get("LOCK_KEY_ENCRYPTION", "file")
KEK_FOLDER = os.environ.get("LOCK_KEK_FOLDER", "")
CONFIG_KEY_NAME = os.environ.get("LOCK_CONFIG_KEY", "lock-config")
KMS_ENDPOINT = os.environ.get("LOCK_KMS_ENDPOINT", "")
# Vendor secrets: `file` (a folder) or `google`. Locations pin the replicas to regions.
SECRET_STORE = os.environ.get("LOCK_SECRET_STORE", "file")
SECRET_STORE_FOLDER = os.environ.get("LOCK_SECRET_STORE_FOLDER", "")
SECRETS_PROJECT = os.environ.get("LOCK_SECRETS_PROJECT", "")
SECRETS_LOCATIONS = [place for place in os.environ.get("LOCK_SECRETS_LOCATIONS", "").split(",") if place]
SECRETS_ENDPOINT = os.environ.get("LOCK_SECRETS_ENDPOINT", "")

# --- Logs -------------------------------------------------------------------------------------

LOGGING = logs.configure(os.environ.get("LOCK_LOG_LEVEL", "INFO"))
DJANGO_STRUCTLOG_USER_ID_FIELD = ""  # reading it would load a session outside of any tenant
DJANGO_STRUCTLOG_IP_LOGGING_ENABLED = False

# --- Sagas ------------------------------------------------------------------------------------

# Multiplies the retry times of 2, 8, 30, 120, 480 s; below 1 only where tests scale time.
RETRY_SCALE = float(os.environ.get("LOCK_RETRY_SCALE", "1"))
# How long a stopping runner waits for vendor calls in flight before it leaves them to the next owner.
RUNNER_GRACE_S = float(os.environ.get("LOCK_RUNNER_GRACE_S", "3"))
# The longest that runner and publisher pause when nothing is due, at most 0.2 s. Shorter costs processor time for nothing.
IDLE_MAX_S = float(os.environ.get("LOCK_IDLE_MAX_S", "0.2"))
# Whether consumers wake Celery workers. Without workers nobody would take the wake-ups off the broker again.
WAKE_WORKERS = os.environ.get("LOCK_WAKE_WORKERS", "1") != "0"
# How many processes call vendors at once, at most: while Redis is away each of them takes this part of a vendor's rate limit.
# Where more were at work while Redis was there, their number counts.
LIMIT_SHARERS = int(os.environ.get("LOCK_LIMIT_SHARERS", "4"))

# --- Costs ------------------------------------------------------------------------------------

# The operator's price lists, one `<vendor code>.toml` each; empty: the shipped ones, which hold no price.
VENDOR_PRICES = os.environ.get("LOCK_VENDOR_PRICES", "")
