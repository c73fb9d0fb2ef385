"""The pages of findings in a real browser, in both directions: nothing overflows, nothing is fetched elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from lockservice.core.tenancy import tenant
from sagas.models import Finding
from tests.console.pages import list_of, page_of
from tests.console.scene import Scene
from tests.console.test_browser import browsing, pytestmark
from tests.console.test_findings import compare, plant
from tests.console.web_server import served
from tests.support.mock_locks import MockLocks

__all__ = ["pytestmark"]


@pytest.fixture(scope="module")
def address(database: str) -> Iterator[str]:
    with served() as found:
        yield found


@pytest.mark.parametrize("language", ["en", "ps"])
def test_findings_are_whole_in_both_directions(
    address: str, scene: Scene, locks: MockLocks, language: str, tmp_path: Path
) -> None:
    scene.tell("ordinary", "cyrillic")
    key = scene.key("ordinary")
    window = {"from": key.valid_from.isoformat(), "until": (key.valid_until - timedelta(hours=1)).isoformat()}
    plant(scene, locks, "101", name="زهرا احمدی", **window)
    plant(scene, locks, "102", name="Cleaner")
    door = scene.hotel.doors["301"]
    locks.ask("/drop", {"device": door, "ref": locks.keys_at(door)[0]["ref"]})
    compare(scene)
    with tenant(scene.tenant_id):
        device = scene.hotel.devices["101"]
        row = Finding.objects.get(tenant_id=scene.tenant_id, device_id=device, status="open")
    headers = {"Accept-Language": language}
    with browsing(address, scene, "gm", color_scheme="light", extra_http_headers=headers) as watched:
        page = watched.page
        for name, path in (("list", list_of(Finding)), ("page", page_of(Finding, row.pk))):
            page.goto(f"{address}{path}")
            if name == "page":
                page.locator("details.act summary").first.click()
            sideways = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert page.evaluate(sideways) <= 0
            direction = page.evaluate("getComputedStyle(document.body).direction")
            assert direction == ("rtl" if language == "ps" else "ltr")
            shot = tmp_path / f"{language}-{name}.png"
            page.screenshot(path=str(shot), full_page=True)
            assert shot.stat().st_size > 20_000
        assert watched.complaints == []
        assert watched.elsewhere == []
