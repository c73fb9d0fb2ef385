"""Reads what the page of one credential tells: doors, sagas, artifact, and the story line by line.

One rule: reads only, inside the tenant's block; nothing sealed is opened here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from credentials.models import Artifact, CredentialDoor, KeyCredential, Transition
from credentials.targets import next_verb, wanted
from devices.models import LockDevice
from lockservice.console import words
from lockservice.console.models import StaffAct, StaffTenant
from lockservice.console.read_only import page_url
from lockservice.core.places import Room
from sagas.models import OutboxEvent, Saga, SagaStep


@dataclass(frozen=True, slots=True)
class DoorLine:
    """A door as the page shows it. `verb` is what must still be asked there; empty when it carries what it shall."""

    door: CredentialDoor
    label: str
    room: str
    device_url: str
    word: words.Word
    propagation: words.Word
    verb: str
    error: str
    is_open: bool


@dataclass(frozen=True, slots=True)
class StoryLine:
    """One line of the story. `kind` is move, step or act; `sort` breaks ties inside one instant."""

    at: datetime
    sort: tuple[int, int]
    kind: str
    title: str | Promise
    word: words.Word
    who: str = ""
    reason: str = ""
    detail: str = ""
    subject: str = ""
    event_url: str = ""
    saga_url: str = ""
    doors: list[str] = field(default_factory=list)
    took_ms: int | None = None


def room_labels(tenant_id: str, ids: list[str]) -> dict[str, str]:
    """Returns room id → label."""
    rows = Room.objects.filter(tenant_id=tenant_id, room_id__in=set(ids))
    return {row.room_id: row.label for row in rows}


def door_lines(key: KeyCredential) -> list[DoorLine]:
    """Returns the credential's doors, rooms first, dropped ones last."""
    doors = list(CredentialDoor.objects.filter(tenant_id=key.tenant_id, credential_id=key.id))
    devices = {row.id: row for row in LockDevice.objects.filter(tenant_id=key.tenant_id, id__in=[d.device_id for d in doors])}
    rooms = room_labels(key.tenant_id, [door.room_id for door in doors])
    doors.sort(key=lambda door: (door.dropped, not door.room_id, rooms.get(door.room_id, ""), door.device_id))
    return [_door_line(key, door, devices.get(door.device_id), rooms) for door in doors]


def count_present(lines: list[DoorLine]) -> tuple[int, int]:
    """Returns how many of the doors the key is meant for are known to hold it, and how many there are."""
    meant = [line for line in lines if not line.door.dropped]
    return sum(line.is_open for line in meant), len(meant)


def sagas_of(key: KeyCredential) -> list[Saga]:
    """Returns the credential's sagas, newest first."""
    return list(Saga.objects.filter(tenant_id=key.tenant_id, credential_id=key.id).order_by("-position")[:50])


def artifact_of(key: KeyCredential) -> Artifact | None:
    """Returns the current artifact's row; its sealed value stays sealed."""
    return Artifact.objects.filter(tenant_id=key.tenant_id, credential_id=key.id, current=True).first()


def story(key: KeyCredential) -> list[StoryLine]:
    """Returns every move, event, vendor call and act of the credential, newest first."""
    names = actor_names(key.tenant_id)
    devices = dict(LockDevice.objects.filter(tenant_id=key.tenant_id, property_id=key.property_id).values_list("id", "label"))
    lines = [*_moves(key, names), *_steps(key, devices), *_acts(key)]
    return sorted(lines, key=lambda line: (line.at, line.sort), reverse=True)


def moves_made(key: KeyCredential) -> list[tuple[str, str]]:
    """Returns the moves (source, target) the credential made."""
    rows = Transition.objects.filter(tenant_id=key.tenant_id, credential_id=key.id).exclude(move="note")
    return list(rows.values_list("source", "target"))


def actor_names(tenant_id: str) -> dict[str, str]:
    """Returns the logins of a tenant's people by the id that records name them by."""
    rows = StaffTenant.objects.filter(tenant_id=tenant_id).select_related("user")
    return {row.actor_id: row.user.get_username() for row in rows}


def warnings_of(key: KeyCredential) -> list[dict[str, str]]:
    """Returns the credential's warnings as code and detail."""
    return [
        {"code": str(item.get("code", "")), "detail": str(item.get("detail", ""))}
        if isinstance(item, dict)
        else {"code": str(item), "detail": ""}
        for item in key.warnings
    ]


def plain_code(code: str, reason: str = "") -> str:
    """Returns an error's code without its prefix, and its reason."""
    return " ".join(filter(None, (code.rpartition(".")[2], reason)))


def _door_line(key: KeyCredential, door: CredentialDoor, device: LockDevice | None, rooms: dict[str, str]) -> DoorLine:
    verb = next_verb(key, door)
    holds = door.state == "present" and not door.verb
    table = words.word(words.DOORS, door.state)
    failed = bool(door.error_code) and not holds
    if door.final:
        table = words.Word(_("refused for good"), words.BAD)
    elif door.verb:
        table = words.Word(_("answer outstanding"), words.WARN)
    elif failed and door.state == "none":
        table = words.Word(ngettext("tried %(n)s time", "tried %(n)s times", door.attempts) % {"n": door.attempts}, words.BAD)
    return DoorLine(
        door=door,
        label=device.label if device else door.device_id,
        room=rooms.get(door.room_id, ""),
        device_url=page_url(LockDevice, door.device_id),
        word=table,
        propagation=words.word(words.PROPAGATION, door.propagation),
        verb=str(verb or ""),
        error=plain_code(door.error_code, door.error_reason),
        is_open=holds and wanted(key, door) == "present",
    )


def _moves(key: KeyCredential, names: dict[str, str]) -> list[StoryLine]:
    rows = Transition.objects.filter(tenant_id=key.tenant_id, credential_id=key.id)
    return [
        StoryLine(
            at=row.at,
            sort=(1, row.sequence),
            kind="move",
            title=words.MOVES.get(row.move, row.move) if row.move != "note" else _note_title(row.subject),
            word=words.word(words.STATES, row.target) if row.move != "note" else words.Word(_("noted")),
            who=names.get(row.actor, row.actor),
            reason=row.reason,
            subject=row.subject,
            event_url=page_url(OutboxEvent, row.event_id) if row.event_id else "",
        )
        for row in rows
    ]


def _steps(key: KeyCredential, devices: dict[str, str]) -> list[StoryLine]:
    rows = SagaStep.objects.filter(tenant_id=key.tenant_id, credential_id=key.id)
    return [step_line(row, devices) for row in rows]


def step_line(row: SagaStep, devices: dict[str, str]) -> StoryLine:
    """Returns one vendor call as a line."""
    return StoryLine(
        at=row.at,
        sort=(0, row.step),
        kind="step",
        title=_("asked the vendor: %(verb)s") % {"verb": row.verb},
        word=words.word(words.OUTCOMES, row.outcome),
        reason=plain_code(row.error_code, row.error_reason),
        detail=row.detail,
        saga_url=page_url(Saga, row.saga_id),
        doors=[devices.get(door, door) for door in row.doors if isinstance(door, str)],
        took_ms=row.took_ms,
    )


def _acts(key: KeyCredential) -> list[StoryLine]:
    rows = StaffAct.objects.filter(tenant_id=key.tenant_id, subject_id=key.id)
    return [act_line(row) for row in rows]


def act_line(row: StaffAct) -> StoryLine:
    """Returns what a person asked for as a line."""
    done = row.outcome == "done"
    return StoryLine(
        at=row.at,
        sort=(2, row.pk),
        kind="act",
        title=words.ACTIONS.get(row.action, row.action),
        word=words.Word(_("done"), words.GOOD) if done else words.Word(row.outcome, words.BAD),
        who=row.login,
        reason=row.reason,
        detail=row.detail,
    )


def _note_title(subject: str) -> Any:
    return subject.removeprefix("melmastoon.lock.").removesuffix(".v1")
