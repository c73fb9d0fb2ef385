"""Raw baselines: the same work in plain SQL, with nothing of ours around it.

One rule: run on the same machine in the same minute as the thing compared, and reported beside it.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import psycopg
import redis

from lockservice.embedded import postgres
from lockservice.embedded.local import LocalDirectory

HERE = Path(__file__).parent
CLIENTS = 4


def dsn(local: LocalDirectory, database: str) -> str:
    """Returns the superuser's connection text; the raw tables are outside every policy."""
    return postgres.endpoint(local).superuser_dsn(database)


def prepare(local: LocalDirectory, database: str) -> None:
    """Makes the raw tables."""
    with psycopg.connect(dsn(local, database), autocommit=True) as connection:
        connection.execute((HERE / "raw_schema.sql").read_text())  # type: ignore[arg-type]


def saga_steps(local: LocalDirectory, database: str, seconds: int = 3) -> float:
    """Runs the raw saga step (a plan and a record transaction) with pgbench at 4 clients; returns steps per second."""
    command = [
        str(postgres.binary("pgbench")), "-n", "-c", str(CLIENTS), "-j", "2", "-T", str(seconds),
        "-f", str(HERE / "raw_step.sql"), dsn(local, database),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    line = next(line for line in done.stdout.splitlines() if line.startswith("tps"))
    return float(line.split("=")[1].split()[0])


def relay(local: LocalDirectory, database: str, url: str, rows: int) -> float:
    """Relays rows in batches of 100: claim with SKIP LOCKED, publish pipelined, mark, all in one transaction. Rows per second."""
    link = redis.Redis.from_url(url)
    with psycopg.connect(dsn(local, database)) as connection:
        connection.execute("TRUNCATE raw_outbox")
        connection.execute(
            "INSERT INTO raw_outbox (key, sequence, body) SELECT n / 4, mod(n, 4), convert_to(repeat('x', 900), 'UTF8')"
            " FROM generate_series(1, %s) n",
            [rows],
        )
        connection.commit()
        started = time.monotonic()
        while batch := connection.execute(
            "SELECT id, key, body FROM raw_outbox WHERE published_at IS NULL ORDER BY id LIMIT 100 FOR UPDATE SKIP LOCKED"
        ).fetchall():
            pipe = link.pipeline(transaction=False)
            for _, key, body in batch:
                pipe.xadd("bench:raw", {"key": key, "body": body}, maxlen=200_000, approximate=True)
            pipe.execute()
            ids = [row[0] for row in batch]
            connection.execute("UPDATE raw_outbox SET published_at = clock_timestamp() WHERE id = ANY(%s)", [ids])
            connection.commit()
        took = time.monotonic() - started
    link.delete("bench:raw")
    link.close()
    return rows / took


def revoke_path(local: LocalDirectory, database: str, url: str, vendor: str, tries: int = 30) -> list[float]:
    """The shortest thinkable path: stream entry in, one row committed, one HTTP request out. Milliseconds each."""
    import urllib3

    link = redis.Redis.from_url(url)
    http = urllib3.PoolManager()
    spent = []
    with psycopg.connect(dsn(local, database), autocommit=True) as connection:
        for _ in range(tries):
            started = time.monotonic()
            entry = link.xadd("bench:revoke", {"body": b"x" * 500})
            link.xread({"bench:revoke": "0"}, count=1)
            link.xdel("bench:revoke", entry)
            connection.execute("INSERT INTO raw_outbox (key, sequence, body) VALUES (0, 0, 'x')")
            http.request("GET", vendor)
            spent.append((time.monotonic() - started) * 1000)
    link.delete("bench:revoke")
    link.close()
    return spent


def tenant_blocks(local: LocalDirectory, database: str, tenant_id: str, count: int) -> float:
    """Run transactions of one statement that take a role and a tenant first, by the driver alone; returns how many a second."""
    with psycopg.connect(dsn(local, database)) as connection:
        started = time.monotonic()
        for _ in range(count):
            connection.execute(
                "SELECT set_config('role', %s, true), set_config('app.tenant', %s, true), set_config('enable_seqscan', %s, true)",
                ["lock_app", tenant_id, "on"],
            )
            assert connection.execute("SELECT current_setting('app.tenant')").fetchone() == (tenant_id,)
            connection.commit()
        return count / (time.monotonic() - started)
