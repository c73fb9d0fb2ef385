"""What the service knows about one subject.

One rule: everything that differs between subjects (topic, retention, order, urgency, schema) stands in its EventSpec;
no other module asks what a subject is called.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum, StrEnum
from typing import Any

from sagas.events.refusals import EventRefused, RefusalCode

SCHEMA_BASE_URL = "https://schemas.melmastoon.ghasi.io/"

_VERSIONED = re.compile(r"(?P<base>[a-z0-9_]+(?:\.[a-z0-9_]+)+)\.v(?P<version>[1-9][0-9]{0,3})", re.ASCII)


class Direction(StrEnum):
    """Which way an event goes. `LOCAL` ones travel inside the desk's sync push and never on the bus."""

    PRODUCED = "produced"
    CONSUMED = "consumed"
    LOCAL = "local"


class Form(StrEnum):
    """Shape of the envelope: the flat one of lock events, or the nested one of the back office."""

    FLAT = "flat"
    NESTED = "nested"


class Retention(Enum):
    """How long an event is kept: (class as written in an envelope, days, anchored in the Merkle tree).

    Source: both event documents, "Retention"; seven years are 2,557 days (two leap days). For the back office `audit`
    means 365 days.
    """

    OPERATIONAL = ("operational", 90, False)
    HEARTBEAT = ("operational", 30, False)
    AUDIT = ("audit", 365, False)
    REGULATED = ("regulated", 2557, False)
    REGULATED_ANCHORED = ("regulated", 2557, True)

    def __init__(self, class_name: str, days: int, is_anchored: bool) -> None:
        self.class_name = class_name
        self.days = days
        self.is_anchored = is_anchored

    @property
    def may_be_sampled(self) -> bool:
        """Only operational events may be sampled or dropped."""
        return self.class_name == "operational"


class Priority(IntEnum):
    """Urgency of what an event asks for; lower goes first."""

    SECURITY = 0
    """Security, lost key, cancellation, deactivation."""
    DEPARTURE = 1
    """Checkout, suspension."""
    ARRIVAL = 2
    """Issue, update."""
    BULK = 3


class Ordering(Enum):
    """Whose order events keep: (name, field of the data that holds the key). Never the tenant."""

    CREDENTIAL = ("credential", "keyCredentialId")
    RESERVATION = ("reservation", "reservationId")
    LOCK_DEVICE = ("lock_device", "deviceId")
    DESKTOP = ("desktop", "deviceId")
    ENCODER_SESSION = ("encoder_session", "encoderSessionId")
    WEBHOOK = ("webhook", "webhookId")
    INSTALLATION = ("installation", "vendorAdapterId")
    OPERATOR = ("operator", "operatorId")
    OPERATOR_SESSION = ("operator_session", "sessionId")
    SHIFT = ("shift", "shiftId")
    USER = ("user", "userId")
    PROPERTY = ("property", "propertyId")
    TASK = ("task", "taskId")
    LOCAL_CREDENTIAL = ("local_credential", "localId")
    NONE = ("none", "")

    def __init__(self, label: str, field: str) -> None:
        self.label = label
        self.field = field

    def key_of(self, data: Mapping[str, Any]) -> str | None:
        """Reads the ordering key from the data; None where the subject keeps no order or the field is empty."""
        value = data.get(self.field) if self.field else None
        return value if isinstance(value, str) and value else None


DownConverter = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Makes the data of an older version out of the data of a newer one. Pure; drops or renames, invents nothing."""


@dataclass(frozen=True, slots=True)
class AlsoPublish:
    """An older version that is still published beside the newer one."""

    subject: str
    convert: DownConverter


@dataclass(frozen=True, slots=True)
class EventSpec:
    """One subject in one version."""

    subject: str
    direction: Direction
    topic: str | None
    """Where it is published or read; None for local events."""
    dead_letter_topic: str | None
    retention: Retention
    ordering: Ordering
    priority: Priority
    schema_file: str
    """Path below `schemas/`, also the path below `SCHEMA_BASE_URL`."""
    form: Form = Form.FLAT
    sampling_rate: float = 1.0
    """0 to 1: the share of events that is kept, before any flag."""
    flag_key: str | None = None
    """Key of the hash in the shared cache whose field named like the subject overrides `sampling_rate`."""
    moves_keys: bool = False
    refreshes_caches: bool = False
    also_publish: AlsoPublish | None = None

    @property
    def base(self) -> str:
        """The subject without its version."""
        return split_subject(self.subject)[0]

    @property
    def version(self) -> int:
        """The version at the end of the subject, 1 or more."""
        return split_subject(self.subject)[1]

    @property
    def schema_url(self) -> str:
        """Public address of the schema, as it stands in envelopes."""
        return SCHEMA_BASE_URL + self.schema_file


def split_subject(subject: str) -> tuple[str, int]:
    """Splits `a.b.v2` into `("a.b", 2)`. Raises `EventRefused` INVALID_FIELD if it is not so spelled."""
    match = _VERSIONED.fullmatch(subject)
    if match is None:
        raise EventRefused(RefusalCode.INVALID_FIELD, "subject: needs lower-case words, dots and a version")
    return match["base"], int(match["version"])
