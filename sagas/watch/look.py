"""The watch: walks over keys, doors, stays and lanes and finds what never should be.

One rule: what is found is a row, told once; it is told again only after it was well in between. Every page and every subject is
a transaction of its own, so the watch may be killed anywhere and run by any number of processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import structlog
from django.db import IntegrityError, connection, transaction

from lockservice.core import clock, tenancy
from lockservice.core.outage import is_outage
from sagas.alerts import NewAlert, raise_alerts
from sagas.models import Violation
from sagas.watch import pages
from sagas.watch.verdicts import EXAMINE, Standing, Verdict

log = structlog.get_logger(__name__)

ROUND_S: Final = 10
"""After the last page of a check its first one is read again so many seconds later."""
REPAIR_AGAIN_S: Final = (60, 3_600)
"""A repair that did not help is tried again after the first, then doubled up to the second, for as long as it is needed."""
OPEN: Final = "open"
"""The walk over what was found before."""


@dataclass(frozen=True, slots=True)
class Check:
    """One invariant: how its pages are read, and what is told where it does not hold."""

    read: pages.Read
    code: str
    runbook: str


CHECKS: Final[Mapping[str, Check]] = {
    "open_work": Check(pages.open_work, "OPEN_DOOR_UNATTENDED", "lock/work-lost"),
    "live_key": Check(pages.live_keys, "LIVE_KEY_DIFFERS", "lock/work-lost"),
    "ended_key": Check(pages.doors_that_may_open, "ENDED_KEY_MAY_OPEN", "lock/work-lost"),
    "stay_without_key": Check(pages.running_stays, "STAY_WITHOUT_KEY", "lock/stay-without-key"),
    "key_without_stay": Check(pages.keys_of_stays, "KEY_WITHOUT_STAY", "lock/key-without-stay"),
    "lane": Check(pages.due_lanes, "LANE_STUCK", "lock/lane-stuck"),
}


def look() -> int:
    """Reads one page of each check that is due, and settles what it suspects; returns how many subjects that were."""
    return _settle_all(_next_pages())


def look_at_all() -> int:
    """Reads every page of every check once, due or not; returns how many subjects were looked at."""
    with tenancy.queues(), connection.cursor() as cursor:
        cursor.execute("UPDATE sagas_watchcursor SET after = '', next_at = (SELECT clock_timestamp())")
    count = 0
    while suspects := _next_pages():
        count += _settle_all(suspects)
    return count


def _settle_all(suspects: Mapping[str, tuple[tuple[str, str], ...]] | None) -> int:
    count = 0
    for name, found in (suspects or {}).items():
        for tenant_id, marked in found:
            check, subject = (name, marked) if name != OPEN else marked.split(":", 1)
            _settle(check, tenant_id, subject)
            count += 1
    return count


def _next_pages() -> dict[str, tuple[tuple[str, str], ...]]:
    """Reads the next page of each check whose turn it is and that no other process reads, and moves its place on."""
    with tenancy.queues(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT name, after FROM sagas_watchcursor WHERE next_at <= (SELECT clock_timestamp())"
            " ORDER BY name FOR UPDATE SKIP LOCKED"
        )
        found = {}
        for name, after in cursor.fetchall():
            page = _open_violations(after) if name == OPEN else CHECKS[name].read(after)
            found[name] = page.suspects
            cursor.execute(
                "UPDATE sagas_watchcursor SET after = %s, next_at = (SELECT clock_timestamp()) + make_interval(secs => %s)"
                " WHERE name = %s",
                [page.after, 0 if page.after else ROUND_S, name],
            )
    return found


def _open_violations(after: str) -> pages.Page:
    rows = Violation.objects.filter(mended_at__isnull=True, id__gt=int(after or 0)).order_by("id")[: pages.PAGE]
    found = list(rows.values_list("id", "tenant_id", "name", "subject"))
    suspects = tuple((tenant_id, f"{name}:{subject}") for _, tenant_id, name, subject in found)
    return pages.Page(suspects, str(found[-1][0]) if len(found) == pages.PAGE else "")


def _settle(name: str, tenant_id: str, subject: str) -> None:
    """Looks at one subject again: tells of what is broken, starts its repair, or notes that all is well."""
    try:
        with tenancy.tenant(tenant_id):
            verdict = EXAMINE[name](tenant_id, subject)
            _write(name, tenant_id, subject, verdict)
    except IntegrityError:  # another process found it at the same moment
        log.info("watch.met", check=name)
    except Exception as error:
        if is_outage(error):
            raise
        log.exception("watch.failed", check=name, tenant=tenant_id, subject=subject)


def _write(name: str, tenant_id: str, subject: str, verdict: Verdict) -> None:
    rows = Violation.objects.select_for_update().filter(tenant_id=tenant_id, name=name, subject=subject, mended_at__isnull=True)
    row = rows.first()
    real_now = clock.real_now()
    if row is not None and verdict.standing is Standing.HOLDS:
        row.mended_at = real_now
        row.save(update_fields=["mended_at"])
        return
    if verdict.standing is not Standing.BROKEN:
        return
    if row is None:
        row = Violation.objects.create(tenant_id=tenant_id, name=name, subject=subject, found_at=real_now)
        _tell(name, row, verdict, is_repaired=_repair(row, verdict))
    elif row.repair_at is not None and row.repair_at <= real_now:
        _repair(row, verdict)


def _repair(row: Violation, verdict: Verdict) -> bool:
    """Starts the repair, under a savepoint; False where there is none, or it cannot be started."""
    if verdict.repair is None:
        return False
    row.repairs_count += 1
    first_s, most_s = REPAIR_AGAIN_S
    row.repair_at = clock.real_now() + timedelta(seconds=min(most_s, first_s * 2 ** (row.repairs_count - 1)))
    row.save(update_fields=["repairs_count", "repair_at"])
    try:
        with transaction.atomic():
            verdict.repair(f"{row.pk}.{row.repairs_count}")
    except Exception as error:
        if is_outage(error):
            raise
        log.exception("watch.not_repaired", check=row.name, tenant=row.tenant_id, subject=row.subject)
        return False
    return True


def _tell(name: str, row: Violation, verdict: Verdict, *, is_repaired: bool) -> None:
    check = CHECKS[name]
    follow = "the work was started" if is_repaired else "somebody has to look at it"
    alert = NewAlert(
        f"watch:{row.pk}", check.code, verdict.severity, f"{verdict.detail}; {follow}", check.runbook, verdict.property_id,
        verdict.credential_id, verdict.reservation_id,
    )  # fmt: skip
    raise_alerts(row.tenant_id, [alert], clock.now())
    log.warning("watch.found", check=name, tenant=row.tenant_id, subject=row.subject, repair=is_repaired)
