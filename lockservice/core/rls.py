"""Row-level security as migration operations, so that a table and its policy arrive together.

One rule: every table with tenant data is secured and forced; a test enumerates the tables and knows the exemptions.
After a transaction-local setting ends its value is empty text, not NULL; hence NULLIF in the policies.
"""

from __future__ import annotations

from django.db import migrations

TENANT_TEST = "tenant_id = NULLIF(current_setting('app.tenant', true), '')"


def secure_tenant_table(table: str, *, append_only: bool = False) -> migrations.RunSQL:
    """Lets the application role see and write the rows of the transaction's tenant; append-only tables take no change."""
    rights = "SELECT, INSERT" if append_only else "SELECT, INSERT, UPDATE, DELETE"
    return migrations.RunSQL(
        f"""
        ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
        ALTER TABLE {table} FORCE ROW LEVEL SECURITY;
        CREATE POLICY tenant_rows ON {table} TO lock_app USING ({TENANT_TEST}) WITH CHECK ({TENANT_TEST});
        CREATE POLICY owner_migrates ON {table} TO lock_owner USING (true) WITH CHECK (true);
        GRANT {rights} ON {table} TO lock_app;
        """,
        f"""
        DROP POLICY tenant_rows ON {table}; DROP POLICY owner_migrates ON {table};
        ALTER TABLE {table} DISABLE ROW LEVEL SECURITY;
        """,
    )


def secure_queue_table(table: str) -> list[migrations.RunSQL]:
    """As a tenant table, and the queue role sees and works the rows of all tenants."""
    return [
        secure_tenant_table(table),
        migrations.RunSQL(
            f"""
            CREATE POLICY queue_rows ON {table} TO lock_queue USING (true) WITH CHECK (true);
            GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO lock_queue;
            ALTER TABLE {table} SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 200);
            """,
            f"DROP POLICY queue_rows ON {table};",
        ),
    ]


def open_to_queue_reader(table: str) -> migrations.RunSQL:
    """Lets the queue role read a tenant table's rows (scheduling data, no secrets)."""
    return migrations.RunSQL(
        f"CREATE POLICY queue_reads ON {table} FOR SELECT TO lock_queue USING (true); GRANT SELECT ON {table} TO lock_queue;",
        f"DROP POLICY queue_reads ON {table};",
    )


def open_columns_to_queue_reader(table: str, *columns: str) -> migrations.RunSQL:
    """Lets the queue role read a tenant table's rows, these columns of them and no other: what is counted over all tenants."""
    return migrations.RunSQL(
        f"CREATE POLICY queue_reads ON {table} FOR SELECT TO lock_queue USING (true);"
        f" GRANT SELECT ({', '.join(columns)}) ON {table} TO lock_queue;",
        f"DROP POLICY queue_reads ON {table}; REVOKE SELECT ({', '.join(columns)}) ON {table} FROM lock_queue;",  # noqa: S608
    )


def open_shared_table(table: str, *, readers: str, writers: str = "") -> migrations.RunSQL:
    """Opens a table without tenant data (clock, heartbeats, shards) to the named roles."""
    write = f"GRANT INSERT, UPDATE, DELETE ON {table} TO {writers};" if writers else ""
    return migrations.RunSQL(f"GRANT SELECT ON {table} TO {readers}; {write}", migrations.RunSQL.noop)
