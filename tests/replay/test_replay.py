"""Bookings go the whole way: bus, sagas, the vendor's simulator over HTTP, doors, outbox, bus again; then everything is compared."""

from __future__ import annotations

import json
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from lockservice.demo.desk_seat import needs_desk
from lockservice.replay.bookings import read_file
from lockservice.replay.house import TIME_ZONE
from lockservice.replay.timeline import plan, span_of
from tests.support.own_service import SERVERS, OwnService, own_servers

REAL_FILE = Path(__file__).parents[3] / "shared" / "data" / "hotel_bookings_resort.csv.gz"
MADE_UP = ("replay_bookings", "--generate", "36", "--seed", "1")
REAL_COUNT, REAL_EVENTS, SPREAD_COUNT = 300, 718, 100
"""How to replay thousands stands in docs/operations.md."""

REFUSED = """
import json
from django.core.management import CommandError, call_command
said = []
for name, *arguments in {commands}:
    try:
        call_command(name, *arguments)
    except CommandError as refused:
        said.append(str(refused))
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnService]:
    with own_servers(tmp_path_factory.mktemp("replay") / "local") as running:
        yield running


def replay(service: OwnService, *arguments: str, timeout_s: float = 280) -> dict[str, Any]:
    file = service.local / "report.json"
    done = service.manage(*arguments, "--report", str(file), timeout_s=timeout_s)
    assert done.returncode == 0, done.stdout + done.stderr
    report: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    assert "everything agrees" in done.stdout
    return report


@pytest.mark.timeout(600)
def test_bookings_become_keys_and_end_and_a_second_time_tells_nothing_new(service: OwnService) -> None:
    first = replay(service, *MADE_UP, "--vendor", "ttlock")
    told = first["after"]["events"]
    assert (first["bookings_count"], first["faults"], first["differences_count"]) == (36, [], 0)
    assert (told["requested"], told["issued"], told["revoked"], told["failed"]) == (36, 29, 29, 7)
    assert first["after"]["failure_codes"] == {"ABANDONED": 7}
    assert first["after"]["keys"] == {"revoked": 29, "failed": 7}
    assert first["new_events_count"] == first["events_seen_count"] == sum(told.values())
    assert first["new_calls_count"] >= 2 * 2 * 29
    assert first["comparisons_count"] >= 20
    assert first["keys_compared_count"] > 200

    second = replay(service, *MADE_UP, "--vendor", "ttlock")
    assert (second["new_events_count"], second["new_calls_count"], second["events_seen_count"]) == (0, 0, 0)
    assert second["after"] == first["after"]


def is_true_for_each_vendor(report: dict[str, Any], *, has_desk: bool = False) -> None:
    """Ledger and doors agree everywhere; where cards are made by the desk's own encoder and no desk is there, guests wait."""
    assert (report["faults"], report["differences_count"]) == ([], 0)
    for vendor, share in report["vendors"].items():
        if has_desk or not needs_desk(vendor):
            assert share["keys_compared_count"] == sum(share["tried"].values()) > 0
        else:
            assert share["waiting_most"] > 0
            assert (share["tried"], share["keys_compared_count"]) == ({}, 0)
            assert {state for states in share["keys"].values() for state in states} == {"failed"}


@pytest.mark.timeout(900)
def test_bookings_over_all_vendors_agree_at_each_and_every_kind_of_key_is_tried_at_its_doors(service: OwnService) -> None:
    arguments = ("replay_bookings", "--generate", "36", "--seed", "3", "--spread")
    first = replay(service, *arguments, timeout_s=600)
    assert tuple(first["vendors"]) == settings.DEMO_VENDOR_CODES
    is_true_for_each_vendor(first)
    tried = {kind for share in first["vendors"].values() for kind in share["tried"]}
    assert tried == {"pin_code", "mobile_app", "rfid_card"}


@pytest.mark.timeout(600)
def test_with_a_desk_the_cards_that_need_one_are_made_and_open_their_doors(service: OwnService) -> None:
    waiting = [vendor for vendor in settings.DEMO_VENDOR_CODES if needs_desk(vendor)]
    arguments = ("replay_bookings", "--generate", "24", "--seed", "5", "--spread", ",".join(("mock", *waiting)), "--desk")
    report = replay(service, *arguments)
    is_true_for_each_vendor(report, has_desk=True)
    assert all(report["vendors"][vendor]["tried"]["rfid_card"] > 0 for vendor in waiting)
    assert service.processes(but=SERVERS) == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("vendor", "runners"), [("mock", 1), pytest.param("ttlock", 0, marks=pytest.mark.chaos)])
def test_an_interrupted_replay_leaves_no_process_and_goes_on_when_run_again(
    service: OwnService, vendor: str, runners: int
) -> None:
    """Also where consumer, publisher and runner are processes; the keys come to the same either way."""
    arguments = ("replay_bookings", "--generate", "20", "--seed", "9", "--vendor", vendor, "--runners", str(runners))
    running = service.start(*arguments)
    assert running.stdout is not None
    said = []
    for line in iter(running.stdout.readline, ""):
        said.append(line)
        if "events, 20" in line:
            break
    else:
        running.communicate()
        pytest.fail("the replay never got a tenth of the way: " + "".join(said))
    running.send_signal(signal.SIGINT)
    rest, _ = running.communicate(timeout=60)
    assert "interrupted" in rest
    assert running.returncode == 130
    assert service.processes(but=SERVERS) == []

    whole = replay(service, *arguments)
    assert (whole["bookings_count"], whole["faults"], whole["differences_count"]) == (20, [], 0)
    assert whole["after"]["events"] == {"requested": 20, "failed": 5, "pending": 15, "issued": 15, "updated": 4, "revoked": 15}
    assert whole["after"]["keys"] == {"revoked": 15, "failed": 5}
    assert whole["new_events_count"] == whole["events_seen_count"] - whole["events_repeated_count"]
    assert "real time" in service.manage("clock").stdout


@pytest.mark.chaos
@pytest.mark.timeout(300)
def test_a_simulators_ports_that_somebody_took_meanwhile_are_given_up(service: OwnService) -> None:
    arguments = ("replay_bookings", "--generate", "3", "--seed", "6", "--vendor", "mock")
    first = replay(service, *arguments)
    files = [service.local / "run" / f"{name}.port" for name in ("sim-mock", "sim-mock-control")]
    taken = [int(file.read_text()) for file in files]
    with ExitStack() as stack:
        for port in taken:
            stack.enter_context(socket.create_server(("127.0.0.1", port)))
        second = replay(service, *arguments)
    assert not {int(file.read_text()) for file in files} & set(taken)
    assert (second["new_events_count"], second["new_calls_count"], second["after"]) == (0, 0, first["after"])


@pytest.mark.chaos
@pytest.mark.timeout(300)
def test_a_replay_keeps_the_speed_it_is_told(service: OwnService, tmp_path: Path) -> None:
    file = tmp_path / "three.csv"
    assert service.manage("replay_bookings", "--generate", "3", "--seed", "4", "--write", str(file)).returncode == 0
    rows = read_file(file)
    timeline = plan(rows, TIME_ZONE)
    _, span = span_of(timeline)
    seconds = 6.0
    report = replay(service, "replay_bookings", str(file), "--vendor", "mock", "--speed", str(span.total_seconds() / seconds))
    assert report["seconds"] >= seconds
    assert report["bookings_count"] == 3


def refusals(service: OwnService, commands: Sequence[Sequence[str]]) -> list[str]:
    """Runs commands one after the other in one process of the service; each must be refused. Returns what each said."""
    done = service.manage("shell", "--verbosity", "0", "-c", REFUSED.format(commands=json.dumps(commands)))
    assert done.returncode == 0, done.stdout + done.stderr
    said: list[str] = json.loads(done.stdout.splitlines()[-1])
    return said


@pytest.mark.timeout(120)
def test_what_cannot_be_replayed_is_said_and_nothing_is_started(service: OwnService, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("name\nAna\n", encoding="utf-8")
    refused: tuple[tuple[tuple[str, ...], str], ...] = (
        (("replay_bookings", str(tmp_path / "bad.csv")), "the heading lacks"),
        (("replay_bookings", str(tmp_path / "none.csv")), "No such file"),
        (("replay_bookings",), "give a file"),
        ((*MADE_UP, "--limit", "0"), "no booking"),
        ((*MADE_UP, "--spread", "ttlock,nobody"), "each once"),
        ((*MADE_UP, "--spread", "ttlock", "--vendor", "mock"), "--vendor or --spread"),
    )
    for (_, reason), said in zip(refused, refusals(service, [arguments for arguments, _ in refused]), strict=True):
        assert reason in said
    done = service.manage(*MADE_UP, "--simulator", "127.0.0.1:1,http://127.0.0.1:1")
    assert (done.returncode, "no simulator answers" in done.stderr) == (1, True), done.stderr
    assert service.processes(but=SERVERS) == []


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not REAL_FILE.exists(), reason="the public bookings file is not on this machine")
def test_real_bookings_on_ttlock_then_the_same_file_again(
    service: OwnService, record_property: Callable[[str, object], None]
) -> None:
    arguments = ("replay_bookings", str(REAL_FILE), "--limit", str(REAL_COUNT), "--vendor", "ttlock")
    started = time.monotonic()
    first = replay(service, *arguments, timeout_s=3000)
    record_property("seconds", round(time.monotonic() - started))
    assert (first["bookings_count"], first["told_count"], first["faults"]) == (REAL_COUNT, REAL_EVENTS, [])
    second = replay(service, *arguments, timeout_s=3000)
    assert (second["new_events_count"], second["new_calls_count"]) == (0, 0)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not REAL_FILE.exists(), reason="the public bookings file is not on this machine")
def test_real_bookings_over_all_vendors(service: OwnService, record_property: Callable[[str, object], None]) -> None:
    started = time.monotonic()
    arguments = ("replay_bookings", str(REAL_FILE), "--limit", str(SPREAD_COUNT), "--spread")
    report = replay(service, *arguments, timeout_s=1500)
    record_property("seconds", round(time.monotonic() - started))
    record_property("vendors", json.dumps(report["vendors"]))
    told = plan(read_file(REAL_FILE, SPREAD_COUNT), TIME_ZONE).planned
    assert (report["bookings_count"], report["told_count"]) == (SPREAD_COUNT, len(told))
    assert tuple(report["vendors"]) == settings.DEMO_VENDOR_CODES
    is_true_for_each_vendor(report)
    second = replay(service, *arguments, timeout_s=1500)
    assert (second["new_events_count"], second["new_calls_count"]) == (0, 0)
