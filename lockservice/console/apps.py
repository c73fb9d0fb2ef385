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
        """Ends a person's access when the platform says that she is deactivated; takes Django's pages of people away.

        People are made by command: those pages hash inside a transaction, and know no tenant.
        """
        from django.contrib import admin
        from django.contrib.auth.models import Group, User

        from lockservice.console import deactivation

        deactivation.listen()
        admin.site.unregister([User, Group])  # registered before this: the site's application stands first


class ConsoleAdminConfig(AdminConfig):
    """Django's admin with our site as `admin.site`."""

    default_site = "lockservice.console.site.ConsoleSite"
