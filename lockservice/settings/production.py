"""Production: everything from the environment, nothing by default that would be unsafe.

The one rule: a missing value stops the start with its name. PostgreSQL's roles come from
`lockservice/embedded/roles.sql` and `database.sql`, run by the administrator.
"""

from __future__ import annotations

import environ

from lockservice.settings.base import *
from lockservice.settings.base import DATABASE_LOGIN, database

env = environ.FileAwareEnv()  # NAME_FILE may point to a mounted secret in place of NAME

SECRET_KEY = env.str("DJANGO_SECRET_KEY")
DATA_KEY_FILE = env.str("LOCK_DATA_KEY_FILE")

KEY_ENCRYPTION = env.str("LOCK_KEY_ENCRYPTION", default="kms")
CONFIG_KEY_NAME = env.str("LOCK_CONFIG_KEY") if KEY_ENCRYPTION == "kms" else env.str("LOCK_CONFIG_KEY", default="lock-config")
KEK_FOLDER = env.str("LOCK_KEK_FOLDER") if KEY_ENCRYPTION == "file" else ""
SECRET_STORE = env.str("LOCK_SECRET_STORE", default="google")
SECRETS_PROJECT = env.str("LOCK_SECRETS_PROJECT") if SECRET_STORE == "google" else ""  # noqa: S105 - a kind of store
SECRET_STORE_FOLDER = env.str("LOCK_SECRET_STORE_FOLDER") if SECRET_STORE == "file" else ""  # noqa: S105 - as above
ALLOWED_HOSTS = env.list("DJANGO_ALLOWED_HOSTS")
CSRF_TRUSTED_ORIGINS = env.list("DJANGO_CSRF_TRUSTED_ORIGINS", default=[])

DATABASES = {
    "default": database(
        name=env.str("LOCK_DB_NAME"),
        host=env.str("LOCK_DB_HOST"),
        port=env.str("LOCK_DB_PORT", default="5432"),
        password=env.str(f"LOCK_DB_PASSWORD_{DATABASE_LOGIN.upper()}"),
    )
}
DATABASES["default"]["OPTIONS"]["sslmode"] = env.str("LOCK_DB_SSLMODE", default="verify-full")

REDIS_URL = env.str("LOCK_REDIS_URL")
CELERY_BROKER_URL = env.str("LOCK_BROKER_URL")

BUS_BACKEND = env.str("LOCK_BUS_BACKEND", default="pubsub")
PUBSUB_PROJECT_ID = env.str("LOCK_PUBSUB_PROJECT") if BUS_BACKEND == "pubsub" else ""

if DATABASE_LOGIN == "web":  # nobody else reads tokens
    API_JWKS = env.str("LOCK_API_JWKS")
    API_ISSUER = env.str("LOCK_API_ISSUER")
    API_AUDIENCE = env.str("LOCK_API_AUDIENCE")
    METRICS_TOKEN = env.str("LOCK_METRICS_TOKEN", default="")

SECURE_SSL_REDIRECT = env.bool("DJANGO_SECURE_SSL_REDIRECT", default=True)
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_HSTS_SECONDS = 365 * 24 * 60 * 60
SECURE_HSTS_INCLUDE_SUBDOMAINS = True
SECURE_HSTS_PRELOAD = True
# Probes come from the platform without TLS.
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$"]
SESSION_COOKIE_SECURE = True
CSRF_COOKIE_SECURE = True
SESSION_COOKIE_NAME = "__Host-session"
CSRF_COOKIE_NAME = "__Host-csrf"

STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}
