"""The watch reads over all tenants which keys, doors and stays should agree: their schedule, and nothing that opens a door."""

from django.db import migrations, models

from lockservice.core.rls import open_columns_to_queue_reader

KEY_COLUMNS = (
    "open_work, waiting_for, resuming, valid_from, valid_until, pin_version, holder_kind, reservation_id, incarnation"
)


class Migration(migrations.Migration):

    dependencies = [
        ('credentials', '0007_indexes_of_what_is_due'),
    ]

    operations = [
        migrations.RemoveIndex(
            model_name='credentialdoor',
            name='door_may_open',
        ),
        migrations.AddIndex(
            model_name='credentialdoor',
            index=models.Index(condition=models.Q(('state__in', ['present', 'suspended']), models.Q(('verb', ''), _negated=True), _connector='OR'), fields=['tenant_id', 'device_id', 'id'], name='door_that_may_open'),
        ),
        migrations.AddIndex(
            model_name='reservation',
            index=models.Index(condition=models.Q(('status', 'confirmed')), fields=['valid_until', 'id'], name='reservation_standing'),
        ),
        migrations.RunSQL(
            f"GRANT SELECT ({KEY_COLUMNS}) ON credentials_keycredential TO lock_queue;",
            migrations.RunSQL.noop,
        ),
        open_columns_to_queue_reader(
            "credentials_credentialdoor", "tenant_id", "id", "credential_id", "device_id", "dropped", "old_room", "state", "verb",
            "pin_version", "carried_from", "carried_until",
        ),
        open_columns_to_queue_reader(
            "credentials_reservation", "tenant_id", "id", "reservation_id", "incarnation", "status", "valid_from", "valid_until",
        ),
    ]
