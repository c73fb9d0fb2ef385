"""Lets an event of a tenant end a person's access there, and nothing else: no login of web or worker needs to write for it."""

from typing import ClassVar

from django.db import migrations

END_ACCESS = """
CREATE FUNCTION console_end_access(person text) RETURNS integer LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, public AS $$
DECLARE
    here text := NULLIF(current_setting('app.tenant', true), '');
    logins integer[];
BEGIN
    SELECT array_agg(user_id) INTO logins FROM console_stafftenant WHERE tenant_id = here AND actor_id = person;
    DELETE FROM console_stafftenant WHERE tenant_id = here AND actor_id = person;
    UPDATE auth_user SET is_active = false, password = '!' || gen_random_uuid()
        WHERE id = ANY(logins) AND NOT EXISTS (SELECT 1 FROM console_stafftenant s WHERE s.user_id = auth_user.id);
    RETURN COALESCE(cardinality(logins), 0);
END $$;
REVOKE ALL ON FUNCTION console_end_access(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION console_end_access(text) TO lock_app;
"""


class Migration(migrations.Migration):
    """The function."""

    dependencies: ClassVar = [("console", "0002_row_level_security")]
    operations: ClassVar = [migrations.RunSQL(END_ACCESS, "DROP FUNCTION console_end_access(text);")]
