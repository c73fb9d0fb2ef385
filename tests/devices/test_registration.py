"""A vendor's locks come into our books: by label, by table, once."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from devices import registration
from devices.models import LockDevice
from devices.registration import TableWrong
from lockservice.core.places import Room
from lockservice.core.tenancy import tenant
from sagas.models import OutboxEvent
from tests.flows.conftest import make_hotel
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from vendors.port.ids import new_id


@pytest.fixture
def doors() -> Iterator[MockLocks]:
    """Give a mock vendor of its own: an import takes all a vendor lists."""
    mock = MockLocks()
    yield mock
    mock.stop()


@pytest.fixture
def site(database: str, doors: MockLocks) -> Hotel:
    """Give a hotel with rooms 101 to 103, one lock at 101, and a vendor that lists five."""
    hotel = make_hotel(doors, rooms={"101": "a1"}, shared={})
    with tenant(hotel.tenant_id):
        for label in ("102", "103"):
            hotel.rooms[label] = new_id("rmu")
            Room.objects.create(
                tenant_id=hotel.tenant_id, property_id=hotel.property_id, room_id=hotel.rooms[label], label=label, floor="1"
            )
        LockDevice.objects.create(
            id=new_id("lck"), tenant_id=hotel.tenant_id, property_id=hotel.property_id, installation_id=hotel.installation_id,
            external_id="gone", label="Old door", rooms=[], capabilities={},
        )  # fmt: skip
    labels = {"a1": "101", "a2": "Room 102 main door", "a3": "door 103", "a4": "Street door", "a5": "102/103 corridor"}
    doors.ask("/seed", {"doors": [{"externalId": key, "label": label} for key, label in labels.items()]})
    return hotel


def _import(hotel: Hotel, **options: Any) -> list[str]:
    out = io.StringIO()
    call_command("import_devices", hotel.tenant_id, hotel.installation_id, stdout=out, **options)
    return out.getvalue().splitlines()


def _rows(hotel: Hotel) -> dict[str, LockDevice]:
    with tenant(hotel.tenant_id):
        return {row.external_id: row for row in LockDevice.objects.filter(tenant_id=hotel.tenant_id)}


def _registered(hotel: Hotel) -> list[dict[str, Any]]:
    with tenant(hotel.tenant_id):
        rows = OutboxEvent.objects.filter(tenant_id=hotel.tenant_id, subject="melmastoon.lock.device.registered.v1")
        return [json.loads(bytes(row.body))["data"] for row in rows.order_by("id")]


def test_a_dry_run_says_what_it_would_do_and_writes_nothing(site: Hotel) -> None:
    before = set(_rows(site))
    lines = _import(site, dry_run=True)
    assert [line.split()[:2] for line in lines[:6]] == [
        ["changed", "a1"], ["new", "a2"], ["new", "a3"], ["unmapped", "a4"], ["unmapped", "a5"], ["missing", "gone"],
    ]  # fmt: skip
    assert lines[6:] == ["2 new, 1 changed, 0 same, 2 unmapped, 1 missing, 0 refused", "dry run: nothing was written"]
    assert (set(_rows(site)), _registered(site)) == (before, [])


def test_locks_are_registered_on_the_room_their_label_names_and_once(site: Hotel) -> None:
    assert _import(site)[-1] == "3 written"
    rows = _rows(site)
    assert set(rows) == {"a1", "a2", "a3", "gone"}
    assert (rows["a2"].rooms, rows["a3"].rooms) == ([site.rooms["102"]], [site.rooms["103"]])
    assert rows["a2"].capabilities["remote_revoke"] is True
    told = {data["label"]: data for data in _registered(site)}
    assert set(told) == {"Room 102 main door", "door 103"}
    data = told["Room 102 main door"]
    assert (data["deviceId"], data["rooms"], data["vendor"]) == (rows["a2"].id, [site.rooms["102"]], "mock")
    assert data["capabilities"]["remoteRevoke"] is True
    assert (rows["a2"].event_sequence, rows["a1"].event_sequence) == (1, 0)
    again = _import(site)
    assert again[-2:] == ["0 new, 0 changed, 3 same, 2 unmapped, 1 missing, 0 refused", "0 written"]
    assert len(_registered(site)) == 2


def test_a_table_places_shared_doors_and_moves_locks(site: Hotel, tmp_path: Path) -> None:
    table = tmp_path / "doors.csv"
    table.write_text(
        "external_id,label,rooms,areas,shared\n"
        "a1,101 new wing,102,,no\n"
        "a4,Street door,,lobby,yes\n"
        "a5,Suite door,102;103,gym,\n"
        "a9,Nowhere,101,,no\n",
        encoding="utf-8",
    )
    lines = _import(site, table=str(table))
    assert lines[-3].split() == ["unlisted", "a9", "in", "the", "table,", "not", "at", "the", "vendor"]
    rows = _rows(site)
    assert (rows["a1"].label, rows["a1"].rooms) == ("101 new wing", [site.rooms["102"]])
    assert (rows["a4"].areas, rows["a4"].shared, rows["a4"].rooms) == (["lobby"], True, [])
    assert (rows["a5"].rooms, rows["a5"].shared) == ([site.rooms["102"], site.rooms["103"]], False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("label,rooms\n", "the first line must be external_id,label,rooms,areas,shared"),
        ("external_id,label,rooms,areas,shared\n,x,101,,\n", "line 2, external_id: empty, too long or given twice"),
        ("external_id,label,rooms,areas,shared\na,x,101,,\na,y,101,,\n", "line 3, external_id: empty, too long or given twice"),
        ("external_id,label,rooms,areas,shared\na,x,999,,\n", "line 2, rooms: '999' is no room of this property"),
        (
            "external_id,label,rooms,areas,shared\na,x,,roof,\n",
            "line 2, areas: 'roof' is none of lobby, gym, pool, spa, parking",
        ),
        ("external_id,label,rooms,areas,shared\na,x,101,,maybe\n", "line 2, shared: yes or no"),
        ("external_id,label,rooms,areas,shared\na,,101,,\n", "line 2, label: 1 to 120 characters"),
        ("external_id,label,rooms,areas,shared\na,x,,,\n", "line 2: a lock needs a room or an area"),
        ("external_id,label,rooms,areas,shared\na,x,101;101,,\n", "line 2: a room or an area is named twice"),
        ("external_id,label,rooms,areas,shared\na,x,101,,no,more\n", "line 2: more than 5 cells"),
        ("external_id,label,rooms,areas,shared\na,x\0y,101,,\n", "line 2, label: a control character"),
        (
            "external_id,label,rooms,areas,shared\na," + "x" * 131_073 + ",101,,\n",
            "line 2: field larger than field limit (131072)",
        ),
    ],
)
def test_a_wrong_table_is_refused_with_line_and_column(text: str, message: str) -> None:
    with pytest.raises(TableWrong) as refused:
        registration.read_table(text.splitlines(), {"101": "rmu_1"})
    assert str(refused.value) == message


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_a_table_that_is_not_utf_8_is_refused_as_such_and_nothing_is_written(
    site: Hotel, tmp_path: Path, encoding: str
) -> None:
    table, before = tmp_path / "doors.csv", set(_rows(site))
    table.write_text("external_id,label,rooms,areas,shared\na2,Zimmer für zwei,102,,no\n", encoding=encoding)
    with pytest.raises(CommandError, match=r"^after line \d: not UTF-8$"):
        _import(site, table=str(table))
    assert set(_rows(site)) == before


def test_an_installation_of_another_tenant_is_not_there(site: Hotel, doors: MockLocks) -> None:
    other = make_hotel(doors, rooms={"1": "b1"}, shared={})
    with pytest.raises(CommandError, match="no such installation in this tenant"):
        call_command("import_devices", other.tenant_id, site.installation_id)
