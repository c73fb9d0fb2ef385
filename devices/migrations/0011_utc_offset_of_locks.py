"""How far from UTC a vendor takes a lock's clock to be."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('devices', '0010_figures'),
    ]

    operations = [
        migrations.AddField(
            model_name='lockdevice',
            name='utc_offset_s',
            field=models.IntegerField(null=True),
        ),
    ]
