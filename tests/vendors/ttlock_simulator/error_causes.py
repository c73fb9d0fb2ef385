"""What a caller does, or what a door is like, for each number of the vendor's list. One function a number."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.vendors.ttlock_simulator.tenant import Json, Simulator, Tenant

Cause = Callable[[Simulator], Json]
CAUSES: dict[int, Cause] = {}
SOME_MD5 = "5f4dcc3b5aa765d61d8327deb882cf99"


def cause(errcode: int) -> Callable[[Callable[[Tenant], Json]], Callable[[Tenant], Json]]:
    """Registers what leads to a number, done by a tenant of its own."""

    def register(function: Callable[[Tenant], Json]) -> Callable[[Tenant], Json]:
        assert errcode not in CAUSES
        CAUSES[errcode] = lambda simulator: function(Tenant(simulator))
        return function

    return register


@cause(-3)
def end_before_start(tenant: Tenant) -> Json:
    return tenant.add_code("482913", start=3, end=1)


@cause(10000)
def unknown_client(tenant: Tenant) -> Json:
    return tenant.call("lock/list", clientId="nobody")


@cause(10001)
def wrong_secret(tenant: Tenant) -> Json:
    return tenant.oauth(clientSecret="wrong", username=tenant.username, password=SOME_MD5)


@cause(10003)
def made_up_token(tenant: Tenant) -> Json:
    return tenant.call("lock/list", accessToken="0" * 32)


@cause(10004)
def expired_token(tenant: Tenant) -> Json:
    tenant.simulator.post("/tokens", {"clientId": tenant.client_id, "action": "expire"})
    return tenant.call("lock/list")


@cause(10006)
def application_under_review(tenant: Tenant) -> Json:
    tenant.account_fields["reviewed"] = False
    tenant.seed()
    return tenant.call("lock/list")


@cause(10007)
def wrong_password(tenant: Tenant) -> Json:
    return tenant.sign_in(password="guessed")


@cause(10010)
def client_credentials(tenant: Tenant) -> Json:
    return tenant.oauth(grant_type="client_credentials")


@cause(10011)
def made_up_refresh_token(tenant: Tenant) -> Json:
    return tenant.oauth(grant_type="refresh_token", refresh_token="0" * 32)


@cause(20001)
def signed_in_user_was_deleted(tenant: Tenant) -> Json:
    name = tenant.secret_call("user/register", username="gone", password=SOME_MD5)["username"]
    token = tenant.oauth(username=name, password=SOME_MD5)["access_token"]
    assert tenant.secret_call("user/delete", username=name)["errcode"] == 0
    return tenant.call("lock/list", accessToken=token)


@cause(20002)
def key_holder_administers(tenant: Tenant) -> Json:
    guest = tenant.guest()
    tenant.send_key(guest)
    token = tenant.sign_in(guest, "guest-pw")["access_token"]
    return tenant.call("lock/listKeyboardPwd", lockId=tenant.lock, accessToken=token)


@cause(20003)
def key_of_another_lock(tenant: Tenant) -> Json:
    key = tenant.send_key(tenant.guest())["keyId"]
    return tenant.call("key/authorize", lockId=tenant.lock_apart, keyId=key)


@cause(20004)
def authorize_unknown_key(tenant: Tenant) -> Json:
    return tenant.call("key/authorize", lockId=tenant.lock, keyId=1)


@cause(20006)
def unknown_receiver(tenant: Tenant) -> Json:
    return tenant.send_key("nobody@mail.test")


@cause(20007)
def other_passcode_generation(tenant: Tenant) -> Json:
    tenant.change_lock(tenant.lock, passcodeVersion=3)
    return tenant.call("keyboardPwd/get", lockId=tenant.lock, keyboardPwdType=3, startDate=0, endDate=1, keyboardPwdVersion=4)


@cause(30001)
def forbidden_call(tenant: Tenant) -> Json:
    tenant.account_fields["forbiddenPaths"] = ["key/send"]
    return tenant.send_key(tenant.guest())


@cause(30002)
def user_name_with_signs(tenant: Tenant) -> Json:
    return tenant.secret_call("user/register", username="not-plain", password=SOME_MD5)


@cause(30003)
def user_exists(tenant: Tenant) -> Json:
    assert "errcode" not in tenant.secret_call("user/register", username="twice", password=SOME_MD5)
    return tenant.secret_call("user/register", username="twice", password=SOME_MD5)


@cause(30004)
def unknown_user(tenant: Tenant) -> Json:
    return tenant.secret_call("user/delete", username="nobody")


@cause(30005)
def password_in_clear(tenant: Tenant) -> Json:
    return tenant.secret_call("user/register", username="plain", password="password")


@cause(30006)
def too_fast(tenant: Tenant) -> Json:
    tenant.account_fields["minuteLimit"] = 2
    tenant.seed()
    assert [tenant.errcode("lock/list") for _ in range(2)] == [0, 0]
    return tenant.call("lock/list")


@cause(30007)
def month_used_up(tenant: Tenant) -> Json:
    tenant.account_fields |= {"monthLimit": 3, "monthCount": 3}
    tenant.seed()
    return tenant.call("lock/list")


@cause(30008)
def wrong_region(tenant: Tenant) -> Json:
    tenant.account_fields["region"] = "cn"
    tenant.seed()
    return tenant.call("lock/list")


@cause(80000)
def date_in_seconds(tenant: Tenant) -> Json:
    return tenant.call("lock/list", date=tenant.simulator.now() // 1000)


@cause(80002)
def malformed_json(tenant: Tenant) -> Json:
    return tenant.call(
        "identityCard/add", lockId=tenant.lock, cardNumber="1", startDate=0, endDate=0, cardType=4, cyclicConfig="[{"
    )


@cause(-1003)
def unknown_lock(tenant: Tenant) -> Json:
    return tenant.call("lock/detail", lockId=1)


@cause(-1007)
def no_passcode_data(tenant: Tenant) -> Json:
    tenant.change_lock(tenant.lock, passcodeData=False)
    return tenant.random_code()


@cause(-1008)
def unknown_key(tenant: Tenant) -> Json:
    return tenant.call("key/delete", keyId=1)


@cause(-1016)
def taken_name(tenant: Tenant) -> Json:
    tenant.account_fields["uniqueNames"] = True
    tenant.change_lock(tenant.lock, alias="101")
    return tenant.call("lock/rename", lockId=tenant.lock_apart, lockAlias="101")


@cause(-1018)
def unknown_group(tenant: Tenant) -> Json:
    return tenant.call("lock/list", groupId=77)


@cause(-1021)
def unknown_card(tenant: Tenant) -> Json:
    return tenant.call("identityCard/delete", lockId=tenant.lock, cardId=1, deleteType=2)


@cause(-1023)
def unknown_fingerprint(tenant: Tenant) -> Json:
    return tenant.call("fingerprint/delete", lockId=tenant.lock, fingerprintId=1)


@cause(-1026)
def window_of_a_deleted_random_code(tenant: Tenant) -> Json:
    made = tenant.random_code()
    assert tenant.attempt(made["keyboardPwd"])["open"]
    fields = {"lockId": tenant.lock, "keyboardPwdId": made["keyboardPwdId"], "deleteType": 2}
    assert tenant.errcode("keyboardPwd/delete", **fields) == 0
    return tenant.random_code()


@cause(-1027)
def receiver_is_tied(tenant: Tenant) -> Json:
    return tenant.send_key(tenant.guest(tied=True))


@cause(-2009)
def unknown_passcode(tenant: Tenant) -> Json:
    return tenant.call("keyboardPwd/delete", lockId=tenant.lock, keyboardPwdId=1, deleteType=2)


@cause(-2012)
def no_gateway(tenant: Tenant) -> Json:
    return tenant.add_code("482913", tenant.lock_apart)


@cause(-2018)
def strangers_lock(tenant: Tenant) -> Json:
    stranger = Tenant(tenant.simulator)
    return tenant.call("lock/detail", lockId=stranger.lock)


@cause(-2019)
def key_to_oneself(tenant: Tenant) -> Json:
    return tenant.send_key(tenant.username)


@cause(-2020)
def key_to_the_administrator(tenant: Tenant) -> Json:
    helper = tenant.guest()
    tenant.send_key(helper, keyRight=1)
    tenant.token = tenant.sign_in(helper, "guest-pw")["access_token"]
    return tenant.send_key(tenant.username)


@cause(-2023)
def period_of_a_one_time_key(tenant: Tenant) -> Json:
    fields = {"lockId": tenant.lock, "receiverUsername": tenant.guest(), "keyName": "once"}
    key = tenant.call("key/send", **fields, startDate=tenant.hour(), endDate=1)["keyId"]
    return tenant.call("key/changePeriod", keyId=key, startDate=tenant.hour(), endDate=tenant.hour(5))


@cause(-2025)
def frozen_lock(tenant: Tenant) -> Json:
    assert tenant.errcode("lock/freeze", lockId=tenant.lock) == 0
    return tenant.add_code("482913")


@cause(-2032)
def simple_code(tenant: Tenant) -> Json:
    return tenant.add_code("123456")


@cause(-3002)
def gateway_offline(tenant: Tenant) -> Json:
    tenant.simulator.post("/gateway", {"gatewayId": tenant.gateway, "online": False})
    return tenant.add_code("482913")


@cause(-3003)
def gateway_busy(tenant: Tenant) -> Json:
    tenant.simulator.post("/latency", {"gatewayId": tenant.gateway, "gatewayMs": 300})
    twin = Tenant(tenant.simulator)  # a second session of the same caller
    twin.client_id, twin.token, twin.lock = tenant.client_id, tenant.token, tenant.lock
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda pair: pair[0].add_code(pair[1]), [(tenant, "482913"), (twin, "739164")]))
    assert sum("keyboardPwdId" in answer for answer in answers) == 1
    return next(answer for answer in answers if "errcode" in answer)


@cause(-3006)
def code_too_short(tenant: Tenant) -> Json:
    return tenant.add_code("482")


@cause(-3007)
def code_taken_in_another_window(tenant: Tenant) -> Json:
    assert "keyboardPwdId" in tenant.add_code("482913", start=0, end=1)
    return tenant.add_code("482913", start=100, end=120)


@cause(-3008)
def random_code_never_used(tenant: Tenant) -> Json:
    made = tenant.random_code()
    return tenant.call("keyboardPwd/delete", lockId=tenant.lock, keyboardPwdId=made["keyboardPwdId"], deleteType=2)


@cause(-3009)
def door_full_of_codes(tenant: Tenant) -> Json:
    tenant.change_lock(tenant.lock, codeCapacity=2)
    assert all("keyboardPwdId" in tenant.add_code(code) for code in ("482913", "739164"))
    return tenant.add_code("605218")


@cause(-3011)
def lock_to_oneself(tenant: Tenant) -> Json:
    return tenant.call("lock/transfer", lockIdList=json.dumps([tenant.lock]), receiverUsername=tenant.username)


@cause(-3016)
def gateway_to_oneself(tenant: Tenant) -> Json:
    return tenant.call("gateway/transfer", gatewayId=tenant.gateway, receiverUsername=tenant.username)


@cause(-3034)
def wifi_not_set(tenant: Tenant) -> Json:
    return tenant.add_code("482913", tenant.add_lock(gatewayId=None, wifi={"configured": False}))


@cause(-3035)
def wifi_asleep(tenant: Tenant) -> Json:
    return tenant.add_code("482913", tenant.add_lock(gatewayId=None, wifi={"powerSave": True}))


@cause(-3036)
def wifi_offline(tenant: Tenant) -> Json:
    return tenant.add_code("482913", tenant.add_lock(gatewayId=None, wifi={"online": False}))


@cause(-3037)
def wifi_lock_busy(tenant: Tenant) -> Json:
    tenant.simulator.post("/latency", {"gatewayMs": 300})
    lock = tenant.add_lock(gatewayId=None, wifi={})
    twin = Tenant(tenant.simulator)
    twin.client_id, twin.token = tenant.client_id, tenant.token
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda pair: pair[0].add_code(pair[1], lock), [(tenant, "482913"), (twin, "739164")]))
    assert sum("keyboardPwdId" in answer for answer in answers) == 1
    return next(answer for answer in answers if "errcode" in answer)


@cause(-3039)
def beyond_the_senders_own_key(tenant: Tenant) -> Json:
    helper, guest = tenant.guest(), tenant.guest()
    tenant.send_key(helper, keyRight=1, end=2)
    tenant.token = tenant.sign_in(helper, "guest-pw")["access_token"]
    return tenant.send_key(guest, end=3)


@cause(-3046)
def remote_unlock_without_the_right(tenant: Tenant) -> Json:
    guest = tenant.guest()
    tenant.send_key(guest, remoteEnable=2)
    return tenant.call("lock/unlock", lockId=tenant.lock, accessToken=tenant.sign_in(guest, "guest-pw")["access_token"])


@cause(-4037)
def unknown_gateway(tenant: Tenant) -> Json:
    return tenant.call("gateway/listLock", gatewayId=1)


@cause(-4043)
def remote_unlock_switched_off(tenant: Tenant) -> Json:
    tenant.change_lock(tenant.lock, remoteUnlock=False)
    return tenant.call("lock/unlock", lockId=tenant.lock)


@cause(-4056)
def door_full_of_cards(tenant: Tenant) -> Json:
    tenant.change_lock(tenant.lock, cardCapacity=1)
    fields = {"lockId": tenant.lock, "startDate": 0, "endDate": 0, "addType": 2}
    assert "cardId" in tenant.call("identityCard/add", cardNumber="3661413478", **fields)
    return tenant.call("identityCard/add", cardNumber="1723612378", **fields)


@cause(-4063)
def user_still_owns_locks(tenant: Tenant) -> Json:
    name = tenant.secret_call("user/register", username="owner", password=SOME_MD5)["username"]
    fields = {"lockIdList": json.dumps([tenant.lock_apart]), "receiverUsername": name}
    assert tenant.errcode("lock/transfer", **fields) == 0
    return tenant.secret_call("user/delete", username=name)


@cause(-4064)
def transfer_to_nobody(tenant: Tenant) -> Json:
    return tenant.call("lock/transfer", lockIdList=json.dumps([tenant.lock]), receiverUsername="nobody@mail.test")


@cause(-4067)
def nb_device_not_registered(tenant: Tenant) -> Json:
    lock = tenant.add_lock(features=[0, 16])
    return tenant.add_code("482913", lock, addType=3)


@cause(-4082)
def auto_lock_out_of_range(tenant: Tenant) -> Json:
    return tenant.call("lock/setAutoLockTime", lockId=tenant.lock, seconds=5000, type=2)
