"""Faults: what the client sees, and what was done all the same."""

from __future__ import annotations

import time

import pytest
import requests

from tests.vendors.ttlock_simulator.tenant import Tenant, wait_until

ADD = "keyboardPwd/add"


def add(tenant: Tenant, timeout: float = 5.0) -> requests.Response:
    url = f"{tenant.simulator.url}/v3/{ADD}"
    fields = tenant.fields(
        lockId=tenant.lock, keyboardPwd="482913", startDate=tenant.hour(-1), endDate=tenant.hour(2), addType=2
    )
    return requests.post(url, data=fields, timeout=timeout)


def held(tenant: Tenant) -> tuple[int, int]:
    """How many codes cloud and door hold."""
    dump = tenant.dump()
    return len(dump["cloud"]["passcodes"]), len(dump["door"]["passcodes"])


@pytest.mark.parametrize(("effect", "codes"), [("drop_before", (0, 0)), ("apply_then_drop", (1, 1)), ("cut", (1, 1))])
def test_connection_breaks_with_or_without_effect(tenant: Tenant, effect: str, codes: tuple[int, int]) -> None:
    tenant.fault(path=ADD, effect=effect)
    with pytest.raises(requests.RequestException):
        add(tenant)
    assert held(tenant) == codes
    assert tenant.creates() == codes[0]


@pytest.mark.parametrize(("effect", "codes"), [("hang", (0, 0)), ("apply_then_hang", (1, 1))])
def test_answer_never_comes(tenant: Tenant, effect: str, codes: tuple[int, int]) -> None:
    tenant.fault(path=ADD, effect=effect)
    with pytest.raises(requests.Timeout):
        add(tenant, timeout=0.3)
    wait_until(lambda: held(tenant) == codes)


@pytest.mark.parametrize(
    ("effect", "status", "body", "codes"),
    [
        ("html", 502, "<html>", (0, 0)),
        ("http500", 500, "", (0, 0)),
        ("empty", 200, "", (0, 0)),
        ("wordless", 200, '{"weird":', (0, 0)),
        ("apply_then_html", 502, "<html>", (1, 1)),
        ("apply_then_http500", 500, "", (1, 1)),
        ("apply_then_errcode1", 200, '{"errcode":1,', (1, 1)),
    ],
)
def test_answer_is_not_what_was_expected(tenant: Tenant, effect: str, status: int, body: str, codes: tuple[int, int]) -> None:
    tenant.fault(path=ADD, effect=effect)
    answer = add(tenant)
    assert (answer.status_code, answer.text[: len(body)]) == (status, body)
    assert held(tenant) == codes
    assert tenant.why("482913") == ("valid" if codes[1] else "unknown_credential")


def test_any_errcode_can_follow_a_done_call(tenant: Tenant) -> None:
    tenant.fault(path=ADD, effect="apply_then_errcode", errcode=90000)
    assert tenant.add_code("482913")["errcode"] == 90000
    assert held(tenant) == (1, 1)


def test_html_can_come_with_status_200(tenant: Tenant) -> None:
    tenant.fault(path=ADD, effect="html", status=200)
    assert add(tenant).status_code == 200


def test_slow_answer_comes_late_and_whole(tenant: Tenant) -> None:
    tenant.fault(path=ADD, effect={"slow": 0.3})
    began = time.monotonic()
    assert "keyboardPwdId" in add(tenant).json()
    assert time.monotonic() - began >= 0.3


def test_dripping_answer_arrives_byte_by_byte(tenant: Tenant) -> None:
    tenant.fault(path=ADD, effect="drip", seconds=0.002)
    began = time.monotonic()
    answer = add(tenant)
    assert "keyboardPwdId" in answer.json()
    assert time.monotonic() - began >= 0.002 * len(answer.content)


def test_orphan_at_the_door_is_seen_by_3007_and_removed_by_code(tenant: Tenant) -> None:
    tenant.fault(path=ADD, effect="skip_cloud")
    assert tenant.add_code("482913")["errcode"] == 1
    assert held(tenant) == (0, 1)
    assert tenant.add_code("482913")["errcode"] == -3007
    assert tenant.errcode("keyboardPwd/deleteByCode", lockId=tenant.lock, keyboardPwd="482913", deleteType=2) == 0
    assert held(tenant) == (0, 0)


def test_vendor_forgets_what_it_confirmed(tenant: Tenant) -> None:
    tenant.fault(path=ADD, effect="skip_door")
    assert "keyboardPwdId" in tenant.add_code("482913")
    assert held(tenant) == (1, 0)


def test_vendor_keeps_what_it_said_it_deleted(tenant: Tenant) -> None:
    made = tenant.add_code("482913")
    tenant.fault(path="keyboardPwd/delete", effect="skip_door")
    fields = {"lockId": tenant.lock, "keyboardPwdId": made["keyboardPwdId"], "deleteType": 2}
    assert tenant.errcode("keyboardPwd/delete", **fields) == 0
    assert held(tenant) == (0, 1)
    assert tenant.why("482913") == "valid"


def test_door_that_lost_a_code_cannot_change_it_but_lets_it_be_deleted(tenant: Tenant) -> None:
    made = tenant.add_code("482913")
    assert tenant.simulator.post("/door", {"lockId": tenant.lock, "forgetCode": "482913"})["forgotten"] == 1
    fields = {"lockId": tenant.lock, "keyboardPwdId": made["keyboardPwdId"]}
    change = {"startDate": tenant.hour(), "endDate": tenant.hour(5), "changeType": 2}
    assert tenant.errcode("keyboardPwd/change", **fields, **change) == -2009
    assert tenant.errcode("keyboardPwd/delete", **fields, deleteType=2) == 0


def test_fault_strikes_as_often_as_asked_after_as_many_as_asked(tenant: Tenant) -> None:
    tenant.fault(path="lock/list", errcode=90000, times=2, after=1)
    assert [tenant.errcode("lock/list") for _ in range(5)] == [0, 90000, 90000, 0, 0]


def test_fault_without_end_strikes_until_it_is_taken_back(tenant: Tenant) -> None:
    tenant.fault(path="*", errcode=90000, times=None)
    assert [tenant.errcode("lock/list") for _ in range(3)] == [90000] * 3
    assert tenant.simulator.control("DELETE", f"/faults?clientId={tenant.client_id}") == {"removed": 1}
    assert tenant.errcode("lock/list") == 0


def test_fault_of_one_tenant_or_lock_leaves_others_alone(tenant: Tenant) -> None:
    other = Tenant(tenant.simulator)
    tenant.fault(path="*", errcode=90000, times=None)
    assert other.errcode("lock/list") == 0
    tenant.simulator.post("/faults", {"path": "lock/detail", "lockId": other.lock, "errcode": 90000})
    assert other.errcode("lock/detail", lockId=other.lock_apart) == 0
    assert other.errcode("lock/detail", lockId=other.lock) == 90000


def test_chance_comes_from_the_seed(tenant: Tenant) -> None:
    def run() -> list[int]:
        tenant.fault(path="lock/list", errcode=90000, times=None, pct=40, seed=7)
        codes = [tenant.errcode("lock/list") for _ in range(30)]
        tenant.simulator.control("DELETE", "/faults")
        return codes

    first = run()
    assert 0 < first.count(90000) < 30
    assert run() == first


def test_gateway_is_busy_as_often_as_asked(tenant: Tenant) -> None:
    tenant.simulator.post("/faults", {"gatewayId": tenant.gateway, "effect": "busy", "times": 2})
    assert [tenant.errcode("lock/queryDate", lockId=tenant.lock) for _ in range(3)] == [-3003, -3003, 0]


def test_gateway_stays_offline_until_taken_back(tenant: Tenant) -> None:
    tenant.simulator.post("/faults", {"gatewayId": tenant.gateway, "effect": "offline"})
    assert [tenant.errcode("lock/queryDate", lockId=tenant.lock) for _ in range(3)] == [-3002] * 3
    tenant.simulator.control("DELETE", f"/faults?gatewayId={tenant.gateway}")
    assert tenant.errcode("lock/queryDate", lockId=tenant.lock) == 0


def test_client_that_gave_up_does_not_stop_the_command(tenant: Tenant) -> None:
    tenant.simulator.post("/latency", {"gatewayId": tenant.gateway, "gatewayMs": 2000})
    with pytest.raises(requests.Timeout):
        add(tenant, timeout=0.1)
    assert held(tenant) == (0, 0)
    assert tenant.add_code("739164")["errcode"] == -3003
    wait_until(lambda: held(tenant) == (1, 1))


def test_patient_gateways_let_commands_wait_their_turn(tenant: Tenant) -> None:
    tenant.simulator.post("/latency", {"strictGateways": False, "gatewayMs": 600})
    with pytest.raises(requests.Timeout):
        add(tenant, timeout=0.05)
    assert "keyboardPwdId" in tenant.add_code("739164")
    assert held(tenant) == (2, 2)


@pytest.mark.parametrize("rule", [{}, {"effect": "explode"}, {"errcode": 1, "tmies": 2}, {"errcode": "1"}])
def test_malformed_fault_is_refused(tenant: Tenant, rule: dict[str, object]) -> None:
    assert "error" in tenant.simulator.control("POST", "/faults", rule, status=400)
