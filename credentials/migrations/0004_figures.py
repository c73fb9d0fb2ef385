"""Keys that wait are counted over all tenants."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('credentials', '0003_pending_keys_end_too'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='keycredential',
            index=models.Index(condition=models.Q(('state', 'requested'), models.Q(('waiting_for', ''), _negated=True)), fields=['waiting_for'], name='credential_waiting'),
        ),
        migrations.RunSQL(
            "GRANT SELECT (waiting_for) ON credentials_keycredential TO lock_queue;",
            "REVOKE SELECT (waiting_for) ON credentials_keycredential FROM lock_queue;",
        ),
    ]
