"""PostgreSQL for the tests: as the product uses it, and watched for what is slow inside a transaction."""

from __future__ import annotations

from django.db.backends.postgresql import base

from tests.support.guarded_backend import guard

guard.install()


class DatabaseWrapper(base.DatabaseWrapper):
    """See `guard`."""
