"""Ids of actions people took: one sent again changes nothing."""

from django.db import migrations, models

from lockservice.core.rls import secure_tenant_table


class Migration(migrations.Migration):

    dependencies = [
        ('sagas', '0007_figures'),
    ]

    operations = [
        migrations.CreateModel(
            name='KnownAction',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tenant_id', models.CharField(max_length=64)),
                ('action_id', models.CharField(max_length=120)),
                ('fingerprint', models.CharField(max_length=64)),
                ('credential_id', models.CharField(blank=True, max_length=64)),
                ('saga_id', models.CharField(max_length=64, null=True)),
                ('taken_at', models.DateTimeField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('tenant_id', 'action_id'), name='known_action_once')],
            },
        ),
        secure_tenant_table("sagas_knownaction"),
    ]
