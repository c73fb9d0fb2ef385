"""What a person types at the demo: book, try a door, move the time, put an event on the bus."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from lockservice.demo import places
from tests.support.own_service import OwnService

pytestmark = pytest.mark.timeout(400)
ROOM = next(places.HOTEL_SILK.rooms())


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnService]:
    folder = tmp_path_factory.mktemp("demo")
    service, ready = OwnService(folder / "local"), folder / "ready.json"
    up = service.start("up", "--no-progress", "--without", "web", "--without", "beat", "--ready-file", str(ready))
    deadline = time.monotonic() + 180
    while not ready.exists():
        assert up.poll() is None, up.stdout.read() if up.stdout else ""
        assert time.monotonic() < deadline, "the demo did not start"
        time.sleep(0.1)
    yield service
    up.terminate()
    said, _ = up.communicate(timeout=60)
    assert "everything has stopped" in said
    assert service.processes() == []


@pytest.fixture(autouse=True)
def _time_is_real_again(request: pytest.FixtureRequest) -> Iterator[None]:
    """A clock that a failing test left standing must not fail the next one."""
    yield
    if "clock" in request.node.name or "time" in request.node.name:
        request.getfixturevalue("service").manage("clock", "real")


def booking(reservation_id: str, **changes: Any) -> dict[str, Any]:
    start = datetime.now(UTC).replace(second=0, microsecond=0)
    document = {
        "specVersion": "1.0",
        "id": f"evt_{reservation_id}",
        "subject": "melmastoon.reservation.booking.confirmed.v1",
        "source": "/services/reservation-service",
        "time": start.isoformat(),
        "tenantId": places.TENANT_ID,
        "data": {
            "reservationId": reservation_id,
            "propertyId": places.HOTEL_SILK.property_id,
            "version": 1,
            "status": "confirmed",
            "rooms": [ROOM.room_id],
            "validFrom": (start - timedelta(minutes=1)).isoformat(),
            "validUntil": (start + timedelta(days=1)).isoformat(),
            "guest": {"id": "gst_1", "displayName": "Мадина Каримзода"},
            "paymentStatus": "captured",
        },
    }
    return {**document, **changes}


def publish(service: OwnService, folder: Path, *documents: dict[str, Any]) -> tuple[int, str]:
    file = folder / "events.ndjson"
    file.write_text("\n".join(json.dumps(item) for item in documents), encoding="utf-8")
    done = service.manage("publish_event", str(file))
    return done.returncode, done.stdout + done.stderr


def try_door(service: OwnService, *arguments: str) -> tuple[int, str]:
    done = service.manage("try_door", *arguments)
    return done.returncode, done.stdout + done.stderr


def test_a_published_booking_opens_its_room_and_the_street_door_until_the_time_has_moved_on(
    service: OwnService, tmp_path: Path
) -> None:
    assert publish(service, tmp_path, booking("rsv_a")) == (0, "1 published\n")
    deadline = time.monotonic() + 30
    while (room := try_door(service, "101", "--reservation", "rsv_a"))[0] != 0:
        assert time.monotonic() < deadline, room
    assert "101 at Hotel Silk, Kabul opens: valid" in room[1]
    assert "Street door at Hotel Silk, Kabul opens: valid" in try_door(service, "street door", "--reservation", "rsv_a")[1]
    assert try_door(service, "102", "--reservation", "rsv_a", "--property", "silk")[0] == 1
    tomorrow = (datetime.now(UTC) + timedelta(days=2)).isoformat()
    assert "stays shut: expired" in try_door(service, "101", "--reservation", "rsv_a", "--at", tomorrow)[1]

    assert "running" in service.manage("clock", "advance", "1d4h").stdout
    assert try_door(service, "101", "--reservation", "rsv_a")[0] == 1
    assert "real time" in service.manage("clock", "real").stdout


def test_a_door_of_two_houses_must_be_told_apart_and_an_unknown_one_is_said(service: OwnService) -> None:
    for shown in (("--pin", "246810"), ("--card", "246810"), ("--phone", "nobody@example.org")):
        said = try_door(service, "101", *shown)[1]
        assert "say which house" in said
        assert all(f"{house.name} (--property {house.property_id})" in said for house in places.HOUSES)
    code, said = try_door(service, "101", "--pin", "246810", "--property", "rudaki")
    assert (code, "stays shut: unknown credential" in said) == (1, True)
    assert "no door is called 999" in try_door(service, "999", "--pin", "246810")[1]
    assert "no key was ever asked for rsv_none" in try_door(service, "101", "--reservation", "rsv_none")[1]


def test_a_simulator_is_broken_shown_and_mended_by_command(service: OwnService) -> None:
    assert "the clock of door" in service.manage("simulate", "ttlock", "clock-off", "102", "1800").stdout
    assert "is off" in service.manage("simulate", "ttlock", "gateway-off", "102").stdout
    broken = service.manage("simulate", "ttlock", "fail", "throttled", "--times", "2")
    assert "says that there are too many requests: the next 2 requests" in broken.stdout, broken.stderr
    assert "every request takes 20 ms longer" in service.manage("simulate", "ttlock", "latency", "20").stdout
    status = service.manage("simulate", "all", "status").stdout
    assert [line.partition(":")[0] for line in status.splitlines() if not line.startswith(" ")] == [*settings.DEMO_VENDOR_CODES]
    assert status.count("nothing is wrong") == len(settings.DEMO_VENDOR_CODES) - 1
    healed = service.manage("simulate", "all", "restore")
    assert healed.stdout.count("nothing is wrong") == len(settings.DEMO_VENDOR_CODES), healed.stderr
    assert json.loads(service.manage("simulate", "ttlock", "dump").stdout)["locks"]
    assert "is for one vendor" in service.manage("simulate", "all", "dead").stderr
    assert "no door of ttlock is called 999" in service.manage("simulate", "ttlock", "gateway-off", "999").stderr


def test_a_vendor_made_dead_gives_its_key_once_it_is_mended(service: OwnService, tmp_path: Path) -> None:
    assert service.manage("simulate", "ttlock", "dead").returncode == 0
    try:
        assert publish(service, tmp_path, booking("rsv_dead"))[0] == 0
        time.sleep(2)
        code, said = try_door(service, "101", "--reservation", "rsv_dead")
        assert (code, "stays shut: unknown credential" in said) == (1, True), said
    finally:
        assert "nothing is wrong" in service.manage("simulate", "ttlock", "restore").stdout
    deadline = time.monotonic() + 60
    while try_door(service, "101", "--reservation", "rsv_dead")[0] != 0:
        assert time.monotonic() < deadline


def test_one_refused_event_keeps_all_of_a_file_off_the_bus(service: OwnService, tmp_path: Path) -> None:
    unknown = booking("rsv_u", subject="melmastoon.reservation.booking.dreamt.v1")
    no_zone = booking("rsv_z", time="2026-05-01T12:00:00")
    local = booking("rsv_l", subject="melmastoon.lock.credential.revoked.local.v1", data={"localId": "prov_1"})
    code, said = publish(service, tmp_path, booking("rsv_fine"), unknown, no_zone, local)
    assert code == 1
    assert "event 2: UNKNOWN_SUBJECT" in said
    assert "event 3: NO_TIME_ZONE" in said
    assert "event 4:" in said
    assert "3 refused, nothing was published" in said
    time.sleep(1)
    assert "no key was ever asked for rsv_fine" in try_door(service, "101", "--reservation", "rsv_fine")[1]


def test_a_short_spelling_of_a_subject_is_published_as_the_long_one(service: OwnService, tmp_path: Path) -> None:
    file = tmp_path / "one.json"
    file.write_text(json.dumps([booking("rsv_alias", subject="reservation.confirmed.v1")]), encoding="utf-8")
    done = service.manage("publish_event", str(file), "--dry-run")
    assert (done.returncode, done.stdout) == (0, "1 checked\n"), done.stderr


def test_the_clock_stands_moves_and_runs_and_wants_a_zone(service: OwnService) -> None:
    assert service.manage("clock", "stop", "2026-05-01T14:00:00+04:30").stdout == "2026-05-01T09:30:00+00:00, standing still\n"
    assert service.manage("clock", "advance", "1d2h30m").stdout == "2026-05-02T12:00:00+00:00, standing still\n"
    assert service.manage("clock", "back", "2h").stdout == "2026-05-02T10:00:00+00:00, standing still\n"
    assert service.manage("clock", "run").stdout.startswith("2026-05-02T10:00:")
    assert "needs a time zone" in service.manage("clock", "stop", "2026-05-01T14:00:00").stderr
    assert service.manage("clock", "real").stdout.endswith("real time\n")


def test_seeding_again_changes_nothing(service: OwnService) -> None:
    once, twice = (service.manage("seed_demo") for _ in range(2))
    assert once.returncode == twice.returncode == 0, once.stderr + twice.stderr
    assert once.stdout == twice.stdout
    assert "Hotel Silk, Kabul: 14 doors" in once.stdout
    assert once.stdout.count("Guesthouse Rudaki, Dushanbe: 2 doors") == 3


def test_a_second_simulator_at_the_same_address_is_refused(service: OwnService) -> None:
    assert service.manage("simulate", "ttlock").returncode == 2
    assert "no simulator of nobody" in service.manage("simulate", "nobody").stderr
