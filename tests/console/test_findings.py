"""Findings in the console: whose an unknown key may be, and what a permitted person decides about it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from credentials.models import KeyCredential
from lockservice.core.tenancy import tenant
from sagas.models import Finding
from sagas.reconcile.run import reconcile
from tests.console.conftest import SignIn
from tests.console.pages import acts_on, list_of, page_of, text_of
from tests.console.scene import Scene
from tests.support.mock_locks import MockLocks

DIGITS, NAME = "904512", "Zahra, cleaner 904512 and 9045 12"


def plant(scene: Scene, locks: MockLocks, label: str = "101", **key: Any) -> None:
    now = datetime.now(UTC)
    body = {
        "device": scene.hotel.doors[label], "kind": "pin_code", "value": DIGITS, "name": NAME,
        "from": (now - timedelta(hours=1)).isoformat(), "until": (now + timedelta(days=1)).isoformat(),
    }  # fmt: skip
    locks.ask("/plant", body | key)


def compare(scene: Scene) -> Finding:
    """Compares the house with its doors and returns the first open finding."""
    reconcile(scene.tenant_id, scene.hotel.installation_id)
    with tenant(scene.tenant_id):
        return Finding.objects.filter(tenant_id=scene.tenant_id).exclude(status="resolved").earliest("id")


def decide(client: Any, row: Finding, action: str, **fields: str) -> Any:
    data = {"reason": "walked the floor", **fields}
    return client.post(f"{list_of(Finding)}{row.pk}/decide/{action}/", data, follow=True)


def test_the_list_and_the_page_tell_what_is_where_and_whose_it_may_be(scene: Scene, locks: MockLocks, sign_in: SignIn) -> None:
    plant(scene, locks)
    row = compare(scene)
    client = sign_in(scene, "gm")
    assert "unknown key" in text_of(client.get(list_of(Finding)))
    page = text_of(client.get(page_of(Finding, row.pk)))
    for told in ("unknown key", "101", "Whose it may be", "somebody's who works here", "30 %", "a word for staff", "Zahra"):
        assert told in page, told
    assert [digits for digits in (DIGITS, "9045 12") if digits in page] == []
    assert client.get(list_of(Finding), {"status": "open", "kind": "stranger"}).context["cl"].result_count == 1
    assert client.get(list_of(Finding), {"kind": "missing"}).context["cl"].result_count == 0


def test_support_sees_the_finding_and_no_name(scene: Scene, locks: MockLocks, sign_in: SignIn) -> None:
    plant(scene, locks)
    row = compare(scene)
    page = text_of(sign_in(scene, "support").get(page_of(Finding, row.pk)))
    assert "Zahra" not in page
    assert "●●●" in page


def test_adopting_links_it_to_the_stay_and_is_recorded(scene: Scene, locks: MockLocks, sign_in: SignIn) -> None:
    scene.tell("ordinary")
    stay = scene.stays["ordinary"]
    plant(
        scene,
        locks,
        **{"from": scene.key("ordinary").valid_from.isoformat(), "until": scene.key("ordinary").valid_until.isoformat()},
    )
    row = compare(scene)
    client = sign_in(scene, "front_desk_supervisor")
    shown = client.get(page_of(Finding, row.pk)).content.decode()
    assert f'value="{stay}"' in shown
    answer = decide(client, row, "adopt", stay=stay)
    assert "Adopted" in text_of(answer)
    with tenant(scene.tenant_id):
        assert KeyCredential.objects.filter(tenant_id=scene.tenant_id, reservation_id=stay, state="active").count() == 2
    assert acts_on(scene.tenant_id, str(row.pk)) == [("finding.adopt", "walked the floor", "done")]


def test_a_removal_takes_it_from_the_door(scene: Scene, locks: MockLocks, sign_in: SignIn) -> None:
    plant(scene, locks)
    row = compare(scene)
    assert "It is being taken from the door." in text_of(decide(sign_in(scene, "gm"), row, "remove"))
    scene.settle()
    assert not locks.opens(scene.hotel.doors["101"], DIGITS)
    page = text_of(sign_in(scene, "gm").get(page_of(Finding, row.pk)))
    assert "its removal was asked for" in page
    assert "Nothing, in this state and with your role." in page


def test_a_known_key_stays(scene: Scene, locks: MockLocks, sign_in: SignIn) -> None:
    plant(scene, locks)
    row = compare(scene)
    decide(sign_in(scene, "gm"), row, "known")
    assert compare(scene).status == "ignored"
    assert locks.opens(scene.hotel.doors["101"], DIGITS)


def test_a_missing_key_is_repaired_by_a_button(scene: Scene, locks: MockLocks, sign_in: SignIn) -> None:
    scene.tell("ordinary")
    door = scene.hotel.doors["101"]
    locks.ask("/drop", {"device": door, "ref": locks.keys_at(door)[0]["ref"]})
    row = compare(scene)
    client = sign_in(scene, "support")
    page = text_of(client.get(page_of(Finding, row.pk)))
    assert "a guest cannot get in" in page
    decide(client, row, "repair")
    scene.settle()
    assert len(locks.keys_at(door)) == 1


@pytest.mark.parametrize("role", ["front_desk", "auditor"])
def test_who_may_not_decide_changes_nothing(scene: Scene, locks: MockLocks, sign_in: SignIn, role: str) -> None:
    plant(scene, locks)
    row = compare(scene)
    for action in ("adopt", "known", "remove", "repair"):
        assert decide(sign_in(scene, role), row, action, stay="rsv_1").status_code == 403
    assert compare(scene).status == "open"
    assert acts_on(scene.tenant_id, str(row.pk)) == []
    assert len(locks.keys_at(scene.hotel.doors["101"])) == 1


def test_a_decision_without_a_reason_is_asked_again(scene: Scene, locks: MockLocks, sign_in: SignIn) -> None:
    plant(scene, locks)
    row = compare(scene)
    answer = decide(sign_in(scene, "gm"), row, "remove", reason="")
    assert answer.status_code == 400
    assert compare(scene).status == "open"
    refused = decide(sign_in(scene, "gm"), row, "adopt", stay="rsv_not_there")
    assert "NOT_FOUND" in text_of(refused)
    assert acts_on(scene.tenant_id, str(row.pk)) == [("finding.adopt", "walked the floor", "NOT_FOUND")]


def test_a_finding_of_another_house_is_not_there_and_none_is_edited(
    night: Scene, scene: Scene, locks: MockLocks, sign_in: SignIn
) -> None:
    plant(scene, locks)
    row = compare(scene)
    stranger = sign_in(night, "gm")
    assert stranger.get(page_of(Finding, row.pk)).status_code == 404
    assert decide(stranger, row, "remove").status_code == 404
    own = sign_in(scene, "gm")
    assert own.post(page_of(Finding, row.pk), {"status": "resolved"}).status_code == 403
    assert own.post(f"{list_of(Finding)}add/", {"kind": "stranger"}).status_code == 403
    assert compare(scene).status == "open"
