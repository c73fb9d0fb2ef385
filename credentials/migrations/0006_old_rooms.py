"""A door whose room was left says whether it is kept until the new room opens."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('credentials', '0005_stays_and_signs'),
    ]

    operations = [
        migrations.AddField(
            model_name='credentialdoor',
            name='old_room',
            field=models.CharField(
                blank=True, choices=[('kept', 'opens until the new room does'), ('released', 'is taken now')], db_default='',
                default='', max_length=8,
            ),
        ),
    ]
