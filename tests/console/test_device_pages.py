"""A lock's page: its health as a picture over time, and the button that takes it out of service for good."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from devices.models import DeviceReading, LockDevice, VendorInstallation
from lockservice.core.tenancy import tenant
from tests.console.conftest import SignIn
from tests.console.pages import acts_on, list_of, page_of, snapshot, text_of
from tests.console.scene import Scene
from tests.console.test_browser import CHROMIUM, browsing
from tests.console.web_server import served

DAY = timedelta(days=1)


def _readings(scene: Scene, label: str) -> str:
    """A month of a battery that runs down, a clock that was off for some days, and a night without a gateway."""
    device_id, now = scene.hotel.devices[label], datetime.now(UTC)
    rows = []
    for hour in range(0, 29 * 24, 3):
        at = now - 29 * DAY + timedelta(hours=hour)
        day = hour / 24
        rows.append(
            DeviceReading(
                tenant_id=scene.tenant_id, device_id=device_id, at=at, source="list", online=not 20 < day < 20.6,
                battery_percent=max(6, int(96 - day * 3.1)),
                clock_skew_ms=int((day - 8) * 260_000) if 8 < day < 14 else 4_000,
            )
        )  # fmt: skip
    with tenant(scene.tenant_id):
        DeviceReading.objects.bulk_create(rows)
    return device_id


def test_a_locks_health_is_a_picture_over_the_days_asked_for(scene: Scene, sign_in: SignIn) -> None:
    device_id = _readings(scene, "101")
    client = sign_in(scene, "front_desk")
    page = client.get(page_of(LockDevice, device_id))
    assert page.content.decode().count('<polyline class="curve"') == 2
    assert "Battery 6 %, clock +4 s" in text_of(page)
    assert 'class="away"' in page.content.decode()
    week = client.get(page_of(LockDevice, device_id) + "?days=7")
    assert 'class="away"' not in week.content.decode()
    for nonsense in ("0", "-1", "1e9", "x" * 500):
        assert client.get(page_of(LockDevice, device_id) + f"?days={nonsense}").status_code == 200


def test_a_lock_nobody_read_says_so(scene: Scene, sign_in: SignIn) -> None:
    page = sign_in(scene, "front_desk").get(page_of(LockDevice, scene.hotel.devices["102"]))
    assert "Nothing was read in this time." in text_of(page)
    assert "<polyline" not in page.content.decode()


def test_a_manager_takes_a_lock_out_of_service_with_a_reason(scene: Scene, sign_in: SignIn) -> None:
    key = scene.key("ordinary")
    door = next(door for door in _doors(scene, key.id) if door.room_id)
    client = sign_in(scene, "gm")
    assert "Take out of service" in text_of(client.get(page_of(LockDevice, door.device_id)))
    url = f"{list_of(LockDevice)}{door.device_id}/decommission/"
    before = snapshot(scene.tenant_id)
    assert client.post(url, {"reason": "x"}).status_code == 400
    assert client.get(url).status_code == 405
    assert snapshot(scene.tenant_id) == before
    page = client.post(url, {"reason": "door was replaced"}, follow=True)
    assert "Out of service; its keys are being taken back. Rotate its vendor credentials by" in text_of(page)
    assert "Take out of service" not in text_of(page)
    assert acts_on(scene.tenant_id, door.device_id) == [("decommission", "door was replaced", "done")]
    with tenant(scene.tenant_id):
        assert LockDevice.objects.get(id=door.device_id).active is False
    scene.settle()
    assert scene.key("ordinary").state == "revoked"


@pytest.mark.parametrize("role", ["front_desk", "front_desk_supervisor", "auditor"])
def test_who_may_not_sees_no_button_and_is_refused(scene: Scene, sign_in: SignIn, role: str) -> None:
    client, device_id = sign_in(scene, role), scene.hotel.devices["101"]
    with tenant(scene.tenant_id):
        system = VendorInstallation.objects.get(tenant_id=scene.tenant_id)
    before = snapshot(scene.tenant_id)
    for model, pk in ((LockDevice, device_id), (VendorInstallation, system.id)):
        assert "Take out of service" not in text_of(client.get(page_of(model, pk)))
        assert client.post(f"{list_of(model)}{pk}/decommission/", {"reason": "because"}).status_code == 403
    assert snapshot(scene.tenant_id) == before
    assert acts_on(scene.tenant_id, device_id) == []


def test_a_whole_lock_system_is_taken_out_of_service_and_anothers_is_not_found(
    scene: Scene, night: Scene, sign_in: SignIn
) -> None:
    client = sign_in(scene, "gm")
    with tenant(scene.tenant_id):
        system = VendorInstallation.objects.get(tenant_id=scene.tenant_id)
    with tenant(night.tenant_id):
        other = VendorInstallation.objects.filter(tenant_id=night.tenant_id).first()
    assert other is not None
    assert client.post(f"{list_of(VendorInstallation)}{other.id}/decommission/", {"reason": "because"}).status_code == 404
    page = client.post(f"{list_of(VendorInstallation)}{system.id}/decommission/", {"reason": "house is sold"}, follow=True)
    assert "not in use" in text_of(page)
    with tenant(scene.tenant_id):
        assert not LockDevice.objects.filter(tenant_id=scene.tenant_id, active=True).exists()


def _doors(scene: Scene, key_id: str) -> list[object]:
    from credentials.models import CredentialDoor

    with tenant(scene.tenant_id):
        return list(CredentialDoor.objects.filter(tenant_id=scene.tenant_id, credential_id=key_id))


@pytest.fixture(scope="module")
def address(database: str) -> Iterator[str]:
    with served() as found:
        yield found


@pytest.mark.browser
@pytest.mark.timeout(300)
@pytest.mark.skipif(not CHROMIUM and not os.environ.get("CI"), reason="no Chromium on this machine")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("language", ["en", "prs"])
def test_the_picture_is_whole_in_both_directions_and_themes(
    address: str, scene: Scene, language: str, scheme: str, tmp_path: Path
) -> None:
    device_id = _readings(scene, "101")
    with browsing(address, scene, "gm", color_scheme=scheme, extra_http_headers={"Accept-Language": language}) as watched:
        watched.page.goto(f"{address}{page_of(LockDevice, device_id)}")
        facts = watched.page.evaluate(
            """() => {
                const svg = document.querySelector('.health-picture svg').getBoundingClientRect();
                const labels = [...document.querySelectorAll('.health-picture .scale')].map(t => t.getBoundingClientRect());
                const curve = document.querySelector('.health-picture .curve');
                const panel = document.querySelector('.health-picture').getBoundingClientRect();
                return {
                    wide: svg.width, tall: svg.height, sideways: document.documentElement.scrollWidth - innerWidth,
                    outside: labels.filter(b => b.left < panel.left || b.right > panel.right || b.bottom > panel.bottom).length,
                    curve: getComputedStyle(curve).stroke, ground: getComputedStyle(document.body).backgroundColor,
                };
            }"""
        )
        shot = Path(os.environ.get("LOCK_SHOTS", str(tmp_path))) / f"health-{language}-{scheme}.png"
        watched.page.locator(".health-picture").screenshot(path=str(shot))
        assert watched.complaints == []
        assert watched.elsewhere == []
    assert facts["wide"] > 400
    assert facts["tall"] > 150
    assert facts["sideways"] <= 0
    assert facts["outside"] == 0
    assert facts["curve"] == ("rgb(27, 79, 156)" if scheme == "light" else "rgb(139, 188, 255)")
