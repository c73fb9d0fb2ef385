"""People whose access to a tenant has ended: their tokens of before are refused."""

from django.db import migrations, models

from lockservice.core.rls import secure_tenant_table


class Migration(migrations.Migration):

    dependencies = [
        ('core', '0004_figures'),
    ]

    operations = [
        migrations.CreateModel(
            name='EndedAccess',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tenant_id', models.CharField(max_length=64)),
                ('user_id', models.CharField(max_length=64)),
                ('ended_at', models.DateTimeField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('tenant_id', 'user_id'), name='ended_access_once')],
            },
        ),
        secure_tenant_table("core_endedaccess"),
    ]
