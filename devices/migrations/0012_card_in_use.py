"""A desk can say that the card it was to write is in use."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('devices', '0011_utc_offset_of_locks'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='relayjobrow',
            name='relay_job_refusal_known',
        ),
        migrations.AddConstraint(
            model_name='relayjobrow',
            constraint=models.CheckConstraint(condition=models.Q(('refusal__in', ['', 'encoder_offline', 'encoder_busy', 'card_unusable', 'card_swapped', 'card_in_use', 'verify_failed', 'does_not_fit', 'not_supported', 'not_done', 'failed'])), name='relay_job_refusal_known'),
        ),
    ]
