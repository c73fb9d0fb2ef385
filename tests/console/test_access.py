"""Giving and taking access from the command line."""

from __future__ import annotations

import io

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command

from lockservice.console.models import StaffTenant
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
