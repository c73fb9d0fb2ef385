"""Secures the core's tables."""

from typing import ClassVar

from django.db import migrations

from lockservice.core.rls import open_shared_table, secure_tenant_table


class Migration(migrations.Migration):
    """Row-level security of places and idempotency; clock and heartbeats hold no tenant's data."""

    dependencies: ClassVar = [("core", "0001_initial")]
    operations: ClassVar = [
        secure_tenant_table("core_tenant"),
        secure_tenant_table("core_property"),
        secure_tenant_table("core_room"),
        secure_tenant_table("core_idempotencyrecord"),
        open_shared_table("core_hotelclock", readers="lock_app, lock_queue", writers="lock_queue"),
        open_shared_table("core_heartbeat", readers="lock_app, lock_queue", writers="lock_queue"),
    ]
