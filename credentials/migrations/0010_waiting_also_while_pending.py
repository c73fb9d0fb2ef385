"""A pending key can wait for the desk too: while the card it was to be written on is in use."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('credentials', '0009_doors_that_cannot_be_told'),
    ]

    operations = [
        migrations.RemoveIndex(
            model_name='keycredential',
            name='credential_waiting',
        ),
        migrations.AddIndex(
            model_name='keycredential',
            index=models.Index(condition=models.Q(('state__in', ['pending', 'requested']), models.Q(('waiting_for', ''), _negated=True)), fields=['waiting_for'], name='credential_waits'),
        ),
    ]
