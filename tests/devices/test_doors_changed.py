"""A lock hangs at another door than our books said, or a new one is hung: live keys follow, and nobody keeps a stranger's door."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.core.management import call_command

from devices.registration import COLUMNS
from lockservice.core.tenancy import tenant
from sagas.models import Saga
from tests.flows.conftest import alerts, events, keys, make_hotel, pin_of, sagas
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from vendors.port.ids import new_id

Settle = Callable[..., int]


@pytest.fixture
def vendor() -> Iterator[MockLocks]:
    """Give a mock vendor of its own: an import takes all a vendor lists."""
    mock = MockLocks()
    yield mock
    mock.stop()


@pytest.fixture
def place(database: str, vendor: MockLocks) -> Hotel:
    """Give a hotel with a lock at 101, 102 and 103, a shared street door, and locks `spare` and `pool` that are nowhere yet."""
    hotel = make_hotel(vendor)
    seeded = [{"externalId": external, "label": f"door {label}"} for label, external in hotel.doors.items()]
    spares = [{"externalId": f"{label}-{hotel.property_id[-6:]}", "label": label} for label in ("spare", "pool")]
    vendor.ask("/seed", {"doors": seeded + spares, "additive": True})
    return hotel


def _external(hotel: Hotel, label: str) -> str:
    return hotel.doors.get(label) or f"{label}-{hotel.property_id[-6:]}"


def _hang(hotel: Hotel, tmp_path: Path, **at: str) -> str:
    """Imports the vendor's locks: lock by its old label → `rooms` or `areas/shared` of its new place; returns the last line."""
    placed = {label: (label, "", "no") for label in ("101", "102", "103")} | {"lobby": ("", "lobby", "yes")}
    for label, where in at.items():
        name = label.removeprefix("door_")
        placed[name] = ("", where.removeprefix("area:"), "yes") if where.startswith("area:") else (where, "", "no")
    lines = [",".join(COLUMNS)]
    lines += [
        f"{_external(hotel, label)},{label} door,{rooms},{areas},{shared}" for label, (rooms, areas, shared) in placed.items()
    ]
    table = tmp_path / "doors.csv"
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    out = io.StringIO()
    call_command("import_devices", hotel.tenant_id, hotel.installation_id, table=str(table), stdout=out)
    return out.getvalue().splitlines()[-1]


def _book(hotel: Hotel, settle: Settle, *rooms: str) -> str:
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, list(rooms)))
    settle(hotel)
    return stay


def _walks(hotel: Hotel) -> list[str]:
    return [status for flow, status in sagas(hotel) if flow == "doors_changed"]


def test_locks_hung_the_wrong_way_round_open_for_the_right_guests_once_the_table_is_right(
    place: Hotel, vendor: MockLocks, settle: Settle, tmp_path: Path
) -> None:
    _hang(place, tmp_path)
    first, second = _book(place, settle, "101"), _book(place, settle, "102")
    _hang(place, tmp_path, door_101="102", door_102="101")
    settle(place, now=True, rounds=4)
    ((one,), (two,)) = keys(place, first), keys(place, second)
    pins = pin_of(place, one), pin_of(place, two)
    lock_of_101, lock_of_102 = place.doors["102"], place.doors["101"]
    assert [vendor.opens(lock_of_101, pin) for pin in pins] == [True, False]
    assert [vendor.opens(lock_of_102, pin) for pin in pins] == [False, True]
    assert [len(vendor.keys_at(door)) for door in (lock_of_101, lock_of_102)] == [1, 1]
    assert [(key.state, key.rooms, key.open_work) for key in (one, two)] == [
        ("active", [place.rooms["101"]], False), ("active", [place.rooms["102"]], False),
    ]  # fmt: skip
    assert events(place, one)[-1] == "credential.updated"
    assert alerts(place) == []


def test_the_door_that_is_another_rooms_now_is_shut_before_the_new_one_is_given_and_though_it_cannot_be(
    place: Hotel, vendor: MockLocks, settle: Settle, tmp_path: Path
) -> None:
    _hang(place, tmp_path)
    stay = _book(place, settle, "101")
    (key,) = keys(place, stay)
    pin = pin_of(place, key)
    spare = _external(place, "spare")
    vendor.ask("/door", {"device": spare, "reachable": False})
    _hang(place, tmp_path, door_101="103", door_103="103", spare="101")
    settle(place)
    assert not vendor.opens(place.doors["101"], pin)
    assert vendor.keys_at(place.doors["101"]) == []
    assert not vendor.opens(spare, pin)
    vendor.ask("/door", {"device": spare, "reachable": True})
    settle(place, now=True, rounds=4)
    (key,) = keys(place, stay)
    assert vendor.opens(spare, pin_of(place, key))


def test_a_rooms_second_lock_and_a_new_shared_door_open_for_guests_who_are_in_the_house(
    place: Hotel, vendor: MockLocks, settle: Settle, tmp_path: Path
) -> None:
    _hang(place, tmp_path)
    stay, other = _book(place, settle, "101"), _book(place, settle, "102")
    _hang(place, tmp_path, spare="101", pool="area:lobby")
    settle(place, now=True, rounds=4)
    ((key,), (neighbour,)) = keys(place, stay), keys(place, other)
    new = [_external(place, label) for label in ("spare", "pool")]
    assert [vendor.opens(door, pin_of(place, key)) for door in (*new, place.doors["101"])] == [True, True, True]
    assert [vendor.opens(door, pin_of(place, neighbour)) for door in new] == [False, True]
    assert (key.state, neighbour.state) == ("active", "active")


def test_a_guest_whose_room_has_no_lock_any_more_is_told_of_and_keeps_no_way_into_the_other_room(
    place: Hotel, vendor: MockLocks, settle: Settle, tmp_path: Path
) -> None:
    _hang(place, tmp_path)
    stay = _book(place, settle, "101")
    (key,) = keys(place, stay)
    pin = pin_of(place, key)
    _hang(place, tmp_path, door_101="102")
    settle(place, now=True, rounds=4)
    (key,) = keys(place, stay)
    assert (key.state, key.revoke_reason) == ("revoked", "security")
    assert not vendor.opens(place.doors["101"], pin)
    assert alerts(place) == [("ROOM_WITHOUT_LOCK", "critical")]


def test_an_import_that_moves_no_lock_starts_nothing_and_a_walk_that_was_killed_changes_nothing_more(
    place: Hotel, vendor: MockLocks, settle: Settle, tmp_path: Path
) -> None:
    _hang(place, tmp_path)
    settle(place, now=True, rounds=2)
    walks = _walks(place)
    assert _hang(place, tmp_path) == "0 written"
    assert _walks(place) == walks
    _book(place, settle, "101")
    _hang(place, tmp_path, door_101="102", door_102="101")
    settle(place, now=True, rounds=4)
    (key,) = keys(place)
    told, calls = events(place, key), vendor.calls(*place.doors.values())
    with tenant(place.tenant_id):  # as if it had died before it noted how far it was
        walk = Saga.objects.filter(tenant_id=place.tenant_id, flow="doors_changed").order_by("-position").first()
        assert walk is not None
        args = {name: value for name, value in walk.args.items() if name not in ("after", "round")}
        Saga.objects.filter(id=walk.id).update(status="due", args=args, due_at=None)
    settle(place, now=True, rounds=3)
    assert (events(place, key), vendor.calls(*place.doors.values())) == (told, calls)
    assert set(_walks(place)) == {"done"}
