"""A vendor whose lists lie: empty ones take no guest's digits away and leave no second key behind; endless ones end."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command

from lockservice.core.tenancy import tenant
from sagas import acts
from sagas.models import Alert, OutboxEvent, ReconcileRun, ReconcileTurn
from sagas.reconcile.asking import PAGES_MAX, EndlessList, Leafing
from sagas.reconcile.preview import preview
from sagas.reconcile.run import reconcile, work_due
from sagas.reconcile.vanishing import vanished
from sagas.reconcile_acts import Decision, give_missing_again, repair_now
from tests.flows.conftest import events, keys, pin_of
from tests.reconcile.conftest import Hands, alert_codes, book, found, look, settle
from tests.reconcile.liar import Repeating, Site, empty
from tests.reconcile.wires import GUEST, TtlockWire
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from vendors.port.types import RevokeReason, Window
from vendors.support.marks import mark_of, tag_of

CLERK = acts.Actor("usr_clerk")
TRIED = Decision(CLERK, "tried the door")


@pytest.fixture(scope="module", params=["ttlock", "salto", "vostio"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """Give each vendor's simulator, with liars before it."""
    made = Site(request.param)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def ttlock() -> Iterator[Site]:
    """Give the simulator of the vendor that refuses digits which a lock has."""
    made = Site("ttlock")
    yield made
    made.stop()


def cancel(hotel: Hotel, stay: str) -> None:
    hotel.tell("booking.cancelled", {**hotel.booking(stay, 2, ["101"]), "status": "cancelled"})
    settle(hotel)


def test_where_all_keys_vanish_nothing_is_given_again_until_a_person_says_so(database: str, ttlock: Site) -> None:
    wire, liar = ttlock.house()
    hotel = wire.hotel
    for room in ("101", "102"):
        book(hotel, room, guest=GUEST)
    pins = {room: pin_of(hotel, key) for room, key in zip(("101", "102"), keys(hotel), strict=True)}
    liar.lie = empty
    for _ in range(2):  # the next night shows the same
        report = look(hotel, repairs=True)
        assert (report.outcome, report.repairs_count, report.counts) == ("vanished", 0, {"missing": 2})
        assert settle(hotel) == 0
    shown, lines = preview(hotel.tenant_id, hotel.installation_id)  # a dry run says the same, and writes nothing
    assert (shown.outcome, shown.counts, shown.pages_count) == ("vanished", {"missing": 2}, report.pages_count)
    assert [line.kind for line in lines] == ["missing", "missing"]
    assert shown.detail.startswith("all 2 keys are not told any more")
    with tenant(hotel.tenant_id):
        alert = Alert.objects.filter(tenant_id=hotel.tenant_id, code="KEYS_VANISHED").latest("id")
        assert ReconcileRun.objects.filter(tenant_id=hotel.tenant_id, status="failed", outcome="vanished").count() == 2
    assert (alert.severity, alert.runbook) == ("critical", "lock/reconcile-vendor")
    assert [len(wire.held(room)) for room in pins] == [1, 1]

    assert give_missing_again(hotel.tenant_id, hotel.installation_id, TRIED) == 2
    liar.lie = None
    settle(hotel)
    assert {room: pin_of(hotel, key) for room, key in zip(pins, keys(hotel), strict=True)} == pins
    assert [(wire.opens(room, pin), len(wire.held(room))) for room, pin in pins.items()] == [(True, 1), (True, 1)]
    report = look(hotel, repairs=True)
    assert (report.outcome, report.counts, report.repairs_count) == ("done", {}, 0)


def test_the_command_gives_again_what_a_person_says_is_gone(hotel: Hotel, locks: MockLocks, hands: Hands) -> None:
    for room in ("101", "102", "103"):
        book(hotel, room)
        hands.drop(room)
    assert look(hotel, repairs=True).outcome == "vanished"
    call_command(
        "reconcile_vendor",
        hotel.tenant_id,
        hotel.installation_id,
        "--give-missing-again",
        "--actor",
        "usr_gm",
        "--why",
        "reset",
    )
    settle(hotel)
    pins = [pin_of(hotel, key) for key in keys(hotel)]
    doors = [hotel.doors[room] for room in ("101", "102", "103")]
    assert [locks.opens(door, pin) for door, pin in zip(doors, pins, strict=True)] == [True, True, True]
    assert look(hotel).counts == {}


def test_a_key_that_was_there_all_the_time_keeps_its_digits_and_ends_with_the_stay(database: str, ttlock: Site) -> None:
    wire, liar = ttlock.house()
    hotel = wire.hotel
    stay = book(hotel, "101", guest=GUEST)
    (key,) = keys(hotel)
    pin = pin_of(hotel, key)
    liar.lie = empty
    assert look(hotel, repairs=True).repairs_count == 1  # a single key says nothing about the vendor
    liar.lie = None
    settle(hotel)
    (key,) = keys(hotel)
    assert (pin_of(hotel, key), key.state, key.warnings) == (pin, "active", [])
    assert (wire.opens("101", pin), len(wire.held("101"))) == (True, 1)
    assert look(hotel).counts == {}
    cancel(hotel, stay)
    assert (wire.opens("101", pin), wire.held("101")) == (False, [])
    assert look(hotel).counts == {}


def test_while_the_vendor_goes_on_lying_the_guest_is_told_of_new_digits_which_alone_open(database: str, ttlock: Site) -> None:
    wire, liar = ttlock.house()
    hotel = wire.hotel
    stay = book(hotel, "101", guest=GUEST)
    (key,) = keys(hotel)
    old = pin_of(hotel, key)
    liar.lie = empty
    assert look(hotel, repairs=True).repairs_count == 1
    settle(hotel)
    liar.lie = None
    (key,) = keys(hotel)
    new = pin_of(hotel, key)
    assert new != old
    assert (wire.opens("101", old), wire.opens("101", new)) == (False, True)  # the old ones were taken by their value
    assert [warning["code"] for warning in key.warnings] == ["PIN_CHANGED"]
    assert changes_of(hotel) == [{"digits": {"from": "earlier", "to": "drawn again"}}]
    cancel(hotel, stay)
    assert (wire.opens("101", old), wire.opens("101", new), wire.held("101")) == (False, False, [])


def test_digits_that_somebody_else_has_meanwhile_are_changed_and_told(database: str, ttlock: Site) -> None:
    wire, _ = ttlock.house()
    assert isinstance(wire, TtlockWire)
    hotel = wire.hotel
    stay = book(hotel, "101", guest=GUEST)
    (key,) = keys(hotel)
    old = pin_of(hotel, key)
    wire.drop("101")
    now = datetime.now(UTC).replace(microsecond=0)
    wire._add("101", old, "Cleaner Gulnora", Window(now - timedelta(hours=2), now + timedelta(days=5)))
    assert look(hotel, repairs=True).repairs_count == 1
    settle(hotel)
    (key,) = keys(hotel)
    new = pin_of(hotel, key)
    assert new != old
    assert wire.opens("101", new)
    assert changes_of(hotel) == [{"digits": {"from": "earlier", "to": "drawn again"}}]
    assert events(hotel, key)[-1] == "credential.updated"
    cancel(hotel, stay)
    assert (wire.opens("101", new), wire.opens("101", old)) == (False, True)  # the cleaner's is hers


def test_a_key_given_again_beside_one_that_was_there_ends_with_it(database: str, site: Site) -> None:
    wire, liar = site.house()
    hotel = wire.hotel
    stay = book(hotel, "101", guest=GUEST)
    liar.lie = empty
    assert look(hotel, repairs=True).repairs_count == 1
    settle(hotel)
    liar.lie = None
    assert len(wire.held("101")) >= 1
    cancel(hotel, stay)
    assert wire.held("101") == []
    assert [key.state for key in keys(hotel)] == ["revoked"]
    assert look(hotel).counts == {}


def test_of_a_key_seen_twice_at_a_door_nothing_is_left_after_checkout(hotel: Hotel, locks: MockLocks, hands: Hands) -> None:
    book(hotel, "101")
    (key,) = keys(hotel)
    hands.plant("101", "771204", mark=mark_of("another round"), tag=tag_of(key.id))
    assert look(hotel, repairs=True).counts == {"duplicate": 1}
    assert len(locks.keys_at(hotel.doors["101"])) == 2
    acts.revoke(hotel.tenant_id, key.id, RevokeReason.CHECKOUT, CLERK, "out")
    settle(hotel)
    assert locks.keys_at(hotel.doors["101"]) == []
    assert look(hotel).counts == {}


def test_a_person_who_repairs_one_of_several_is_believed(hotel: Hotel, locks: MockLocks, hands: Hands) -> None:
    for room in ("101", "102"):
        book(hotel, room)
        hands.drop(room)
    assert look(hotel, repairs=True).outcome == "vanished"
    first, second = found(hotel)
    repair_now(hotel.tenant_id, first.pk, TRIED)
    settle(hotel)
    report = look(hotel, repairs=True)  # one of two is no crowd
    assert (report.outcome, report.repairs_count) == ("done", 1)
    settle(hotel)
    assert [len(locks.keys_at(hotel.doors[room])) for room in ("101", "102")] == [1, 1]
    assert second.repair_asked_at is None


def test_a_list_that_repeats_itself_ends_the_comparison_and_is_told(database: str, site: Site) -> None:
    wire, liar = site.house()
    hotel = wire.hotel
    book(hotel, "101", guest=GUEST)
    asked = liar.asked
    liar.lie = Repeating()
    report = look(hotel, repairs=True)
    assert (report.outcome, report.detail) == ("endless_list", "pages repeat what earlier ones told at 101")
    assert liar.asked - asked <= 4
    assert (found(hotel), report.repairs_count, alert_codes(hotel)) == ([], 0, ["RECONCILE_FAILED"])
    liar.lie = None
    assert (look(hotel).outcome, found(hotel)) == ("done", [])


def test_a_second_look_that_never_ends_makes_no_finding(database: str, ttlock: Site) -> None:
    wire, liar = ttlock.house()
    hotel = wire.hotel
    book(hotel, "101", guest=GUEST)
    other_first = hotel.devices["102"] < hotel.devices["101"]
    forever, last_empty = Repeating(), liar.asked + (3 if other_first else 2)

    def lie(document: dict[str, Any]) -> None:
        """The doors' lists and the look-up are empty; then the whole list is asked for once more."""
        forever(document)
        if liar.asked <= last_empty:
            empty(document)

    liar.lie = lie
    report = look(hotel, repairs=True)
    assert (report.outcome, report.repairs_count, report.counts) == ("endless_list", 0, {})
    assert report.detail == "pages repeat what earlier ones told at 101"


def test_a_liar_takes_no_slice_from_a_healthy_house(database: str, ttlock: Site) -> None:
    (lied, liar), (healthy, _) = ttlock.house(), ttlock.house()
    for wire in (lied, healthy):
        book(wire.hotel, "101", guest=GUEST)
    liar.lie = Repeating()
    due(lied.hotel, hours=2)
    due(healthy.hotel, hours=1)
    names = [lied.hotel.installation_id, healthy.hotel.installation_id]
    reports = work_due(60, only=names)
    assert [(r.installation_id, r.outcome) for r in reports] == [(names[0], "endless_list"), (names[1], "done")]
    assert work_due(60, only=names) == []


def test_who_pauses_goes_behind_the_others(hotel: Hotel, locks: MockLocks) -> None:
    due(hotel, hours=2)
    before = datetime.now(UTC)
    assert reconcile(hotel.tenant_id, hotel.installation_id, ends_at=time.monotonic()).outcome == "paused"
    with tenant(hotel.tenant_id):
        turn = ReconcileTurn.objects.get(tenant_id=hotel.tenant_id)
    assert before - timedelta(seconds=5) < turn.due_at <= datetime.now(UTC) + timedelta(seconds=5)


@pytest.mark.parametrize(
    ("gone", "expected", "said"),
    [
        ({"a": 1}, {"a": 1}, ""),
        ({"a": 1}, {"a": 1, "b": 1}, ""),
        ({"a": 1, "b": 1}, {"a": 1, "b": 1}, "all 2 keys"),
        ({"a": 2}, {"a": 3, "b": 5}, ""),
        ({"a": 3}, {"a": 5, "b": 9}, "3 of 5 keys at 101"),
        ({"a": 3}, {"a": 6, "b": 9}, ""),
        ({"a": 2, "b": 2}, {"a": 3, "b": 4}, "4 of 7 keys"),
        ({}, {"a": 4}, ""),
    ],
)
def test_how_many_are_too_many(gone: dict[str, int], expected: dict[str, int], said: str) -> None:
    assert vanished(gone, expected, {"a": "101"}) == said


def test_a_list_that_grew_while_it_was_read_is_no_lie() -> None:
    leafing = Leafing()
    leafing.turn(200, 200, None, "2")
    leafing.turn(1, 0, "2", "cards")  # one key was added, and pushed the last one onto a page of its own
    leafing.turn(0, 0, "cards", "phones")
    leafing.turn(3, 0, "phones", None)
    with pytest.raises(EndlessList):
        leafing.turn(200, 0, "phones", "more")
    with pytest.raises(EndlessList):
        Leafing().turn(5, 5, "again", "again")


def test_a_list_of_ever_new_keys_ends_too() -> None:
    leafing = Leafing()
    with pytest.raises(EndlessList):
        for page in range(PAGES_MAX + 1):
            leafing.turn(10, 10, str(page), str(page + 1))
    assert leafing.pages_count == PAGES_MAX


def due(hotel: Hotel, hours: int) -> None:
    """Makes a hotel's comparison due since some hours."""
    at = datetime.now(UTC) - timedelta(hours=hours)
    with tenant(hotel.tenant_id):
        ReconcileTurn.objects.update_or_create(
            tenant_id=hotel.tenant_id, installation_id=hotel.installation_id, defaults={"due_at": at}
        )


def changes_of(hotel: Hotel) -> list[object]:
    """What the hotel's events say was changed about its keys, oldest first."""
    with tenant(hotel.tenant_id):
        rows = OutboxEvent.objects.filter(tenant_id=hotel.tenant_id, subject__contains="credential.updated").order_by(
            "sequence"
        )
        return [json.loads(bytes(row.body))["data"]["changes"] for row in rows]
