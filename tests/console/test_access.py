"""Giving and taking access from the command line."""

from __future__ import annotations

import io

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command

from devices import break_glass
from devices.break_glass import BreakGlassRefused
from lockservice.console.access import grant
from lockservice.console.models import StaffTenant
from lockservice.console.roles import Role
from tests.console.conftest import SignIn
from tests.console.scene import Scene


def _run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("console_access", *arguments, stdout=out)
    return out.getvalue()


def test_a_new_person_gets_a_role_a_password_and_an_id_that_stays(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    login = f"{scene.tenant_id[-8:]}-new"
    monkeypatch.setattr("sys.stdin", io.StringIO("correct horse battery\n"))
    _run(login, scene.tenant_id, "front_desk")
    first = StaffTenant.objects.get(user__username=login)
    assert get_user_model().objects.get(username=login).check_password("correct horse battery")
    assert f"{login} is gm in {scene.tenant_id}" in _run(login, scene.tenant_id, "gm")
    second = StaffTenant.objects.get(user__username=login)
    assert (second.role, second.actor_id) == ("gm", first.actor_id)
    assert "no access" in _run(login, scene.tenant_id, "--withdraw")
    assert not StaffTenant.objects.filter(user__username=login).exists()


def test_what_makes_no_sense_is_refused(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    login = scene.people["gm"]
    with pytest.raises(CommandError, match="does not belong there"):
        _run(login, scene.tenant_id, "platform")
    with pytest.raises(CommandError, match="name a role"):
        _run(login, scene.tenant_id)
    with pytest.raises(CommandError, match="had no access"):
        _run(login, "tnt_elsewhere", "--withdraw")
    monkeypatch.setattr("sys.stdin", io.StringIO("short\n"))
    with pytest.raises(CommandError, match="too short"):
        _run(f"{login}-new", scene.tenant_id, "gm")
    assert not get_user_model().objects.filter(username=f"{login}-new").exists()


def test_a_person_whose_access_was_withdrawn_and_given_again_is_the_same_person_to_the_record(
    scene: Scene, sign_in: SignIn
) -> None:
    login = scene.people["gm"]
    before = StaffTenant.objects.get(user__username=login).actor_id
    assert sign_in(scene, "gm").get("/console/").status_code == 200
    name = "webhook_secret"
    row = break_glass.ask(
        scene.tenant_id, scene.hotel.installation_id, name, incident="INC-1", reason="the portal lost our key", actor_id=before
    )
    _run(login, scene.tenant_id, "--withdraw")
    _run(login, scene.tenant_id, "gm")
    after = StaffTenant.objects.get(user__username=login).actor_id
    assert after == before
    with pytest.raises(BreakGlassRefused, match="who asks cannot agree"):
        break_glass.approve(scene.tenant_id, row.id, actor_id=after)


def test_an_id_is_not_given_to_another_person_who_got_the_login(scene: Scene, sign_in: SignIn) -> None:
    login = scene.people["gm"]
    before = StaffTenant.objects.get(user__username=login).actor_id
    assert sign_in(scene, "gm").get("/console/").status_code == 200
    get_user_model().objects.get(username=login).delete()
    assert grant(login, scene.tenant_id, Role.GM).actor_id != before
