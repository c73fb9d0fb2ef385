"""The program: ready line, control port, state over restarts, a clean end, its place in the registry."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from tests.vendors.ttlock_simulator.tenant import Simulator, Tenant
from vendors.ttlock import simulator as package
from vendors.ttlock.simulator import evidence

ROOMS = ["101", "102", "201"]


def seed_hotel(simulator: Simulator, client_id: str) -> dict[str, object]:
    account = {"clientId": client_id, "clientSecret": "s", "username": client_id, "password": "p"}
    body = {"account": account, "rooms": ROOMS, "shared": ["Street door"], "timezoneRawOffset": 16_200_000}
    return simulator.post("/seed/hotel", body)


def test_hotel_is_seeded_with_a_gateway_a_floor_and_again_without_change(simulator: Simulator) -> None:
    first = seed_hotel(simulator, "silk")
    assert [(lock["alias"], lock["gatewayId"]) for lock in first["locks"]] == [
        ("101", first["gateways"][0]["gatewayId"]),
        ("102", first["gateways"][0]["gatewayId"]),
        ("201", first["gateways"][1]["gatewayId"]),
        ("Street door", first["gateways"][0]["gatewayId"]),
    ]
    assert [g["name"] for g in first["gateways"]] == ["Floor 1", "Floor 2"]
    assert seed_hotel(simulator, "silk") == first


@pytest.mark.parametrize(
    "body",
    [
        {"lock": []},
        {"locks": [{"lockId": -1}]},
        {"locks": [{"gatewayId": 1}]},
        {"locks": [{"battery": "full"}]},
        {"locks": [{"colour": "red"}]},
        {"account": {"clientId": "x", "callbackUrl": "http://hotel.example/hook"}},
    ],
)
def test_malformed_seed_is_refused(simulator: Simulator, body: dict[str, object]) -> None:
    assert "error" in simulator.control("POST", "/seed", body, status=400)


def test_locks_of_another_account_cannot_be_taken_by_seeding(tenant: Tenant) -> None:
    stranger = Tenant(tenant.simulator)
    body = {"account": stranger.account_fields, "locks": [{"lockId": tenant.lock}]}
    assert "error" in tenant.simulator.control("POST", "/seed", body, status=400)


def test_calls_are_logged_without_secrets_and_counted(tenant: Tenant) -> None:
    last = tenant.simulator.control("GET", "/calls?limit=1")["last"]
    tenant.add_code("482913")
    tenant.add_code("482913")
    answer = tenant.simulator.control("GET", f"/calls?since={last}&clientId={tenant.client_id}")
    assert [(c["path"], c["lockId"], c["errcode"], c["applied"]) for c in answer["calls"]] == [
        ("keyboardPwd/add", tenant.lock, 0, True),
        ("keyboardPwd/add", tenant.lock, -3007, False),
    ]
    assert all(call["at"] <= call["done"] for call in answer["calls"])
    assert answer["counts"]["requests"]["byLock"][str(tenant.lock)] == {"keyboardPwd/add": 2}
    assert answer["counts"]["applied"]["byLock"][str(tenant.lock)] == {"keyboardPwd/add": 1}
    assert "482913" not in json.dumps(answer["calls"])
    assert tenant.token not in json.dumps(answer)


def test_dump_tells_live_codes_apart(tenant: Tenant) -> None:
    for code, start, end in (("482913", -1, 2), ("739164", 2, 4), ("605218", -4, -2)):
        tenant.add_code(code, start=start, end=end)
    states = {code["value"]: code["state"] for code in tenant.dump()["door"]["passcodes"]}
    assert states == {"482913": "live", "739164": "scheduled", "605218": "ended"}
    path = f"/dump?clientId={tenant.client_id}&live=1"
    locks = tenant.simulator.control("GET", path)["locks"]
    assert [lock["lockId"] for lock in locks] == sorted([tenant.lock, tenant.lock_apart])
    assert {code["value"] for lock in locks for code in lock["door"]["passcodes"]} == {"482913", "739164"}


def test_many_attempts_in_one_request(tenant: Tenant) -> None:
    tenant.add_code("482913")
    body = {"device": tenant.lock, "kind": "pin_code", "values": ["482913", "739164"], "dry": True}
    assert [r["open"] for r in tenant.simulator.post("/try-many", body)["results"]] == [True, False]
    body = {"tries": [{"device": tenant.lock, "value": "482913"}, {"device": tenant.lock_apart, "value": "482913"}]}
    assert [r["why"] for r in tenant.simulator.post("/try-many", body)["results"]] == ["valid", "unknown_credential"]


def test_attempt_tells_the_locks_local_time(tenant: Tenant) -> None:
    tenant.simulator.post("/clock", {"now": "2026-12-28T12:00:00+00:00", "running": False})
    tenant.change_lock(tenant.lock, timezoneRawOffset=16_200_000)
    shown = datetime.fromisoformat(tenant.attempt("000001")["lockTime"])
    assert shown == datetime(2026, 12, 28, 16, 30, tzinfo=ZoneInfo("Asia/Kabul"))
    assert shown.utcoffset() == timedelta(hours=4, minutes=30)


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/try", {"device": 1, "kind": "pin_code", "value": "1"}, 400),
        ("POST", "/clock", {"now": "2026-12-28T12:00:00"}, 400),
        ("POST", "/latency", {"gatewayMs": -1}, 400),
        ("POST", "/dump", {}, 405),
        ("GET", "/nothing", None, 404),
    ],
)
def test_control_port_says_what_is_wrong(simulator: Simulator, method: str, path: str, body: object, status: int) -> None:
    assert "error" in simulator.control(method, path, body, status=status)


def test_clock_stands_runs_and_comes_back(simulator: Simulator) -> None:
    assert simulator.post("/clock", {"now": 1_798_459_200_000, "running": False})["now"] == 1_798_459_200_000
    assert simulator.now() == 1_798_459_200_000
    assert simulator.post("/clock", {"advanceMs": 1000})["now"] == 1_798_459_201_000
    assert simulator.post("/clock", {"now": None})["moved"] is False


def test_state_survives_a_restart_with_codes_tokens_and_clock(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    first = Simulator("--state-file", str(state))
    tenant = Tenant(first)
    first.post("/clock", {"now": "2026-12-28T12:00:00+00:00", "running": False})
    tenant.token = tenant.sign_in()["access_token"]
    tenant.add_code("482913")
    made = tenant.random_code()
    before = tenant.dump()
    assert first.stop() == 0
    second = Simulator("--state-file", str(state))
    tenant.simulator = second
    assert tenant.dump() == before
    assert tenant.why("482913") == "valid"
    assert tenant.why(made["keyboardPwd"]) == "valid"
    assert "keyboardPwdId" in tenant.add_code("739164")
    assert second.stop() == 0


def test_killed_program_keeps_what_it_saved(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    first = Simulator("--state-file", str(state))
    tenant = Tenant(first)
    tenant.add_code("482913")
    first.post("/save")
    first.process.kill()
    assert first.stop() == -9
    second = Simulator("--state-file", str(state))
    tenant.simulator = second
    assert tenant.why("482913") == "valid"
    assert second.stop() == 0


def test_damaged_state_file_stops_the_start_and_is_left_alone(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    state.write_text('{"format": "something else"}')
    command = [sys.executable, "-m", "vendors.ttlock.simulator", "--state-file", str(state)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "not a state file" in done.stderr
    assert state.read_text() == '{"format": "something else"}'


def test_seed_file_fills_the_program_before_it_is_ready(tmp_path: Path) -> None:
    seed = tmp_path / "seed.json"
    seed.write_text(json.dumps([{"hotel": {"rooms": ROOMS}}, {"locks": [{"lockId": 9001, "gatewayId": None}]}]))
    running = Simulator("--seed-file", str(seed))
    assert running.control("GET", "/health")["locks"] == 4
    assert running.stop() == 0


def test_reset_forgets_everything() -> None:
    running = Simulator()
    tenant = Tenant(running)
    running.post("/reset")
    assert running.control("GET", "/health")["locks"] == 0
    assert tenant.errcode("lock/list") == 10000
    assert running.stop() == 0


def test_only_loopback_listens(simulator: Simulator) -> None:
    assert simulator.url.startswith("http://127.0.0.1:")
    assert simulator.control_url.startswith("http://127.0.0.1:")
    ports = {f"{int(url.rsplit(':', 1)[1]):04X}" for url in (simulator.url, simulator.control_url)}
    listening = [line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()[1:] if " 0A " in line]
    assert {address for address in listening if address.split(":")[1] in ports} == {f"0100007F:{port}" for port in ports}


def test_vendor_runs_by_its_code_through_the_registry() -> None:
    command = [sys.executable, "-m", "vendors.simulate", "ttlock"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert set(json.loads(process.stdout.readline())) == {"url", "control"}
        process.terminate()
        assert process.wait(10) == 0


@pytest.mark.parametrize("arguments", [[], ["--port", "0"], ["nobody"]])
def test_unknown_vendor_is_refused_with_status_2(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "vendors.simulate", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr


# -- comparison with the vendor's documentation


def test_comparison_is_current_due_and_overdue_by_the_calendar() -> None:
    due = evidence.NEXT_COMPARISON
    assert evidence.comparison_state(due) == "current"
    assert evidence.comparison_state(due + timedelta(days=1)) == "due"
    assert evidence.comparison_state(due + evidence.QUARTER) == "due"
    assert evidence.comparison_state(due + evidence.QUARTER + timedelta(days=1)) == "overdue"


def test_readme_names_the_dates_of_the_last_and_next_comparison() -> None:
    readme = (Path(package.__file__).parent / "README.md").read_text(encoding="utf-8")
    assert f"Last comparison with the vendor's documentation: **{evidence.LAST_COMPARED}**" in readme
    assert f"Next comparison due: **{evidence.NEXT_COMPARISON}**" in readme


def test_comparison_with_the_vendor_is_not_overdue() -> None:
    state = evidence.comparison_state(datetime.now(UTC).date())
    if state == "due":
        pytest.skip(f"a comparison of the TTLock simulator with the vendor was due on {evidence.NEXT_COMPARISON}")
    assert state == "current", "compare the simulator with the vendor's documentation, then move the dates in evidence.py"
