"""Who gets in, who may do what, and what nobody learns of others."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.conf import settings

from lockservice.core.auth_keys import embedded_key, embedded_key_set
from lockservice.core.auth_permissions import ROLES
from tests.api.conftest import issue_body, issue_key, make_hotel, problem, work, worker
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from tests.support.web_server import Caller, WebServer, caller
from vendors.port.ids import new_id

KEYS = "/lock/v1/credentials"


def claims(hotel: Hotel, **changes: Any) -> dict[str, Any]:
    now = int(time.time())
    good = {
        "iss": settings.API_ISSUER, "aud": settings.API_AUDIENCE, "iat": now, "exp": now + 600, "sub": "usr_test",
        "tenantId": hotel.tenant_id, "roles": ["front_desk"], "propertyIds": ["*"], "amr": ["pwd"],
    }  # fmt: skip
    return {name: value for name, value in (good | changes).items() if value is not None}


def signed(payload: dict[str, Any], key: Any = None, algorithm: str = "EdDSA", **header: Any) -> str:
    kid = embedded_key_set()["keys"][0]["kid"]
    return jwt.encode(payload, key or embedded_key(), algorithm=algorithm, headers={"kid": kid, **header})


def plain(part: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


def unsigned(hotel: Hotel) -> str:
    return f"{plain({'alg': 'none', 'kid': embedded_key_set()['keys'][0]['kid']})}.{plain(claims(hotel))}."


def confused(hotel: Hotel) -> str:
    """Signed with HMAC under the public key, as if that were the shared secret."""
    kid = embedded_key_set()["keys"][0]["kid"]
    public = embedded_key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head = f"{plain({'alg': 'HS256', 'kid': kid})}.{plain(claims(hotel))}"
    mark = hmac.new(public, head.encode(), hashlib.sha256).digest()
    return f"{head}.{base64.urlsafe_b64encode(mark).rstrip(b'=').decode()}"


BAD: dict[str, Callable[[Hotel], str]] = {
    "not a token": lambda _: "abc",
    "no signature": unsigned,
    "HMAC under the public key": confused,
    "another's key under our id": lambda hotel: signed(claims(hotel), Ed25519PrivateKey.generate()),
    "an unknown key id": lambda hotel: signed(claims(hotel), kid="unknown"),
    "a key id that is no text": lambda hotel: f"{plain({'alg': 'EdDSA', 'kid': 5})}.{plain(claims(hotel))}.AAAA",
    "RSA under the id of an Edwards key": lambda hotel: signed(claims(hotel), generate_private_key(65537, 2048), "RS256"),
    "expired": lambda hotel: signed(claims(hotel, exp=int(time.time()) - 60)),
    "not valid yet": lambda hotel: signed(claims(hotel, nbf=int(time.time()) + 600)),
    "no expiry": lambda hotel: signed(claims(hotel, exp=None)),
    "another issuer": lambda hotel: signed(claims(hotel, iss="somebody")),
    "another audience": lambda hotel: signed(claims(hotel, aud="something")),
    "no tenant": lambda hotel: signed(claims(hotel, tenantId=None)),
    "a tenant that is no text": lambda hotel: signed(claims(hotel, tenantId=["x"])),
    "an empty tenant": lambda hotel: signed(claims(hotel, tenantId="")),
    "no subject": lambda hotel: signed(claims(hotel, sub=None)),
    "a subject too long": lambda hotel: signed(claims(hotel, sub="u" * 65)),
    "roles that are no list": lambda hotel: signed(claims(hotel, roles="gm")),
    "properties that are no list": lambda hotel: signed(claims(hotel, propertyIds="*")),
}


@pytest.mark.parametrize("name", BAD)
def test_a_token_that_is_not_exactly_right_is_401(name: str, hotel: Hotel, web: WebServer) -> None:
    answer = Caller(web.url, BAD[name](hotel)).get(KEYS)
    assert problem(answer) == (401, "UNAUTHENTICATED")
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="lock"'
    assert Caller(web.url, signed(claims(hotel))).get(KEYS).status_code == 200


@pytest.mark.parametrize("header", ["", "Basic dXNyOnB3", "Bearer", "Bearer "])
def test_another_way_to_say_who_one_is_is_401(header: str, web: WebServer) -> None:
    assert problem(Caller(web.url).get(KEYS, headers={"Authorization": header} if header else {})) == (401, "UNAUTHENTICATED")


def test_the_served_key_set_holds_no_private_half(web: WebServer) -> None:
    (row,) = Caller(web.url).get("/demo/v1/jwks.json").json()["keys"]
    assert set(row) == {"kty", "crv", "x", "kid", "use", "alg"}


ACTS: dict[str, tuple[str, str, Any]] = {
    "read": ("GET", KEYS, None),
    "devices": ("GET", "/lock/v1/devices", None),
    "vendors": ("GET", "/lock/v1/vendors", None),
    "issue": ("POST", KEYS, "issue"),
    "update": ("PATCH", KEYS + "/{key}", {"rooms": ["x"]}),
    "revoke checkout": ("POST", KEYS + "/{key}/revoke", {"reason": "checkout"}),
    "revoke lost": ("POST", KEYS + "/{key}/revoke", {"reason": "lost"}),
    "revoke security": ("POST", KEYS + "/{key}/revoke", {"reason": "security"}),
    "revoke cancellation": ("POST", KEYS + "/{key}/revoke", {"reason": "cancellation"}),
    "suspend manual": ("POST", KEYS + "/{key}/suspend", {"reason": "manual"}),
    "suspend fraud": ("POST", KEYS + "/{key}/suspend", {"reason": "fraud_review"}),
    "unsuspend": ("POST", KEYS + "/{key}/unsuspend", None),
    "replace": ("POST", KEYS + "/{key}/replace", {}),
    "encode": ("POST", KEYS + "/{key}/encode", {}),
    "retry": ("POST", KEYS + "/{key}/retry", None),
    "choose pin": ("POST", KEYS + "/{key}/pin", {"pin": "83019264", "reason": "asked for"}),
    "health check": ("POST", "/lock/v1/devices/{key}/health-check", None),
    "stay": ("GET", "/lock/v1/reservations/{key}/keys", None),
    "exchange": ("POST", "/lock/v1/key-exchange", {"opaqueRef": "tk_none"}),
    "operation": ("GET", "/lock/v1/operations/{key}", None),
}
_READ = {"read", "devices", "vendors", "stay", "operation"}
_CLERK = _READ | {
    "issue", "update", "revoke checkout", "revoke lost", "suspend manual", "replace", "encode", "retry", "health check",
}  # fmt: skip
_SUPERVISOR = _CLERK | {"revoke security", "revoke cancellation", "suspend fraud", "unsuspend", "choose pin"}
MAY: dict[str, set[str]] = {
    "front_desk": _CLERK,
    "front_desk_supervisor": _SUPERVISOR,
    "gm": _SUPERVISOR,
    "housekeeping_lead": set(),
    "maintenance_lead": set(),
    "auditor": set(),
    "support": set(),
    "booking_app": {"stay", "exchange"},
    "notification": {"stay", "exchange"},
    "bff": set(),
    "desk": set(),
}


def test_the_matrix_below_knows_every_role() -> None:
    assert set(MAY) == set(ROLES)


@pytest.mark.parametrize("role", MAY)
def test_a_role_may_do_what_its_row_says_and_nothing_else(role: str, hotel: Hotel, web: WebServer) -> None:
    """What is allowed is asked of a key that is not there: 404 (or an answer) says that the permission was enough."""
    someone = caller(web, hotel.tenant_id, role)
    allowed = set()
    for name, (method, path, body) in ACTS.items():
        sent = issue_body(hotel) | {"rooms": ["rmu_none"]} if body == "issue" else body
        answer = someone.send(method, path.format(key="key_none"), sent)
        if answer.status_code == 403:
            assert problem(answer) == (403, "FORBIDDEN")
        else:
            assert answer.status_code in (200, 400, 404), (name, answer.text)
            allowed.add(name)
    assert allowed == MAY[role]


def test_support_reads_only_with_a_second_factor(hotel: Hotel, web: WebServer) -> None:
    assert caller(web, hotel.tenant_id, "support", amr=("pwd",)).get(KEYS).status_code == 403
    assert caller(web, hotel.tenant_id, "support", amr=("pwd", "otp")).get(KEYS).status_code == 200


def test_a_back_end_has_the_roles_of_the_user_in_the_token_and_none_of_its_own(hotel: Hotel, web: WebServer) -> None:
    assert caller(web, hotel.tenant_id, "bff").get(KEYS).status_code == 403
    assert caller(web, hotel.tenant_id, "bff", "front_desk").get(KEYS).status_code == 200


def test_an_unknown_role_grants_nothing(hotel: Hotel, web: WebServer) -> None:
    assert problem(Caller(web.url, signed(claims(hotel, roles=["admin"]))).get(KEYS)) == (403, "FORBIDDEN")


def test_the_pin_is_shown_only_to_those_who_may_see_it(hotel: Hotel, web: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = caller(web, hotel.tenant_id, "front_desk")
    body = issue_body(hotel)
    with worker(hotel):
        assert "pin" in desk.post(KEYS, body, key="pin", headers={"Prefer": "wait=5"}).json()
        phone = desk.post(KEYS, issue_body(hotel, "102", preferredKinds=["mobile_app"]), headers={"Prefer": "wait=5"})
    assert (phone.status_code, phone.json()["kind"], "pin" in phone.json()) == (201, "mobile_app", False)
    assert [role for role in ROLES if "lock.pin.reveal" in ROLES[role]] == ["front_desk", "front_desk_supervisor", "gm"]


def test_a_property_that_is_not_the_callers_is_not_there(hotel: Hotel, web: WebServer, locks: MockLocks) -> None:
    desk = caller(web, hotel.tenant_id, "front_desk")
    key = issue_key(hotel, desk)
    stay = key["reservationId"]
    operation = desk.post(f"{KEYS}/{key['id']}/retry")
    assert operation.status_code == 409
    elsewhere = caller(web, hotel.tenant_id, "front_desk_supervisor", "booking_app", properties=("ppt_elsewhere",))
    assert_sees_nothing(elsewhere, hotel, key["id"], stay)
    nowhere = caller(web, hotel.tenant_id, "front_desk_supervisor", "booking_app", properties=())
    assert_sees_nothing(nowhere, hotel, key["id"], stay)


def test_another_tenants_ids_are_not_there(hotel: Hotel, desk: Caller, web: WebServer, locks: MockLocks) -> None:
    key = issue_key(hotel, desk)
    other = make_hotel(locks)
    stranger = caller(web, other.tenant_id, "front_desk_supervisor", "booking_app")
    assert_sees_nothing(stranger, hotel, key["id"], key["reservationId"])


def assert_sees_nothing(caller: Caller, hotel: Hotel, key: str, stay: str) -> None:
    with_reference = Caller(caller.url, caller.token)
    assert caller.get(KEYS).json() == {"items": [], "nextCursor": None}
    assert caller.get("/lock/v1/devices").json()["items"] == [] or hotel.property_id not in caller.get("/lock/v1/devices").text
    saga = saga_of(hotel, key)
    before = door_calls(hotel)
    for method, path, body in (
        ("GET", f"{KEYS}/{key}", None),
        ("GET", f"{KEYS}/{key}/timeline", None),
        ("PATCH", f"{KEYS}/{key}", {"rooms": [hotel.rooms["102"]]}),
        ("POST", f"{KEYS}/{key}/revoke", {"reason": "security"}),
        ("POST", f"{KEYS}/{key}/suspend", {"reason": "manual"}),
        ("POST", f"{KEYS}/{key}/unsuspend", None),
        ("POST", f"{KEYS}/{key}/replace", {}),
        ("POST", f"{KEYS}/{key}/encode", {"cardNumber": "1"}),
        ("POST", f"{KEYS}/{key}/retry", None),
        ("POST", KEYS, issue_body(hotel)),
        ("POST", KEYS, {"reservationId": stay, "validUntil": issue_body(hotel)["validUntil"]}),
        ("GET", f"{KEYS}?propertyId={hotel.property_id}", None),
        ("GET", f"/lock/v1/devices?propertyId={hotel.property_id}", None),
        ("GET", f"/lock/v1/devices/{hotel.devices['101']}/health", None),
        ("POST", f"/lock/v1/devices/{hotel.devices['101']}/health-check", None),
        ("GET", f"/lock/v1/reservations/{stay}/keys", None),
        ("GET", f"/lock/v1/operations/{saga}", None),
        ("POST", "/lock/v1/key-exchange", {"opaqueRef": reference_of(hotel, key)}),
        ("POST", "/demo/v1/bookings", {"propertyId": hotel.property_id}),
    ):
        answer = with_reference.send(method, path, body)
        expected = [(404, "NOT_FOUND")]
        if path == KEYS and body and "propertyId" not in body:
            expected.append((400, "VALIDATION_FAILED"))  # of a stay nobody told this tenant of, too little is known
        assert problem(answer) in expected, (method, path, answer.text)
    work(hotel)
    assert door_calls(hotel) == before


def saga_of(hotel: Hotel, key: str) -> str:
    from lockservice.core.tenancy import tenant
    from sagas.models import Saga

    with tenant(hotel.tenant_id):
        return str(Saga.objects.filter(tenant_id=hotel.tenant_id, credential_id=key).values_list("id", flat=True)[0])


def reference_of(hotel: Hotel, key: str) -> str:
    from credentials import artifacts
    from lockservice.core.tenancy import tenant

    with tenant(hotel.tenant_id):
        return str(artifacts.current(hotel.tenant_id, [key])[key].id)


def door_calls(hotel: Hotel) -> int:
    from lockservice.core.tenancy import tenant
    from sagas.models import SagaStep

    with tenant(hotel.tenant_id):
        return SagaStep.objects.filter(tenant_id=hotel.tenant_id).count()


def test_a_replayed_answer_is_not_told_to_one_who_lost_the_property(hotel: Hotel, web: WebServer) -> None:
    body = issue_body(hotel)
    assert caller(web, hotel.tenant_id, "front_desk").post(KEYS, body, key="lost").status_code == 202
    now_elsewhere = caller(web, hotel.tenant_id, "front_desk", properties=("ppt_elsewhere",))
    assert problem(now_elsewhere.post(KEYS, body, key="lost")) == (404, "NOT_FOUND")


def test_the_back_office_spelling_of_a_property_reaches_it(hotel: Hotel, web: WebServer) -> None:
    spelled = hotel.property_id.replace("ppt_", "prop_")
    desk = caller(web, hotel.tenant_id, "front_desk", properties=(spelled,))
    answer = desk.post(KEYS, issue_body(hotel) | {"propertyId": spelled})
    assert (answer.status_code, answer.json()["credential"]["propertyId"]) == (202, hotel.property_id)
    assert desk.get(f"{KEYS}?propertyId={spelled}").json()["items"][0]["propertyId"] == hotel.property_id


def test_a_stay_of_another_property_cannot_lend_its_name_to_a_key(hotel: Hotel, web: WebServer, locks: MockLocks) -> None:
    from lockservice.core.places import Property
    from lockservice.core.tenancy import tenant

    stay, elsewhere = new_id("rsv"), new_id("ppt")
    with tenant(hotel.tenant_id):
        Property.objects.create(tenant_id=hotel.tenant_id, property_id=elsewhere, name="Elsewhere", time_zone="Asia/Kabul")
    sister = make_hotel(locks, into=Hotel(hotel.tenant_id, elsewhere, ""))
    assert sister.tell("booking.confirmed", sister.booking(stay, 1, ["101"])) == "applied"
    here = caller(web, hotel.tenant_id, "front_desk", properties=(hotel.property_id,))
    assert problem(here.post(KEYS, issue_body(hotel, reservationId=stay))) == (404, "NOT_FOUND")
    both = caller(web, hotel.tenant_id, "front_desk")
    answer = both.post(KEYS, issue_body(hotel, reservationId=stay))
    assert (problem(answer), list(answer.json()["fields"])) == ((400, "VALIDATION_FAILED"), ["propertyId"])
