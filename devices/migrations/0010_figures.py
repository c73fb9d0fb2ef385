"""What is counted over all tenants: columns without secrets, names or card numbers."""

from typing import ClassVar

from django.db import migrations

from lockservice.core.rls import open_columns_to_queue_reader


class Migration(migrations.Migration):
    """Columns for the count."""

    dependencies: ClassVar = [("devices", "0009_relay")]
    operations: ClassVar = [
        open_columns_to_queue_reader("devices_vendorinstallation", "tenant_id", "id", "vendor", "active", "calls_per_month"),
        open_columns_to_queue_reader("devices_breaker", "tenant_id", "installation_id", "state"),
        open_columns_to_queue_reader("devices_callcount", "tenant_id", "installation_id", "month", "calls"),
        open_columns_to_queue_reader("devices_relayjobrow", "vendor", "state", "created_at"),
        open_columns_to_queue_reader("devices_relaydesk", "expires_at"),
    ]
