"""An alert may be about a stay, whose guest nobody else may know."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('sagas', '0008_known_action'),
    ]

    operations = [
        migrations.AddField(
            model_name='alert',
            name='guest_sealed',
            field=models.BinaryField(null=True),
        ),
        migrations.AddField(
            model_name='alert',
            name='reservation_id',
            field=models.CharField(blank=True, max_length=64),
        ),
    ]
