"""Answers of the cloud that other people's clients recorded: their fields and shapes, secrets included."""

from __future__ import annotations

import base64
import re

from tests.vendors.ttlock_simulator.tenant import DAY, HOUR, Tenant

MONDAY_NOON = 1_798_459_200_000  # 2026-12-28 12:00 UTC
RECORDED_DETAIL = frozenset(
    "date lockAlias lockSound modelNum lockMac privacyLock deletePwd featureValue adminPwd soundVolume hasGateway autoLockTime"
    " wirelessKeypadFeatureValue lockKey isFrozen lockName resetButton firmwareRevision tamperAlert specialValue displayPasscode"
    " noKeyPwd passageMode passageModeAutoUnlock timezoneRawOffset lockId electricQuantity lockFlagPos lockUpdateDate"
    " keyboardPwdVersion aesKeyStr hardwareRevision openDirection lockVersion sensitivity".split()
)
"""The fields of a real lock's details, as a public integration logged them in 2023."""
RECORDED_ROW = frozenset(
    "date specialValue lockAlias noKeyPwd electricQuantityUpdateDate lockMac passageMode timezoneRawOffset lockId featureValue"
    " electricQuantity bindDate lockData hasGateway keyboardPwdVersion wirelessKeypadFeatureValue lockVersion lockName".split()
)
AUTO_LOCK = 4


def at(tenant: Tenant, instant: int) -> None:
    tenant.simulator.post("/clock", {"now": instant, "running": False})


def test_the_details_of_a_lock_have_every_field_a_real_one_sent(tenant: Tenant) -> None:
    detail = tenant.call("lock/detail", lockId=tenant.lock)
    assert set(detail) >= RECORDED_DETAIL
    assert not set(detail) & {"bindDate", "lockData", "groupId", "electricQuantityUpdateDate"}
    assert detail["isFrozen"] == 2
    assert set(detail["lockVersion"]) >= {"groupId", "protocolVersion", "protocolType", "orgId", "scene"}


def test_a_row_of_the_list_has_every_field_a_real_one_sent(tenant: Tenant) -> None:
    (row, *_) = tenant.call("lock/list", pageNo=1, pageSize=20)["list"]
    assert set(row) >= RECORDED_ROW
    assert len(base64.b64decode(row["lockData"])) == 256
    assert "aesKeyStr" not in row


def test_the_secrets_of_a_lock_have_the_shapes_of_real_ones_and_stay_the_same(tenant: Tenant) -> None:
    detail = tenant.call("lock/detail", lockId=tenant.lock)
    assert re.fullmatch(r"[0-9a-f]{2}(,[0-9a-f]{2}){15}", detail["aesKeyStr"])
    assert re.fullmatch(r"\d{7}", detail["noKeyPwd"])
    for name in ("adminPwd", "lockKey"):
        assert all(0 <= int(number) < 256 for number in base64.b64decode(detail[name]).decode().split(","))
    assert tenant.call("lock/detail", lockId=tenant.lock) == detail
    other = tenant.call("lock/detail", lockId=tenant.lock_apart)
    assert not {detail[name] for name in ("adminPwd", "lockKey", "aesKeyStr")} & set(map(str, other.values()))
    assert {name: detail[name] for name in ("adminPwd", "aesKeyStr")}.items() <= tenant.dump()["secrets"].items()


def test_a_lock_that_cannot_lock_itself_has_no_time_for_it(tenant: Tenant) -> None:
    tenant.change_lock(tenant.lock, features=[0, 1, 7, 10])
    assert "autoLockTime" not in tenant.call("lock/detail", lockId=tenant.lock)
    tenant.change_lock(tenant.lock, features=[0, 1, AUTO_LOCK, 7, 10])
    assert tenant.call("lock/detail", lockId=tenant.lock)["autoLockTime"] == 5


def test_hours_of_passage_mode_read_back_as_they_were_set_and_hold_the_door(tenant: Tenant) -> None:
    at(tenant, MONDAY_NOON)
    hours = {"passageMode": 1, "isAllDay": 2, "startDate": 360, "endDate": 1080, "weekDays": "[1,2]", "autoUnlock": 2}
    assert tenant.errcode("lock/configPassageMode", lockId=tenant.lock, type=2, **hours) == 0
    assert tenant.call("lock/getPassageModeConfig", lockId=tenant.lock) == {
        "passageMode": 1, "isAllDay": 2, "startDate": 360, "endDate": 1080, "weekDays": [1, 2], "autoUnlock": 2,
    }  # fmt: skip
    opens = [tenant.why("1", at=MONDAY_NOON + hours * HOUR) for hours in (-7, -6, 5, 6, 24)]
    assert opens == ["unknown_credential", "passage_mode", "passage_mode", "unknown_credential", "passage_mode"]
    assert tenant.why("1", at=MONDAY_NOON + 2 * DAY) == "unknown_credential"


def test_hours_follow_the_clock_of_the_lock(tenant: Tenant) -> None:
    at(tenant, MONDAY_NOON)
    tenant.change_lock(tenant.lock, timezoneRawOffset=16_200_000)
    hours = {"passageMode": 1, "isAllDay": 2, "startDate": 960, "endDate": 1020}
    assert tenant.errcode("lock/configPassageMode", lockId=tenant.lock, type=2, **hours) == 0
    assert tenant.why("1") == "passage_mode"
    assert tenant.why("1", at=MONDAY_NOON + HOUR) == "unknown_credential"


def test_a_day_without_hours_has_no_start_and_no_end(tenant: Tenant) -> None:
    assert tenant.call("lock/getPassageModeConfig", lockId=tenant.lock)["startDate"] is None
    whole = {"passageMode": 1, "isAllDay": 1, "weekDays": "[1,2,3,4,5]", "autoUnlock": 1}
    assert tenant.errcode("lock/configPassageMode", lockId=tenant.lock, type=2, **whole) == 0
    assert tenant.call("lock/getPassageModeConfig", lockId=tenant.lock) == {
        "passageMode": 1, "isAllDay": 1, "weekDays": [1, 2, 3, 4, 5], "autoUnlock": 1,
    }  # fmt: skip
    assert tenant.call("lock/detail", lockId=tenant.lock)["passageModeAutoUnlock"] == 1


def test_the_newer_call_takes_five_rows_and_lists_whole_days_first(tenant: Tenant) -> None:
    rows = [
        '{"isAllDay":2,"startTime":600,"endTime":660,"weekDays":[1]}', '{"isAllDay":2,"startTime":480,"endTime":540,"weekDays":[2]}',
        '{"isAllDay":1,"weekDays":[7]}',
    ]  # fmt: skip
    fields = {"passageMode": 1, "type": 2}
    assert tenant.errcode("lock/configurePassageMode", lockId=tenant.lock, cyclicConfig=f"[{','.join(rows)}]", **fields) == 0
    told = tenant.call("lock/getPassageModeConfiguration", lockId=tenant.lock)
    assert [(row["isAllDay"], row["startTime"], row["weekDays"]) for row in told["cyclicConfig"]] == [
        (1, 0, [7]), (2, 480, [2]), (2, 600, [1]),
    ]  # fmt: skip
    six = f"[{','.join(rows * 2)}]"
    assert tenant.errcode("lock/configurePassageMode", lockId=tenant.lock, cyclicConfig=six, **fields) == -3
    wrong = '[{"isAllDay":2,"startTime":660,"endTime":600,"weekDays":[1]}]'
    assert tenant.errcode("lock/configurePassageMode", lockId=tenant.lock, cyclicConfig=wrong, **fields) == -3


# -- what may be otherwise at the vendor


def test_one_window_has_one_random_code_whoever_asks(tenant: Tenant) -> None:
    first, again = tenant.random_code(tenant.lock_apart), tenant.random_code(tenant.lock_apart)
    assert first == again
    tenant.simulator.post("/habits", {"clientId": tenant.client_id, "sameWindow": "new_id"})
    third = tenant.random_code(tenant.lock_apart)
    assert third["keyboardPwd"] == first["keyboardPwd"]
    assert third["keyboardPwdId"] != first["keyboardPwdId"]


def test_a_code_the_list_lost_opens_until_it_is_taken_by_its_digits(tenant: Tenant) -> None:
    tenant.add_code("482913")
    assert tenant.simulator.post("/cloud", {"lockId": tenant.lock, "forget": "482913"})["records"] == 1
    assert tenant.call("lock/listKeyboardPwd", lockId=tenant.lock)["total"] == 0
    assert tenant.why("482913") == "valid"
    tenant.simulator.post("/habits", {"clientId": tenant.client_id, "deleteByCode": "list"})
    assert tenant.errcode("keyboardPwd/deleteByCode", lockId=tenant.lock, keyboardPwd="482913", deleteType=2) == -2009
    assert tenant.why("482913") == "valid"
    tenant.simulator.post("/habits", {"clientId": tenant.client_id, "deleteByCode": "lock"})
    assert tenant.errcode("keyboardPwd/deleteByCode", lockId=tenant.lock, keyboardPwd="482913", deleteType=2) == 0
    assert tenant.why("482913") == "unknown_credential"


def test_a_code_entered_again_by_hand_has_another_id(tenant: Tenant) -> None:
    made = tenant.add_code("482913")["keyboardPwdId"]
    assert tenant.simulator.post("/cloud", {"lockId": tenant.lock, "renumber": "482913", "name": "Room 204"})["records"] == 1
    (row,) = tenant.call("lock/listKeyboardPwd", lockId=tenant.lock)["list"]
    assert (row["keyboardPwd"], row["keyboardPwdName"]) == ("482913", "Room 204")
    assert row["keyboardPwdId"] != made
    assert tenant.errcode("keyboardPwd/delete", lockId=tenant.lock, keyboardPwdId=made, deleteType=2) == -2009
    assert tenant.why("482913") == "valid"


def test_a_lock_that_lost_a_code_may_refuse_to_delete_it(tenant: Tenant) -> None:
    made = tenant.add_code("482913")["keyboardPwdId"]
    tenant.simulator.post("/habits", {"clientId": tenant.client_id, "absentDelete": -2009})
    tenant.simulator.post("/door", {"lockId": tenant.lock, "forgetCode": "482913"})
    fields = {"lockId": tenant.lock, "keyboardPwdId": made}
    assert tenant.errcode("keyboardPwd/delete", deleteType=2, **fields) == -2009
    assert tenant.call("lock/listKeyboardPwd", lockId=tenant.lock)["total"] == 1
    assert tenant.errcode("keyboardPwd/delete", deleteType=1, **fields) == 0
    assert tenant.call("lock/listKeyboardPwd", lockId=tenant.lock)["total"] == 0
