"""The sweep of ended windows also finds keys that are still on their way, by the same index."""

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    """Replaces the partial index over a credential's end by one over every live state."""

    dependencies: ClassVar = [("credentials", "0002_row_level_security")]
    operations: ClassVar = [
        migrations.AddIndex(
            model_name="keycredential",
            index=models.Index(
                condition=models.Q(("state__in", ["active", "pending", "requested", "suspended"])),
                fields=["ends_at"],
                name="credential_live_by_end",
            ),
        ),
        migrations.RemoveIndex(model_name="keycredential", name="credential_by_end"),
    ]
