"""Secures what happened in a tenant; memberships are read before a tenant is known and are written by workers only."""

from typing import ClassVar

from django.db import migrations

from lockservice.core.rls import open_shared_table, secure_tenant_table


class Migration(migrations.Migration):
    """Row-level security of visits and acts, and the grants of memberships."""

    dependencies: ClassVar = [("console", "0001_initial"), ("lockservice", "0001_framework_tables")]
    operations: ClassVar = [
        secure_tenant_table("console_tenantvisit", append_only=True),
        secure_tenant_table("console_staffact", append_only=True),
        open_shared_table("console_stafftenant", readers="lock_web, lock_worker, lock_app", writers="lock_worker"),
    ]
