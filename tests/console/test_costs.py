"""The page of costs: who sees it, what it sums, and the file behind it."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import override_settings

from devices.models import CallCount
from lockservice.core.tenancy import tenant
from tests.console.conftest import SignIn
from tests.console.pages import text_of
from tests.console.scene import Scene

PRICE = '[[price]]\nitem = "call"\namount = "0.002"\ncurrency = "USD"\nvalid_from = 2026-01-01\nincluded = 500\n'


@pytest.fixture
def priced(tmp_path: Path) -> Iterator[None]:
    (tmp_path / "mock.toml").write_text(PRICE)
    with override_settings(VENDOR_PRICES=str(tmp_path)):
        yield


def _count(scene: Scene, calls: int) -> None:
    with tenant(scene.tenant_id):
        CallCount.objects.create(
            tenant_id=scene.tenant_id, installation_id=scene.hotel.installation_id, month="2026-05", calls=calls
        )


def test_a_manager_reads_the_months_sum(scene: Scene, sign_in: SignIn, priced: None) -> None:
    _count(scene, 1_750)
    response = sign_in(scene, "gm").get("/console/costs/?month=2026-05")
    assert response.status_code == 200
    text = text_of(response)
    assert "Costs 2026-05" in text
    assert "Together 2.500 USD" in text
    assert "calls 1750 500 0.002 USD 2.500 USD" in text
    assert "locks in use 13 0 no price" in text


def test_without_prices_the_page_says_so_and_shows_no_sum(scene: Scene, sign_in: SignIn) -> None:
    _count(scene, 1_750)
    text = text_of(sign_in(scene, "gm").get("/console/costs/?month=2026-05"))
    assert "No price applies." in text
    assert "Without a price list, and not in the sums: mock" in text
    assert "USD" not in text


def test_the_file_holds_the_same_lines_of_this_tenant_only(scene: Scene, night: Scene, sign_in: SignIn, priced: None) -> None:
    _count(scene, 1_750)
    response = sign_in(scene, "auditor").get("/console/costs/?month=2026-05&format=csv")
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    assert response["Content-Disposition"] == 'attachment; filename="vendor-costs-2026-05.csv"'
    rows = list(csv.DictReader(response.content.decode().splitlines()))
    assert {row["tenant"] for row in rows} == {scene.tenant_id}
    assert (rows[0]["item"], rows[0]["quantity"], rows[0]["cost"]) == ("call", "1750", "2.500")


@pytest.mark.parametrize("role", ["front_desk", "front_desk_supervisor"])
def test_the_desk_neither_sees_costs_nor_their_entry(scene: Scene, sign_in: SignIn, role: str) -> None:
    client = sign_in(scene, role)
    assert client.get("/console/costs/").status_code == 403
    assert client.get("/console/costs/?format=csv").status_code == 403
    assert "/console/costs/" not in client.get("/console/").content.decode()
    assert "/console/costs/" in sign_in(scene, "gm").get("/console/").content.decode()


@pytest.mark.parametrize("month", ["2026-13", "<script>", "0000-00"])
def test_a_month_that_is_none_is_refused_without_an_echo(scene: Scene, sign_in: SignIn, month: str) -> None:
    response = sign_in(scene, "gm").get("/console/costs/", {"month": month})
    assert response.status_code == 400
    assert "There is no such month." in text_of(response)
    assert "<script>" not in response.content.decode()


def test_nothing_is_written_there(scene: Scene, sign_in: SignIn) -> None:
    assert sign_in(scene, "gm").post("/console/costs/", {"month": "2026-05"}).status_code == 405
