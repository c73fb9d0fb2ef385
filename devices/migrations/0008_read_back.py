"""Logs are read, pushes asked back; locks and lock systems can be decommissioned; event ids are an installation's own."""

from typing import ClassVar

from django.db import migrations, models

from lockservice.core.rls import secure_queue_table

POLL_ROWS = """
CREATE FUNCTION devices_give_record_poll() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO devices_recordpoll (tenant_id, installation_id, device_id, due_at, hinted, outcome)
        VALUES (NEW.tenant_id, NEW.installation_id, NEW.id, clock_timestamp() + random() * interval '15 minutes', false, '')
        ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER give_record_poll AFTER INSERT ON devices_lockdevice
    FOR EACH ROW EXECUTE FUNCTION devices_give_record_poll();
INSERT INTO devices_recordpoll (tenant_id, installation_id, device_id, due_at, hinted, outcome)
    SELECT tenant_id, installation_id, id, clock_timestamp() + random() * interval '15 minutes', false, ''
      FROM devices_lockdevice;
"""
WHOSE = """
UPDATE devices_accessattempt a SET installation_id = d.installation_id
    FROM devices_lockdevice d WHERE d.tenant_id = a.tenant_id AND d.id = a.device_id;
UPDATE devices_webhookreplay r SET installation_id = w.installation_id
    FROM devices_vendorwebhook w
    WHERE w.tenant_id = r.tenant_id AND w.vendor = r.vendor AND w.external_event_id = r.external_event_id;
"""


class Migration(migrations.Migration):
    """Turns of logs, held pushes, decommissioning."""

    dependencies: ClassVar = [("devices", "0007_secrets")]
    operations: ClassVar = [
        migrations.CreateModel(
            name="RecordPoll",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("tenant_id", models.CharField(max_length=64)),
                ("installation_id", models.CharField(max_length=64)),
                ("device_id", models.CharField(max_length=64)),
                ("due_at", models.DateTimeField()),
                ("hinted", models.BooleanField(default=False)),
                ("lease_until", models.DateTimeField(null=True)),
                ("read_until", models.DateTimeField(null=True)),
                ("looked_back_at", models.DateTimeField(null=True)),
                ("polled_at", models.DateTimeField(null=True)),
                ("outcome", models.CharField(blank=True, max_length=20)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["due_at"], name="record_poll_due"),
                    models.Index(fields=["tenant_id", "installation_id"], name="record_poll_by_installation"),
                ],
                "constraints": [models.UniqueConstraint(fields=("tenant_id", "device_id"), name="record_poll_once")],
            },
        ),
        migrations.AddField("lockdevice", "decommissioned_at", models.DateTimeField(null=True)),
        migrations.AddField("lockdevice", "decommissioned_by", models.CharField(blank=True, max_length=64)),
        migrations.AddField("vendorinstallation", "decommissioned_at", models.DateTimeField(null=True)),
        migrations.AddField("vendorinstallation", "decommissioned_by", models.CharField(blank=True, max_length=64)),
        migrations.AddField("vendorwebhook", "states", models.JSONField(default=list)),
        migrations.AddField("vendorwebhook", "is_proven", models.BooleanField(default=True)),
        migrations.AddField("vendorwebhook", "has_log", models.BooleanField(default=True)),
        migrations.AddField("accessattempt", "installation_id", models.CharField(default="", max_length=64)),
        migrations.AddField("webhookreplay", "installation_id", models.CharField(default="", max_length=64)),
        migrations.RunSQL(WHOSE, migrations.RunSQL.noop),
        migrations.RemoveConstraint("accessattempt", "attempt_once"),
        migrations.AddConstraint(
            "accessattempt",
            models.UniqueConstraint(fields=("tenant_id", "installation_id", "external_event_id"), name="attempt_once"),
        ),
        migrations.RemoveConstraint("webhookreplay", "webhook_replay_once"),
        migrations.AddConstraint(
            "webhookreplay",
            models.UniqueConstraint(fields=("tenant_id", "installation_id", "external_event_id"), name="webhook_replay_once"),
        ),
        migrations.RemoveConstraint("vendorwebhook", "webhook_status_known"),
        migrations.AddConstraint(
            "vendorwebhook",
            models.CheckConstraint(
                condition=models.Q(("status__in", ["due", "held", "done", "dead"])), name="webhook_status_known"
            ),
        ),
        migrations.RemoveIndex("vendorwebhook", "webhook_due"),
        migrations.AddIndex(
            "vendorwebhook",
            models.Index(condition=models.Q(("status__in", ["due", "held"])), fields=["due_at"], name="webhook_open"),
        ),
        *secure_queue_table("devices_recordpoll"),
        migrations.RunSQL(
            POLL_ROWS,
            "DROP TRIGGER give_record_poll ON devices_lockdevice; DROP FUNCTION devices_give_record_poll();",
        ),
    ]
