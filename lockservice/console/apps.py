"""Registers the console's own tables, and its site as the one that Django's admin serves.

One rule: the site is named as text, so that importing settings loads no model.
"""

from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig


class ConsoleConfig(AppConfig):
    """The application that holds memberships, visits and acts."""

    name = "lockservice.console"
    label = "console"
    verbose_name = "Console"

    def ready(self) -> None:
        """Ends a person's access when the platform says that she is deactivated."""
        from lockservice.console import deactivation

        deactivation.listen()


class ConsoleAdminConfig(AdminConfig):
    """Django's admin with our site as `admin.site`."""

    default_site = "lockservice.console.site.ConsoleSite"
