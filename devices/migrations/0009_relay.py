"""The desk relay: jobs, connected desks, running numbers; secured."""

from django.db import migrations, models

from lockservice.core.rls import secure_tenant_table


class Migration(migrations.Migration):

    dependencies = [
        ('devices', '0008_read_back'),
    ]

    operations = [
        migrations.CreateModel(
            name='RelayDesk',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tenant_id', models.CharField(max_length=64)),
                ('desk_id', models.CharField(max_length=64)),
                ('property_id', models.CharField(max_length=64)),
                ('connection', models.CharField(max_length=40)),
                ('vendors', models.JSONField(default=list)),
                ('program', models.CharField(blank=True, max_length=80)),
                ('encoder', models.CharField(blank=True, max_length=80)),
                ('is_encoder_ready', models.BooleanField(default=True)),
                ('connected_at', models.DateTimeField()),
                ('seen_at', models.DateTimeField()),
                ('expires_at', models.DateTimeField()),
            ],
            options={
                'indexes': [models.Index(fields=['tenant_id', 'property_id', 'expires_at'], name='relay_desk_by_property')],
                'constraints': [models.UniqueConstraint(fields=('tenant_id', 'desk_id'), name='relay_desk_once')],
            },
        ),
        migrations.CreateModel(
            name='RelayJobRow',
            fields=[
                ('id', models.CharField(max_length=64, primary_key=True, serialize=False)),
                ('tenant_id', models.CharField(max_length=64)),
                ('property_id', models.CharField(max_length=64)),
                ('installation_id', models.CharField(max_length=64)),
                ('vendor', models.CharField(max_length=40)),
                ('key', models.CharField(max_length=80)),
                ('turn', models.PositiveSmallIntegerField(default=1)),
                ('credential_id', models.CharField(blank=True, max_length=64)),
                ('action', models.CharField(max_length=32)),
                ('doors', models.JSONField(default=list)),
                ('numbers', models.JSONField(default=dict)),
                ('outranked', models.JSONField(default=list)),
                ('body_sealed', models.BinaryField()),
                ('result_sealed', models.BinaryField(null=True)),
                ('needs_card', models.BooleanField(default=False)),
                ('lasts_until', models.DateTimeField(null=True)),
                ('priority', models.PositiveSmallIntegerField(default=2)),
                ('state', models.CharField(choices=[('queued', 'Queued'), ('offered', 'Offered'), ('accepted', 'Accepted'), ('unknown', 'Unknown'), ('done', 'Done'), ('refused', 'Refused'), ('cancelled', 'Cancelled'), ('expired', 'Expired')], default='queued', max_length=10)),
                ('stage', models.CharField(blank=True, max_length=16)),
                ('refusal', models.CharField(blank=True, max_length=20)),
                ('detail', models.CharField(blank=True, max_length=300)),
                ('desk_id', models.CharField(blank=True, max_length=64)),
                ('connection', models.CharField(blank=True, max_length=40)),
                ('cancel_wanted', models.BooleanField(default=False)),
                ('asked_at', models.DateTimeField(null=True)),
                ('created_at', models.DateTimeField()),
                ('expires_at', models.DateTimeField()),
                ('finished_at', models.DateTimeField(null=True)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('state__in', ('queued', 'offered', 'accepted', 'unknown'))), fields=['tenant_id', 'property_id', 'priority', 'created_at'], name='relay_job_open'), models.Index(fields=['tenant_id', 'credential_id'], name='relay_job_by_credential'), models.Index(fields=['tenant_id', 'created_at'], name='relay_job_by_age')],
                'constraints': [models.UniqueConstraint(fields=('tenant_id', 'installation_id', 'key', 'turn'), name='relay_job_once'), models.UniqueConstraint(condition=models.Q(('state__in', ('queued', 'offered', 'accepted', 'unknown'))), fields=('tenant_id', 'installation_id', 'key'), name='relay_job_one_open'), models.CheckConstraint(condition=models.Q(('state__in', ['queued', 'offered', 'accepted', 'unknown', 'done', 'refused', 'cancelled', 'expired'])), name='relay_job_state_known'), models.CheckConstraint(condition=models.Q(('stage__in', ['', 'awaiting_card', 'writing', 'verifying'])), name='relay_job_stage_known'), models.CheckConstraint(condition=models.Q(('refusal__in', ['', 'encoder_offline', 'encoder_busy', 'card_unusable', 'card_swapped', 'verify_failed', 'does_not_fit', 'not_supported', 'not_done', 'failed'])), name='relay_job_refusal_known')],
            },
        ),
        migrations.CreateModel(
            name='RelayNumber',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tenant_id', models.CharField(max_length=64)),
                ('installation_id', models.CharField(max_length=64)),
                ('place', models.CharField(max_length=64)),
                ('given', models.BigIntegerField(default=0)),
                ('written', models.BigIntegerField(default=0)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('tenant_id', 'installation_id', 'place'), name='relay_number_once')],
            },
        ),
        secure_tenant_table("devices_relayjobrow"),
        secure_tenant_table("devices_relaydesk"),
        secure_tenant_table("devices_relaynumber"),
    ]
