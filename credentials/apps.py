"""Registers the credentials models."""

from django.apps import AppConfig


class CredentialsConfig(AppConfig):
    """The credentials application."""

    name = "credentials"
    default_auto_field = "django.db.models.BigAutoField"
