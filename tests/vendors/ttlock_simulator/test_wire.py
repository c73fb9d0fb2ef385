"""The vendor's conventions: signing in, forms, paging, limits, shapes of answers."""

from __future__ import annotations

import hashlib
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.vendors.ttlock_simulator.tenant import DAY, Simulator, Tenant

SUCCESS = {"errcode": 0, "errmsg": "none error message or means yes", "description": "表示成功或是"}


def habits(tenant: Tenant, **fields: Any) -> None:
    tenant.simulator.post("/habits", {"clientId": tenant.client_id, **fields})


# -- signing in


@pytest.mark.parametrize("names", [("clientId", "clientSecret"), ("client_id", "client_secret")])
@pytest.mark.parametrize("place", ["data", "params"])
def test_both_spellings_and_both_places_sign_in(tenant: Tenant, names: tuple[str, str], place: str) -> None:
    digest = hashlib.md5(tenant.password.encode()).hexdigest()
    fields = {names[0]: tenant.client_id, names[1]: "s3cret", "username": tenant.username, "password": digest}
    answer = tenant.simulator.session.post(tenant.simulator.url + "/oauth2/token", **{place: fields}, timeout=30).json()
    assert set(answer) == {"access_token", "refresh_token", "uid", "expires_in"}
    assert answer["expires_in"] == 7_776_000


def test_old_answers_carry_more_fields(tenant: Tenant) -> None:
    habits(tenant, oldTokenFields=True)
    answer = tenant.sign_in()
    assert (answer["scope"], answer["token_type"]) == ("user,key,room", "Bearer")


def test_refresh_token_stays_or_rotates_as_configured(tenant: Tenant) -> None:
    first = tenant.sign_in()
    second = tenant.oauth(grant_type="refresh_token", refresh_token=first["refresh_token"])
    assert second["refresh_token"] == first["refresh_token"]
    assert tenant.errcode("lock/list", accessToken=first["access_token"]) == 10003
    assert tenant.errcode("lock/list", accessToken=second["access_token"]) == 0
    habits(tenant, rotateRefresh=True)
    third = tenant.oauth(grant_type="refresh_token", refresh_token=second["refresh_token"])
    assert third["refresh_token"] != second["refresh_token"]
    spent = tenant.oauth(grant_type="refresh_token", refresh_token=second["refresh_token"])
    assert spent["errcode"] == 10011


def test_fresh_login_kills_earlier_tokens_only_in_single_token_mode(tenant: Tenant) -> None:
    first = tenant.sign_in()["access_token"]
    tenant.sign_in()
    assert tenant.errcode("lock/list", accessToken=first) == 0
    habits(tenant, singleToken=True)
    tenant.sign_in()
    assert tenant.errcode("lock/list", accessToken=first) == 10004


def test_token_expires_by_the_simulators_clock(tenant: Tenant) -> None:
    tenant.simulator.post("/clock", {"advanceMs": 90 * DAY})
    assert tenant.errcode("lock/list") == 10004


def test_client_credentials_work_behind_the_flag_without_a_refresh_token(tenant: Tenant) -> None:
    tenant.account_fields["clientCredentials"] = True
    tenant.seed()
    answer = tenant.oauth(grant_type="client_credentials")
    assert set(answer) == {"access_token", "expires_in"}
    assert tenant.call("lock/list", accessToken=answer["access_token"])["total"] == 2


def test_developer_account_cannot_sign_in(tenant: Tenant) -> None:
    developer = tenant.guest(developer=True)
    assert tenant.sign_in(developer, "guest-pw")["errcode"] == 10007


def test_second_secret_is_taken_while_both_are_valid(tenant: Tenant) -> None:
    tenant.account_fields.pop("clientSecret")
    tenant.account_fields["clientSecrets"] = ["s3cret", "next"]
    tenant.seed()
    digest = hashlib.md5(tenant.password.encode()).hexdigest()
    for secret in ("s3cret", "next"):
        assert "access_token" in tenant.oauth(clientSecret=secret, username=tenant.username, password=digest)


def test_registered_user_gets_the_applications_prefix_and_a_new_password_kills_its_tokens(tenant: Tenant) -> None:
    password = hashlib.md5(b"one").hexdigest()
    name = tenant.secret_call("user/register", username="guest7", password=password)["username"]
    assert name.endswith("_guest7")
    token = tenant.oauth(username=name, password=password)["access_token"]
    assert tenant.call("lock/list", accessToken=token)["total"] == 0
    other = hashlib.md5(b"two").hexdigest()
    assert tenant.secret_call("user/resetPassword", username=name, password=other) == SUCCESS
    assert tenant.errcode("lock/list", accessToken=token) == 10004
    assert [row["userid"] for row in tenant.secret_call("user/list")["list"]] == [name]
    stranger = Tenant(tenant.simulator)
    assert stranger.oauth(username=name, password=other)["errcode"] == 10007


# -- requests and answers


def test_get_and_post_query_and_body_are_the_same(tenant: Tenant) -> None:
    url = f"{tenant.simulator.url}/v3/lock/list"
    session = tenant.simulator.session
    by_get = session.get(url, params=tenant.fields(pageNo=1, pageSize=20), timeout=30).json()
    own = tenant.fields()
    mixed = session.post(f"{url}?{urlencode(own)}", data={"pageNo": 1, "pageSize": 20}, timeout=30).json()
    assert by_get == mixed == tenant.call("lock/list")
    assert by_get["total"] == 2


def test_mutation_answers_errcode_0_and_creation_only_the_id(tenant: Tenant) -> None:
    made = tenant.add_code("482913")
    assert set(made) == {"keyboardPwdId"}
    fields = {"lockId": tenant.lock, "keyboardPwdId": made["keyboardPwdId"], "deleteType": 2}
    assert tenant.call("keyboardPwd/delete", **fields) == SUCCESS


def test_date_five_minutes_off_is_refused_and_inside_taken(tenant: Tenant) -> None:
    now = tenant.simulator.now()
    assert tenant.errcode("lock/list", date=now - 290_000) == 0
    assert tenant.errcode("lock/list", date=now + 290_000) == 0
    assert tenant.errcode("lock/list", date=now - 310_000) == 80000
    assert tenant.errcode("lock/list", date=now + 310_000) == 80000


def test_date_follows_the_moved_clock(tenant: Tenant) -> None:
    tenant.simulator.post("/clock", {"now": "2026-12-28T12:00:00+00:00", "running": False})
    tenant.token = tenant.sign_in()["access_token"]
    assert tenant.errcode("lock/list", date=1_798_459_200_000) == 0
    tenant.simulator.post("/clock", {"now": "2026-12-28T13:00:00Z"})
    assert tenant.errcode("lock/list", date=1_798_459_200_000) == 80000


def test_unknown_delete_answers_as_configured(tenant: Tenant) -> None:
    fields = {"lockId": tenant.lock, "keyboardPwdId": 1, "deleteType": 2}
    assert tenant.errcode("keyboardPwd/delete", **fields) == -2009
    habits(tenant, unknownDelete=0)
    assert tenant.call("keyboardPwd/delete", **fields) == SUCCESS


def test_numbers_come_as_texts_when_configured(tenant: Tenant) -> None:
    tenant.add_code("482913")
    habits(tenant, numbersAsStrings=True)
    page = tenant.call("lock/listKeyboardPwd", lockId=tenant.lock)
    assert (page["total"], page["list"][0]["keyboardPwdType"], page["list"][0]["isCustom"]) == ("1", "3", "1")
    assert tenant.call("key/delete", keyId=1)["errcode"] == -1008


def test_optional_fields_go_missing_when_configured(tenant: Tenant) -> None:
    assert "autoLockTime" in tenant.call("lock/detail", lockId=tenant.lock)
    habits(tenant, omitOptional=True)
    detail = tenant.call("lock/detail", lockId=tenant.lock)
    assert not {"autoLockTime", "firmwareRevision", "electricQuantityUpdateDate"} & set(detail)
    assert detail["lockId"] == tenant.lock


def test_pages_are_cut_and_capped(tenant: Tenant) -> None:
    for code in ("482913", "739164", "605218"):
        tenant.add_code(code)
    page = tenant.call("lock/listKeyboardPwd", lockId=tenant.lock, pageNo=2, pageSize=2, orderBy=0)
    assert [row["keyboardPwd"] for row in page["list"]] == ["739164"]
    assert {k: page[k] for k in ("pageNo", "pageSize", "pages", "total")} == {
        "pageNo": 2, "pageSize": 2, "pages": 2, "total": 3,
    }  # fmt: skip
    newest_first = tenant.call("lock/listKeyboardPwd", lockId=tenant.lock)["list"]
    assert [row["keyboardPwd"] for row in newest_first] == ["605218", "739164", "482913"]
    assert tenant.errcode("lock/listKeyboardPwd", lockId=tenant.lock, pageSize=200) == 0
    assert tenant.errcode("lock/listKeyboardPwd", lockId=tenant.lock, pageSize=201) == -3
    assert tenant.errcode("lock/list", pageSize=1000) == 0
    assert tenant.errcode("lock/list", pageSize=1001) == -3
    habits(tenant, clampPageSize=True)
    assert tenant.call("lock/listKeyboardPwd", lockId=tenant.lock, pageSize=500)["pageSize"] == 200


def test_search_is_fuzzy_on_the_name_and_exact_on_the_code(tenant: Tenant) -> None:
    tenant.add_code("482913", keyboardPwdName="gk-1f3a9c0d2b4e5f60")
    tenant.add_code("739164", keyboardPwdName="gk-00112233aabbccdd")

    def search(text: str) -> list[str]:
        page = tenant.call("lock/listKeyboardPwd", lockId=tenant.lock, searchStr=text)
        return [row["keyboardPwd"] for row in page["list"]]

    assert search("1f3a9c") == ["482913"]
    assert search("739164") == ["739164"]
    assert search("73916") == []


def test_nonce_is_remembered_and_ignored(tenant: Tenant) -> None:
    tenant.add_code("482913", clientNonce="n-1")
    assert tenant.add_code("739164", clientNonce="n-1").keys() == {"keyboardPwdId"}
    assert [p["clientNonce"] for p in tenant.dump()["cloud"]["passcodes"]] == ["n-1", "n-1"]


def test_lists_of_a_hotel_tell_locks_and_gateways(tenant: Tenant) -> None:
    locks = {row["lockId"]: row["hasGateway"] for row in tenant.call("lock/list")["list"]}
    assert locks == {tenant.lock: 1, tenant.lock_apart: 0}
    assert [row["gatewayId"] for row in tenant.call("gateway/listByLock", lockId=tenant.lock)["list"]] == [tenant.gateway]
    assert [row["lockId"] for row in tenant.call("gateway/listLock", gatewayId=tenant.gateway)["list"]] == [tenant.lock]
    assert tenant.call("gateway/listByLock", lockId=tenant.lock_apart)["list"] == []


def test_battery_in_lists_is_what_was_last_uploaded(tenant: Tenant) -> None:
    assert tenant.errcode("lock/updateElectricQuantity", lockId=tenant.lock, electricQuantity=37) == 0
    assert tenant.call("lock/queryElectricQuantity", lockId=tenant.lock) == {"electricQuantity": 37}
    assert tenant.call("lock/detail", lockId=tenant.lock)["electricQuantity"] == 37


def test_unlock_link_needs_a_way_to_the_lock(tenant: Tenant) -> None:
    guest = tenant.guest()
    link = tenant.call("key/getUnlockLink", keyId=tenant.send_key(guest)["keyId"])["link"]
    assert tenant.why(link, kind="mobile_app") == "valid"
    apart = tenant.send_key(guest, tenant.lock_apart)["keyId"]
    assert tenant.errcode("key/getUnlockLink", keyId=apart) == -4043
    assert tenant.errcode("key/getUnlockLink", keyId=1) == 20004


# -- limits


def test_month_is_counted_and_starts_anew_in_beijing(tenant: Tenant) -> None:
    eve = "2026-12-31T15:59:00+00:00"  # 23:59 in Beijing
    tenant.simulator.post("/clock", {"now": eve, "running": False})
    tenant.account_fields["monthLimit"] = 5
    tenant.seed()
    assert tenant.secret_call("app/getMonthRequestCount") == {"monthRequestCount": 1}
    assert [tenant.errcode("lock/list") for _ in range(5)] == [0, 0, 0, 0, 30007]
    tenant.simulator.post("/clock", {"now": "2026-12-31T16:00:00+00:00", "running": False})
    assert tenant.errcode("lock/list") == 0
    assert tenant.secret_call("app/getMonthRequestCount") == {"monthRequestCount": 2}


def test_refused_calls_count_against_nothing_of_another_application(tenant: Tenant) -> None:
    tenant.account_fields["minuteLimit"] = 1
    tenant.seed()
    assert [tenant.errcode("lock/list") for _ in range(3)] == [0, 30006, 30006]
    assert Tenant(tenant.simulator).errcode("lock/list") == 0


def test_what_is_not_the_vendors_is_not_found(simulator: Simulator) -> None:
    assert simulator.session.get(simulator.url + "/dump", timeout=30).status_code == 404
    assert simulator.session.get(simulator.url + "/v2/lock/list", timeout=30).status_code == 404
    assert simulator.session.put(simulator.url + "/v3/lock/list", timeout=30).status_code == 404


def test_unknown_call_is_an_invalid_parameter(tenant: Tenant) -> None:
    assert tenant.errcode("lock/explode", lockId=tenant.lock) == -3
