"""The flows that the crash-point sweep walks through, each from a starting state reached without disturbance.

Rule: `drive` is run by the process that dies and again by the one that comes after it, so whatever a client asks for in it
carries the same act id both times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from devices import registration
from devices.models import LockDevice
from devices.registration import Action, Line, Placing
from lockservice.core import clock
from lockservice.core.tenancy import tenant
from sagas import acts, device_acts, intake, pin_acts
from sagas.events.registry import spec
from sagas.flows import companions
from sagas.intake import Start, internal_lane, own_key
from sagas.outbox import Cause
from tests.support.hotel import full_subject
from tests.support.sweep_stage import Stage
from vendors.port.secrets import Pin
from vendors.port.types import LockCapabilities, RevokeReason, SuspendReason, Window
from vendors.port.types import LockDevice as Listed

ACTOR = acts.Actor("usr_desk")


def _settle(stage: Stage) -> None:
    stage.settle()


@dataclass(frozen=True)
class Flow:
    """`prepare` ends with the message that starts the flow lying on the bus; `drive` is disturbed."""

    prepare: Callable[[Stage], None]
    drive: Callable[[Stage], None] = _settle
    policy: dict[str, Any] = field(default_factory=dict)
    vendor: str = "mock"
    query: str = ""
    """Failures of the mock's address."""
    installations: int = 1
    keypad: str = ""
    """The digits that room 101's keypad has, all if not given."""
    spare: bool = False
    """Whether a second lock system reaches room 101, for outages of the first, which fails alone."""
    expected: tuple[str, ...] = ("active",)
    """The states of the credentials at the end of the undisturbed run."""
    doors: tuple[str, ...] = ("101", "lobby")
    """Where a key lies at the end."""


def _stay(stage: Stage, label: str = "") -> str:
    """The booking of this hotel, and of no other: vendors remember idempotency keys."""
    return f"rsv_{label}{stage.hotel.tenant_id.removeprefix('tnt_')}"


def _booking(stage: Stage, version: int, *rooms: str, label: str = "", days: int = 3, **extra: Any) -> dict[str, Any]:
    return stage.hotel.booking(_stay(stage, label), version, rooms, end=stage.hotel.opened_at + timedelta(days=days), **extra)


def _confirm(stage: Stage, *rooms: str) -> None:
    stage.tell("booking.confirmed", _booking(stage, 1, *(rooms or ("101",))))


def _issued(stage: Stage, *rooms: str) -> None:
    _confirm(stage, *rooms)
    stage.settle()


def _update(stage: Stage) -> None:
    _issued(stage)
    stage.tell("booking.dates_changed", _booking(stage, 2, "102", days=6))


def _revoke(stage: Stage) -> None:
    _issued(stage)
    stage.tell("booking.checked_out", _booking(stage, 2, "101", status="checked_out"))


def _suspend(stage: Stage) -> None:
    _issued(stage)
    stage.tell("booking.fraud_flagged", _booking(stage, 2, "101", status="fraud_flagged"))


def _no_show(stage: Stage) -> None:
    _issued(stage)
    stage.tell("booking.no_show", _booking(stage, 2, "101", status="no_show"))


def _unsuspend(stage: Stage) -> None:
    _issued(stage)
    acts.suspend(stage.hotel.tenant_id, stage.keys()[0].id, SuspendReason.OVERDUE_PAYMENT, ACTOR, "act-suspend")
    stage.settle()
    captured = {"reservationId": _stay(stage), "paymentStatus": "captured", "capturedAt": stage.hotel.opened_at.isoformat()}
    stage.tell("melmastoon.payment.captured.v1", captured)


def _guest_came(stage: Stage) -> None:
    _no_show(stage)
    stage.settle()
    stage.tell("booking.confirmed", _booking(stage, 3, "101"))


def _reinstated(stage: Stage) -> None:
    _issued(stage)
    stage.tell("booking.cancelled", _booking(stage, 2, "101", status="cancelled"))
    stage.settle()
    stage.tell("booking.confirmed", _booking(stage, 3, "101"))


def _three_stays(stage: Stage) -> None:
    for label in ("101", "102", "103"):
        stage.tell("booking.confirmed", _booking(stage, 1, label, label=label))
    stage.settle()
    stage.tell("melmastoon.tenant.property.deactivated.v1", {"propertyId": stage.hotel.property_id})


def _remember_key(stage: Stage) -> None:
    _issued(stage)
    stage.memo["key"] = stage.keys()[0].id


def _replace(stage: Stage) -> None:
    acts.revoke(stage.hotel.tenant_id, stage.memo["key"], RevokeReason.LOST, ACTOR, "act-lost")
    stage.settle()


def _take_back(stage: Stage) -> None:
    acts.revoke(stage.hotel.tenant_id, stage.memo["key"], RevokeReason.SECURITY, ACTOR, "act-take-back")
    stage.settle()


def _confirm_and_cancel(stage: Stage) -> None:
    _confirm(stage)
    stage.tell("booking.cancelled", _booking(stage, 2, "101", status="cancelled"))


def _cancelled_while_the_vendor_works(stage: Stage) -> None:
    confirmed, cancelled = (spec(full_subject(name)).topic or "" for name in ("booking.confirmed", "booking.cancelled"))
    stage.calls.while_out["issue"] = lambda: stage.consume_all([cancelled])
    stage.settle([confirmed])
    stage.settle()


def _confirm_and_flag(stage: Stage) -> None:
    _confirm(stage)
    stage.tell("booking.fraud_flagged", _booking(stage, 2, "101", status="fraud_flagged"))


def _flagged_while_the_vendor_works(stage: Stage) -> None:
    confirmed, flagged = (spec(full_subject(name)).topic or "" for name in ("booking.confirmed", "booking.fraud_flagged"))
    stage.calls.while_out["issue"] = lambda: stage.consume_all([flagged])
    stage.settle([confirmed])
    stage.settle()


def _two_houses(stage: Stage) -> None:
    _confirm(stage, "101", "201")


def _both_floors(stage: Stage) -> None:
    _confirm(stage, "101", "201")


def _up_one_floor(stage: Stage) -> None:
    _issued(stage)
    stage.tell("booking.dates_changed", _booking(stage, 2, "201", days=6))


def _leave_both_floors(stage: Stage) -> None:
    _issued(stage, "101", "201")
    stage.tell("booking.checked_out", _booking(stage, 2, "101", "201", status="checked_out"))


def _rest_on_both_floors(stage: Stage) -> None:
    _issued(stage, "101", "201")
    stage.tell("booking.fraud_flagged", _booking(stage, 2, "101", "201", status="fraud_flagged"))


def _paid_on_both_floors(stage: Stage) -> None:
    _issued(stage, "101", "201")
    acts.suspend(stage.hotel.tenant_id, stage.keys()[0].id, SuspendReason.OVERDUE_PAYMENT, ACTOR, "act-suspend")
    stage.settle()
    captured = {"reservationId": _stay(stage), "paymentStatus": "captured", "capturedAt": stage.hotel.opened_at.isoformat()}
    stage.tell("melmastoon.payment.captured.v1", captured)


def _choose(stage: Stage) -> None:
    """The street door is shared, so digits are eight. The same act id both times, as a client would repeat it."""
    pin_acts.choose(stage.hotel.tenant_id, stage.memo["key"], Pin("83019264"), ACTOR, "act-choose")
    stage.settle()


def _killed_companion(stage: Stage) -> None:
    """A companion's card, and a card that takes a lost one's place and kills it. What a card system says in its answer is put
    into the saga here, since the mock tells keys apart."""
    _issued(stage)
    (first,) = stage.keys()
    window = Window(first.valid_from, first.valid_until)
    command = acts.IssueCommand(stage.hotel.property_id, tuple(first.rooms), window, "gst_companion", _stay(stage))
    stage.memo["companion"] = acts.issue(stage.hotel.tenant_id, command, ACTOR, "act-companion").credential_id
    stage.settle()
    stage.memo["key"] = first.id


def _reissue_killed(stage: Stage) -> None:
    tenant_id = stage.hotel.tenant_id
    with tenant(tenant_id):
        item = Start(
            flow=companions.FLOW,
            key=own_key("reissue-killed", stage.memo["key"], _stay(stage)),
            lane=internal_lane(tenant_id),
            reservation_id=_stay(stage),
            args={"by": stage.memo["key"], "keys": [stage.memo["companion"]]},
        )
        intake.start(tenant_id, [(item, Cause(correlation_id=_stay(stage)))], clock.now())
    stage.settle()


def _retire_street_door(stage: Stage) -> None:
    device_acts.decommission_device(stage.hotel.tenant_id, stage.hotel.devices["lobby"], ACTOR)
    stage.settle()


def _retire_room(stage: Stage) -> None:
    device_acts.decommission_device(stage.hotel.tenant_id, stage.hotel.devices["101"], ACTOR)
    stage.settle()


def _hang_right(stage: Stage) -> None:
    """The locks of 101 and 102 hang the wrong way round; an import of a corrected table says so."""
    hotel, lines = stage.hotel, []
    with tenant(hotel.tenant_id):
        for label, other in (("101", "102"), ("102", "101")):
            row = LockDevice.objects.get(tenant_id=hotel.tenant_id, id=hotel.devices[label])
            found = Listed(row.external_id, row.label, True, LockCapabilities(**row.capabilities), row.gateway, row.has_remote)
            there = Placing(row.label, (hotel.rooms[other],))
            lines.append(Line(Action.CHANGED, row.external_id, row.label, there, found, row.id))
    registration.apply(hotel.tenant_id, hotel.installation_id, lines)
    stage.settle()


FLOWS: dict[str, Flow] = {
    "issue": Flow(_confirm),
    "issue with the answer lost": Flow(_confirm, query="lost=1"),
    "issue deferred by the vendor": Flow(_confirm, query="deferred=2&on=issue"),
    "issue with the digits refused": Flow(
        _confirm, query="fail=issue&times=1&error=KEY_ISSUE_FAILED&reason=pin_refused&retriable=0"
    ),
    "update of dates and room": Flow(_update, doors=("102", "lobby")),
    "revoke": Flow(_revoke, expected=("revoked",), doors=()),
    "suspend": Flow(_suspend, expected=("suspended",)),
    "unsuspend": Flow(_unsuspend),
    "no-show": Flow(_no_show, policy={"no_show_suspend_after_hours": 0}, expected=("suspended",)),
    "no-show who came after all": Flow(_guest_came, policy={"no_show_suspend_after_hours": 0}),
    "replace": Flow(_remember_key, _replace, expected=("revoked", "active")),
    "revoke by hand": Flow(_remember_key, _take_back, expected=("revoked",), doors=()),
    "street door out of service": Flow(_remember_key, _retire_street_door, doors=("101",)),
    "locks that hang the wrong way round": Flow(_remember_key, _hang_right, doors=("102", "lobby")),
    "only lock of a room out of service": Flow(_remember_key, _retire_room, expected=("revoked",), doors=()),
    "bulk revoke": Flow(_three_stays, expected=("revoked",) * 3, doors=()),
    "cancelled during issue": Flow(_confirm_and_cancel, _cancelled_while_the_vendor_works, expected=("failed",), doors=()),
    "flagged during issue": Flow(_confirm_and_flag, _flagged_while_the_vendor_works, expected=("suspended",)),
    "reinstated booking": Flow(_reinstated, expected=("revoked", "active")),
    "rooms on two installations": Flow(
        _two_houses, installations=2, expected=("active", "active"), doors=("101", "201", "lobby")
    ),
    "fall-back to another kind in place": Flow(_confirm, keypad="12"),
    "fall-back to a card at the desk": Flow(
        _confirm,
        query="fail=issue&times=9&error=KEY_ISSUE_FAILED&reason=kind_unsupported&retriable=0",
        policy={"kinds": ["pin_code", "rfid_card"]},
        expected=("failed", "requested"),
        doors=(),
    ),
    "fall-back to the spare installation": Flow(
        _confirm,
        query="fail=issue&times=9&error=VENDOR_UNREACHABLE&reason=settings&retriable=0",
        spare=True,
        expected=("failed", "active"),
        doors=("spare",),
    ),
    "digits chosen by staff": Flow(_remember_key, _choose),
    "companion issued again": Flow(_killed_companion, _reissue_killed, expected=("active", "revoked", "active")),
}

LONG_FLOWS: dict[str, Flow] = {
    "fall-back to the spare installation, the first key in doubt": Flow(
        _confirm, query="lost=5&on=issue", spare=True, expected=("failed", "active"), doors=("spare",)
    ),
}
"""Flows with so many points that they are walked by `make chaos`."""

TTLOCK_FLOWS: dict[str, Flow] = {
    "TTLock: issue over two gateways": Flow(_both_floors, vendor="ttlock", doors=("101", "201")),
    "TTLock: move to another gateway": Flow(_up_one_floor, vendor="ttlock", doors=("201",)),
    "TTLock: revoke over two gateways": Flow(_leave_both_floors, vendor="ttlock", expected=("revoked",), doors=()),
    "TTLock: suspend over two gateways": Flow(
        _rest_on_both_floors, vendor="ttlock", expected=("suspended",), doors=("101", "201")
    ),
    "TTLock: resume over two gateways": Flow(_paid_on_both_floors, vendor="ttlock", doors=("101", "201")),
    "TTLock: cancelled during issue": Flow(
        _confirm_and_cancel, _cancelled_while_the_vendor_works, vendor="ttlock", expected=("failed",), doors=()
    ),
}
"""A gateway is a lane: one saga walks from lane to lane."""
