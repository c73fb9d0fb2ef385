"""Which desks are connected: one row a desk, kept alive by heartbeats.

One rule: the newest connection of a desk is the desk; an older one finds its name gone from the row and closes.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from devices.relay_jobs import real_now
from devices.relay_models import RelayDesk
from lockservice.core import clock
from sagas.alerts import NewAlert, raise_alerts

RUNBOOK = "lock/desk-silent"


def arrive(desk: RelayDesk, presence_s: float) -> str:
    """Writes a new connection over what is there, and returns the connection it replaces, empty for none. Inside the tenant's
    block."""
    now = real_now()
    before = RelayDesk.objects.select_for_update().filter(tenant_id=desk.tenant_id, desk_id=desk.desk_id).first()
    desk.connected_at = desk.seen_at = now
    desk.expires_at = now + timedelta(seconds=presence_s)
    if before is None:
        desk.save(force_insert=True)
        return ""
    desk.pk = before.pk
    replaced = before.connection if before.expires_at > now else ""
    desk.save(force_update=True)
    return replaced


def keep(desk: RelayDesk, presence_s: float, *, is_encoder_ready: bool) -> bool:
    """Moves the presence on; False when a newer connection has taken the row. Inside the tenant's block."""
    now = real_now()
    mine = RelayDesk.objects.filter(tenant_id=desk.tenant_id, desk_id=desk.desk_id, connection=desk.connection)
    changes = {"seen_at": now, "expires_at": now + timedelta(seconds=presence_s), "is_encoder_ready": is_encoder_ready}
    return bool(mine.update(**changes))


def leave(desk: RelayDesk) -> None:
    """Ends the presence of this connection, if it is still the newest. Inside the tenant's block."""
    mine = RelayDesk.objects.filter(tenant_id=desk.tenant_id, desk_id=desk.desk_id, connection=desk.connection)
    mine.update(expires_at=real_now())


def tell_silent(desk: RelayDesk, offers_count: int) -> None:
    """Tells that a connected desk leaves its offers unanswered, at most once an hour for each desk. Inside the tenant's
    block."""
    now = clock.now()
    alert = NewAlert(
        f"desk-silent:{desk.desk_id}:{now:%Y-%m-%d %H}", "DESK_SILENT", "warning",
        f"desk {desk.desk_id} is connected and answers none of {offers_count} jobs", RUNBOOK, desk.property_id,
    )  # fmt: skip
    raise_alerts(desk.tenant_id, [alert], now)


def here(tenant_id: str, property_id: str) -> Sequence[RelayDesk]:
    """Returns the desks of a property that are connected now. Inside the tenant's block."""
    rows = RelayDesk.objects.filter(tenant_id=tenant_id, property_id=property_id, expires_at__gt=real_now())
    return list(rows.order_by("desk_id"))
