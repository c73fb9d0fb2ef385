"""A person sees the tenant she chose, and nothing of another, whatever address she types."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import psycopg
import pytest
from django.test import Client

from credentials.models import KeyCredential
from lockservice.console.access import WrongPlace, grant, withdraw
from lockservice.console.models import TenantVisit
from lockservice.console.roles import Role
from lockservice.core.tenancy import UNATTRIBUTED, queues, tenant
from sagas.alerts import NewAlert, raise_alerts
from sagas.inbox import bury
from sagas.models import DeadLetter
from tests.console.conftest import SignIn
from tests.console.pages import MODELS, act, act_url, list_of, page_of, snapshot, some_pk, text_of
from tests.console.scene import Scene

ConnectAs = Callable[[str], psycopg.Connection[tuple[object, ...]]]


def test_a_stranger_is_led_to_the_sign_in(database: str) -> None:
    for address in ["/console/", list_of(KeyCredential), page_of(KeyCredential, "key_x")]:
        response = Client().get(address)
        assert (response.status_code, response["Location"].split("?")[0]) == (302, "/console/login/")


def test_support_is_asked_for_a_tenant_before_any_page(night: Scene, sign_in: SignIn) -> None:
    client = sign_in(night, "support", enter=False)
    response = client.get(list_of(KeyCredential))
    assert response.status_code == 302
    assert response["Location"] == "/console/tenant/?next=%2Fconsole%2Fcredentials%2Fkeycredential%2F"
    assert "Silk Road Stays" in text_of(client.get(response["Location"]))


def test_a_tenant_without_membership_cannot_be_chosen(night: Scene, scene: Scene, sign_in: SignIn) -> None:
    client = sign_in(night, "support", enter=False)
    response = client.post("/console/tenant/", {"tenant": scene.tenant_id})
    assert response.status_code == 200
    assert "no access" in text_of(response)
    assert client.get("/console/")["Location"].startswith("/console/tenant/")
    with tenant(scene.tenant_id):
        assert TenantVisit.objects.filter(tenant_id=scene.tenant_id, login=night.people["support"]).count() == 0


def test_every_visit_is_a_row(scene: Scene, sign_in: SignIn) -> None:
    client = sign_in(scene, "support")
    client.post("/console/tenant/", {"tenant": scene.tenant_id})
    with tenant(scene.tenant_id):
        rows = TenantVisit.objects.filter(tenant_id=scene.tenant_id, role="support")
        assert list(rows.values_list("login", flat=True)) == [scene.people["support"]] * 2


def test_the_way_back_after_choosing_stays_inside_the_console(night: Scene, sign_in: SignIn) -> None:
    client = sign_in(night, "support", enter=False)
    away = client.post("/console/tenant/", {"tenant": night.tenant_id, "next": "https://elsewhere.example/"})
    assert away["Location"] == "/console/"
    back = client.post("/console/tenant/", {"tenant": night.tenant_id, "next": "/console/sagas/saga/"})
    assert back["Location"] == "/console/sagas/saga/"


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_rows_of_another_tenant_are_not_there(night: Scene, scene: Scene, sign_in: SignIn, model: type) -> None:
    scene.tell("ordinary")
    scene.dead_letter()
    _raise_alert(scene)
    pk = some_pk(model, scene.tenant_id)
    client = sign_in(night, "support")
    assert client.get(page_of(model, pk)).status_code == 404
    for address in (list_of(model), f"{list_of(model)}?q={pk}"):
        assert f'"{page_of(model, pk)}"' not in client.get(address).content.decode()
    assert sign_in(scene, "support").get(page_of(model, pk)).status_code == 200


def _raise_alert(scene: Scene) -> None:
    with tenant(scene.tenant_id):
        raise_alerts(scene.tenant_id, [NewAlert("k", "VENDOR_UNREACHABLE", "warning", "no answer")], datetime.now(UTC))


@pytest.mark.parametrize("action", ["revoke", "suspend", "update", "replace", "retry", "reveal"])
def test_a_key_of_another_tenant_cannot_be_acted_on(night: Scene, scene: Scene, sign_in: SignIn, action: str) -> None:
    key = scene.key("ordinary")
    before = snapshot(scene.tenant_id)
    response = act(sign_in(night, "gm"), key, action, cause="security")
    assert response.status_code == 404
    assert snapshot(scene.tenant_id) == before


def test_sagas_and_letters_of_another_tenant_cannot_be_pressed(night: Scene, scene: Scene, sign_in: SignIn) -> None:
    scene.tell("ordinary")
    scene.dead_letter()
    before = snapshot(scene.tenant_id)
    client = sign_in(night, "support")
    saga = some_pk(MODELS[4], scene.tenant_id)
    letter = some_pk(DeadLetter, scene.tenant_id)
    for address in (f"/console/sagas/saga/{saga}/retry/", f"/console/sagas/deadletter/{letter}/replay/"):
        assert client.post(address, {"reason": "trying my luck"}).status_code == 404
    assert snapshot(scene.tenant_id) == before


def test_a_withdrawn_person_is_out_at_her_next_request(scene: Scene, sign_in: SignIn) -> None:
    scene.tell("ordinary")
    client = sign_in(scene, "front_desk")
    assert client.get("/console/").status_code == 200
    assert withdraw(scene.people["front_desk"], scene.tenant_id)
    assert client.get("/console/")["Location"].startswith("/console/tenant/")
    assert client.post(act_url(scene.key("ordinary"), "revoke"), {"reason": "one last time"}).status_code == 302
    assert scene.key("ordinary").state == "active"


def test_letters_of_no_tenant_are_for_platform_staff_only(night: Scene, sign_in: SignIn) -> None:
    body = f'{{"from":"nobody-{night.tenant_id}"}}'.encode()
    with queues():
        bury(UNATTRIBUTED, "inbox", "melmastoon.reservation.booking.confirmed.v1", body, "UNKNOWN_TENANT", "no tenant")
    with tenant(UNATTRIBUTED):
        letter = DeadLetter.objects.filter(tenant_id=UNATTRIBUTED).latest("id")
    platform = sign_in(night, "platform")
    assert f"nobody-{night.tenant_id}" in text_of(platform.get(page_of(DeadLetter, letter.pk)))
    assert platform.get(list_of(KeyCredential)).status_code == 403
    support = sign_in(night, "support")
    assert support.get(page_of(DeadLetter, letter.pk)).status_code == 404
    assert support.post("/console/tenant/", {"tenant": UNATTRIBUTED}).status_code == 200
    assert support.get(page_of(DeadLetter, letter.pk)).status_code == 404


def test_platform_is_no_role_in_a_hotel(scene: Scene) -> None:
    with pytest.raises(WrongPlace):
        grant(scene.people["gm"], scene.tenant_id, Role.PLATFORM)
    with pytest.raises(WrongPlace):
        grant(scene.people["gm"], UNATTRIBUTED, Role.SUPPORT)


def test_a_web_process_cannot_widen_its_own_rights(connect_as: ConnectAs) -> None:
    for role in ("none", "lock_app"):
        web = connect_as("web")
        web.execute("SELECT set_config('role', %s, false)", [role])
        assert web.execute("SELECT count(*) FROM console_stafftenant").fetchone() is not None
        for statement in (
            "UPDATE console_stafftenant SET role = 'gm'",
            "DELETE FROM console_stafftenant",
            "INSERT INTO console_stafftenant (user_id, tenant_id, role, actor_id) VALUES (1, 'x', 'gm', 'usr_x')",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                web.execute(statement)


def test_visits_and_acts_show_nothing_without_a_tenant_and_change_for_nobody(night: Scene, connect_as: ConnectAs) -> None:
    worker = connect_as("worker")
    worker.execute("SET ROLE lock_app")
    for table in ("console_tenantvisit", "console_staffact"):
        assert worker.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    worker.execute("SELECT set_config('app.tenant', %s, false)", [night.tenant_id])
    for table in ("console_tenantvisit", "console_staffact"):
        for statement in (f"DELETE FROM {table}", f"UPDATE {table} SET login = 'somebody else'"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                worker.execute(statement)
