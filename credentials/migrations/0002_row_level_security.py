"""Secures the credential tables, ties doors to their credential, and guards the moves of a credential."""

from typing import ClassVar

from django.db import migrations

from credentials.lifecycle import MOVES, State
from lockservice.core.rls import secure_tenant_table

_ALLOWED = " OR ".join(
    f"(OLD.state = '{source}' AND NEW.state = '{move.target}')" for move in MOVES for source in sorted(move.sources)
)
_GUARD = f"""
CREATE FUNCTION credential_move_allowed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.state <> '{State.REQUESTED}' THEN
            RAISE EXCEPTION 'a credential starts as requested, not %', NEW.state USING ERRCODE = 'check_violation';
        END IF;
    ELSIF NEW.state IS DISTINCT FROM OLD.state AND NOT ({_ALLOWED}) THEN
        RAISE EXCEPTION 'a credential does not move from % to %', OLD.state, NEW.state USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER credential_moves BEFORE INSERT OR UPDATE OF state ON credentials_keycredential
    FOR EACH ROW EXECUTE FUNCTION credential_move_allowed();
"""


class Migration(migrations.Migration):
    """Row-level security, composite foreign key, move guard."""

    dependencies: ClassVar = [("credentials", "0001_initial")]
    operations: ClassVar = [
        secure_tenant_table("credentials_keycredential"),
        secure_tenant_table("credentials_credentialdoor"),
        secure_tenant_table("credentials_reservation"),
        secure_tenant_table("credentials_pinslot"),
        secure_tenant_table("credentials_artifact"),
        secure_tenant_table("credentials_transition", append_only=True),
        secure_tenant_table("credentials_keypolicyrow"),
        migrations.RunSQL(
            "CREATE POLICY queue_reads ON credentials_keycredential FOR SELECT TO lock_queue USING (true);"
            "GRANT SELECT (tenant_id, id, state, ends_at) ON credentials_keycredential TO lock_queue;",
            "DROP POLICY queue_reads ON credentials_keycredential;",
        ),
        migrations.RunSQL(
            "ALTER TABLE credentials_credentialdoor ADD CONSTRAINT door_of_credential FOREIGN KEY (tenant_id, credential_id)"
            " REFERENCES credentials_keycredential (tenant_id, id);",
            "ALTER TABLE credentials_credentialdoor DROP CONSTRAINT door_of_credential;",
        ),
        migrations.RunSQL(
            _GUARD,
            "DROP TRIGGER credential_moves ON credentials_keycredential; DROP FUNCTION credential_move_allowed();",
        ),
    ]
