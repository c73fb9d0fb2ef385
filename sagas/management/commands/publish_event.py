"""`manage.py publish_event FILE|-`: puts events on the bus, as the service that owns them would."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from sagas import bus
from sagas.bus.port import BusError, BusMessage
from sagas.events import envelope, registry
from sagas.events.event_spec import Direction
from sagas.events.inbound import parse
from sagas.events.refusals import EventRefused, RefusalCode
from sagas.events.validate import validate


class Command(BaseCommand):
    help = "Checks events (one JSON document, a list, or one a line) and publishes all of them, or none if one is refused."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", help="a file, or - for standard input")
        parser.add_argument("--dry-run", action="store_true", help="only check")

    def handle(self, *_args: Any, **options: Any) -> None:
        messages, refused = [], 0
        for number, raw in enumerate(_documents(_read(options["file"])), start=1):
            try:
                messages.append(message_of(raw))
            except EventRefused as refusal:
                refused += 1
                self.stderr.write(f"event {number}: {refusal.code} {refusal.detail}")
        if refused:
            raise CommandError(f"{refused} refused, nothing was published")
        if not messages:
            raise CommandError("no event in there")
        if not options["dry_run"]:
            _publish(messages)
        self.stdout.write(f"{len(messages)} {'checked' if options['dry_run'] else 'published'}")


def message_of(raw: bytes) -> BusMessage:
    """Checks an event, however its subject is spelled, and makes its message in canonical form. Raises EventRefused."""
    event = envelope.decode(raw)
    spec = registry.spec(event.subject)
    if spec.direction is Direction.CONSUMED:
        parse(event)
    else:
        validate(event.subject, event.data)
    if spec.topic is None:
        raise EventRefused(RefusalCode.INVALID_FIELD, "subject: a local event never travels on the bus")
    key = event.ordering_key or spec.ordering.key_of(event.data) or ""
    attributes = {"subject": event.subject, "tenantId": event.tenant_id, "eventId": event.id}
    return BusMessage(spec.topic, key, envelope.encode(event), attributes)


def _publish(messages: list[BusMessage]) -> None:
    link = bus.from_settings()
    try:
        link.publish(messages)
    except BusError as error:
        raise CommandError(str(error)) from error
    finally:
        link.close()


def _read(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise CommandError(f"{name}: {error.strerror}") from error


def _documents(content: bytes) -> list[bytes]:
    """Splits into single events. One that is no JSON is handed on as it is, to be refused with its reason."""
    try:
        whole = json.loads(content)
    except ValueError:
        return [line for line in content.splitlines() if line.strip()]
    if isinstance(whole, list):
        return [json.dumps(item, ensure_ascii=False).encode() for item in whole]
    return [content]
