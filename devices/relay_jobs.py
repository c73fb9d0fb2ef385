"""What becomes of a relay job's row: handed over, offered, begun, ended. Called by the adapter's relay and by the gateway.

One rule: the row decides. A desk begins only after the row says so, and a job that was begun ends only by the desk's word.
Every function runs inside the tenant's block; instants are the database's real time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.db.models import Q

from devices.relay_models import BEGUN, NOT_BEGUN, OPEN, JobRowState, RelayDesk, RelayJobRow, RelayNumber
from lockservice.core import crypto
from vendors.port.ids import new_id
from vendors.port.relay import DeskJob, DeskResult, JobStanding, JobState, Outcome, Refusal, RelayJob, Stage

ASK_AGAIN_S = 10.0
KEPT = timedelta(days=90)
_PLACE = "devices_relayjobrow"
_ENDS: Mapping[Outcome, JobRowState] = {
    Outcome.DONE: JobRowState.DONE,
    Outcome.REFUSED: JobRowState.REFUSED,
    Outcome.CANCELLED: JobRowState.CANCELLED,
    Outcome.EXPIRED: JobRowState.EXPIRED,
    Outcome.UNKNOWN: JobRowState.UNKNOWN,
    Outcome.NEVER_SEEN: JobRowState.UNKNOWN,
}
_WITHOUT_EFFECT = (JobRowState.REFUSED, JobRowState.CANCELLED, JobRowState.EXPIRED)


@dataclass(frozen=True, slots=True)
class Site:
    """Whose jobs these are."""

    tenant_id: str
    property_id: str
    installation_id: str
    vendor: str


class NoDesk(Exception):
    """No desk that has a driver for this vendor is connected. Try again when one is."""


def real_now() -> datetime:
    """Returns the database's real time."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        instant: datetime = cursor.fetchone()[0]
    return instant


def submit(site: Site, job: RelayJob, hotel_now: datetime) -> JobStanding:
    """Makes the job's row, or returns how the job of this key stands. Raises NoDesk when a new row would be needed."""
    now = real_now()
    row = _latest(site, job.key)
    if row is not None and row.state not in _WITHOUT_EFFECT:
        return standing(_overdue(row, now), now)
    if not connected(site.tenant_id, site.property_id, site.vendor, now):
        raise NoDesk(site.property_id)
    try:
        with transaction.atomic():
            row = _insert(site, job, row.turn + 1 if row else 1, now, hotel_now)
    except IntegrityError:  # another process was faster by a moment: its row is the job
        row = _latest(site, job.key)
        if row is None:
            raise
    return standing(row, now)


def look(tenant_id: str, job_id: str) -> JobStanding:
    """Returns how a job stands. Raises LookupError."""
    now = real_now()
    return standing(_overdue(_one(tenant_id, job_id), now), now)


def call_off(tenant_id: str, job_id: str) -> JobStanding:
    """Cancels a job no desk has begun; lets the desk be told of one that was. Raises LookupError."""
    now = real_now()
    rows = RelayJobRow.objects.filter(tenant_id=tenant_id, id=job_id)
    rows.filter(state__in=NOT_BEGUN).update(state=JobRowState.CANCELLED, finished_at=now)
    rows.filter(state__in=BEGUN).update(cancel_wanted=True)
    return standing(_one(tenant_id, job_id), now)


def of_credential(tenant_id: str, installation_id: str, credential_id: str) -> tuple[JobStanding, ...]:
    """Returns a credential's jobs, oldest first."""
    now = real_now()
    rows = RelayJobRow.objects.filter(tenant_id=tenant_id, installation_id=installation_id, credential_id=credential_id)
    return tuple(standing(_overdue(row, now), now) for row in rows.order_by("created_at", "id"))


def standing(row: RelayJobRow, now: datetime) -> JobStanding:
    """Reads a row as an adapter sees it."""
    return JobStanding(
        job_id=row.id,
        action=row.action,
        credential_id=row.credential_id,
        state=_state(row, now),
        doors=tuple(row.doors),
        numbers=dict(row.numbers),
        stage=Stage(row.stage) if row.stage else None,
        refusal=Refusal(row.refusal) if row.refusal else None,
        detail=row.detail,
        result=_open(row, "result_sealed", row.result_sealed),
        lasts_until=row.lasts_until,
        outranked=tuple(row.outranked),
        desk_id=row.desk_id,
    )


def connected(tenant_id: str, property_id: str, vendor: str, now: datetime | None = None) -> bool:
    """Says whether a desk of the property is connected that has a driver for this vendor."""
    rows = RelayDesk.objects.filter(tenant_id=tenant_id, property_id=property_id, expires_at__gt=now or real_now())
    return rows.filter(vendors__contains=[vendor]).exists()


# --- the gateway's part


def offers(desk: RelayDesk, most: int) -> list[DeskJob]:
    """Claims up to so many jobs of the desk's property for this connection, most urgent first, oldest before newer."""
    now = real_now()
    live = RelayDesk.objects.filter(tenant_id=desk.tenant_id, property_id=desk.property_id, expires_at__gt=now)
    elsewhere = Q(state=JobRowState.OFFERED) & ~Q(connection__in=list(live.values_list("connection", flat=True)))
    rows = RelayJobRow.objects.select_for_update(skip_locked=True).filter(
        Q(state=JobRowState.QUEUED) | elsewhere,
        tenant_id=desk.tenant_id, property_id=desk.property_id, vendor__in=desk.vendors, expires_at__gt=now,
    )  # fmt: skip
    found = list(rows.order_by("priority", "created_at", "id")[:most])
    claimed = RelayJobRow.objects.filter(tenant_id=desk.tenant_id, id__in=[row.id for row in found])
    claimed.update(state=JobRowState.OFFERED, connection=desk.connection)
    return [desk_job(row, now) for row in found]


def held_by(desk: RelayDesk) -> list[RelayJobRow]:
    """Returns the jobs this desk has begun and not settled."""
    rows = RelayJobRow.objects.filter(tenant_id=desk.tenant_id, desk_id=desk.desk_id, state__in=BEGUN)
    return list(rows.order_by("created_at", "id"))


def to_ask(desk: RelayDesk) -> list[str]:
    """Returns the jobs about whose fate this desk has to be asked, and notes that it was asked."""
    now = real_now()
    rows = RelayJobRow.objects.filter(tenant_id=desk.tenant_id, desk_id=desk.desk_id, state=JobRowState.UNKNOWN)
    rows = rows.filter(Q(asked_at__isnull=True) | Q(asked_at__lt=now - timedelta(seconds=ASK_AGAIN_S)))
    ids = list(rows.values_list("id", flat=True)[:16])
    RelayJobRow.objects.filter(tenant_id=desk.tenant_id, id__in=ids).update(asked_at=now)
    return ids


def to_cancel(desk: RelayDesk) -> list[str]:
    """Returns the jobs this desk works on that were called off or took too long."""
    rows = RelayJobRow.objects.filter(tenant_id=desk.tenant_id, desk_id=desk.desk_id, state=JobRowState.ACCEPTED)
    return list(rows.filter(Q(cancel_wanted=True) | Q(expires_at__lt=real_now())).values_list("id", flat=True))


def accept(desk: RelayDesk, job_id: str) -> bool | None:
    """Lets a desk begin a job: True. False where it was called off, expired or given to another, or where the desk has
    connected anew; None for no job of its own.

    A newer connection was asked what the desk had begun before this word came: nobody would ask for it again.
    """
    row = _locked(desk, job_id)
    if row is None:
        return None
    if row.state in BEGUN and row.desk_id == desk.desk_id:
        return True  # said twice
    now = real_now()
    if row.state != JobRowState.OFFERED or row.connection != desk.connection or row.expires_at <= now:
        return False
    mine = RelayDesk.objects.select_for_update().filter(tenant_id=desk.tenant_id, desk_id=desk.desk_id)
    if not mine.filter(connection=desk.connection).exists():
        return False
    row.state, row.desk_id = JobRowState.ACCEPTED, desk.desk_id
    row.save(update_fields=["state", "desk_id"])
    return True


def progress(desk: RelayDesk, job_id: str, stage: Stage) -> bool:
    """Notes how far the desk has come; False for no job of its own."""
    row = _locked(desk, job_id)
    if row is None or row.desk_id != desk.desk_id:
        return False
    if row.state in BEGUN:
        row.stage = stage.value
        row.save(update_fields=["stage"])
    return True


def finish(desk: RelayDesk, job_id: str, said: DeskResult) -> bool:
    """Writes what the desk says came of a job it began; False for no job of its own. Said again, it changes nothing.

    A desk that has lost its notes (NEVER_SEEN) proves nothing about a job that it was told to begin.
    """
    row = _locked(desk, job_id)
    if row is None or (row.desk_id != desk.desk_id and row.connection != desk.connection):
        return False
    if row.state not in BEGUN or row.desk_id != desk.desk_id:
        return True  # said twice, or of a job that it was offered and not told to begin
    row.state = _ENDS[said.outcome]
    if row.state == JobRowState.CANCELLED and not row.cancel_wanted:
        row.state = JobRowState.EXPIRED  # nobody called it off: the desk was told that its time was over
    row.refusal = said.refusal.value if said.refusal is not None else ""
    row.detail = said.detail[:300]
    fields = ["state", "refusal", "detail"]
    if row.state != JobRowState.UNKNOWN:
        row.finished_at = real_now()
        row.result_sealed = _seal(row, "result_sealed", said.result)
        fields += ["finished_at", "result_sealed"]
    row.save(update_fields=fields)
    if row.state in (JobRowState.DONE, JobRowState.UNKNOWN):
        _written(row)
    return True


def desk_job(row: RelayJobRow, now: datetime) -> DeskJob:
    """Reads a row as a desk gets it."""
    left_s = max(0.0, (row.expires_at - now).total_seconds())
    body = _open(row, "body_sealed", row.body_sealed)
    return DeskJob(row.id, row.vendor, row.action, body, dict(row.numbers), row.needs_card, left_s)


# --- rows


def _insert(site: Site, job: RelayJob, turn: int, now: datetime, hotel_now: datetime) -> RelayJobRow:
    numbers, outranked = _numbers(site, job, hotel_now)
    row = RelayJobRow(
        id=new_id("job"), tenant_id=site.tenant_id, property_id=site.property_id, installation_id=site.installation_id,
        vendor=site.vendor, key=job.key, turn=turn, credential_id=job.credential_id, action=job.action, doors=list(job.doors),
        numbers=numbers, outranked=outranked, needs_card=job.needs_card, lasts_until=job.lasts_until, priority=job.priority,
        created_at=now, expires_at=now + timedelta(seconds=job.timeout_s),
    )  # fmt: skip
    row.body_sealed = _seal(row, "body_sealed", job.body)
    row.save(force_insert=True)
    return row


def _numbers(site: Site, job: RelayJob, hotel_now: datetime) -> tuple[dict[str, int], list[str]]:
    """Gives a job its running numbers under the counters' locks, and finds whose cards it is meant to outrank."""
    places = sorted({*job.advance, *job.keep})
    if not places:
        return {}, []
    scope = {"tenant_id": site.tenant_id, "installation_id": site.installation_id}
    fresh = [RelayNumber(**scope, place=place) for place in places]
    RelayNumber.objects.bulk_create(fresh, ignore_conflicts=True)
    rows = list(RelayNumber.objects.select_for_update().filter(**scope, place__in=places).order_by("place"))
    numbers, before = {}, {}
    for row in rows:
        before[row.place] = row.written
        if row.place in job.advance:
            row.given = max(row.given, row.written) + 1
            row.save(update_fields=["given"])
        numbers[row.place] = row.given if row.place in job.advance else row.written
    outranked = _carrying(site, job, {place: before[place] for place in job.advance}, hotel_now)
    return numbers, outranked


def _carrying(site: Site, job: RelayJob, before: Mapping[str, int], hotel_now: datetime) -> list[str]:
    """The other credentials whose cards carry the number that was the last at one of these places and still open there."""
    rows = RelayJobRow.objects.filter(
        tenant_id=site.tenant_id, installation_id=site.installation_id, lasts_until__gt=hotel_now,
        state__in=[JobRowState.DONE, JobRowState.UNKNOWN], numbers__has_any_keys=list(before),
    ).exclude(credential_id__in=["", job.credential_id])  # fmt: skip
    found = {
        row.credential_id: None
        for row in rows.order_by("created_at", "id")
        if any(row.numbers.get(place) == number for place, number in before.items())
    }
    return list(found)


def _written(row: RelayJobRow) -> None:
    """From now on joiners repeat this job's numbers."""
    scope = {"tenant_id": row.tenant_id, "installation_id": row.installation_id}
    for place, number in sorted(row.numbers.items()):
        RelayNumber.objects.filter(**scope, place=place, written__lt=number).update(written=number)


def _overdue(row: RelayJobRow, now: datetime) -> RelayJobRow:
    """A job that no desk began in its time has ended; one that was begun is for its desk to end."""
    if row.state in NOT_BEGUN and row.expires_at <= now:
        mine = RelayJobRow.objects.filter(tenant_id=row.tenant_id, id=row.id, state__in=NOT_BEGUN)
        mine.update(state=JobRowState.EXPIRED, finished_at=now)
        return _one(row.tenant_id, row.id)
    return row


def _state(row: RelayJobRow, now: datetime) -> JobState:
    if row.state in NOT_BEGUN:
        return JobState.WAITING
    if row.state == JobRowState.ACCEPTED:
        here = RelayDesk.objects.filter(tenant_id=row.tenant_id, desk_id=row.desk_id, expires_at__gt=now).exists()
        return JobState.AT_DESK if here else JobState.LOST
    return JobState(row.state)


def _latest(site: Site, key: str) -> RelayJobRow | None:
    rows = RelayJobRow.objects.filter(tenant_id=site.tenant_id, installation_id=site.installation_id, key=key)
    return rows.order_by("-turn").first()


def _one(tenant_id: str, job_id: str) -> RelayJobRow:
    row = RelayJobRow.objects.filter(tenant_id=tenant_id, id=job_id).first()
    if row is None:
        raise LookupError(f"no relay job {job_id}")
    return row


def _locked(desk: RelayDesk, job_id: str) -> RelayJobRow | None:
    rows = RelayJobRow.objects.select_for_update().filter(tenant_id=desk.tenant_id, property_id=desk.property_id, id=job_id)
    return rows.first()


def _seal(row: RelayJobRow, column: str, document: Mapping[str, Any]) -> bytes:
    return crypto.seal("vendor-ref", row.tenant_id, (_PLACE, row.id, column), json.dumps(dict(document)))


def _open(row: RelayJobRow, column: str, sealed: bytes | memoryview | None) -> dict[str, Any]:
    if sealed is None:
        return {}
    document: dict[str, Any] = json.loads(crypto.unseal("vendor-ref", row.tenant_id, (_PLACE, row.id, column), sealed))
    return document


def forget(tenant_id: str, hotel_now: datetime) -> int:
    """Deletes jobs that ended KEPT ago, but for those whose cards still open; returns how many."""
    rows = RelayJobRow.objects.filter(tenant_id=tenant_id, created_at__lt=real_now() - KEPT).exclude(state__in=OPEN)
    return int(rows.exclude(lasts_until__gt=hotel_now).delete()[0])
