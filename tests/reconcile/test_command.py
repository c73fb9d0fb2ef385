"""`manage.py reconcile_vendor`: what it prints, what it leaves alone, and how a person decides with it."""

from __future__ import annotations

import csv
import io
import json
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command

from devices.models import CallCount
from lockservice.core.tenancy import tenant
from sagas.models import Alert, Finding, KeySighting, ReconcileRun, ReconcileTurn
from sagas.reconcile.compare import Kind
from tests.flows.conftest import keys, make_hotel, pin_of
from tests.reconcile.conftest import Hands, book, found, look, settle
from tests.support.hotel import Hotel, build_hotel
from tests.support.mock_locks import MockLocks
from vendors.port.ids import new_id

DIGITS = "904512"


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("reconcile_vendor", *arguments, stdout=out)
    return out.getvalue()


def test_a_dry_run_tells_everything_and_writes_nothing(hotel: Hotel, locks: MockLocks, hands: Hands) -> None:
    stay = book(hotel, "101")
    book(hotel, "102")
    hands.drop("102")
    hands.plant(
        "101",
        DIGITS,
        name="Zahra",
        **{"from": hotel.opened_at.isoformat(), "until": (hotel.opened_at + timedelta(days=3)).isoformat()},
    )
    text = run(hotel.tenant_id, hotel.installation_id, "--dry-run")
    assert "3 of 3 doors, 2 keys" in text
    assert [
        word for word in ("stranger", "missing!", f"stay {stay}", "begins and ends with the stay") if word not in text
    ] == []
    assert [secret for secret in (DIGITS, "Zahra") if secret in text] == []
    with tenant(hotel.tenant_id):
        for table in (Finding, ReconcileRun, ReconcileTurn, KeySighting, Alert):
            assert table.objects.filter(tenant_id=hotel.tenant_id).count() == 0, table
        assert CallCount.objects.get(tenant_id=hotel.tenant_id).calls > 0
    assert len(locks.keys_at(hotel.doors["101"])) == 2


def test_repairs_are_started_and_the_next_report_is_clean(hotel: Hotel, locks: MockLocks, hands: Hands) -> None:
    book(hotel, "101")
    hands.drop("101")
    text = run(hotel.tenant_id, "--repair")
    assert "1 repairs started" in text
    settle(hotel)
    assert locks.opens(hotel.doors["101"], pin_of(hotel, keys(hotel)[0]))
    text = run(hotel.tenant_id, hotel.installation_id)
    assert text.splitlines()[-1] == "  nothing differs"


def test_programs_read_json_and_csv(hotel: Hotel, hands: Hands) -> None:
    hands.plant("101", DIGITS)
    (document,) = json.loads(run(hotel.tenant_id, hotel.installation_id, "--json"))
    assert (document["outcome"], document["counts"], document["doors_done_count"]) == ("done", {"stranger": 1}, 3)
    (line,) = document["findings"]
    assert (line["kind"], line["door"], line["keyKind"], line["status"]) == ("stranger", "101", "pin_code", "open")
    asked = document["calls_count"]
    (listed,) = json.loads(run(hotel.tenant_id, hotel.installation_id, "--list", "--json"))
    assert listed == {
        "tenant_id": hotel.tenant_id, "installation_id": hotel.installation_id, "vendor": "mock",
        "findings": document["findings"],
    }  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(run(hotel.tenant_id, hotel.installation_id, "--list", "--csv"))))
    assert [(row["installation"], row["kind"], row["id"]) for row in rows] == [
        (hotel.installation_id, "stranger", str(found(hotel)[0].pk))
    ]
    with tenant(hotel.tenant_id):
        assert CallCount.objects.get(tenant_id=hotel.tenant_id).calls == asked


def test_a_list_tells_findings_and_no_run_and_in_which_zone_their_times_are(hotel: Hotel, hands: Hands) -> None:
    window = {"from": "2031-05-01T10:00:00+04:30", "until": "2031-05-02T10:00:00+04:30"}
    hands.plant("101", DIGITS, **window)
    look(hotel)
    head, names, finding, zone = run(hotel.tenant_id, hotel.installation_id, "--list").splitlines()
    assert head == f"{hotel.installation_id} (mock)"
    assert names.split()[:4] == ["id", "kind", "door", "key"]
    assert finding.split()[:3] == [str(found(hotel)[0].pk), "stranger", "101"]
    assert "2031-05-01T05:30..2031-05-02T05:30" in finding
    assert zone == "  times are UTC"
    with pytest.raises(CommandError, match="no such installation"):
        run(hotel.tenant_id, new_id("vad"), "--list")


def test_a_cell_that_begins_like_a_formula_is_none(database: str, locks: MockLocks) -> None:
    hotel = make_hotel(locks, shared={}, rooms={"=1+1": new_id("lck")})
    Hands(locks, hotel).plant("=1+1", DIGITS)
    rows = list(csv.DictReader(io.StringIO(run(hotel.tenant_id, hotel.installation_id, "--csv"))))
    assert [row["door"] for row in rows] == ["'=1+1"]


def test_a_silent_vendor_is_a_failure_of_the_command_and_the_others_are_done(database: str, locks: MockLocks) -> None:
    hotel = make_hotel(locks, shared={})
    Hands(locks, hotel).plant("101", DIGITS)
    alive = hotel.installation_id
    build_hotel(vendor="mock", settings={"url": "mock://127.0.0.1:9", "timeout_s": 1}, rooms={"9": new_id("lck")}, into=hotel)
    dead = hotel.installation_id
    out = io.StringIO()
    with pytest.raises(CommandError, match=dead):
        call_command("reconcile_vendor", hotel.tenant_id, stdout=out)
    assert f"{dead} (mock): unreachable, VENDOR_UNREACHABLE" in out.getvalue()
    assert f"{alive} (mock): done" in out.getvalue()


def test_a_person_decides_by_options_and_must_say_who_and_why(hotel: Hotel, locks: MockLocks, hands: Hands) -> None:
    stay = book(hotel, "101")
    hands.plant("101", DIGITS)
    hands.plant("102", "480913")
    hands.plant("103", "771204")
    look(hotel)
    by_door = {row.device_id: str(row.pk) for row in found(hotel)}
    first, second, third = (by_door[hotel.devices[label]] for label in ("101", "102", "103"))
    who = ("--actor", "usr_gm", "--why", "walked the floor")
    for wrong in (("--adopt", stay), ("--adopt", stay, "--actor", "usr_gm"), (*who,), ("--adopt", new_id("rsv"), *who)):
        with pytest.raises(CommandError):
            run(hotel.tenant_id, "--finding", first, *wrong)
    assert len(keys(hotel)) == 1
    assert run(hotel.tenant_id, "--finding", first, "--adopt", stay, *who).startswith("adopted as key_")
    assert run(hotel.tenant_id, "--finding", second, "--known", *who) == "known from now on\n"
    assert run(hotel.tenant_id, "--finding", third, "--remove", *who).startswith("its removal is under way as key_")
    settle(hotel)
    assert locks.keys_at(hotel.doors["103"]) == []
    assert locks.opens(hotel.doors["102"], "480913")
    assert look(hotel).counts == {}
    with tenant(hotel.tenant_id):
        decided = Finding.objects.filter(tenant_id=hotel.tenant_id, decided_by="usr_gm", decided_why="walked the floor")
        assert sorted(decided.values_list("resolution", flat=True)) == ["adopted", "known", "removed"]


def test_the_rules_name_every_kind() -> None:
    text = run("--rules")
    assert [kind for kind in Kind if f"  {kind.value} " not in text] == []
    assert "none, ever" in text


def test_an_installation_of_another_tenant_is_not_there(hotel: Hotel, locks: MockLocks) -> None:
    other = make_hotel(locks, shared={})
    with pytest.raises(CommandError, match="no such installation"):
        run(other.tenant_id, hotel.installation_id)
