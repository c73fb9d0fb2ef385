"""The console in a real browser: nothing refused by its own policy, nothing fetched elsewhere, both directions, both themes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from credentials.models import KeyCredential
from devices.models import BreakGlass, LockDevice, SecretDue, VendorInstallation
from lockservice.core.tenancy import tenant
from sagas.models import Finding
from tests.console.pages import list_of, page_of
from tests.console.scene import Scene
from tests.console.web_server import served

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not CHROMIUM and not os.environ.get("CI"), reason="no Chromium on this machine"),
]


class Watched:
    """A page whose complaints and requests are kept."""

    def __init__(self, page: Any, address: str) -> None:
        self.page = page
        self.address = address
        self.complaints: list[str] = []
        self.elsewhere: list[str] = []
        page.on("console", lambda m: self.complaints.append(m.text) if m.type in {"error", "warning"} else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda r: None if r.url.startswith((address, "data:")) else self.elsewhere.append(r.url))


@pytest.fixture(scope="module")
def address(database: str) -> Iterator[str]:
    with served() as found:
        yield found


@contextmanager
def browsing(address: str, scene: Scene, role: str, **options: Any) -> Iterator[Watched]:
    """Gives a page of a person who is signed in by typing login and password."""
    from playwright.sync_api import sync_playwright

    user = get_user_model().objects.get(username=scene.people[role])
    user.set_password("typed by hand")
    user.save()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_context(viewport={"width": 1360, "height": 900}, **options).new_page()
        watched = Watched(page, address)
        page.goto(f"{address}/console/login/")
        page.fill("#id_username", user.get_username())
        page.fill("#id_password", "typed by hand")
        page.click("main .button")
        page.wait_for_load_state()
        yield watched
        browser.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("language", ["en", "prs"])
def test_a_page_is_whole_in_both_directions_and_themes(
    address: str, night: Scene, language: str, scheme: str, tmp_path: Path
) -> None:
    headers = {"Accept-Language": language}
    paths = ("/console/", page_of(KeyCredential, night.key("dead_door").id))
    with browsing(address, night, "gm", color_scheme=scheme, extra_http_headers=headers) as watched:
        page = watched.page
        for path in paths:
            page.goto(f"{address}{path}")
            facts = page.evaluate(
                """() => ({
                    direction: getComputedStyle(document.body).direction,
                    side: document.querySelector('.side').getBoundingClientRect().left,
                    sideways: document.documentElement.scrollWidth - document.documentElement.clientWidth,
                    dark: getComputedStyle(document.body).backgroundColor,
                    font: getComputedStyle(document.querySelector('.badge')).borderTopLeftRadius,
                })"""
            )
            assert facts["direction"] == ("rtl" if language == "prs" else "ltr")
            assert (facts["side"] > 600) == (language == "prs")
            assert facts["sideways"] <= 0
            assert (facts["dark"] == "rgb(13, 19, 27)") == (scheme == "dark")
            assert facts["font"] != "0px"
            shot = tmp_path / "page.png"
            page.screenshot(path=str(shot), full_page=True)
            assert shot.stat().st_size > 20_000
        assert watched.complaints == []
        assert watched.elsewhere == []


@pytest.mark.parametrize("language", ["en", "prs"])
def test_no_page_hangs_over_on_a_phone(address: str, night: Scene, language: str) -> None:
    hotel = night.hotel
    paths = [
        page_of(LockDevice, hotel.devices["101"]),
        page_of(VendorInstallation, hotel.installation_id),
        page_of(KeyCredential, night.key("dead_door").id),
        *(list_of(model) for model in (Finding, SecretDue, BreakGlass, VendorInstallation, KeyCredential)),
        "/console/devices/breakglass/ask/",
        "/console/costs/",
    ]
    with browsing(address, night, "gm", color_scheme="dark", extra_http_headers={"Accept-Language": language}) as watched:
        page = watched.page
        page.set_viewport_size({"width": 390, "height": 800})
        over = {}
        for path in paths:
            answer = page.goto(f"{address}{path}")
            sideways = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            over[path] = (answer.status, sideways)
        assert over == dict.fromkeys(paths, (200, 0))
        assert watched.complaints == []


def test_a_key_is_suspended_with_the_keyboard_alone(address: str, scene: Scene) -> None:
    key = scene.key("ordinary")
    with browsing(address, scene, "front_desk") as watched:
        page = watched.page
        page.goto(f"{address}{page_of(KeyCredential, key.id)}")
        page.locator("details.act summary", has_text="Suspend").focus()
        page.keyboard.press("Enter")
        page.wait_for_selector("#suspend-cause:focus")
        page.keyboard.press("Tab")
        page.keyboard.type("guest away for a night")
        with page.expect_navigation():
            page.keyboard.press("Enter")
        assert page.locator(".message").all_inner_texts() == ["Suspend: done."]
        assert watched.complaints == []
    with tenant(scene.tenant_id):
        assert KeyCredential.objects.get(tenant_id=scene.tenant_id, id=key.id).state == "suspended"


def test_the_theme_is_toggled_and_kept(address: str, night: Scene) -> None:
    with browsing(address, night, "front_desk", color_scheme="light") as watched:
        page = watched.page
        page.click("[data-theme-toggle]")
        page.reload()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 19, 27)"
        assert watched.complaints == []


@pytest.mark.parametrize("language", ["en", "prs"])
def test_the_costs_of_a_month_stand_on_the_page_without_scrolling_sideways(
    address: str, night: Scene, language: str, tmp_path: Path
) -> None:
    with browsing(address, night, "gm", extra_http_headers={"Accept-Language": language}) as watched:
        page = watched.page
        page.goto(f"{address}/console/costs/")
        assert page.locator("main table tbody tr").count() == 5
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
        assert page.locator(".side a[aria-current=page]").inner_text() == ("Costs" if language == "en" else "مصارف")
        shot = tmp_path / "costs.png"
        page.screenshot(path=str(shot), full_page=True)
        assert shot.stat().st_size > 20_000
        with page.expect_download() as download:
            page.click("a[href*='format=csv']")
        assert download.value.suggested_filename.startswith("vendor-costs-")
        assert watched.complaints == []
        assert watched.elsewhere == []
