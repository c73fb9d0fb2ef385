"""The console in the process it runs in: as the web login, which owns nothing and never reaches the queues."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import requests

from credentials.models import KeyCredential, Reservation
from devices.models import LockDevice
from lockservice.console.demo import ensure_users
from lockservice.core.tenancy import tenant
from sagas.models import Alert, DeadLetter, InboxMessage, OutboxEvent, Saga
from tests.console.pages import act_url, acts_on, list_of, page_of
from tests.console.scene import Scene
from tests.console.web_server import served


@pytest.fixture(scope="module")
def address(database: str) -> Iterator[str]:
    with served() as found:
        yield found


def _sign_in(address: str, login: str, password: str) -> requests.Session:
    session = requests.Session()
    page = session.get(f"{address}/console/login/")
    answer = session.post(
        f"{address}/console/login/",
        {"username": login, "password": password, "csrfmiddlewaretoken": _token(page.text), "next": "/console/"},
    )
    assert answer.status_code == 200
    return session


def _token(page: str) -> str:
    return re.findall(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)[0]


def _post(session: requests.Session, address: str, path: str, form_page: str, **fields: str) -> requests.Response:
    page = session.get(f"{address}{form_page}").text
    return session.post(f"{address}{path}", {"csrfmiddlewaretoken": _token(page), **fields})


@pytest.mark.timeout(300)
def test_people_work_at_the_desk_and_support_repairs_as_the_web_login(address: str, scene: Scene) -> None:
    key = scene.key("ordinary")
    scene.dead_letter()
    people = {
        role: (login, password)
        for login, password, role in ensure_users(
            scene.tenant_id, lambda login: f"pw of {login}", prefix=f"{scene.tenant_id[-8:]}-"
        )
    }

    desk = _sign_in(address, *people["front_desk"])
    assert desk.get(f"{address}/console/").status_code == 200
    for model in (KeyCredential, Reservation, LockDevice, Saga, Alert):
        assert desk.get(f"{address}{list_of(model)}").status_code == 200
    done = _post(
        desk, address, act_url(key, "suspend"), page_of(KeyCredential, key.id),
        cause="manual", reason="guest away", act_id="0" * 32,
    )  # fmt: skip
    assert "Suspend: done." in done.text
    assert scene.key("ordinary").state == "suspended"
    assert acts_on(scene.tenant_id, key.id) == [("suspend", "guest away", "done")]

    support = _sign_in(address, *people["support"])
    assert support.get(f"{address}/console/").url.endswith("/console/tenant/?next=%2Fconsole%2F")
    _post(support, address, "/console/tenant/", "/console/tenant/", tenant=scene.tenant_id)
    for model in (OutboxEvent, InboxMessage, DeadLetter):
        assert support.get(f"{address}{list_of(model)}").status_code == 200
    with tenant(scene.tenant_id):
        letter = DeadLetter.objects.get(tenant_id=scene.tenant_id)
    path = f"/console/sagas/deadletter/{letter.pk}/replay/"
    again = _post(support, address, path, page_of(DeadLetter, letter.pk), reason="after the fix")
    assert "It failed again" in again.text
    with tenant(scene.tenant_id):
        assert DeadLetter.objects.filter(tenant_id=scene.tenant_id, replayed_at__isnull=True).count() == 1

    platform = _sign_in(address, *people["platform"])
    assert platform.get(f"{address}/console/").url.endswith("/console/tenant/?next=%2Fconsole%2F")


def test_the_demos_people_are_made_once(scene: Scene) -> None:
    prefix = f"{scene.tenant_id[-8:]}-twice-"
    first = ensure_users(scene.tenant_id, lambda login: f"pw of {login}", prefix=prefix)
    assert ensure_users(scene.tenant_id, lambda login: f"pw of {login}", prefix=prefix) == first
    assert [role for _, _, role in first] == [
        "front_desk",
        "front_desk_supervisor",
        "gm",
        "auditor",
        "support",
        "platform",
        "gm",
    ]
