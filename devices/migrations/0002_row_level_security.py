"""Secures the device tables and ties devices to their installation."""

from typing import ClassVar

from django.db import migrations

from lockservice.core.rls import secure_tenant_table


class Migration(migrations.Migration):
    """Row-level security and composite foreign key."""

    dependencies: ClassVar = [("devices", "0001_initial")]
    operations: ClassVar = [
        secure_tenant_table("devices_vendorinstallation"),
        secure_tenant_table("devices_lockdevice"),
        secure_tenant_table("devices_callcount"),
        migrations.RunSQL(
            "ALTER TABLE devices_lockdevice ADD CONSTRAINT device_of_installation FOREIGN KEY (tenant_id, installation_id)"
            " REFERENCES devices_vendorinstallation (tenant_id, id);",
            "ALTER TABLE devices_lockdevice DROP CONSTRAINT device_of_installation;",
        ),
    ]
