"""Each button does its act once, with a reason, as the person who pressed it."""

from __future__ import annotations

import re
import uuid
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from credentials import artifacts
from credentials.models import Artifact, KeyCredential, KeyPolicyRow, Transition
from lockservice.console.key_forms import seen
from lockservice.console.models import StaffTenant
from lockservice.core.tenancy import tenant
from sagas.alerts import NewAlert, raise_alerts
from sagas.models import Alert, DeadLetter, OutboxEvent, Saga
from tests.console.conftest import SignIn
from tests.console.pages import act, act_url, acts_on, page_of, snapshot, text_of
from tests.console.scene import ZONE, Scene
from vendors.port.ids import new_id


def _last_move(scene: Scene, key: KeyCredential) -> tuple[str, str]:
    with tenant(scene.tenant_id):
        row = Transition.objects.filter(tenant_id=scene.tenant_id, credential_id=key.id).exclude(move="note").latest("sequence")
        return row.move, row.actor


def _actor(scene: Scene, role: str) -> str:
    return StaffTenant.objects.get(tenant_id=scene.tenant_id, user__username=scene.people[role]).actor_id


def test_revoke_is_persisted_at_once_and_told_with_the_person_and_the_reason(scene: Scene, sign_in: SignIn) -> None:
    key = scene.key("ordinary")
    page = act(sign_in(scene, "front_desk"), key, "revoke", cause="checkout", reason="left early")
    assert "Revoke: done." in text_of(page)
    after = scene.key("ordinary")
    assert (after.state, after.revoke_reason) == ("revoked", "checkout")
    assert _last_move(scene, key) == ("revoke", _actor(scene, "front_desk"))
    assert acts_on(scene.tenant_id, key.id) == [("revoke", "left early", "done")]
    assert "left early" in text_of(page)
    scene.settle()
    assert scene.key("ordinary").open_work is False


def test_suspend_and_resume(scene: Scene, sign_in: SignIn) -> None:
    client = sign_in(scene, "front_desk_supervisor")
    key = scene.key("cyrillic")
    act(client, key, "suspend", cause="manual", reason="guest away for a night")
    assert (scene.key("cyrillic").state, scene.key("cyrillic").suspend_reason) == ("suspended", "manual")
    scene.settle()
    act(client, key, "unsuspend", reason="guest is back")
    scene.settle()
    assert scene.key("cyrillic").state == "active"
    assert [action for action, _, _ in acts_on(scene.tenant_id, key.id)] == ["suspend", "unsuspend"]


def told(key: KeyCredential) -> dict[str, Any]:
    """Returns what the form of another window holds when it is opened."""
    times = {
        name: getattr(key, name).astimezone(ZoneInfo(ZONE)).strftime("%Y-%m-%dT%H:%M") for name in ("valid_from", "valid_until")
    }
    return {**times, "rooms": list(key.rooms), "seen": seen(key)}


def test_a_longer_window_is_typed_in_the_houses_time(scene: Scene, sign_in: SignIn) -> None:
    key = scene.key("ordinary")
    longer = key.valid_until + timedelta(days=1)
    local = longer.astimezone(ZoneInfo(ZONE)).strftime("%Y-%m-%dT%H:%M")
    act(sign_in(scene, "front_desk"), key, "update", **(told(key) | {"valid_until": local}))
    after = scene.key("ordinary")
    assert (after.valid_from, after.valid_until) == (key.valid_from, longer)
    assert after.rooms == key.rooms


def test_another_room(scene: Scene, sign_in: SignIn) -> None:
    key = scene.key("ordinary")
    act(sign_in(scene, "front_desk"), key, "update", **(told(key) | {"rooms": [scene.hotel.rooms["102"]]}))
    scene.settle()
    after = scene.key("ordinary")
    assert after.rooms == [scene.hotel.rooms["102"]]
    assert after.open_work is False


def test_nothing_changed_is_said_and_not_done(scene: Scene, sign_in: SignIn) -> None:
    key = scene.key("ordinary")
    page = act(sign_in(scene, "front_desk"), key, "update", **told(key))
    assert page.status_code == 400
    assert "Nothing was changed." in text_of(page)
    assert scene.key("ordinary").desired_version == key.desired_version


def test_a_page_that_was_opened_before_the_booking_moved_does_not_move_it_back(scene: Scene, sign_in: SignIn) -> None:
    key = scene.key("ordinary")
    client = sign_in(scene, "front_desk")
    page = client.get(page_of(KeyCredential, key.id)).content.decode()
    (shown,) = re.findall(r'name="seen" value="([0-9a-f]+)"', page)
    longer = scene.hotel.booking(scene.stays["ordinary"], 2, ["101"])
    longer["validFrom"] = key.valid_from.isoformat()
    longer["validUntil"] = (key.valid_until + timedelta(days=2)).isoformat()
    scene.hotel.tell("booking.dates_changed", longer)
    scene.settle()
    moved = scene.key("ordinary")
    assert moved.valid_until > key.valid_until
    answer = act(client, key, "update", **(told(key) | {"rooms": [scene.hotel.rooms["102"]], "seen": shown}))
    assert answer.status_code == 400
    assert "Open the page again." in text_of(answer)
    after = scene.key("ordinary")
    assert (after.valid_until, after.rooms, after.desired_version) == (moved.valid_until, moved.rooms, moved.desired_version)


def test_a_lost_key_is_replaced_and_the_page_is_that_of_the_new_one(scene: Scene, sign_in: SignIn) -> None:
    key = scene.key("ordinary")
    page = act(sign_in(scene, "front_desk"), key, "replace", kind="", reason="lost in the taxi")
    assert "This is the new key." in text_of(page)
    successor = scene.key("ordinary")
    assert page.request["PATH_INFO"] == page_of(KeyCredential, successor.id)
    assert (successor.replaces, successor.id != key.id) == (key.id, True)
    with tenant(scene.tenant_id):
        old = KeyCredential.objects.get(tenant_id=scene.tenant_id, id=key.id)
    assert (old.state, old.revoke_reason, old.replaced_by) == ("revoked", "lost", successor.id)


def test_a_card_is_encoded_with_the_number_read_at_the_desk(scene: Scene, sign_in: SignIn) -> None:
    key = scene.key("card")
    assert (key.state, key.waiting_for) == ("requested", "desk")
    client = sign_in(scene, "front_desk")
    assert act(client, key, "encode", card_number="not a number").status_code == 400
    act(client, key, "encode", card_number="0412345678", reason="guest at the desk")
    scene.settle()
    assert scene.key("card").state == "active"


def test_open_doors_are_repaired(scene: Scene, sign_in: SignIn) -> None:
    key = scene.key("dead_door")
    page = act(sign_in(scene, "front_desk"), key, "retry", reason="door has power again")
    assert "Repair open doors: done." in text_of(page)
    with tenant(scene.tenant_id):
        saga = Saga.objects.get(tenant_id=scene.tenant_id, credential_id=key.id, flow="issue")
    assert (saga.status, saga.due_at) == ("due", None)


def test_pressed_twice_it_acts_once(scene: Scene, sign_in: SignIn) -> None:
    key = scene.key("ordinary")
    client = sign_in(scene, "front_desk")
    form = {"reason": "lost in the taxi", "kind": "", "act_id": uuid.uuid4().hex}
    for _ in range(2):
        client.post(act_url(key, "replace"), form)
    with tenant(scene.tenant_id):
        keys = KeyCredential.objects.filter(tenant_id=scene.tenant_id, reservation_id=key.reservation_id).count()
    assert keys == 2


def test_no_act_without_a_reason(scene: Scene, sign_in: SignIn) -> None:
    key = scene.key("ordinary")
    before = snapshot(scene.tenant_id)
    for reason in ("", "  ", "ab"):
        assert act(sign_in(scene, "gm"), key, "revoke", cause="security", reason=reason).status_code == 400
    assert snapshot(scene.tenant_id) == before
    assert acts_on(scene.tenant_id, key.id) == []


def test_a_refused_act_shows_its_code_and_is_recorded(scene: Scene, sign_in: SignIn) -> None:
    key = scene.key("cancelled")
    assert key.state == "revoked"
    page = act(sign_in(scene, "front_desk_supervisor"), key, "suspend", cause="manual", reason="too late")
    assert "Suspend: TRANSITION_REFUSED (suspend is not possible while revoked)" in text_of(page)
    assert acts_on(scene.tenant_id, key.id) == [("suspend", "too late", "TRANSITION_REFUSED")]


def test_issue_anew_for_a_guest_who_cancelled_is_refused_in_words(scene: Scene, sign_in: SignIn) -> None:
    stay = new_id("rsv")
    scene.hotel.tell("booking.confirmed", scene.hotel.booking(stay, 1, ["101"]))
    scene.hotel.tell("booking.cancelled", scene.hotel.booking(stay, 2, ["101"], status="cancelled"))
    scene.settle()
    with tenant(scene.tenant_id):
        key = KeyCredential.objects.get(tenant_id=scene.tenant_id, reservation_id=stay)
    page = act(sign_in(scene, "front_desk"), key, "retry", reason="she stands here")
    assert "STAY_ENDED (the booking was cancelled)" in text_of(page)
    assert acts_on(scene.tenant_id, key.id) == [("retry", "she stands here", "STAY_ENDED")]
    with tenant(scene.tenant_id):
        assert KeyCredential.objects.filter(tenant_id=scene.tenant_id, reservation_id=stay).count() == 1


@pytest.mark.parametrize(
    ("role", "action", "fields", "status"),
    [
        ("front_desk", "unsuspend", {}, 403),
        ("front_desk", "revoke", {"cause": "security"}, 400),
        ("front_desk", "suspend", {"cause": "fraud_review"}, 400),
        ("support", "reveal", {}, 403),
        ("support", "encode", {"card_number": "0412345678"}, 403),
        ("auditor", "revoke", {"cause": "checkout"}, 403),
        ("auditor", "reveal", {}, 403),
    ],
)
def test_a_role_does_what_its_role_may(
    night: Scene, sign_in: SignIn, role: str, action: str, fields: dict[str, str], status: int
) -> None:
    before = snapshot(night.tenant_id)
    assert act(sign_in(night, role), night.key("ordinary"), action, **fields).status_code == status
    assert snapshot(night.tenant_id) == before


def test_the_pin_is_shown_once_to_who_may_see_it_and_the_look_is_recorded(scene: Scene, sign_in: SignIn) -> None:
    key = scene.key("ordinary")
    with tenant(scene.tenant_id):
        pin = artifacts.open_pin(Artifact.objects.get(tenant_id=scene.tenant_id, credential_id=key.id, current=True))
    assert pin is not None
    client = sign_in(scene, "front_desk")
    address = page_of(KeyCredential, key.id)
    assert pin.reveal() not in client.get(address).content.decode()
    shown = act(client, key, "reveal", reason="guest lost the paper")
    assert pin.reveal() in text_of(shown)
    assert "no-store" in shown["Cache-Control"]
    assert pin.reveal() not in client.get(address).content.decode()
    assert acts_on(scene.tenant_id, key.id) == [("reveal", "guest lost the paper", "done")]


def test_a_page_of_before_shows_no_pin_of_a_key_that_is_over(scene: Scene, sign_in: SignIn) -> None:
    key = scene.key("ordinary")
    client = sign_in(scene, "front_desk_supervisor")
    act(client, key, "revoke", cause="security", reason="the guest was moved")
    page = act(client, key, "reveal", reason="read it to the guest")
    assert page.context.get("pin") is None
    assert "TRANSITION_REFUSED" in text_of(page)
    assert acts_on(scene.tenant_id, key.id)[-1] == ("reveal", "read it to the guest", "TRANSITION_REFUSED")


def test_a_waiting_saga_is_tried_again_by_support(scene: Scene, sign_in: SignIn) -> None:
    key = scene.key("dead_door")
    with tenant(scene.tenant_id):
        saga = Saga.objects.get(tenant_id=scene.tenant_id, credential_id=key.id)
    assert saga.status == "retry"
    address = f"/console/sagas/saga/{saga.id}/retry/"
    assert sign_in(scene, "gm").post(address, {"reason": "not mine to do"}).status_code == 403
    page = sign_in(scene, "support").post(address, {"reason": "gateway is back"}, follow=True)
    assert "The saga is due now." in text_of(page)
    with tenant(scene.tenant_id):
        assert Saga.objects.get(tenant_id=scene.tenant_id, id=saga.id).status == "due"
    done = sign_in(scene, "support").post(address, {"reason": "once more"}, follow=True)
    assert "TRANSITION_REFUSED" in text_of(done)
    assert [outcome for _, _, outcome in acts_on(scene.tenant_id, saga.id)] == ["done", "TRANSITION_REFUSED"]


def test_a_dead_letter_is_replayed_and_says_what_came_of_it(scene: Scene, sign_in: SignIn) -> None:
    scene.dead_letter()
    with tenant(scene.tenant_id):
        letter = DeadLetter.objects.get(tenant_id=scene.tenant_id)
    page = sign_in(scene, "support").post(
        f"/console/sagas/deadletter/{letter.pk}/replay/", {"reason": "after the fix"}, follow=True
    )
    assert "It failed again and lies among the dead letters with its new reason." in text_of(page)
    with tenant(scene.tenant_id):
        open_letters = DeadLetter.objects.filter(tenant_id=scene.tenant_id, replayed_at__isnull=True)
        assert [row.code for row in open_letters] == ["MISSING_FIELD"]
        assert [row.count for row in open_letters] == [2]


def test_an_alert_is_acknowledged_by_name(scene: Scene, sign_in: SignIn) -> None:
    key = scene.key("ordinary")
    with tenant(scene.tenant_id):
        raise_alerts(
            scene.tenant_id,
            [
                NewAlert(
                    "k", "KEY_REVOKE_FAILED", "critical", "not taken back", "lock/key-revoke", scene.hotel.property_id, key.id
                )
            ],
            key.requested_at,
        )
        alert = Alert.objects.get(tenant_id=scene.tenant_id)
    client = sign_in(scene, "front_desk_supervisor")
    assert "not taken back" in text_of(client.get("/console/"))
    address = f"/console/sagas/alert/{alert.id}/acknowledge/"
    assert sign_in(scene, "front_desk").post(address, {"reason": "seen it"}).status_code == 403
    client.post(address, {"reason": "sent the porter"})
    with tenant(scene.tenant_id):
        row = Alert.objects.get(tenant_id=scene.tenant_id)
    assert row.acknowledged_by == _actor(scene, "front_desk_supervisor")
    assert "not taken back" not in text_of(client.get("/console/"))


def test_a_policy_is_checked_saved_and_recorded(scene: Scene, sign_in: SignIn) -> None:
    client = sign_in(scene, "gm")
    address = page_of(KeyPolicyRow, scene.hotel.property_id)
    form = client.get(address).context["form"]
    values = {name: form.get_initial_for_field(field, name) for name, field in form.fields.items()}
    data = {name: value for name, value in values.items() if value is not None and value is not False}
    assert client.post(address, {**data, "pin_length": "3", "reason": "too short"}).status_code == 400
    assert client.post(address, {**data, "phone_country": "XX", "reason": "no such country"}).status_code == 400
    wanted = {"pin_length": "7", "late_grace_minutes": "60", "phone_country": "pt"}
    saved = client.post(address, {**data, **wanted, "reason": "longer codes"}, follow=True)
    assert saved.status_code == 200, saved.context["form"].errors
    assert "late_grace_minutes: 120 → 60; pin_length: 6 → 7; phone_country: – → PT" in text_of(saved)
    with tenant(scene.tenant_id):
        row = KeyPolicyRow.objects.get(tenant_id=scene.tenant_id)
    assert row.values == {"late_grace_minutes": 60, "pin_length": 7, "phone_country": "PT"}
    assert row.changed_by == _actor(scene, "gm")
    assert acts_on(scene.tenant_id, scene.hotel.property_id) == [("policy", "longer codes", "done")]


def test_a_policy_saved_from_a_page_of_before_does_not_undo_what_was_saved_meanwhile(scene: Scene, sign_in: SignIn) -> None:
    address = page_of(KeyPolicyRow, scene.hotel.property_id)
    client = sign_in(scene, "gm")
    form = client.get(address).context["form"]
    values = {name: form.get_initial_for_field(field, name) for name, field in form.fields.items()}
    data = {name: value for name, value in values.items() if value is not None and value is not False}
    assert client.post(address, {**data, "pin_length": "8", "reason": "longer codes"}).status_code == 302
    late = client.post(address, {**data, "late_grace_minutes": "60", "reason": "shorter nights"})
    assert late.status_code == 400
    assert "Open the page again." in text_of(late)
    with tenant(scene.tenant_id):
        assert KeyPolicyRow.objects.get(tenant_id=scene.tenant_id).values == {"pin_length": 8}


def test_acts_emit_one_event_each(scene: Scene, sign_in: SignIn) -> None:
    key = scene.key("ordinary")
    act(sign_in(scene, "gm"), key, "revoke", cause="security", reason="police asked")
    with tenant(scene.tenant_id):
        subjects = OutboxEvent.objects.filter(tenant_id=scene.tenant_id, ordering_key=key.id).order_by("sequence")
        assert list(subjects.values_list("subject", flat=True))[-1] == "melmastoon.lock.credential.revoked.v1"
        assert list(subjects.values_list("sequence", flat=True)) == [1, 2, 3, 4]
