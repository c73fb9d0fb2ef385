"""Indexes and columns for what is counted over all tenants."""

import django.contrib.postgres.indexes
from django.db import migrations, models

from lockservice.core.rls import open_columns_to_queue_reader


class Migration(migrations.Migration):

    dependencies = [
        ('sagas', '0006_finding_repairs'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='alert',
            index=models.Index(condition=models.Q(('acknowledged_at__isnull', True)), fields=['severity'], name='alert_open'),
        ),
        migrations.AddIndex(
            model_name='inboxmessage',
            index=django.contrib.postgres.indexes.BrinIndex(autosummarize=True, fields=['received_at'], name='inbox_by_receipt'),
        ),
        migrations.AddIndex(
            model_name='saga',
            index=models.Index(condition=models.Q(('status', 'dead')), fields=['id'], name='saga_dead'),
        ),
        open_columns_to_queue_reader("sagas_alert", "severity", "acknowledged_at"),
        open_columns_to_queue_reader(
            "sagas_reconcilerun", "tenant_id", "installation_id", "status", "started_at", "finished_at"
        ),
        open_columns_to_queue_reader("sagas_finding", "installation_id", "status", "danger"),
    ]
