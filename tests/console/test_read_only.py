"""Credentials, doors, events, sagas, outbox and inbox cannot be edited by hand."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from credentials.models import KeyCredential, KeyPolicyRow
from tests.console.conftest import SignIn
from tests.console.pages import MODELS, list_of, page_of, snapshot, some_pk
from tests.console.scene import Scene

STRONGEST = ("gm", "support")


@pytest.mark.parametrize("role", STRONGEST)
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_posting_to_a_page_changes_nothing(night: Scene, sign_in: SignIn, model: type, role: str) -> None:
    client = sign_in(night, role)
    pk = some_pk(model, night.tenant_id) or "none"
    before = snapshot(night.tenant_id)
    page = client.post(page_of(model, pk), {"state": "active", "status": "done", "_save": "Save"})
    assert page.status_code in {403, 404}
    assert client.post(list_of(model), {"action": "delete_selected", "_selected_action": [pk]}).status_code == 405
    assert client.get(f"{list_of(model)}add/").status_code == 403
    assert client.post(f"{list_of(model)}add/", {"id": "key_new"}).status_code == 403
    assert client.get(f"{list_of(model)}{pk}/delete/").status_code in {403, 404}
    assert client.post(f"{list_of(model)}{pk}/delete/", {"post": "yes"}).status_code in {403, 404}
    assert client.get(f"{list_of(model)}{pk}/history/").status_code == 404
    assert snapshot(night.tenant_id) == before


def test_the_page_of_a_key_has_no_field_outside_its_buttons(night: Scene, sign_in: SignIn) -> None:
    body = sign_in(night, "gm").get(page_of(KeyCredential, night.key("ordinary").id)).content.decode()
    main = body.split("<main")[1]
    outside = main.split('class="panel actions"')[0] + main.split('class="panel actions"')[1].split("</section>", 1)[1]
    assert "<input" not in outside
    assert "<form" not in outside


def test_a_get_never_acts(night: Scene, sign_in: SignIn) -> None:
    client = sign_in(night, "support")
    key = night.key("ordinary")
    for action in ("revoke", "suspend", "update", "replace"):
        assert client.get(f"{list_of(KeyCredential)}{key.id}/act/{action}/").status_code == 405
    assert client.get(f"/console/sagas/saga/{some_pk(MODELS[4], night.tenant_id)}/retry/").status_code == 405
    assert night.key("ordinary").state == "active"


def test_a_post_without_the_forms_token_is_refused(night: Scene, sign_in: SignIn) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(get_user_model().objects.get(username=night.people["gm"]))
    key = night.key("ordinary")
    answer = strict.post(f"{list_of(KeyCredential)}{key.id}/act/revoke/", {"cause": "security", "reason": "forged"})
    assert answer.status_code == 403
    assert night.key("ordinary").state == "active"


@pytest.mark.parametrize("role", ["front_desk", "front_desk_supervisor", "support"])
def test_only_a_manager_edits_the_key_policy(night: Scene, sign_in: SignIn, role: str) -> None:
    client = sign_in(night, role)
    address = page_of(KeyPolicyRow, night.hotel.property_id)
    assert client.get(address).status_code == 200
    assert client.post(address, {"pin_length": "4", "reason": "shorter is nicer"}).status_code == 403


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_a_list_is_narrowed_by_its_filters_and_by_no_other_column(night: Scene, sign_in: SignIn, model: type) -> None:
    client = sign_in(night, "support")
    columns = [field.name for field in model._meta.get_fields() if hasattr(field, "attname")]  # type: ignore[attr-defined]
    asked = [f"{name}{lookup}" for name in columns for lookup in ("__contains", "__startswith")]
    assert [name for name in asked if client.get(list_of(model), {name: "a"}).status_code != 400] == []


def test_a_list_is_narrowed_by_each_of_its_filters(night: Scene, sign_in: SignIn) -> None:
    client = sign_in(night, "support")
    key = night.key("suspended")
    for query in ({"state": "suspended"}, {"kind": key.kind, "open": "0"}, {"q": key.id}):
        assert key.id in client.get(list_of(KeyCredential), query).content.decode()
    assert key.id not in client.get(list_of(KeyCredential), {"state": "active"}).content.decode()
    for query in ({"flow": "issue"}, {"flow__isnull": "True"}, {"status": "done"}):
        assert client.get(list_of(MODELS[4]), query).status_code == 200


def test_what_can_be_no_id_is_not_there(night: Scene, sign_in: SignIn) -> None:
    client = sign_in(night, "support")
    for model in (KeyCredential, KeyPolicyRow):
        assert client.get(f"{list_of(model)}%00/change/").status_code == 404
    assert client.post(f"{list_of(KeyCredential)}%00/act/revoke/", {"reason": "forged"}).status_code == 404
    assert client.post("/console/tenant/", {"tenant": "\0"}).status_code == 200
