"""Registers the outer package, for its management commands, and loads the Celery application."""

from django.apps import AppConfig


class LockServiceConfig(AppConfig):
    """The outer application; it has no models."""

    name = "lockservice"
    verbose_name = "Lock & key service"

    def ready(self) -> None:
        """Make the Celery application the current one, so that tasks are sent to our broker."""
        from lockservice import celery  # noqa: F401 - needs configured settings
