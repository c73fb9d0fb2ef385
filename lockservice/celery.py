"""The Celery application: `celery -A lockservice.celery worker`.

The one rule: a message is a wake-up and may be lost, doubled or late; work lives in PostgreSQL.
All settings stand in `lockservice/settings`, names beginning with CELERY_.
"""

import os

from celery import Celery
from celery.signals import setup_logging

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "lockservice.settings.embedded")

app = Celery("lockservice")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


def _keep_our_logging(**_arguments: object) -> None:
    """Stop Celery from replacing the handlers that Django configured (a connected receiver does)."""


setup_logging.connect(_keep_our_logging)
