"""Registers the sagas models."""

from django.apps import AppConfig


class SagasConfig(AppConfig):
    """The sagas application."""

    name = "sagas"
    default_auto_field = "django.db.models.BigAutoField"
