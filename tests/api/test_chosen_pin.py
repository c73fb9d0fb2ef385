"""Digits chosen by staff over HTTP: the rules of drawn ones, refusals that betray nobody, and no digits left anywhere."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from django.db import connection

from credentials.models import Artifact, KeyCredential, PinSlot
from credentials.pins import is_trivial
from devices import selectors
from devices.models import LockDevice
from lockservice.console.models import StaffAct
from lockservice.core.tenancy import tenant
from sagas.acts import Actor, confirm_identity
from sagas.events import strict_json
from tests.api.conftest import issue_body, issue_key, make_hotel, problem, records, work
from tests.flows.conftest import pin_of
from tests.flows.test_doors_in_doubt import readdress
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from tests.support.web_server import Caller, WebServer, caller
from vendors.port.ids import new_id

KEYS = "/lock/v1/credentials"
DIGITS = "83019264"
"""Eight, since the street door is shared."""
REASON = "the guest reads no other digits"


def choose(who: Caller, key: dict[str, Any], pin: str, key_name: str | None = None, **extra: Any) -> Any:
    options = {"key": key_name} if key_name else {}
    return who.post(f"{KEYS}/{key['id']}/pin", {"pin": pin, "reason": REASON, **extra}, **options)


def row_of(hotel: Hotel, key: dict[str, Any]) -> KeyCredential:
    with tenant(hotel.tenant_id):
        return KeyCredential.objects.get(tenant_id=hotel.tenant_id, id=key["id"])


def test_chosen_digits_open_every_door_and_the_earlier_ones_none(hotel: Hotel, boss: Caller, locks: MockLocks) -> None:
    key = issue_key(hotel, boss)
    before = pin_of(hotel, row_of(hotel, key))
    answer = choose(boss, key, DIGITS)
    assert answer.status_code == 202, answer.text
    assert DIGITS not in answer.text
    work(hotel)
    for door in ("101", "lobby"):
        assert locks.opens(hotel.doors[door], DIGITS)
        assert not locks.opens(hotel.doors[door], before)
        assert len(locks.keys_at(hotel.doors[door])) == 1
    found = boss.get(f"{KEYS}/{key['id']}").json()
    assert (found["state"], found["doorsConfirmed"], [w["code"] for w in found["warnings"]]) == (
        "active",
        "2 of 2",
        ["PIN_CHOSEN"],
    )
    timeline = boss.get(key["links"]["timeline"]).json()["items"]
    assert timeline[-1]["subject"] == "melmastoon.lock.credential.updated.v1"
    assert timeline[-1]["actor"] == "usr_boss"


def test_who_chose_when_and_why_is_kept_and_never_the_digits(hotel: Hotel, boss: Caller) -> None:
    key = issue_key(hotel, boss)
    assert choose(boss, key, DIGITS).status_code == 202
    work(hotel)
    with tenant(hotel.tenant_id):
        act = StaffAct.objects.get(tenant_id=hotel.tenant_id, subject_id=key["id"])
        assert (act.actor_id, act.action, act.reason, act.outcome) == ("usr_boss", "choose_pin", REASON, "done")
    assert tables_with(hotel, DIGITS) == []


def tables_with(hotel: Hotel, text: str) -> list[str]:
    """Every table of the service in which a row of the tenant holds the text."""
    found = []
    with tenant(hotel.tenant_id), connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name FROM information_schema.columns WHERE table_schema = 'public' AND column_name = 'tenant_id'"
        )
        for (name,) in cursor.fetchall():
            cursor.execute(
                f"SELECT count(*) FROM {name} t WHERE t.tenant_id = %s AND to_jsonb(t)::text LIKE %s",
                [hotel.tenant_id, f"%{text}%"],
            )
            if cursor.fetchone()[0]:
                found.append(name)
            cursor.execute(
                f"SELECT to_jsonb(t)::text FROM {name} t WHERE t.tenant_id = %s",
                [hotel.tenant_id],
            )
            hexed = text.encode().hex()
            if any(hexed in row[0] for row in cursor.fetchall()):
                found.append(f"{name} (bytes)")
    return found


def test_a_repeated_request_changes_nothing_more_and_what_is_kept_of_it_tells_no_digits(
    hotel: Hotel, boss: Caller, locks: MockLocks
) -> None:
    key = issue_key(hotel, boss)
    assert choose(boss, key, DIGITS, "once").status_code == 202
    work(hotel)
    again = choose(boss, key, DIGITS, "once")
    assert (again.status_code, again.headers["Idempotent-Replayed"]) == (202, "true")
    assert problem(choose(boss, key, "83019265", "once")) == (422, "IDEMPOTENCY_KEY_REUSED")
    work(hotel)
    assert row_of(hotel, key).pin_version == 2
    assert locks.opens(hotel.doors["101"], DIGITS)
    row = records(hotel)[-1]
    path = f"{KEYS}/{key['id']}/pin"
    for pin in (DIGITS, "83019265"):  # a digest of the plain body could be found by trying all digits
        body = strict_json.dumps({"pin": pin, "reason": REASON}).decode()
        plain = hashlib.sha256(f"POST\x1f{path}\x1fusr_boss\x1f{body}".encode()).hexdigest()
        assert row.fingerprint != plain


@pytest.mark.parametrize(
    ("pin", "why"),
    [
        ("830192", "must have 8 digits"),
        ("830192645", "must have 8 digits"),
        ("12345678", "is too simple"),
        ("11111112", "is too simple"),
    ],
)
@pytest.mark.usefixtures("nothing_happens")
def test_digits_that_break_a_rule_are_refused_with_the_rule(
    hotel: Hotel, web: WebServer, locks: MockLocks, pin: str, why: str
) -> None:
    other = make_hotel(locks)
    boss = caller(web, other.tenant_id, "front_desk_supervisor", properties=(other.property_id,))
    key = issue_key(other, boss)
    before = pin_of(other, row_of(other, key))
    answer = choose(boss, key, pin)
    assert problem(answer) == (400, "VALIDATION_FAILED")
    assert answer.json()["fields"] == {"pin": why}
    assert pin not in answer.text
    work(other)
    assert pin_of(other, row_of(other, key)) == before
    assert row_of(other, key).pin_version == 1


def test_digits_that_a_keypad_lacks_are_refused(hotel: Hotel, boss: Caller) -> None:
    with tenant(hotel.tenant_id):
        LockDevice.objects.filter(tenant_id=hotel.tenant_id, id=hotel.devices["101"]).update(digits="12345")
    selectors.forget()
    key = issue_key(hotel, boss)
    answer = choose(boss, key, DIGITS)
    assert answer.json()["fields"] == {"pin": "has a digit that the keypad of a door lacks"}


def test_a_neighbours_digits_and_resting_ones_are_refused_without_telling_whose(
    hotel: Hotel, boss: Caller, locks: MockLocks
) -> None:
    mine, theirs = issue_key(hotel, boss), issue_key(hotel, boss, "102")
    taken = pin_of(hotel, row_of(hotel, theirs))  # both open the street door
    refused = choose(boss, mine, taken)
    assert refused.json()["fields"] == {"pin": "is not free at a door of this key"}
    assert theirs["id"] not in refused.text
    boss.post(f"{KEYS}/{theirs['id']}/revoke", {"reason": "security"})
    work(hotel)
    resting = choose(boss, mine, taken)
    assert (resting.json()["fields"], resting.json()["detail"]) == (refused.json()["fields"], refused.json()["detail"])
    assert locks.opens(hotel.doors["101"], pin_of(hotel, row_of(hotel, mine)))
    assert row_of(hotel, mine).pin_version == 1
    with tenant(hotel.tenant_id):
        assert Artifact.objects.filter(tenant_id=hotel.tenant_id, credential_id=mine["id"]).count() == 1
        held = PinSlot.objects.filter(tenant_id=hotel.tenant_id, credential_id=mine["id"], rests_until__isnull=True)
        assert held.count() == 2


def test_the_same_digits_are_the_keys_own_and_stay(hotel: Hotel, boss: Caller, locks: MockLocks) -> None:
    key = issue_key(hotel, boss)
    own = pin_of(hotel, row_of(hotel, key))
    assert not is_trivial(own)
    assert choose(boss, key, own).status_code == 202
    work(hotel)
    assert locks.opens(hotel.doors["101"], own)


def test_a_key_that_is_no_pin_or_is_over_takes_no_digits(hotel: Hotel, boss: Caller) -> None:
    phone = issue_key(hotel, boss, preferredKinds=["mobile_app"])
    assert problem(choose(boss, phone, DIGITS)) == (409, "TRANSITION_REFUSED")
    key = issue_key(hotel, boss, "102")
    boss.post(f"{KEYS}/{key['id']}/revoke", {"reason": "security"})
    assert problem(choose(boss, key, DIGITS)) == (409, "TRANSITION_REFUSED")


@pytest.mark.usefixtures("nothing_happens")
def test_a_clerk_without_the_right_and_a_reason_with_the_digits_are_refused(hotel: Hotel, desk: Caller, boss: Caller) -> None:
    assert problem(choose(desk, {"id": "key_none"}, DIGITS)) == (403, "FORBIDDEN")
    told = choose(boss, {"id": "key_none"}, DIGITS, reason=f"guest wants {DIGITS}")
    assert (problem(told), told.json()["fields"]) == ((400, "VALIDATION_FAILED"), {"reason": "must not hold the digits"})
    assert problem(choose(boss, {"id": "key_none"}, DIGITS)) == (404, "NOT_FOUND")
    for wrong in ("12", "1234567890", "12a45678", 83019264, None):
        assert problem(choose(boss, {"id": "key_none"}, wrong)) == (400, "VALIDATION_FAILED")  # type: ignore[arg-type]


def test_a_pin_that_failed_for_good_is_issued_anew_with_chosen_digits(locks: MockLocks, web: WebServer, database: str) -> None:
    """Three draws were refused and no other kind fits: somebody chooses."""
    query = "fail=issue&times=9&error=KEY_ISSUE_FAILED&reason=pin_refused&retriable=0"
    hotel = make_hotel(locks, query, shared={}, policy={"kinds": ["pin_code"]})
    boss = caller(web, hotel.tenant_id, "front_desk_supervisor", properties=(hotel.property_id,))
    made = boss.post(KEYS, issue_body(hotel)).json()["credential"]
    for _ in range(5):
        work(hotel)
    failed = boss.get(f"{KEYS}/{made['id']}").json()
    assert (failed["state"], "choose_pin" in failed["allowedActions"]) == ("failed", True)
    readdress(hotel, locks, "")
    answer = choose(boss, made, "830192")
    assert (answer.status_code, "830192" in answer.text) == (202, False)
    work(hotel)
    successor = boss.get(f"{KEYS}/{made['id']}").json()["replacedBy"]
    assert boss.get(f"{KEYS}/{successor}").json()["state"] == "active"
    assert locks.opens(hotel.doors["101"], "830192")


def test_digits_chosen_for_a_key_that_waits_for_papers_bring_it_to_no_door(locks: MockLocks, web: WebServer) -> None:
    hotel = make_hotel(locks, policy={"require_id_verification": True})
    boss = caller(web, hotel.tenant_id, "front_desk_supervisor", properties=(hotel.property_id,))
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    work(hotel)
    with tenant(hotel.tenant_id):
        row = KeyCredential.objects.get(tenant_id=hotel.tenant_id)
    assert (row.state, row.waiting_for) == ("requested", "id")
    assert choose(boss, {"id": row.id}, DIGITS).status_code == 200  # taken; there is no work at a door yet
    work(hotel)
    row = row_of(hotel, {"id": row.id})
    assert (row.state, row.waiting_for, locks.keys_at(hotel.doors["101"])) == ("requested", "id", [])
    confirm_identity(hotel.tenant_id, row.id, Actor("usr_boss"), "papers-seen")
    work(hotel)
    assert row_of(hotel, {"id": row.id}).state == "active"
    assert locks.opens(hotel.doors["101"], DIGITS)
