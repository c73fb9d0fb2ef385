"""Secures the queues: a tenant sees its own rows, the queue role works those of all."""

from typing import ClassVar

from django.db import migrations

from lockservice.core.rls import open_shared_table, secure_queue_table, secure_tenant_table


class Migration(migrations.Migration):
    """Row-level security; shards and job slots hold no tenant's data."""

    dependencies: ClassVar = [("sagas", "0001_initial")]
    operations: ClassVar = [
        *secure_queue_table("sagas_saga"),
        *secure_queue_table("sagas_sagastep"),
        *secure_queue_table("sagas_lane"),
        *secure_queue_table("sagas_outboxevent"),
        *secure_queue_table("sagas_inboxmessage"),
        *secure_queue_table("sagas_deadletter"),
        secure_tenant_table("sagas_alert"),
        open_shared_table("sagas_relayshard", readers="lock_queue", writers="lock_queue"),
        open_shared_table("sagas_jobslot", readers="lock_queue", writers="lock_queue"),
    ]
