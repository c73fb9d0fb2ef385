"""The property's connector behind mutual TLS, and what falls back to the cloud when it is not reached."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest

from tests.vendors.salto.hotel import CARD, PHONE, PIN, Hotel, meta
from vendors.port.errors import CardEncoderOffline, LockError, VendorUnreachable
from vendors.port.types import Outcome, Propagation, RevokeReason

NOWHERE = "https://127.0.0.1:9"


@pytest.fixture
def linked(new_hotel: Callable[..., Hotel]) -> Hotel:
    hotel = new_hotel(transport="connector", connector_ca="")
    hotel.extra["connector_ca"] = hotel.seeded["connector"]["ca"]
    hotel.clock.set(datetime.now(UTC))
    return hotel


def seen_by_cloud(hotel: Hotel) -> int:
    return len([1 for _, _, headers, _ in hotel.proxy.requests if headers.get("X-Property-Id") == hotel.property])


def test_a_card_goes_through_the_connector_and_never_through_the_cloud(linked: Hotel) -> None:
    guest = linked.key()
    assert guest.opens(linked.doors[0])
    assert seen_by_cloud(linked) == 0


def test_without_a_client_certificate_the_connector_says_nothing(linked: Hotel) -> None:
    where = urlsplit(linked.seeded["connector"]["url"])
    context = ssl.create_default_context(cadata=linked.seeded["connector"]["ca"])
    with pytest.raises((ssl.SSLError, ConnectionError)):  # noqa: SIM117 - the raw socket outlives a failed handshake
        with (
            socket.create_connection((where.hostname, where.port), 5) as raw,
            context.wrap_socket(raw, server_hostname="127.0.0.1") as tls,
        ):
            tls.sendall(b"GET /api/doors HTTP/1.1\r\nHost: x\r\n\r\n")
            if tls.recv(1) == b"":
                raise ConnectionError("hung up")


def test_a_certificate_of_another_property_is_refused(linked: Hotel, new_hotel: Callable[..., Hotel]) -> None:
    other = new_hotel()
    linked.seeded["connector"] |= {name: other.seeded["connector"][name] for name in ("cert", "key")}
    with pytest.raises(VendorUnreachable) as caught:
        linked.key()
    assert (caught.value.reason, caught.value.retriable) == ("settings", False)


def test_a_connector_of_a_foreign_authority_is_not_spoken_to(linked: Hotel) -> None:
    linked.extra["connector_ca"] = ""
    with pytest.raises(CardEncoderOffline):
        linked.key()
    assert linked.dump()["keys"] == []


def test_with_the_connector_gone_a_card_waits_for_it_and_nothing_is_asked_of_the_cloud(linked: Hotel) -> None:
    linked.extra["connector_url"] = NOWHERE
    with pytest.raises(CardEncoderOffline) as caught:
        linked.key(kind=CARD)
    assert caught.value.retriable
    assert seen_by_cloud(linked) == 0


def test_with_the_connector_gone_phones_and_on_line_doors_are_served_through_the_cloud(linked: Hotel) -> None:
    linked.extra["connector_url"] = NOWHERE
    assert linked.key(kind=PHONE).result.doors[0].outcome is Outcome.DONE
    street = linked.key(kind=PIN, doors=(linked.street,))
    assert linked.shown(linked.street, street.request.pin.reveal(), PIN)[0]
    gone = linked.port.revoke_credential(street.handle(), RevokeReason.SECURITY, meta())
    assert [(door.outcome, door.propagation) for door in gone.doors] == [(Outcome.DONE, Propagation.CONFIRMED)]
    assert not linked.shown(linked.street, street.request.pin.reveal(), PIN)[0]


def test_with_the_connector_and_the_cloud_gone_the_vendor_is_unreachable(linked: Hotel) -> None:
    linked.extra |= {"connector_url": NOWHERE, "base_url": ""}
    with pytest.raises(VendorUnreachable) as caught:
        linked.key(kind=PHONE)
    assert caught.value.retriable


def test_over_the_cloud_a_connector_that_is_down_makes_cards_wait_and_phones_go(hotel: Hotel) -> None:
    hotel.simulator.post("/connector", {"property": hotel.property, "up": False})
    with pytest.raises(CardEncoderOffline) as caught:
        hotel.key()
    assert caught.value.retriable
    assert hotel.key(kind=PHONE).result.doors[0].outcome is Outcome.DONE
    hotel.simulator.post("/connector", {"property": hotel.property, "up": True})
    assert hotel.key().result.doors[0].outcome is Outcome.DONE


def renewed(hotel: Hotel, days: float) -> None:
    body = {"property": hotel.property, "connector": True, "certificateDays": days}
    hotel.seeded["connector"] |= hotel.simulator.post("/seed", body)["connector"]


def test_a_certificate_that_ends_within_two_weeks_is_warned_of(linked: Hotel) -> None:
    assert linked.key().result.warnings == ()
    renewed(linked, 13)
    linked.refresh()
    warnings = linked.key(kind=PHONE).result.warnings
    assert "CONNECTOR_CERTIFICATE_ENDS" in [warning.code for warning in warnings]


def test_a_certificate_that_has_ended_is_not_shown_and_counts_as_a_connector_not_reached(linked: Hotel) -> None:
    renewed(linked, -0.5)
    with pytest.raises(CardEncoderOffline):
        linked.key(kind=CARD)
    assert linked.key(kind=PHONE).result.doors[0].outcome is Outcome.DONE
    assert seen_by_cloud(linked) == 1


def test_a_key_that_is_not_the_certificates_is_refused_without_being_printed(
    linked: Hotel, new_hotel: Callable[..., Hotel]
) -> None:
    private = new_hotel().seeded["connector"]["key"]
    linked.seeded["connector"]["key"] = private
    with pytest.raises(ValueError, match="connector_cert") as caught:
        linked.build()
    assert private.splitlines()[1] not in repr(caught.value)
    assert not isinstance(caught.value, LockError)
