"""Makes the topics and subscriptions of this service at Pub/Sub, and corrects what differs.

Rule: run it as often as you like; it never deletes. It ends with status 1 when something conflicts and needs a decision.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections import Counter
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from google.api_core import exceptions as api

from sagas.bus.factory import emulator_host, project_id
from sagas.bus.provisioning import Outcome, changes
from sagas.bus.pubsub_clients import PubSubClients
from sagas.bus.topology import from_registry


class Command(BaseCommand):
    help = "Makes and corrects this service's Pub/Sub topics and subscriptions; safe to run again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--project", help="Google Cloud project; default: PUBSUB_PROJECT_ID")
        parser.add_argument("--emulator-host", help="host:port of a local server; default: PUBSUB_EMULATOR_HOST")
        parser.add_argument("--dry-run", action="store_true", help="only say what would be done")

    def handle(self, *args: object, **options: Any) -> None:
        project = options["project"] or project_id()
        host = options["emulator_host"] or emulator_host()
        topology = from_registry()
        total = len(topology.topics) + len(topology.subscriptions)
        clients = PubSubClients(host)
        counts: Counter[Outcome] = Counter()
        try:
            for number, change in enumerate(changes(topology, clients, project, dry_run=options["dry_run"]), start=1):
                counts[change.outcome] += 1
                if change.outcome is not Outcome.PRESENT or options["verbosity"] > 1:
                    details = f" ({', '.join(change.differing)})" if change.differing else ""
                    self.stdout.write(f"[{number}/{total}] {change.outcome} {change.kind} {change.name}{details}")
        except (api.GoogleAPICallError, api.RetryError) as failure:
            raise CommandError(f"Pub/Sub: {type(failure).__name__}; run it again, nothing is lost") from failure
        finally:
            clients.close()
        done = "would be " if options["dry_run"] else ""
        words = {outcome: outcome if outcome is Outcome.PRESENT else f"{done}{outcome}" for outcome in Outcome}
        summary = ", ".join(f"{counts[outcome]} {word}" for outcome, word in words.items())
        self.stdout.write(f"{project}: {summary}")
        if host is None:
            self.stdout.write(
                "Dead letters need two grants that no API call here makes: the project's Pub/Sub service account must be "
                "publisher on every *.dlq.v1 topic and subscriber on every subscription above."
            )
        if counts[Outcome.CONFLICTS]:
            raise CommandError("conflicting subscriptions: drain and delete them, then run this again")
