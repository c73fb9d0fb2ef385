"""The sheet of figures; it holds no tenant's data."""

from django.db import migrations, models

from lockservice.core.rls import open_shared_table


class Migration(migrations.Migration):

    dependencies = [
        ('core', '0003_tenant_key'),
    ]

    operations = [
        migrations.CreateModel(
            name='FigureSheet',
            fields=[
                ('id', models.PositiveSmallIntegerField(primary_key=True, serialize=False)),
                ('counted_at', models.DateTimeField()),
                ('body', models.JSONField(default=list)),
            ],
        ),
        open_shared_table("core_figuresheet", readers="lock_app, lock_queue", writers="lock_queue"),
    ]
