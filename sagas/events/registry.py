"""Knows every event.

One rule: an incomplete registry does not load. A missing schema, a doubled subject, an orphaned file or a wrong alias
stops the program at import, not the first event of that kind at midnight.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sagas.events.catalogue import ALIASES, EVENTS
from sagas.events.event_spec import Direction, EventSpec, Form, split_subject
from sagas.events.refusals import EventRefused, RefusalCode, UnknownSubject

SCHEMAS = Path(__file__).parent / "schemas"
BASELINE_NAME = "published.json"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class RegistryIncomplete(Exception):
    """The list of events and the schema files do not fit together. A programming error; never retry."""


class Registry:
    """An immutable set of event specs with their schemas."""

    def __init__(self, specs: Iterable[EventSpec], aliases: Mapping[str, str], schemas: Path) -> None:
        """Reads all schema files below `schemas`. Raises `RegistryIncomplete` with everything that is wrong."""
        self._specs: dict[str, EventSpec] = {}
        self._schemas: dict[str, dict[str, Any]] = {}
        self._files: dict[str, bytes] = {}
        problems: list[str] = []
        for spec in specs:
            if spec.subject in self._specs:
                problems.append(f"{spec.subject}: registered twice")
                continue
            self._specs[spec.subject] = spec
            problems.extend(_faults(spec))
            problems.extend(self._load_schema(spec, schemas))
        problems.extend(_orphans(self._files, schemas))
        self._aliases = dict(aliases)
        problems.extend(self._alias_faults())
        problems.extend(self._version_faults())
        if problems:
            raise RegistryIncomplete("; ".join(problems))
        self._bases = frozenset(spec.base for spec in self._specs.values())

    def _load_schema(self, spec: EventSpec, schemas: Path) -> list[str]:
        if spec.schema_file in self._files:
            return [f"{spec.subject}: shares {spec.schema_file} with another subject"]
        try:
            raw = (schemas / spec.schema_file).read_bytes()
        except FileNotFoundError:
            return [f"{spec.subject}: schema {spec.schema_file} is missing"]
        self._files[spec.schema_file] = raw
        try:
            schema = json.loads(raw)
        except ValueError:
            return [f"{spec.subject}: schema {spec.schema_file} is no JSON"]
        self._schemas[spec.subject] = schema
        expected = {"$schema": _DIALECT, "$id": spec.schema_url, "title": spec.subject, "type": "object"}
        return [
            f"{spec.subject}: {name} of {spec.schema_file} is wrong"
            for name, value in expected.items()
            if schema.get(name) != value
        ]

    def _alias_faults(self) -> list[str]:
        faults = [f"alias {alias} hides a subject" for alias in self._aliases if alias in self._specs]
        return faults + [
            f"alias {alias} names no subject" for alias, subject in self._aliases.items() if subject not in self._specs
        ]

    def _version_faults(self) -> list[str]:
        return [
            f"{spec.subject}: cannot also publish {spec.also_publish.subject}"
            for spec in self._specs.values()
            if spec.also_publish is not None and not self._is_older_version(spec, spec.also_publish.subject)
        ]

    def _is_older_version(self, spec: EventSpec, subject: str) -> bool:
        older = self._specs.get(subject)
        if older is None or older.direction is not Direction.PRODUCED or spec.direction is not Direction.PRODUCED:
            return False
        return older.base == spec.base and older.version < spec.version

    def canonical(self, subject: str) -> str:
        """Turns any accepted spelling into the canonical one. Raises `UnknownSubject`."""
        if subject in self._specs:
            return subject
        known = self._aliases.get(subject)
        if known is not None:
            return known
        raise UnknownSubject(self._unknown_code(subject))

    def _unknown_code(self, subject: str) -> RefusalCode:
        try:
            base, _ = split_subject(subject)
        except EventRefused:
            return RefusalCode.UNKNOWN_SUBJECT
        return RefusalCode.UNKNOWN_VERSION if base in self._bases else RefusalCode.UNKNOWN_SUBJECT

    def spec(self, subject: str) -> EventSpec:
        """Finds a subject in any accepted spelling. Raises `UnknownSubject`."""
        return self._specs[self.canonical(subject)]

    def schema(self, subject: str) -> Mapping[str, Any]:
        """Reads the JSON Schema of a subject's data. Raises `UnknownSubject`."""
        return MappingProxyType(self._schemas[self.canonical(subject)])

    def schema_file(self, path: str) -> bytes | None:
        """Gives a schema file's bytes by its public path (`lock/credential.issued.v1.json`), or None."""
        return self._files.get(path)

    def all(self) -> tuple[EventSpec, ...]:
        """Every spec, in the order of the catalogue."""
        return tuple(self._specs.values())

    def of_direction(self, direction: Direction) -> tuple[EventSpec, ...]:
        """The specs that go one way."""
        return tuple(spec for spec in self._specs.values() if spec.direction is direction)

    def versions(self, base: str) -> tuple[EventSpec, ...]:
        """All registered versions of one subject, oldest first; empty for an unknown base."""
        found = (spec for spec in self._specs.values() if spec.base == base)
        return tuple(sorted(found, key=lambda spec: spec.version))


def _faults(spec: EventSpec) -> list[str]:
    faults = []
    try:
        split_subject(spec.subject)
    except EventRefused:
        return [f"{spec.subject}: badly spelled"]
    if (spec.direction is Direction.LOCAL) != (spec.topic is None):
        faults.append(f"{spec.subject}: only local events have no topic")
    if (spec.topic is None) != (spec.dead_letter_topic is None):
        faults.append(f"{spec.subject}: topic and dead-letter topic go together")
    if not 0.0 <= spec.sampling_rate <= 1.0:
        faults.append(f"{spec.subject}: sampling rate outside 0 to 1")
    if spec.sampling_rate < 1.0 and not spec.retention.may_be_sampled:
        faults.append(f"{spec.subject}: only operational events may be sampled")
    if spec.form is Form.NESTED and spec.flag_key is None:
        faults.append(f"{spec.subject}: a back-office event needs a flag key")
    if (spec.moves_keys or spec.refreshes_caches) and spec.direction is not Direction.CONSUMED:
        faults.append(f"{spec.subject}: only consumed events have effects here")
    return faults


def _orphans(files: Mapping[str, bytes], schemas: Path) -> list[str]:
    found = (path.relative_to(schemas).as_posix() for path in sorted(schemas.rglob("*.json")))
    return [f"{path}: belongs to no subject" for path in found if path not in files and path != BASELINE_NAME]


REGISTRY = Registry(EVENTS, ALIASES, SCHEMAS)


def spec(subject: str) -> EventSpec:
    """Finds a subject in any accepted spelling. Raises `UnknownSubject`; never retry."""
    return REGISTRY.spec(subject)


def canonical(subject: str) -> str:
    """Turns any accepted spelling into the canonical one. Raises `UnknownSubject`; never retry."""
    return REGISTRY.canonical(subject)


def produced() -> tuple[EventSpec, ...]:
    """Events this service publishes on the bus."""
    return REGISTRY.of_direction(Direction.PRODUCED)


def consumed() -> tuple[EventSpec, ...]:
    """Events this service subscribes to."""
    return REGISTRY.of_direction(Direction.CONSUMED)


def local() -> tuple[EventSpec, ...]:
    """Events that only travel inside the desk's sync push."""
    return REGISTRY.of_direction(Direction.LOCAL)


def key_moving() -> tuple[EventSpec, ...]:
    """Consumed events that may issue, change or end a key."""
    return tuple(spec for spec in consumed() if spec.moves_keys)


def cache_refreshing() -> tuple[EventSpec, ...]:
    """Consumed events that make something remembered stale."""
    return tuple(spec for spec in consumed() if spec.refreshes_caches)


def schema_file(path: str) -> bytes | None:
    """Gives a schema file's bytes by its public path (`lock/credential.issued.v1.json`), or None."""
    return REGISTRY.schema_file(path)
