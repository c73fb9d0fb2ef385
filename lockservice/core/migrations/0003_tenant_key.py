"""A tenant's own key-encryption key."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('core', '0002_row_level_security'),
    ]

    operations = [
        migrations.AddField(
            model_name='tenant',
            name='config_key_name',
            field=models.CharField(blank=True, max_length=300),
        ),
    ]
