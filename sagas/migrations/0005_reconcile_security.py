"""Secures the tables of comparisons. Turns are found across tenants by those who work; the rest is each tenant's own."""

from typing import ClassVar

from django.db import migrations

from lockservice.core.rls import secure_queue_table, secure_tenant_table


class Migration(migrations.Migration):
    """Row-level security."""

    dependencies: ClassVar = [("sagas", "0004_reconcile")]
    operations: ClassVar = [
        *secure_queue_table("sagas_reconcileturn"),
        secure_tenant_table("sagas_reconcilerun"),
        secure_tenant_table("sagas_keysighting"),
        secure_tenant_table("sagas_finding"),
    ]
