"""Registers the console's own tables, and its site as the one that Django's admin serves.

One rule: the site is named as text, so that importing settings loads no model.
"""

from django.apps import AppConfig
from django.contrib.admin.apps import SimpleAdminConfig


class ConsoleConfig(AppConfig):
    """The application that holds memberships, visits and acts."""

    name = "lockservice.console"
    label = "console"
    verbose_name = "Console"

    def ready(self) -> None:
        """Ends a person's access when the platform says that she is deactivated."""
        from lockservice.console import deactivation

        deactivation.listen()


class ConsoleAdminConfig(SimpleAdminConfig):
    """Django's admin with our site as `admin.site`. Whoever serves its pages loads them: workers and commands need none."""

    default_site = "lockservice.console.site.ConsoleSite"


def load_pages() -> None:
    """Registers every page of the console, and takes Django's pages of people away. Called again, it changes nothing.

    People are made by command: those pages hash inside a transaction, and know no tenant.
    """
    from django.contrib import admin
    from django.contrib.auth.models import Group, User

    admin.autodiscover()
    admin.site.unregister([model for model in (User, Group) if admin.site.is_registered(model)])
