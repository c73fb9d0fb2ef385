"""Registers the devices models."""

from django.apps import AppConfig


class DevicesConfig(AppConfig):
    """The devices application."""

    name = "devices"
    default_auto_field = "django.db.models.BigAutoField"
