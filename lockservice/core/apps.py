"""Registers the core's models."""

from django.apps import AppConfig


class CoreConfig(AppConfig):
    """The core application."""

    name = "lockservice.core"
    label = "core"
    default_auto_field = "django.db.models.BigAutoField"
