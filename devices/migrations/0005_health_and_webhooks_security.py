"""Secures the new tables, gives every installation its poll row, and lets the webhook route find whose an installation is."""

from typing import ClassVar

from django.db import migrations

from lockservice.core.rls import secure_queue_table, secure_tenant_table

POLL_ROWS = """
CREATE FUNCTION devices_give_poll_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO devices_healthpoll (tenant_id, installation_id, due_at, outcome, calls)
        VALUES (NEW.tenant_id, NEW.id, clock_timestamp(), '', 0) ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER give_poll_row AFTER INSERT ON devices_vendorinstallation
    FOR EACH ROW EXECUTE FUNCTION devices_give_poll_row();
INSERT INTO devices_healthpoll (tenant_id, installation_id, due_at, outcome, calls)
    SELECT tenant_id, id, clock_timestamp(), '', 0 FROM devices_vendorinstallation;
"""
# A push names an installation and no tenant. The function tells the tenant's id and nothing else, to whom already knows the id.
TENANT_OF = """
CREATE FUNCTION devices_tenant_of(wanted text) RETURNS text LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, public AS 'SELECT tenant_id FROM public.devices_vendorinstallation WHERE id = wanted AND active';
REVOKE ALL ON FUNCTION devices_tenant_of(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION devices_tenant_of(text) TO lock_app;
"""


class Migration(migrations.Migration):
    """Row-level security, poll rows, and the one look-up across tenants."""

    dependencies: ClassVar = [("devices", "0004_health_and_webhooks")]
    operations: ClassVar = [
        secure_tenant_table("devices_devicereading"),
        *secure_queue_table("devices_healthpoll"),
        secure_tenant_table("devices_webhookaddress"),
        *secure_queue_table("devices_vendorwebhook"),
        secure_tenant_table("devices_webhookreplay"),
        secure_tenant_table("devices_accessattempt", append_only=True),
        migrations.RunSQL(
            POLL_ROWS,
            "DROP TRIGGER give_poll_row ON devices_vendorinstallation; DROP FUNCTION devices_give_poll_row();",
        ),
        migrations.RunSQL(TENANT_OF, "DROP FUNCTION devices_tenant_of(text);"),
    ]
