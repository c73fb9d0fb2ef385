"""What the watch found, how far its walks have come, and whether the work of a lane goes on."""

from django.db import migrations, models

from lockservice.core.rls import open_shared_table, secure_queue_table

CHECKS = ("ended_key", "key_without_stay", "lane", "live_key", "open", "open_work", "stay_without_key")


class Migration(migrations.Migration):

    dependencies = [
        ('sagas', '0009_alerts_of_stays'),
    ]

    operations = [
        migrations.CreateModel(
            name='Violation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tenant_id', models.CharField(max_length=64)),
                ('name', models.CharField(max_length=24)),
                ('subject', models.CharField(max_length=200)),
                ('found_at', models.DateTimeField()),
                ('repairs_count', models.PositiveIntegerField(default=0)),
                ('repair_at', models.DateTimeField(null=True)),
                ('mended_at', models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='WatchCursor',
            fields=[
                ('name', models.CharField(max_length=24, primary_key=True, serialize=False)),
                ('after', models.CharField(blank=True, max_length=300)),
                ('next_at', models.DateTimeField()),
            ],
        ),
        migrations.AddField(
            model_name='lane',
            name='due_since',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='lane',
            name='progressed_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddIndex(
            model_name='lane',
            index=models.Index(condition=models.Q(('due_since__isnull', False)), fields=['key'], name='lane_due'),
        ),
        migrations.AddIndex(
            model_name='violation',
            index=models.Index(condition=models.Q(('mended_at__isnull', True)), fields=['id'], name='violation_open'),
        ),
        migrations.AddIndex(
            model_name='violation',
            index=models.Index(condition=models.Q(('mended_at__isnull', False)), fields=['mended_at'], name='violation_mended'),
        ),
        migrations.AddConstraint(
            model_name='violation',
            constraint=models.UniqueConstraint(condition=models.Q(('mended_at__isnull', True)), fields=('tenant_id', 'name', 'subject'), name='violation_once'),
        ),
        *secure_queue_table("sagas_violation"),
        open_shared_table("sagas_watchcursor", readers="lock_queue", writers="lock_queue"),
        migrations.RunSQL(
            "INSERT INTO sagas_watchcursor (name, after, next_at) VALUES "
            + ", ".join(f"('{name}', '', clock_timestamp())" for name in CHECKS)
            + ";",
            migrations.RunSQL.noop,
        ),
    ]
