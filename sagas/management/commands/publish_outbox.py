"""`manage.py publish_outbox`: relays the outbox to the bus."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection

from lockservice.core import tenancy
from sagas import bus
from sagas.alive import SignsOfLife
from sagas.publisher import Publisher, ensure_shards
from sagas.tasks import stop_on_signals


class Command(BaseCommand):
    """Runs until stopped; `--drain` ends when nothing is left; `--since` sends again what was published from then on."""

    help = "Publishes outbox rows in order per key."
    requires_system_checks: list[str] = []  # a second of processor time at each start; `migrate` has made them

    def add_arguments(self, parser: CommandParser) -> None:
        """Adds the options."""
        parser.add_argument("--drain", action="store_true", help="end when nothing is left")
        parser.add_argument("--since", help="an instant with a zone: events created from then on are sent again")
        parser.add_argument("--dry-run", action="store_true", help="with --since: only count")

    def handle(self, *args: Any, **options: Any) -> None:
        """Runs."""
        if options["since"]:
            self._send_again(options["since"], dry_run=options["dry_run"])
            if options["dry_run"]:
                return
        stop = stop_on_signals()
        link = bus.from_settings()
        with tenancy.queues():
            ensure_shards()
        with SignsOfLife("publisher"):
            published = Publisher(link).run(until=stop, drain=options["drain"])
        link.close()
        self.stdout.write(f"{published} events")

    def _send_again(self, text: str, *, dry_run: bool) -> None:
        since = _instant(text)
        with tenancy.queues(), connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM sagas_outboxevent WHERE created_at >= %s AND published_at IS NOT NULL", [since]
            )
            self.stdout.write(f"{cursor.fetchone()[0]} events to send again")
            if not dry_run:
                cursor.execute("UPDATE sagas_outboxevent SET published_at = NULL WHERE created_at >= %s", [since])


def _instant(text: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as error:
        raise CommandError(f"--since: {text!r} is no instant") from error
    if instant.tzinfo is None:
        raise CommandError("--since: an instant needs a time zone, such as 2026-05-01T00:00:00Z")
    return instant.astimezone(UTC)
