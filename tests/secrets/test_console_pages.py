"""The pages of break-glass and rotation: who may press what, one look that no browser keeps, and a record without the value."""

from __future__ import annotations

import logging
import secrets as chance
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from devices import adapters, break_glass, secret_rotation
from devices.models import BreakGlass, SecretDue, VendorInstallation
from lockservice.console.access import grant
from lockservice.console.models import StaffAct
from lockservice.console.roles import Role
from lockservice.core.tenancy import tenant
from tests.console.conftest import SignIn, locks, night, scene, sign_in
from tests.console.pages import acts_on, list_of, page_of, text_of
from tests.console.scene import Scene
from vendors.port.ids import new_id

__all__ = ["locks", "night", "scene", "sign_in"]
WHY = "the vendor's portal lost our key"


def value_of(scene: Scene) -> str:
    with tenant(scene.tenant_id):
        row = VendorInstallation.objects.get(tenant_id=scene.tenant_id, id=scene.hotel.installation_id)
    return adapters.open_installation(row)[1]["webhook_secret"]


def another(scene: Scene, role: Role) -> Client:
    """Signs in somebody else of that role."""
    login = f"{chance.token_hex(4)}-other"
    grant(login, scene.tenant_id, role)
    client = Client()
    client.force_login(get_user_model().objects.get(username=login))
    if role is Role.SUPPORT:
        assert client.post("/console/tenant/", {"tenant": scene.tenant_id}).status_code == 302
    return client


def ask(scene: Scene, client: Client, **other: str) -> Any:
    data = {"secret": f"{scene.hotel.installation_id}/webhook_secret", "incident": "INC-117", "reason": WHY, **other}
    return client.post(f"{list_of(BreakGlass)}ask/", data, follow=True)


def request_of(scene: Scene) -> BreakGlass:
    with tenant(scene.tenant_id):
        return BreakGlass.objects.get(tenant_id=scene.tenant_id)


def press(client: Client, row: BreakGlass, action: str, reason: str = WHY, **options: Any) -> Any:
    return client.post(f"{list_of(BreakGlass)}{row.id}/act/{action}/", {"reason": reason}, follow=True, **options)


def agreed(scene: Scene, gm: Client) -> BreakGlass:
    assert ask(scene, gm).status_code == 200
    row = request_of(scene)
    for role in (Role.GM, Role.SUPPORT):
        assert press(another(scene, role), row, "approve").status_code == 200
    return request_of(scene)


def test_a_manager_asks_two_others_agree_and_she_sees_it_once(
    scene: Scene, sign_in: SignIn, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    gm, value = sign_in(scene, "gm"), value_of(scene)
    page = text_of(ask(scene, gm))
    assert "Asked. Two others must agree before you can look." in page
    assert "waits for agreement" in page
    row = request_of(scene)
    first, second = another(scene, Role.GM), another(scene, Role.SUPPORT)
    for client in (first, second):
        assert "Agree: done." in text_of(press(client, row, "approve"))
    assert "may be looked at" in text_of(gm.get(page_of(BreakGlass, row.id)))
    shown = press(gm, row, "reveal")
    assert (shown.status_code, "no-store" in shown["Cache-Control"]) == (200, True)
    assert text_of(shown).count(value) == 1
    assert value not in text_of(gm.get(page_of(BreakGlass, row.id)))
    again = press(gm, row, "reveal")
    assert "TRANSITION_REFUSED" in text_of(again)
    assert value not in text_of(again)
    assert acts_on(scene.tenant_id, row.id) == [
        ("glass_approve", WHY, "done"), ("glass_approve", WHY, "done"), ("glass_reveal", WHY, "done"),
        ("glass_reveal", WHY, "TRANSITION_REFUSED"),
    ]  # fmt: skip
    with tenant(scene.tenant_id):
        assert value not in str(list(StaffAct.objects.filter(tenant_id=scene.tenant_id).values()))
    assert not [record for record in caplog.records if value in f"{record.getMessage()} {record.__dict__}"]
    assert "Close the case: done." in text_of(press(gm, row, "close"))
    assert request_of(scene).state == "closed"


@pytest.mark.parametrize("role", ["front_desk", "front_desk_supervisor", "auditor", "support"])
def test_nobody_but_a_manager_asks_or_looks(scene: Scene, sign_in: SignIn, role: str) -> None:
    other = sign_in(scene, role)
    assert ask(scene, other).status_code == 403
    with tenant(scene.tenant_id):
        assert not BreakGlass.objects.filter(tenant_id=scene.tenant_id).exists()
    row = agreed(scene, sign_in(scene, "gm"))
    answer = press(other, row, "reveal")
    assert answer.status_code == 403
    assert value_of(scene) not in answer.content.decode()
    assert request_of(scene).state == "approved"


@pytest.mark.parametrize("role", ["front_desk", "front_desk_supervisor", "auditor"])
def test_desk_and_auditor_do_not_agree(scene: Scene, sign_in: SignIn, role: str) -> None:
    ask(scene, sign_in(scene, "gm"))
    row = request_of(scene)
    for action in ("approve", "refuse"):
        assert press(sign_in(scene, role), row, action).status_code == 403
    with tenant(scene.tenant_id):
        assert break_glass.approvers(row) == []


def test_the_asker_is_offered_no_agreement_and_pressing_it_anyway_is_refused(scene: Scene, sign_in: SignIn) -> None:
    gm = sign_in(scene, "gm")
    offered = ask(scene, gm).content.decode()
    assert ("/act/approve/" in offered, "/act/reveal/" in offered, "/act/close/" in offered) == (False, False, True)
    row = request_of(scene)
    assert "TRANSITION_REFUSED: who asks cannot agree" in text_of(press(gm, row, "approve"))
    with tenant(scene.tenant_id):
        assert break_glass.approvers(row) == []


def test_another_manager_cannot_look_at_what_she_did_not_ask_for(scene: Scene, sign_in: SignIn) -> None:
    row = agreed(scene, sign_in(scene, "gm"))
    answer = press(another(scene, Role.GM), row, "reveal")
    assert "only the person who asked may do this" in text_of(answer)
    assert value_of(scene) not in answer.content.decode()
    assert request_of(scene).state == "approved"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"reason": "because"}, "Say it in at least ten characters."),
        ({"incident": "two words"}, "Enter a valid value."),
        ({"incident": ""}, "This field is required."),
        ({"secret": "vad_1/webhook_secret"}, "Select a valid choice."),
    ],
)
def test_a_form_that_is_not_filled_in_asks_for_nothing(scene: Scene, sign_in: SignIn, wrong: dict[str, str], says: str) -> None:
    answer = ask(scene, sign_in(scene, "gm"), **wrong)
    assert (answer.status_code, says in text_of(answer)) == (400, True)
    with tenant(scene.tenant_id):
        assert not BreakGlass.objects.filter(tenant_id=scene.tenant_id).exists()


def test_a_request_of_another_tenant_is_not_there_and_nothing_is_done_by_reading(
    scene: Scene, night: Scene, sign_in: SignIn
) -> None:
    ask(scene, sign_in(scene, "gm"))
    row = request_of(scene)
    stranger = sign_in(night, "gm")
    assert stranger.get(page_of(BreakGlass, row.id)).status_code == 404
    assert press(stranger, row, "approve").status_code == 404
    reader = another(scene, Role.GM)
    assert reader.get(f"{list_of(BreakGlass)}{row.id}/act/approve/").status_code == 405
    assert press(reader, row, "no-such-act").status_code == 403
    assert press(reader, row, "approve", reason="x").status_code == 400
    assert request_of(scene).state == "requested"


def test_the_rotation_page_tells_what_is_late_and_the_command_that_does_it(scene: Scene, sign_in: SignIn) -> None:
    with tenant(scene.tenant_id):
        from datetime import timedelta

        secret_rotation.make_due(
            scene.tenant_id, scene.hotel.installation_id, timedelta(hours=-5), reason="break_glass", detail=new_id("bgl")
        )
        late = SecretDue.objects.get(tenant_id=scene.tenant_id, kind="secret", done_at__isnull=True)
    for role in ("gm", "support", "auditor"):
        answer = sign_in(scene, role).get(list_of(SecretDue))
        assert "&lt;" not in answer.content.decode()
        page = text_of(answer)
        assert "late by 5 h" in page
        assert "somebody saw it" in page
        assert "364 days left" not in page.split("webhook_secret")[0]
    page = text_of(sign_in(scene, "gm").get(page_of(SecretDue, late.id)))
    assert f"manage.py rotate_secrets {scene.tenant_id} {scene.hotel.installation_id} --secret webhook_secret=-" in page
    assert sign_in(scene, "front_desk").get(list_of(SecretDue)).status_code == 403
