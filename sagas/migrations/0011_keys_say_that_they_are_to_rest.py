"""A key on its way says itself why it is to rest as soon as it is there; so far only the saga that waits for it said so."""

from django.db import migrations

SAY_SO = """
UPDATE credentials_keycredential AS k
   SET suspend_reason = s.args ->> 'suspendWhenActive'
  FROM sagas_saga AS s
 WHERE s.tenant_id = k.tenant_id AND s.credential_id = k.id AND s.flow = 'suspend' AND s.args ->> 'suspendWhenActive' IS NOT NULL
   AND k.issued_at IS NULL AND k.replaced_by IS NULL AND k.suspend_reason = '';
"""


class Migration(migrations.Migration):

    dependencies = [
        ('sagas', '0010_watch'),
        ('credentials', '0010_waiting_also_while_pending'),
    ]

    operations = [
        migrations.RunSQL(SAY_SO, migrations.RunSQL.noop),
    ]
