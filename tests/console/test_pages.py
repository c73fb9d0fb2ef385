"""What the pages tell, in which language and direction, and what they never show."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

from credentials import artifacts
from credentials.models import Artifact, CredentialDoor, KeyCredential, KeyPolicyRow, Reservation
from devices.models import BreakGlass, CallCount, LockDevice, SecretDue, VendorInstallation
from lockservice.console.models import StaffAct, TenantVisit
from lockservice.core.heartbeat import beat
from lockservice.core.tenancy import queues, tenant
from sagas.models import DeadLetter, OutboxEvent, Saga
from tests.console.conftest import SignIn
from tests.console.pages import MODELS, list_of, page_of, some_pk, text_of
from tests.console.scene import CITY, ZONE, Scene
from vendors.port.ids import new_id

STATIC = Path(__file__).resolve().parents[2] / "lockservice" / "console" / "static" / "console"


def _addresses(night: Scene) -> list[str]:
    found = ["/console/", "/console/tenant/", "/console/password_change/", page_of(KeyPolicyRow, night.hotel.property_id)]
    for model in (*MODELS, KeyPolicyRow, StaffAct, TenantVisit):
        found.append(list_of(model))
        pk = some_pk(model, night.tenant_id)
        if pk is not None and model is not KeyPolicyRow:
            found.append(page_of(model, pk))
    return found


def test_every_page_opens_without_inline_script_or_style_and_asks_nobody_else(night: Scene, sign_in: SignIn) -> None:
    client = sign_in(night, "support")
    addresses = _addresses(night)
    assert len(addresses) >= 24
    for address in addresses:
        response = client.get(address)
        assert response.status_code == 200, address
        policy = response["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        body = response.content.decode()
        assert not re.search(r"<script(?![^>]*\bsrc=)", body), address
        assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", body), address
        assert not re.findall(r"(?:src|href|action)=\"(?:https?:)?//", body), address
        assert "no-store" in response.headers.get("Cache-Control", "") or address.startswith("/console/password"), address


def test_the_sign_in_page_keeps_the_same_rules(database: str, client: object) -> None:
    from django.test import Client

    response = Client().get("/console/login/")
    assert "script-src 'self'" in response["Content-Security-Policy"]
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=", response.content.decode())


@pytest.mark.parametrize(
    ("language", "direction", "tonight"),
    [("en", "ltr", "Tonight"), ("ar", "rtl", "الليلة"), ("fa", "rtl", "امشب"), ("prs", "rtl", "امشب"), ("ps", "rtl", "نن شپه"), ("fa-AF", "rtl", "امشب")],
)  # fmt: skip
def test_each_language_has_its_words_and_its_direction(
    night: Scene, sign_in: SignIn, language: str, direction: str, tonight: str
) -> None:
    body = sign_in(night, "gm", **{"accept-language": language}).get("/console/").content.decode()
    shown = "prs" if language == "fa-AF" else language
    assert f'<html lang="{shown}" dir="{direction}">' in body
    assert f"<h1>{tonight}</h1>" in body


def test_the_language_is_chosen_and_kept(night: Scene, sign_in: SignIn) -> None:
    client = sign_in(night, "gm")
    client.post("/console/language/", {"language": "ps", "next": "/console/"})
    assert 'dir="rtl"' in client.get("/console/").content.decode()


def test_the_stylesheet_names_no_side_that_would_be_wrong_in_the_other_direction() -> None:
    sheet = (STATIC / "console.css").read_text()
    physical = r"(?<![\w-])(?:margin|padding|border)-(?:left|right)\b|(?<![\w-])(?:left|right)\s*:|float\s*:"
    assert re.findall(physical, sheet) == []
    assert "http" not in sheet
    assert "@import" not in sheet


def test_a_partly_issued_key_says_two_of_three_doors_and_why(night: Scene, sign_in: SignIn) -> None:
    page = text_of(sign_in(night, "gm").get(page_of(KeyCredential, night.key("dead_door").id)))
    assert "2 of 3 doors" in page
    assert "VENDOR_UNREACHABLE door_offline" in page
    assert "✕ tried 1 time" in page
    assert "DOORS_PENDING" in page
    assert "waits to try again" in page


def test_the_story_tells_every_move_call_and_event_in_order(night: Scene, sign_in: SignIn) -> None:
    body = sign_in(night, "gm").get(page_of(KeyCredential, night.key("suspended").id)).content.decode()
    lines = re.findall(r'<li class="line line-(\w+)', body)
    assert lines == ["step", "move", "move", "step", "move", "move"]
    subjects = re.findall(r"lock\.credential\.(\w+)\.v1</a>", body)
    assert subjects == ["suspended", "issued", "pending", "requested"]
    event = re.findall(r'href="(/console/sagas/outboxevent/[^"]+)"', body)[0]
    assert "fraud_review" in text_of(sign_in(night, "front_desk").get(event))


@pytest.mark.parametrize(
    ("story", "role", "titles"),
    [
        ("ordinary", "gm", ["update", "suspend", "replace", "revoke", "choose_pin", "reveal"]),
        ("ordinary", "support", ["update", "suspend", "replace", "revoke"]),
        ("dead_door", "front_desk", ["retry", "update", "suspend", "replace", "revoke", "reveal"]),
        ("suspended", "front_desk", ["update", "revoke", "reveal"]),
        ("suspended", "gm", ["update", "unsuspend", "revoke", "choose_pin", "reveal"]),
        ("card", "front_desk", ["encode", "update", "revoke"]),
        ("cancelled", "gm", []),
    ],
)
def test_the_buttons_are_those_the_state_and_the_role_allow(
    night: Scene, sign_in: SignIn, story: str, role: str, titles: list[str]
) -> None:
    body = sign_in(night, role).get(page_of(KeyCredential, night.key(story).id)).content.decode()
    assert re.findall(r'/act/(\w+)/"', body) == titles


def test_times_are_those_of_the_house_and_the_zone_is_named(night: Scene, sign_in: SignIn) -> None:
    page = text_of(sign_in(night, "gm").get(page_of(KeyCredential, night.key("ordinary").id)))
    assert f"times in {ZONE}" in page
    assert re.search(rf"Opens from \w{{3}} \d+ \w{{3}}, 14:00 {CITY}", page)


def test_tonight_says_who_gets_in_and_who_needs_somebody(night: Scene, sign_in: SignIn) -> None:
    response = sign_in(night, "gm").get("/console/")
    house = response.context["houses"][0]
    verdicts = {arrival.stay.reservation_id: str(arrival.verdict.word.text) for arrival in house.arrivals}
    assert verdicts == {
        night.stays["ordinary"]: "gets in",
        night.stays["phone"]: "gets in",
        night.stays["suspended"]: "suspended",
        night.stays["dead_door"]: "not at the door yet",
        night.stays["cyrillic"]: "gets in",
        night.stays["card"]: "card at the desk",
        night.stays["no_room"]: "no room yet",
    }
    assert (house.safe, house.troubled) == (3, 3)
    assert [name for name, _ in house.floors] == ["3", "2", "1"]
    assert "3 of 7 get in" in text_of(response)


def test_the_cards_count_what_is_there(night: Scene, sign_in: SignIn) -> None:
    cards = {str(card.title): card.value for card in sign_in(night, "support").get("/console/").context["cards"]}
    with tenant(night.tenant_id):
        unpublished = OutboxEvent.objects.filter(tenant_id=night.tenant_id, published_at__isnull=True).count()
    assert cards == {
        "Live keys": 4, "Wait for the desk": 1, "Wait for a room": 1, "Wait for papers": 0, "Doors still open": 1,
        "Dead sagas": 0, "Unpublished events": unpublished, "Dead letters": 1, "Critical alerts": 1,
    }  # fmt: skip


def test_each_card_leads_to_the_rows_it_counted(night: Scene, sign_in: SignIn) -> None:
    client = sign_in(night, "support")
    for card in client.get("/console/").context["cards"]:
        assert client.get(card.url).context["cl"].result_count == card.value, card


@pytest.mark.parametrize(
    ("query", "stories"),
    [
        ("state=suspended", ["suspended"]),
        ("waiting=desk", ["card"]),
        ("waiting=any", ["card", "no_room"]),
        ("open=1&state=active", ["dead_door"]),
        ("kind=mobile_app", ["phone"]),
        ("q=301", ["cyrillic"]),
        ("state=asleep&kind=pin_code&state=failed", []),
    ],
)
def test_the_list_of_keys_is_narrowed(night: Scene, sign_in: SignIn, query: str, stories: list[str]) -> None:
    response = sign_in(night, "gm").get(f"{list_of(KeyCredential)}?{query}")
    assert {row.id for row in response.context["cl"].result_list} == {night.key(story).id for story in stories}


def test_keys_are_found_by_stay_and_holder(night: Scene, sign_in: SignIn) -> None:
    client = sign_in(night, "gm")
    key = night.key("phone")
    for term in (key.id, key.reservation_id, key.holder_id):
        rows = client.get(f"{list_of(KeyCredential)}?q={term}").context["cl"].result_list
        assert [row.id for row in rows] == [key.id]


def test_stuck_sagas_are_listed(night: Scene, sign_in: SignIn) -> None:
    rows = sign_in(night, "support").get(f"{list_of(Saga)}?status=stuck").context["cl"].result_list
    assert night.key("dead_door").id in {row.credential_id for row in rows}
    assert {row.status for row in rows} <= {"retry", "dead", "due"}


def test_no_secret_stands_on_any_page(night: Scene, sign_in: SignIn) -> None:
    with tenant(night.tenant_id):
        secrets = [
            artifacts.reveal(row).reveal()
            for row in Artifact.objects.filter(tenant_id=night.tenant_id, value_sealed__isnull=False)
        ]
        references = list(Artifact.objects.filter(tenant_id=night.tenant_id).values_list("id", flat=True))
        keys = list(KeyCredential.objects.filter(tenant_id=night.tenant_id).values_list("id", flat=True))
        events = list(OutboxEvent.objects.filter(tenant_id=night.tenant_id).values_list("id", flat=True))
        assert CredentialDoor.objects.filter(tenant_id=night.tenant_id, vendor_ref_sealed__isnull=False).exists()
    assert len(secrets) >= 4
    pages = [
        *_addresses(night),
        *(page_of(KeyCredential, key) for key in keys),
        *(page_of(OutboxEvent, event) for event in events),
    ]
    for role in ("support", "gm"):
        client = sign_in(night, role)
        for address in pages:
            body = client.get(address).content.decode()
            assert not [secret for secret in secrets if re.search(rf"(?<!\w){re.escape(secret)}(?!\w)", body)], address
            assert not [reference for reference in references if reference in body], address


def test_settings_and_secrets_of_a_lock_system_stay_sealed(night: Scene, sign_in: SignIn) -> None:
    page = text_of(sign_in(night, "gm").get(page_of(VendorInstallation, night.hotel.installation_id)))
    assert "mock://" not in page
    assert page.count("sealed") == 2


def test_a_guests_name_is_for_the_desk_not_for_support(night: Scene, sign_in: SignIn) -> None:
    with tenant(night.tenant_id):
        stay = Reservation.objects.get(tenant_id=night.tenant_id, reservation_id=night.stays["phone"])
        letter = DeadLetter.objects.get(tenant_id=night.tenant_id)
    at_desk = sign_in(night, "front_desk")
    assert "Jonas Weber" in text_of(at_desk.get("/console/"))
    assert "phone@guests.example" in text_of(at_desk.get(page_of(Reservation, stay.pk)))
    assert "phone@guests.example" not in text_of(at_desk.get(list_of(Reservation)))
    support = sign_in(night, "support")
    for address in ("/console/", list_of(Reservation), page_of(Reservation, stay.pk), page_of(DeadLetter, letter.pk)):
        page = text_of(support.get(address))
        for secret in ("Jonas Weber", "phone@guests.example", "+93700123456", "Secret Guest", "secret@guests.example"):
            assert secret not in page, address


def test_an_auditor_sees_the_record_and_nothing_else(night: Scene, sign_in: SignIn) -> None:
    client = sign_in(night, "auditor")
    assert client.get(list_of(TenantVisit)).status_code == 200
    assert client.get(list_of(StaffAct)).status_code == 200
    for model in (KeyCredential, Reservation, LockDevice, Saga, OutboxEvent, DeadLetter):
        assert client.get(list_of(model)).status_code == 403
        assert client.get(page_of(model, some_pk(model, night.tenant_id))).status_code == 403
    assert client.get("/console/").context["cards"] == []


def test_no_link_of_an_auditors_pages_is_refused_to_her(scene: Scene, sign_in: SignIn) -> None:
    hotel, now = scene.hotel, scene.hotel.opened_at
    place = {"tenant_id": scene.tenant_id, "property_id": hotel.property_id, "installation_id": hotel.installation_id}
    with tenant(scene.tenant_id):
        due = SecretDue.objects.get(tenant_id=scene.tenant_id, kind="secret", name="webhook_secret")
        asked = BreakGlass.objects.create(
            **place, id=new_id("bgl"), secret_name="webhook_secret", incident="INC-1", reason="to see the links",
            requested_by="usr_1", requested_at=now, expires_at=now,
        )  # fmt: skip
        CallCount.objects.create(tenant_id=scene.tenant_id, installation_id=hotel.installation_id, month="2026-05", calls=1)
    auditor, manager = sign_in(scene, "auditor"), sign_in(scene, "gm")
    system = page_of(VendorInstallation, hotel.installation_id)
    for address in (
        list_of(SecretDue), page_of(SecretDue, due.pk), list_of(BreakGlass), page_of(BreakGlass, asked.pk),
        "/console/costs/?month=2026-05", list_of(StaffAct), list_of(TenantVisit), "/console/",
    ):  # fmt: skip
        page = auditor.get(address).content.decode()
        links = {html.unescape(link).partition("#")[0] for link in re.findall(r'href="(/console/[^"]*)"', page)}
        assert links, address
        assert [link for link in sorted(links) if auditor.get(link).status_code not in (200, 302)] == [], address
        if hotel.installation_id in page:
            assert f'href="{system}"' in manager.get(address).content.decode(), address
    assert manager.get(system).status_code == 200
    assert auditor.get(system).status_code == 403


def test_the_form_for_a_secret_says_how_an_incidents_number_is_written(night: Scene, sign_in: SignIn) -> None:
    page = text_of(sign_in(night, "gm").get("/console/devices/breakglass/ask/"))
    assert "3 to 64 letters, digits and . _ / # -, a letter or digit first." in page


def test_a_lists_queries_do_not_grow_with_its_rows(night: Scene, scene: Scene, sign_in: SignIn) -> None:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    def count(client: object, address: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            assert client.get(address).status_code == 200  # type: ignore[attr-defined]
        return len(queries)

    scene.tell("ordinary")
    for model in (KeyCredential, Reservation, LockDevice, Saga, OutboxEvent):
        many = count(sign_in(night, "support"), list_of(model))
        assert count(sign_in(scene, "support"), list_of(model)) == many, model


def test_catalogues_are_compiled_as_they_are_written() -> None:
    root = Path(__file__).resolve().parents[2] / "locale"
    for language in ("ar", "fa", "prs", "ps"):
        folder = root / language / "LC_MESSAGES"
        written = re.findall(r'^msgstr(?:\[\d\])? "(.+)"$', (folder / "django.po").read_text(), flags=re.MULTILINE)
        compiled = (folder / "django.mo").read_bytes()
        missing = [text for text in written if json.loads(f'"{text}"').encode() not in compiled]
        assert missing == []
        assert len(written) > 150


def test_a_process_with_a_failing_loop_is_told_with_the_loops_name(night: Scene, sign_in: SignIn) -> None:
    with queues():
        beat("test-failing", "one", "sweep: KeyError, 3 times in a row")
        beat("test-alive", "one")
    page = text_of(sign_in(night, "support").get("/console/"))
    assert re.search(r"test-failing ✕ failing \d+ s · sweep: KeyError, 3 times in a row", page), page[-600:]
    assert re.search(r"test-alive ✓ alive \d+ s", page)
