"""What a stay was told by, what shows that its guest came, and what ended a key."""

from django.db import migrations, models

from lockservice.core.rls import secure_tenant_table

WHO_ENDED = """
UPDATE credentials_keycredential AS k
   SET ended_by = CASE WHEN t.actor IN ('', 'saga') THEN '' ELSE t.actor END,
       end_trigger = CASE
           WHEN t.actor NOT IN ('', 'saga') THEN ''
           WHEN k.revoke_reason = 'checkout' THEN 'window_ended'
           WHEN k.revoke_reason = 'replaced' AND k.replaced_by IS NULL THEN 'room_moved'
           WHEN k.revoke_reason = 'replaced' THEN 'replaced'
           WHEN k.revoke_reason = 'cancellation' THEN 'cancelled'
           ELSE 'unknown'
       END
  FROM credentials_transition AS t
 WHERE t.tenant_id = k.tenant_id AND t.credential_id = k.id AND t.move IN ('revoke', 'fail')
   AND k.state IN ('revoked', 'failed') AND k.revoke_reason <> '';
"""


class Migration(migrations.Migration):

    dependencies = [
        ('credentials', '0004_figures'),
    ]

    operations = [
        migrations.AddField(
            model_name='keycredential',
            name='end_trigger',
            field=models.CharField(blank=True, max_length=32),
        ),
        migrations.AddField(
            model_name='keycredential',
            name='ended_by',
            field=models.CharField(blank=True, max_length=64),
        ),
        migrations.AddField(
            model_name='reservation',
            name='check_in',
            field=models.DateField(null=True),
        ),
        migrations.AddField(
            model_name='reservation',
            name='check_out',
            field=models.DateField(null=True),
        ),
        migrations.AddField(
            model_name='reservation',
            name='content',
            field=models.CharField(blank=True, max_length=80),
        ),
        migrations.AddField(
            model_name='reservation',
            name='warnings',
            field=models.JSONField(default=list),
        ),
        migrations.CreateModel(
            name='ArrivalSign',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tenant_id', models.CharField(max_length=64)),
                ('reservation_id', models.CharField(max_length=64)),
                ('incarnation', models.PositiveIntegerField(default=1)),
                ('kind', models.CharField(max_length=8)),
                ('detail', models.CharField(blank=True, max_length=120)),
                ('at', models.DateTimeField()),
                ('noted_at', models.DateTimeField()),
            ],
            options={
                'indexes': [models.Index(fields=['tenant_id', 'noted_at'], name='arrival_sign_by_age')],
                'constraints': [models.UniqueConstraint(fields=('tenant_id', 'reservation_id', 'incarnation', 'kind'), name='arrival_sign_once')],
            },
        ),
        secure_tenant_table("credentials_arrivalsign"),
        migrations.RunSQL(WHO_ENDED, migrations.RunSQL.noop),
    ]
