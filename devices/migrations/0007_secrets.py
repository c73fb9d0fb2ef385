"""Data keys of installations, versions in the secret store, due rotations, fingerprints, break-glass; all secured."""

from django.db import migrations, models

from lockservice.core.rls import open_to_queue_reader, secure_tenant_table


class Migration(migrations.Migration):

    dependencies = [
        ('devices', '0006_cost_counters'),
    ]

    operations = [
        migrations.AddField(
            model_name='vendorinstallation',
            name='data_key_made_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='vendorinstallation',
            name='data_key_name',
            field=models.CharField(blank=True, max_length=300),
        ),
        migrations.AddField(
            model_name='vendorinstallation',
            name='data_key_wrapped',
            field=models.BinaryField(null=True),
        ),
        migrations.AddField(
            model_name='vendorinstallation',
            name='data_key_wrapped_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='vendorinstallation',
            name='secret_versions',
            field=models.JSONField(blank=True, default=dict),
        ),
        migrations.CreateModel(
            name='BreakGlass',
            fields=[
                ('id', models.CharField(max_length=64, primary_key=True, serialize=False)),
                ('tenant_id', models.CharField(max_length=64)),
                ('property_id', models.CharField(max_length=64)),
                ('installation_id', models.CharField(max_length=64)),
                ('secret_name', models.CharField(max_length=40)),
                ('incident', models.CharField(max_length=64)),
                ('reason', models.CharField(max_length=200)),
                ('requested_by', models.CharField(max_length=64)),
                ('state', models.CharField(default='requested', max_length=10)),
                ('requested_at', models.DateTimeField()),
                ('expires_at', models.DateTimeField()),
                ('revealed_at', models.DateTimeField(null=True)),
                ('revealed_version', models.PositiveIntegerField(null=True)),
                ('closed_at', models.DateTimeField(null=True)),
            ],
            options={
                'verbose_name': 'break-glass request',
                'indexes': [models.Index(condition=models.Q(('state__in', ['requested', 'approved', 'revealed'])), fields=['expires_at'], name='break_glass_open'), models.Index(fields=['tenant_id', 'requested_at'], name='break_glass_by_age')],
                'constraints': [models.CheckConstraint(condition=models.Q(('state__in', ('requested', 'approved', 'revealed', 'closed', 'expired', 'refused'))), name='break_glass_state_known')],
            },
        ),
        migrations.CreateModel(
            name='BreakGlassStep',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tenant_id', models.CharField(max_length=64)),
                ('request_id', models.CharField(max_length=64)),
                ('step', models.CharField(max_length=10)),
                ('actor_id', models.CharField(blank=True, max_length=64)),
                ('detail', models.CharField(blank=True, max_length=200)),
                ('at', models.DateTimeField()),
            ],
            options={
                'indexes': [models.Index(fields=['tenant_id', 'request_id'], name='break_glass_steps')],
                'constraints': [models.CheckConstraint(condition=models.Q(('step__in', ('requested', 'approved', 'refused', 'revealed', 'closed', 'expired'))), name='break_glass_step_known'), models.UniqueConstraint(condition=models.Q(('step', 'approved')), fields=('tenant_id', 'request_id', 'actor_id'), name='break_glass_approved_once')],
            },
        ),
        migrations.CreateModel(
            name='SecretDue',
            fields=[
                ('id', models.CharField(max_length=64, primary_key=True, serialize=False)),
                ('tenant_id', models.CharField(max_length=64)),
                ('property_id', models.CharField(max_length=64)),
                ('installation_id', models.CharField(max_length=64)),
                ('kind', models.CharField(max_length=16)),
                ('name', models.CharField(max_length=40)),
                ('reason', models.CharField(max_length=16)),
                ('detail', models.CharField(blank=True, max_length=120)),
                ('needs_person', models.BooleanField(default=True)),
                ('due_at', models.DateTimeField()),
                ('made_at', models.DateTimeField()),
                ('done_at', models.DateTimeField(null=True)),
                ('told_at', models.DateTimeField(null=True)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('done_at__isnull', True)), fields=['due_at'], name='secret_due_open')],
                'constraints': [models.CheckConstraint(condition=models.Q(('kind__in', ('secret', 'webhook_address', 'data_key', 'pairing'))), name='secret_due_kind_known'), models.UniqueConstraint(condition=models.Q(('done_at__isnull', True)), fields=('tenant_id', 'installation_id', 'kind', 'name'), name='secret_due_once')],
            },
        ),
        migrations.CreateModel(
            name='SecretFingerprint',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tenant_id', models.CharField(max_length=64)),
                ('property_id', models.CharField(max_length=64)),
                ('vendor', models.CharField(max_length=40)),
                ('fingerprint', models.BinaryField(max_length=32)),
                ('name', models.CharField(max_length=40)),
                ('rotation_id', models.CharField(blank=True, max_length=64)),
                ('made_at', models.DateTimeField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('vendor', 'fingerprint'), name='secret_fingerprint_once')],
            },
        ),
        migrations.CreateModel(
            name='SecretRotation',
            fields=[
                ('id', models.CharField(max_length=64, primary_key=True, serialize=False)),
                ('tenant_id', models.CharField(max_length=64)),
                ('installation_id', models.CharField(max_length=64)),
                ('stage', models.CharField(max_length=12)),
                ('versions', models.JSONField(default=dict)),
                ('overlap_s', models.PositiveIntegerField()),
                ('actor_id', models.CharField(max_length=64)),
                ('started_at', models.DateTimeField()),
                ('switched_at', models.DateTimeField(null=True)),
                ('retire_at', models.DateTimeField(null=True)),
                ('ended_at', models.DateTimeField(null=True)),
                ('error', models.CharField(blank=True, max_length=60)),
            ],
            options={
                'indexes': [models.Index(fields=['stage', 'retire_at'], name='secret_rotation_open')],
                'constraints': [models.CheckConstraint(condition=models.Q(('stage__in', ('staged', 'switched', 'dropped', 'retired', 'rolled_back'))), name='secret_rotation_stage_known'), models.UniqueConstraint(condition=models.Q(('stage', 'staged')), fields=('tenant_id', 'installation_id'), name='secret_rotation_one_staged')],
            },
        ),
        secure_tenant_table("devices_secretdue"),
        open_to_queue_reader("devices_secretdue"),
        secure_tenant_table("devices_secretrotation"),
        open_to_queue_reader("devices_secretrotation"),
        secure_tenant_table("devices_secretfingerprint"),
        secure_tenant_table("devices_breakglass"),
        open_to_queue_reader("devices_breakglass"),
        secure_tenant_table("devices_breakglassstep", append_only=True),
    ]
