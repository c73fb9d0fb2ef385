"""Counts keys given and taken back beside the calls, for price lists that charge by them."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("devices", "0005_health_and_webhooks_security"),
    ]

    operations = [
        migrations.AddField("callcount", "issues", models.BigIntegerField(default=0)),
        migrations.AddField("callcount", "revokes", models.BigIntegerField(default=0)),
    ]
