"""What the doors do: their own clock, their own memory, the vendor's rules. Every question goes to the door."""

from __future__ import annotations

import pytest

from tests.vendors.ttlock_simulator.tenant import DAY, HOUR, Tenant, wait_until

MINUTE = 60_000
MONDAY_NOON = 1_798_459_200_000  # 2026-12-28 12:00 UTC
KABUL = 16_200_000  # +04:30


def at(tenant: Tenant, instant: int) -> None:
    tenant.simulator.post("/clock", {"now": instant, "running": False})


# -- custom codes


def test_custom_code_through_the_gateway_opens_inside_its_window_only(tenant: Tenant) -> None:
    at(tenant, MONDAY_NOON)
    tenant.add_code("482913", start=1, end=3)
    assert tenant.why("482913", at=MONDAY_NOON + HOUR - 1) == "not_yet_valid"
    assert tenant.why("482913", at=MONDAY_NOON + HOUR) == "valid"
    assert tenant.why("482913", at=MONDAY_NOON + 3 * HOUR - 1) == "valid"
    assert tenant.why("482913", at=MONDAY_NOON + 3 * HOUR) == "expired"
    assert tenant.attempt("739164") | {"lockTime": ""} == {"open": False, "why": "unknown_credential", "lockTime": ""}


def test_type_left_out_lists_the_code_but_the_door_does_not_know_it(tenant: Tenant) -> None:
    made = tenant.add_code("482913", addType=None)
    assert [row["keyboardPwdId"] for row in tenant.call("lock/listKeyboardPwd", lockId=tenant.lock)["list"]] == [
        made["keyboardPwdId"]
    ]
    assert tenant.why("482913") == "unknown_credential"


def test_delete_without_type_leaves_the_code_working(tenant: Tenant) -> None:
    made = tenant.add_code("482913")
    assert tenant.errcode("keyboardPwd/delete", lockId=tenant.lock, keyboardPwdId=made["keyboardPwdId"]) == 0
    assert tenant.call("lock/listKeyboardPwd", lockId=tenant.lock)["total"] == 0
    assert tenant.why("482913") == "valid"
    assert tenant.errcode("keyboardPwd/deleteByCode", lockId=tenant.lock, keyboardPwd="482913", deleteType=2) == 0
    assert tenant.why("482913") == "unknown_credential"


def test_delete_through_the_gateway_takes_the_code_from_the_door(tenant: Tenant) -> None:
    made = tenant.add_code("482913")
    fields = {"lockId": tenant.lock, "keyboardPwdId": made["keyboardPwdId"], "deleteType": 2}
    assert tenant.errcode("keyboardPwd/delete", **fields) == 0
    assert tenant.why("482913") == "unknown_credential"
    assert tenant.errcode("keyboardPwd/delete", **fields) == -2009


def test_change_needs_both_dates_and_a_type_to_reach_the_door(tenant: Tenant) -> None:
    at(tenant, MONDAY_NOON)
    made = tenant.add_code("482913", start=0, end=1)
    fields = {"lockId": tenant.lock, "keyboardPwdId": made["keyboardPwdId"]}
    later = MONDAY_NOON + 5 * HOUR
    assert tenant.errcode("keyboardPwd/change", **fields, endDate=later, changeType=2) == 0
    assert tenant.why("482913", at=MONDAY_NOON + 2 * HOUR) == "expired"
    assert tenant.errcode("keyboardPwd/change", **fields, startDate=MONDAY_NOON, endDate=later) == 0
    assert tenant.why("482913", at=MONDAY_NOON + 2 * HOUR) == "expired"
    assert tenant.errcode("keyboardPwd/change", **fields, startDate=MONDAY_NOON, endDate=later, changeType=2) == 0
    assert tenant.why("482913", at=MONDAY_NOON + 2 * HOUR) == "valid"


def test_change_of_digits_moves_the_door_too(tenant: Tenant) -> None:
    made = tenant.add_code("482913")
    fields = {"lockId": tenant.lock, "keyboardPwdId": made["keyboardPwdId"], "changeType": 2}
    assert tenant.errcode("keyboardPwd/change", **fields, newKeyboardPwd="739164") == 0
    assert (tenant.why("482913"), tenant.why("739164")) == ("unknown_credential", "valid")
    assert tenant.errcode("keyboardPwd/change", **fields, newKeyboardPwd="333333") == -2032


def test_name_alone_changes_without_radio(tenant: Tenant) -> None:
    made = tenant.add_code("482913", tenant.lock_apart, addType=1)
    fields = {"lockId": tenant.lock_apart, "keyboardPwdId": made["keyboardPwdId"]}
    assert tenant.errcode("keyboardPwd/change", **fields, keyboardPwdName="gk-new") == 0
    assert tenant.dump(tenant.lock_apart)["cloud"]["passcodes"][0]["name"] == "gk-new"


def test_permanent_code_has_no_end(tenant: Tenant) -> None:
    tenant.add_code("482913", keyboardPwdType=2)
    assert tenant.why("482913", at=tenant.simulator.now() + 5000 * DAY) == "valid"


def test_leading_zero_is_another_code(tenant: Tenant) -> None:
    tenant.add_code("048291")
    assert tenant.dump()["cloud"]["passcodes"][0]["keyboardPwd"] == "048291"
    assert (tenant.why("048291"), tenant.why("48291")) == ("valid", "unknown_credential")


@pytest.mark.parametrize("code", ["111111", "123456", "987654", "4567", "0000"])
def test_runs_and_repeats_are_too_simple(tenant: Tenant, code: str) -> None:
    assert tenant.add_code(code)["errcode"] == -2032


@pytest.mark.parametrize(("code", "errcode"), [("482", -3006), ("4829137605", -3006), ("48a913", -3), ("٤٨٢٩", -3)])
def test_four_to_nine_digits_are_taken(tenant: Tenant, code: str, errcode: int) -> None:
    assert tenant.add_code(code)["errcode"] == errcode


@pytest.mark.parametrize("code", ["4829", "482913760"])
def test_shortest_and_longest_code_open(tenant: Tenant, code: str) -> None:
    tenant.add_code(code)
    assert tenant.why(code) == "valid"


def test_default_capacity_is_250_codes(tenant: Tenant) -> None:
    tenant.change_lock(tenant.lock, codeCapacity=250)
    answers = [tenant.add_code(str(482913 + 7 * n)) for n in range(251)]
    assert sum("keyboardPwdId" in answer for answer in answers) == 250
    assert answers[-1]["errcode"] == -3009


def test_hour_grain_doors_cut_windows_to_hours(tenant: Tenant) -> None:
    tenant.change_lock(tenant.lock, grain="hour")
    start = MONDAY_NOON + 20 * MINUTE
    at(tenant, MONDAY_NOON)
    fields = {"lockId": tenant.lock, "keyboardPwd": "482913", "keyboardPwdType": 3, "addType": 2}
    tenant.call("keyboardPwd/add", **fields, startDate=start, endDate=start + 2 * HOUR)
    assert tenant.why("482913", at=MONDAY_NOON) == "valid"
    assert tenant.why("482913", at=MONDAY_NOON + 2 * HOUR) == "expired"


def test_code_with_a_digit_the_keypad_lacks_is_taken_but_cannot_be_typed(tenant: Tenant) -> None:
    lock = tenant.add_lock(digits="1234567")
    tenant.add_code("482913", lock)
    tenant.add_code("472513", lock)
    assert tenant.why("482913", lock) == "digit_not_on_keypad"
    assert tenant.why("472513", lock) == "valid"
    feature = next(row for row in tenant.call("lock/list")["list"] if row["lockId"] == lock)["featureValue"]
    assert int(feature, 16) >> 60 & 1 == 1


# -- random codes


def test_random_code_opens_a_door_that_no_gateway_reaches(tenant: Tenant) -> None:
    made = tenant.random_code(tenant.lock_apart)
    assert 6 <= len(made["keyboardPwd"]) <= 9
    assert tenant.why(made["keyboardPwd"], tenant.lock_apart) == "valid"
    assert tenant.why(made["keyboardPwd"], tenant.lock) == "unknown_credential"


def test_random_period_code_dies_unless_used_within_24_hours(tenant: Tenant) -> None:
    at(tenant, MONDAY_NOON)
    used, unused = tenant.random_code(end=72)["keyboardPwd"], tenant.random_code(end=96)["keyboardPwd"]
    at(tenant, MONDAY_NOON + DAY - 1)
    assert tenant.why(used) == "valid"
    at(tenant, MONDAY_NOON + DAY)
    assert tenant.why(used) == "valid"
    assert tenant.why(unused) == "first_use_missed"
    at(tenant, MONDAY_NOON + 3 * DAY)
    assert tenant.why(used) == "expired"


def test_random_permanent_code_needs_its_first_use_too(tenant: Tenant) -> None:
    at(tenant, MONDAY_NOON)
    used, unused = (tenant.random_code(kind=2)["keyboardPwd"] for _ in range(2))
    assert used != unused
    assert tenant.why(used) == "valid"
    at(tenant, MONDAY_NOON + 400 * DAY)
    assert (tenant.why(used), tenant.why(unused)) == ("valid", "first_use_missed")


def test_one_time_code_opens_once_and_within_six_hours(tenant: Tenant) -> None:
    at(tenant, MONDAY_NOON)
    first, second = (tenant.random_code(kind=1)["keyboardPwd"] for _ in range(2))
    assert tenant.why(first) == "valid"
    assert tenant.why(first) == "already_used"
    assert tenant.why(second, at=MONDAY_NOON + 6 * HOUR - 1) == "valid"
    assert tenant.why(second, at=MONDAY_NOON + 6 * HOUR) == "first_use_missed"


def test_start_is_cut_to_the_hour_of_the_locks_own_zone(tenant: Tenant) -> None:
    at(tenant, MONDAY_NOON)
    tenant.change_lock(tenant.lock, timezoneRawOffset=KABUL)
    made = tenant.call(
        "keyboardPwd/get", lockId=tenant.lock, keyboardPwdType=3,
        startDate=MONDAY_NOON + 50 * MINUTE, endDate=MONDAY_NOON + 5 * HOUR,
    )  # 17:20 and 21:30 local become 17:00 and 21:00  # fmt: skip
    code = made["keyboardPwd"]
    listed = tenant.dump()["cloud"]["passcodes"][0]
    assert (listed["startDate"], listed["endDate"]) == (MONDAY_NOON + 30 * MINUTE, MONDAY_NOON + 270 * MINUTE)
    assert tenant.why(code, at=MONDAY_NOON + 30 * MINUTE - 1) == "not_yet_valid"
    assert tenant.why(code, at=MONDAY_NOON + 30 * MINUTE) == "valid"
    assert tenant.why(code, at=MONDAY_NOON + 270 * MINUTE) == "expired"


def test_start_is_cut_to_the_utc_hour_when_switched_so(tenant: Tenant) -> None:
    at(tenant, MONDAY_NOON)
    tenant.change_lock(tenant.lock, timezoneRawOffset=KABUL, hourFloor="utc")
    fields = {"lockId": tenant.lock, "keyboardPwdType": 3, "startDate": MONDAY_NOON + 50 * MINUTE}
    tenant.call("keyboardPwd/get", **fields, endDate=MONDAY_NOON + 5 * HOUR)
    assert tenant.dump()["cloud"]["passcodes"][0]["startDate"] == MONDAY_NOON


def test_same_window_gives_the_same_random_code(tenant: Tenant) -> None:
    assert tenant.random_code() == tenant.random_code()


def test_unused_random_code_can_neither_be_changed_nor_deleted_at_the_door(tenant: Tenant) -> None:
    made = tenant.random_code()
    fields = {"lockId": tenant.lock, "keyboardPwdId": made["keyboardPwdId"]}
    change = {"startDate": tenant.hour(), "endDate": tenant.hour(5), "changeType": 2}
    assert tenant.errcode("keyboardPwd/change", **fields, **change) == -3008
    assert tenant.errcode("keyboardPwd/delete", **fields, deleteType=2) == -3008
    assert tenant.why(made["keyboardPwd"]) == "valid"
    assert tenant.errcode("keyboardPwd/change", **fields, **change) == 0
    assert tenant.errcode("keyboardPwd/delete", **fields, deleteType=2) == 0
    assert tenant.why(made["keyboardPwd"]) == "blacklisted"


def test_random_code_deleted_in_the_cloud_only_goes_on_opening(tenant: Tenant) -> None:
    made = tenant.random_code(tenant.lock_apart)
    fields = {"lockId": tenant.lock_apart, "keyboardPwdId": made["keyboardPwdId"], "deleteType": 1}
    assert tenant.errcode("keyboardPwd/delete", **fields) == 0
    assert tenant.why(made["keyboardPwd"], tenant.lock_apart) == "valid"


def test_beyond_a_year_only_whole_months_are_given(tenant: Tenant) -> None:
    at(tenant, MONDAY_NOON)
    year = 396  # 28 December 2026 to 28 January 2028
    assert tenant.random_code(end=24 * year + 1)["errcode"] == -3
    assert len(tenant.random_code(end=24 * year)["keyboardPwd"]) == 9


def test_weekly_code_opens_in_its_hours_of_the_locks_zone(tenant: Tenant) -> None:
    at(tenant, MONDAY_NOON)
    tenant.change_lock(tenant.lock, timezoneRawOffset=8 * HOUR)
    eight_local = MONDAY_NOON - 12 * HOUR  # 00:00 UTC is 08:00 at +8
    fields = {"lockId": tenant.lock, "keyboardPwdType": 7, "startDate": eight_local, "endDate": eight_local + 10 * HOUR}
    code = tenant.call("keyboardPwd/get", **fields)["keyboardPwd"]
    assert tenant.why(code, at=eight_local + HOUR) == "valid"
    assert tenant.why(code, at=eight_local + 10 * HOUR) == "wrong_hours"
    assert tenant.why(code, at=eight_local - DAY + HOUR) == "wrong_hours"  # a Sunday
    assert tenant.why(code, at=eight_local + 4 * DAY + HOUR) == "valid"  # a Friday


def test_erase_code_wipes_every_code_of_the_door(tenant: Tenant) -> None:
    tenant.add_code("482913")
    eraser = tenant.random_code(kind=4)["keyboardPwd"]
    assert tenant.why(eraser) == "erased_codes"
    assert tenant.why("482913") == "unknown_credential"


# -- clocks


def test_door_judges_by_its_own_clock(tenant: Tenant) -> None:
    at(tenant, MONDAY_NOON)
    tenant.add_code("482913", start=0, end=2)
    tenant.simulator.post("/clock", {"lockId": tenant.lock, "offsetMs": -10 * MINUTE})
    assert tenant.why("482913") == "not_yet_valid"
    assert tenant.why("482913", at=MONDAY_NOON + 10 * MINUTE) == "valid"
    assert tenant.call("lock/queryDate", lockId=tenant.lock)["date"] == MONDAY_NOON - 10 * MINUTE
    assert tenant.call("lock/updateDate", lockId=tenant.lock)["date"] == MONDAY_NOON
    assert tenant.why("482913") == "valid"


def test_drifting_clock_runs_away(tenant: Tenant) -> None:
    at(tenant, MONDAY_NOON)
    tenant.simulator.post("/clock", {"lockId": tenant.lock, "driftPpm": 1000})
    at(tenant, MONDAY_NOON + 10 * DAY)
    assert tenant.dump()["door"]["clockOffsetMs"] == 10 * DAY // 1000


def test_wrong_offset_at_pairing_shifts_every_window_by_hours(tenant: Tenant) -> None:
    at(tenant, MONDAY_NOON)
    tenant.change_lock(tenant.lock, timezoneRawOffset=KABUL, doorTimezoneRawOffset=KABUL - HOUR)
    tenant.add_code("482913", start=0, end=2)
    assert tenant.why("482913") == "not_yet_valid"
    assert tenant.why("482913", at=MONDAY_NOON + HOUR) == "valid"
    code = tenant.dump()["door"]["passcodes"][0]
    assert (code["opensFrom"], code["opensUntil"]) == (MONDAY_NOON + HOUR, MONDAY_NOON + 3 * HOUR)


def test_changed_offset_by_record_leaves_the_clock_and_by_gateway_sets_it(tenant: Tenant) -> None:
    at(tenant, MONDAY_NOON)
    fields = {"lockId": tenant.lock, "timezoneRawOffset": HOUR}
    assert "errcode" not in tenant.call("lock/changeTimezoneRawOffset", **fields, type=1)
    assert tenant.call("lock/queryDate", lockId=tenant.lock)["date"] == MONDAY_NOON - HOUR
    assert "errcode" not in tenant.call("lock/changeTimezoneRawOffset", **fields, type=2)
    assert tenant.call("lock/queryDate", lockId=tenant.lock)["date"] == MONDAY_NOON


# -- cards


def test_card_opens_and_reversed_number_is_the_other_card(tenant: Tenant) -> None:
    fields = {"lockId": tenant.lock, "startDate": tenant.hour(-1), "endDate": tenant.hour(2), "addType": 2}
    card = tenant.call("identityCard/addForReversedCardNumber", cardNumber="3661413478", **fields)["cardId"]
    assert tenant.call("identityCard/list", lockId=tenant.lock)["list"][0]["cardNumber"] == "1723612378"
    assert tenant.why("1723612378", kind="rfid_card") == "valid"
    assert tenant.why("3661413478", kind="rfid_card") == "unknown_credential"
    assert tenant.errcode("identityCard/delete", lockId=tenant.lock, cardId=card) == 0
    assert tenant.why("1723612378", kind="rfid_card") == "valid"  # the type left out: the cloud's record only
    fields = {"lockId": tenant.lock, "cardNumber": "1723612378", "deleteType": 2}
    assert tenant.errcode("identityCard/deleteByCardNumber", **fields) == 0
    assert tenant.why("1723612378", kind="rfid_card") == "unknown_credential"


def test_card_period_changes_at_the_door_and_never_becomes_permanent(tenant: Tenant) -> None:
    fields = {"lockId": tenant.lock, "startDate": tenant.hour(-1), "endDate": tenant.hour(2), "addType": 2}
    card = tenant.call("identityCard/add", cardNumber="1723612378", **fields)["cardId"]
    change = {"lockId": tenant.lock, "cardId": card, "changeType": 2}
    assert tenant.errcode("identityCard/changePeriod", **change, startDate=0, endDate=0) == -3
    past = {"startDate": tenant.hour(-3), "endDate": tenant.hour(-2)}
    assert tenant.errcode("identityCard/changePeriod", **change, **past) == 0
    assert tenant.why("1723612378", kind="rfid_card") == "expired"


def test_same_card_twice_is_two_records_and_one_entry_at_the_door(tenant: Tenant) -> None:
    fields = {"lockId": tenant.lock, "startDate": 0, "endDate": 0, "addType": 2, "cardNumber": "1723612378"}
    assert tenant.call("identityCard/add", **fields)["cardId"] != tenant.call("identityCard/add", **fields)["cardId"]
    assert len(tenant.dump()["cloud"]["cards"]) == 2
    assert len(tenant.dump()["door"]["cards"]) == 1
    tenant.simulator.post("/habits", {"clientId": tenant.client_id, "duplicateCards": False})
    assert tenant.call("identityCard/add", **fields)["errcode"] == -1


# -- eKeys


def test_ekey_opens_by_id_name_and_sign_in_inside_its_window(tenant: Tenant) -> None:
    guest = tenant.guest()
    key = tenant.send_key(guest)["keyId"]
    assert tenant.why(str(key), kind="mobile_app") == "valid"
    assert tenant.why(guest, kind="mobile_app") == "valid"
    assert tenant.why(f'{{"username":"{guest}","password":"guest-pw"}}', kind="mobile_app") == "valid"
    assert tenant.why(f'{{"username":"{guest}","password":"guessed"}}', kind="mobile_app") == "unknown_credential"
    assert tenant.why(guest, kind="mobile_app", at=tenant.hour(2)) == "expired"
    assert tenant.why(guest, tenant.lock_apart, kind="mobile_app") == "unknown_credential"


def test_freeze_and_delete_bite_when_the_phone_synchronises(tenant: Tenant) -> None:
    guest = tenant.guest()
    key = tenant.send_key(guest)["keyId"]
    assert tenant.why(guest, kind="mobile_app", phoneOnline=False) == "phone_never_synced"
    assert tenant.why(guest, kind="mobile_app") == "valid"
    assert tenant.errcode("key/freeze", keyId=key) == 0
    assert tenant.why(guest, kind="mobile_app", phoneOnline=False) == "valid"
    assert tenant.why(guest, kind="mobile_app") == "key_frozen"
    assert tenant.errcode("key/unfreeze", keyId=key) == 0
    assert tenant.why(guest, kind="mobile_app") == "valid"
    assert tenant.errcode("key/delete", keyId=key) == 0
    assert tenant.why(guest, kind="mobile_app", phoneOnline=False) == "valid"
    assert tenant.why(guest, kind="mobile_app") == "key_deleted"
    assert tenant.errcode("key/delete", keyId=key) == -1008


def test_second_ekey_replaces_the_first_under_a_new_id(tenant: Tenant) -> None:
    guest = tenant.guest()
    first, second = tenant.send_key(guest)["keyId"], tenant.send_key(guest)["keyId"]
    assert first != second
    assert [row["keyId"] for row in tenant.call("lock/listKey", lockId=tenant.lock)["list"]] == [second]
    assert tenant.why(str(first), kind="mobile_app") == "key_deleted"
    assert tenant.why(guest, kind="mobile_app") == "valid"


def test_frozen_ekey_may_have_its_period_changed_and_stays_frozen(tenant: Tenant) -> None:
    guest = tenant.guest()
    key = tenant.send_key(guest)["keyId"]
    tenant.call("key/freeze", keyId=key)
    fields = {"keyId": key, "startDate": tenant.hour(-1), "endDate": tenant.hour(9)}
    assert tenant.errcode("key/changePeriod", **fields) == 0
    assert tenant.why(guest, kind="mobile_app") == "key_frozen"


def test_one_time_ekey_opens_once(tenant: Tenant) -> None:
    guest = tenant.guest()
    fields = {"lockId": tenant.lock, "receiverUsername": guest, "keyName": "once"}
    tenant.call("key/send", **fields, startDate=tenant.hour(), endDate=1)
    assert tenant.why(guest, kind="mobile_app") == "valid"
    assert tenant.why(guest, kind="mobile_app") == "already_used"


def test_administrator_who_deletes_the_own_ekey_deletes_the_lock(tenant: Tenant) -> None:
    own = next(row for row in tenant.call("key/list")["list"] if row["lockId"] == tenant.lock)
    assert own["userType"] == "110301"
    assert tenant.errcode("key/delete", keyId=own["keyId"]) == 0
    assert tenant.errcode("lock/detail", lockId=tenant.lock) == -1003


def test_account_made_of_a_mail_has_a_predictable_password(tenant: Tenant) -> None:
    assert "keyId" in tenant.send_key("newguest@mail.test", createUser=1)
    assert "access_token" in tenant.sign_in("newguest@mail.test", "l.test")


# -- the whole lock


def test_frozen_lock_refuses_everybody(tenant: Tenant) -> None:
    guest = tenant.guest()
    tenant.add_code("482913")
    tenant.send_key(guest)
    assert tenant.errcode("lock/freeze", lockId=tenant.lock) == 0
    assert (tenant.why("482913"), tenant.why(guest, kind="mobile_app")) == ("frozen", "frozen")
    assert tenant.call("lock/queryStatus", lockId=tenant.lock)["status"] == 1
    assert tenant.errcode("lock/unfreeze", lockId=tenant.lock) == 0
    assert tenant.why("482913") == "valid"


def test_double_locked_door_refuses_guests_but_not_the_administrator(tenant: Tenant) -> None:
    tenant.add_code("482913")
    tenant.change_lock(tenant.lock, doubleLocked=True)
    assert tenant.why("482913") == "privacy_lock"
    assert tenant.why(tenant.username, kind="mobile_app") == "valid"


def test_passage_mode_is_off_until_it_is_set_and_then_opens_for_anybody(tenant: Tenant) -> None:
    assert tenant.call("lock/getPassageModeConfig", lockId=tenant.lock)["passageMode"] == 2
    assert tenant.errcode("lock/configPassageMode", lockId=tenant.lock, passageMode=1, type=2) == 0
    assert tenant.attempt("000000")["open"]


def test_wrong_codes_lock_the_keypad_out_for_five_minutes(tenant: Tenant) -> None:
    at(tenant, MONDAY_NOON)
    tenant.change_lock(tenant.lock, lockoutAfter=3)
    tenant.add_code("482913", start=0)
    assert [tenant.why(str(n)) for n in range(5000, 5003)] == ["unknown_credential"] * 3
    assert tenant.why("482913") == "locked_out"
    at(tenant, MONDAY_NOON + 5 * MINUTE)
    assert tenant.why("482913") == "valid"


def test_remote_unlock_draws_the_bolt_and_state_shows_it(tenant: Tenant) -> None:
    assert tenant.call("lock/queryOpenState", lockId=tenant.lock)["state"] == 0
    assert tenant.errcode("lock/unlock", lockId=tenant.lock) == 0
    assert tenant.call("lock/queryOpenState", lockId=tenant.lock)["state"] == 1
    assert tenant.errcode("lock/lock", lockId=tenant.lock) == 0
    assert tenant.call("lock/queryOpenState", lockId=tenant.lock)["state"] == 0


def test_qr_code_opens_in_its_window(tenant: Tenant) -> None:
    fields = {"lockId": tenant.lock, "name": "qr", "type": 1, "startDate": tenant.hour(-1), "endDate": tenant.hour(1)}
    qr = tenant.call("qrCode/add", **fields, addType=2)["qrCodeId"]
    content = tenant.call("qrCode/getData", qrCodeId=qr)["qrCodeContent"]
    assert tenant.why(content, kind="qr_code") == "valid"
    assert tenant.why(content, kind="qr_code", at=tenant.hour(1)) == "expired"
    assert tenant.errcode("qrCode/delete", qrCodeId=qr) == 0
    assert tenant.why(content, kind="qr_code") == "unknown_credential"


# -- gateways and Wi-Fi


def test_second_gateway_takes_over_when_the_first_is_off_line(tenant: Tenant) -> None:
    tenant.change_lock(tenant.lock, gatewayIds=[tenant.gateway, tenant.other_gateway])
    tenant.simulator.post("/gateway", {"gatewayId": tenant.gateway, "online": False})
    assert "keyboardPwdId" in tenant.add_code("482913")
    shown = {row["gatewayId"]: row["isOnline"] for row in tenant.call("gateway/list")["list"]}
    assert shown == {tenant.gateway: 0, tenant.other_gateway: 1}


def test_sleeping_wifi_lock_takes_the_code_when_it_wakes(tenant: Tenant) -> None:
    tenant.simulator.post("/latency", {"wifiAsyncMs": 2000})
    lock = tenant.add_lock(gatewayId=None, wifi={"powerSave": True})
    tenant.add_code("482913", lock, addType=4)
    assert tenant.call("lock/listKeyboardPwd", lockId=lock)["list"][0]["status"] == 4
    assert tenant.why("482913", lock) == "unknown_credential"
    wait_until(lambda: tenant.dump(lock)["cloud"]["passcodes"][0]["status"] == 1)
    assert tenant.why("482913", lock) == "valid"


def test_sleeping_wifi_lock_that_never_wakes_ends_in_status_5(tenant: Tenant) -> None:
    lock = tenant.add_lock(gatewayId=None, wifi={"powerSave": True, "fails": True})
    tenant.add_code("482913", lock, addType=4)
    wait_until(lambda: tenant.dump(lock)["cloud"]["passcodes"][0]["status"] == 5)
    assert tenant.why("482913", lock) == "unknown_credential"


def test_nb_lock_takes_codes_without_a_gateway(tenant: Tenant) -> None:
    lock = tenant.add_lock(gatewayId=None, nbRegistered=True)
    assert "keyboardPwdId" in tenant.add_code("482913", lock, addType=3)
    assert tenant.why("482913", lock) == "valid"
    assert tenant.add_code("739164", addType=3)["errcode"] == -4043


def test_lock_without_keypad_or_reader_refuses_both(tenant: Tenant) -> None:
    lock = tenant.add_lock(features=[10])
    assert tenant.add_code("482913", lock)["errcode"] == -4043
    fields = {"lockId": lock, "cardNumber": "1723612378", "startDate": 0, "endDate": 0}
    assert tenant.call("identityCard/add", **fields)["errcode"] == -4043


# -- records


def test_records_tell_who_came_with_raw_and_cloud_types(tenant: Tenant) -> None:
    at(tenant, MONDAY_NOON)
    tenant.add_code("482913", start=0)
    tenant.add_code("739164", start=5, end=6)
    for code in ("482913", "000001", "739164"):
        tenant.attempt(code)
    rows = tenant.call("lockRecord/list", lockId=tenant.lock, startDate=0, endDate=0)["list"]
    told = [(r["recordTypeFromLock"], r["recordType"], r["success"], r["username"], r["keyboardPwd"]) for r in rows]
    assert told == [
        (11, 4, 0, "gk-739164", "739164"),
        (7, 4, 0, "", "000001"),
        (4, 4, 1, "gk-482913", "482913"),
    ]
    assert {row["lockDate"] for row in rows} == {MONDAY_NOON}


def test_record_carries_the_locks_wrong_time(tenant: Tenant) -> None:
    at(tenant, MONDAY_NOON)
    tenant.simulator.post("/clock", {"lockId": tenant.lock, "offsetMs": 7 * MINUTE})
    tenant.attempt("000001")
    row = tenant.call("lockRecord/list", lockId=tenant.lock)["list"][0]
    assert (row["lockDate"], row["serverDate"]) == (MONDAY_NOON + 7 * MINUTE, MONDAY_NOON)


def test_lock_without_gateway_keeps_its_records_until_a_phone_uploads(tenant: Tenant) -> None:
    tenant.attempt("000001", tenant.lock_apart)
    assert tenant.call("lockRecord/list", lockId=tenant.lock_apart)["total"] == 0
    assert tenant.simulator.post("/upload", {"lockId": tenant.lock_apart}) == {"records": 1}
    assert tenant.call("lockRecord/list", lockId=tenant.lock_apart)["total"] == 1


def test_records_older_than_six_months_are_gone(tenant: Tenant) -> None:
    at(tenant, MONDAY_NOON)
    tenant.attempt("000001")
    at(tenant, MONDAY_NOON + 190 * DAY)
    tenant.attempt("000002")
    tenant.token = tenant.sign_in()["access_token"]
    assert [r["keyboardPwd"] for r in tenant.call("lockRecord/list", lockId=tenant.lock)["list"]] == ["000002"]


def test_dry_attempt_leaves_no_trace(tenant: Tenant) -> None:
    made = tenant.random_code(kind=1)["keyboardPwd"]
    assert tenant.why(made, dry=True) == tenant.why(made, dry=True) == "valid"
    assert tenant.call("lockRecord/list", lockId=tenant.lock)["total"] == 0
