"""The same drift at the doors of three vendors, over their own wires: found, repaired, and gone at the second look."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from credentials import artifacts
from lockservice.core.tenancy import tenant
from sagas import acts
from sagas.reconcile_acts import Decision, remove
from tests.flows.conftest import keys
from tests.reconcile.conftest import book, found, look, settle
from tests.reconcile.wires import GUEST, WIRES, SaltoCards, Wire
from tests.vendors.site import Simulator
from vendors.port.secrets import CardNumber
from vendors.port.types import RevokeReason, Window

CLERK = acts.Actor("usr_clerk")
_bases = itertools.count(40_000)


@pytest.fixture(scope="module", params=sorted(WIRES))
def simulator(request: pytest.FixtureRequest) -> Iterator[tuple[type[Wire], Simulator]]:
    """Give each vendor's wire and its simulator."""
    wire = WIRES[request.param]
    process = Simulator.start(wire.code)
    yield wire, process
    process.stop()


@pytest.fixture
def wire(database: str, simulator: tuple[type[Wire], Simulator]) -> Wire:
    """Give a house with rooms 101 and 102 at the vendor."""
    return simulator[0](simulator[1], next(_bases))


@pytest.fixture
def salto_cards(database: str) -> Iterator[SaltoCards]:
    """Give a house with cards at the one vendor that tells what a card carries."""
    process = Simulator.start(SaltoCards.code)
    yield SaltoCards(process, next(_bases))
    process.stop()


def value_of(wire: Wire) -> str:
    """What the guest of the newest key types, or her phone holds."""
    key = keys(wire.hotel)[-1]
    with tenant(wire.hotel.tenant_id):
        return artifacts.reveal(artifacts.current(wire.hotel.tenant_id, [key.id])[key.id]).reveal()


def span(days: int) -> Window:
    now = datetime.now(UTC).replace(microsecond=0)
    return Window(now - timedelta(hours=2), now + timedelta(days=days))


def test_drift_is_found_repaired_and_gone(wire: Wire) -> None:
    hotel = wire.hotel
    book(hotel, "101", guest=GUEST)
    (key,) = keys(hotel)
    assert (key.state, key.kind) == ("active", wire.kind.value)
    assert wire.opens("101", value_of(wire))
    assert look(hotel, repairs=True).counts == {}

    wire.alter("101", span(30))
    wire.plant_stranger("102", span(5))
    report = look(hotel, repairs=True)
    assert (report.counts, report.repairs_count) == ({"stranger": 1, "window_differs": 1}, 1)
    settle(hotel)
    (held,) = wire.held("101")
    assert abs(held.opens_until - key.valid_until) < timedelta(minutes=1)
    assert look(hotel).counts == {"stranger": 1}

    wire.drop("101")
    assert wire.held("101") == []
    assert look(hotel, repairs=True).counts == {"missing": 1, "stranger": 1}
    settle(hotel)
    assert wire.opens("101", value_of(wire))
    assert look(hotel).counts == {"stranger": 1}

    acts.revoke(hotel.tenant_id, key.id, RevokeReason.CHECKOUT, CLERK, "out")
    settle(hotel)
    assert wire.held("101") == []
    assert look(hotel).counts == {"stranger": 1}
    wire.plant_ours("101", key, span(3))
    assert len(wire.held("101")) == 1
    report = look(hotel, repairs=True)
    assert (report.counts, report.repairs_count) == ({"present_but_revoked": 1, "stranger": 1}, 1)
    settle(hotel)
    assert wire.held("101") == []

    assert len(wire.held("102")) == 1  # no rule has touched what is not ours
    assert look(hotel).counts == {"stranger": 1}
    (stranger,) = found(hotel)
    remove(hotel.tenant_id, stranger.pk, Decision(CLERK, "left by the old system"))
    settle(hotel)
    assert wire.held("102") == []
    report = look(hotel, repairs=True)
    assert (report.outcome, report.counts, report.new_count, report.repairs_count) == ("done", {}, 0, 0)


def test_a_card_that_carries_the_earlier_window_is_stale_until_it_is_written(salto_cards: SaltoCards) -> None:
    wire, hotel = salto_cards, salto_cards.hotel
    book(hotel, "101", preferredKinds=["rfid_card"])
    (key,) = keys(hotel)
    acts.encode(hotel.tenant_id, key.id, CLERK, "e", card_number=CardNumber("3661413478"))
    settle(hotel)
    assert look(hotel, repairs=True).counts == {}
    acts.update(hotel.tenant_id, key.id, CLERK, "u", valid_until=key.valid_until + timedelta(days=1))
    settle(hotel)
    report = look(hotel, repairs=True)
    assert (report.counts, report.repairs_count) == ({"stale_card": 1}, 0)
    assert [(row.danger, row.credential_id) for row in found(hotel)] == [("", key.id)]
    wire.write_card("101")
    report = look(hotel)
    assert (report.counts, report.resolved_count) == ({}, 1)
