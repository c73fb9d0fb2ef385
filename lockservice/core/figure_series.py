"""The series that a worker counts over all tenants, and what each says.

One rule: a label's values come from a closed set, but for the id of an installation, which is told to who shows the metrics
token alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Series:
    """What a series says. `of_installation`: told one by one, and only to who shows the metrics token."""

    help: str
    labels: tuple[str, ...] = ()
    of_installation: bool = False


SERIES: Final[Mapping[str, Series]] = {
    "lock_sagas": Series("Sagas that are not done, by status; `dead` is read by a person", ("status",)),
    "lock_sagas_overdue_seconds": Series("How long the saga that is due longest has been due"),
    "lock_outbox_unpublished": Series("Events written and not on the bus yet"),
    "lock_outbox_blocked": Series("Of these, events that cannot go out until a person acts"),
    "lock_outbox_oldest_seconds": Series("Age of the oldest event that is not on the bus"),
    "lock_inbox_recent": Series("Events taken from the bus in the last five minutes, by what came of them", ("outcome",)),
    "lock_dead_letters": Series("Messages that could not be handled and were not replayed", ("source",)),
    "lock_alerts_open": Series("Alerts nobody has acknowledged", ("severity",)),
    "lock_keys_waiting": Series("Keys asked for that wait for a desk, a room or papers", ("waiting_for",)),
    "lock_desk_jobs_open": Series("Encode jobs at or for a desk; `queued` waits for one", ("vendor", "state")),
    "lock_desk_jobs_oldest_seconds": Series("How long the oldest job waits for a desk", ("vendor",)),
    "lock_desks_connected": Series("Desks that are connected"),
    "lock_webhooks_open": Series(
        "Pushes taken in: `due` to be worked on, `held` until the vendor was asked", ("vendor", "status")
    ),
    "lock_breakers": Series("Installations by the state of their breaker", ("vendor", "state")),
    "lock_comparisons": Series("Installations by how their last comparison with the doors stands", ("vendor", "status")),
    "lock_comparison_oldest_seconds": Series("Age of the oldest last complete comparison, hotel's time", ("vendor",)),
    "lock_findings_open": Series("Differences between books and doors, by what is at stake", ("vendor", "danger")),
    "lock_quota_used_ratio_max": Series("Calls of the month made, as a part of the quota; the highest", ("vendor",)),
    "lock_secrets_due": Series("Secrets and keys to be changed within seven days, and those that are `late`", ("kind", "when")),
    "lock_break_glass_open": Series("Requests to see a vendor secret that are not closed", ("state",)),
    "lock_installation_comparison_age_seconds": Series(
        "Age of the last complete comparison, hotel's time", ("installation", "vendor"), of_installation=True
    ),
    "lock_installation_comparison_failed": Series(
        "1 where the last comparison failed", ("installation", "vendor"), of_installation=True
    ),
    "lock_installation_findings_open": Series(
        "Differences between books and doors", ("installation", "vendor"), of_installation=True
    ),
    "lock_installation_quota_used_ratio": Series(
        "Calls of the month made, as a part of the quota", ("installation", "vendor"), of_installation=True
    ),
    "lock_installation_breaker_open": Series(
        "1 where the breaker is not closed", ("installation", "vendor"), of_installation=True
    ),
}
"""Every series that is counted here, in the order it is shown."""
