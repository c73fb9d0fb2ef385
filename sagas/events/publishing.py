"""Two versions of one subject side by side.

One rule: the newest version is what the service says; older ones are made from it by a pure down-converter and are
events of their own, each with its own id and place in the order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sagas.events.event_spec import EventSpec
from sagas.events.registry import REGISTRY, Registry


@dataclass(frozen=True, slots=True)
class Rendition:
    """What is published under one subject."""

    subject: str
    data: Mapping[str, Any]


def versions(subject_base: str, *, registry: Registry = REGISTRY) -> tuple[EventSpec, ...]:
    """All registered versions of a subject without its `.vN`, oldest first; empty if there is none."""
    return registry.versions(subject_base)


def dual(subject: str, *, registry: Registry = REGISTRY) -> tuple[EventSpec, ...]:
    """The subject and every older version published beside it, newest first; one entry for most subjects.

    Raises `UnknownSubject`.
    """
    spec = registry.spec(subject)
    chain = [spec]
    while spec.also_publish is not None:
        spec = registry.spec(spec.also_publish.subject)
        chain.append(spec)
    return tuple(chain)


def renditions(subject: str, data: Mapping[str, Any], *, registry: Registry = REGISTRY) -> tuple[Rendition, ...]:
    """Every version of one event that goes out, newest first, each to be validated and given its own id.

    Raises `UnknownSubject`.
    """
    spec = registry.spec(subject)
    result = [Rendition(spec.subject, data)]
    while spec.also_publish is not None:
        data = spec.also_publish.convert(data)
        spec = registry.spec(spec.also_publish.subject)
        result.append(Rendition(spec.subject, data))
    return tuple(result)
