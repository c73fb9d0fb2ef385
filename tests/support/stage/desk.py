"""What tests do at a front desk: put up a house by the protocol that it is asked by, act on a stay's key, hand out and write cards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.stage.house import Artifact, House, Stay

VENDORS = {
    "salto": "salto", "assa-abloy": "assa-abloy", "salto by pms": "salto", "visionline": "assa-abloy",
    "generic-wiegand": "generic-wiegand",
}  # fmt: skip
"""Lock systems whose cards are written at the desk, by the protocol that the service asks them by; and whose they are."""
SYSTEMS = list(VENDORS)


def house_by(house: Callable[..., House], system: str, policy: Any) -> House:
    """Return a house of two rooms, 101 and 102, with one of `SYSTEMS` and a desk where cards need one."""
    vendor = VENDORS[system]
    hotel = house({"101": vendor, "102": vendor}, policy=policy)
    if system == "salto by pms":
        hotel.speak_pms()
    if system == "visionline":
        hotel.speak_visionline(named=True)
    if system == "generic-wiegand":
        hotel.seat_desk()
    return hotel


def warnings(stay: Stay) -> list[str]:
    """Return the codes of the warnings on the stay's newest key."""
    return [warning["code"] for warning in stay.key()["warnings"]]


def act(stay: Stay, verb: str, **body: str) -> None:
    """Let the desk do something with the stay's key."""
    answer = stay.house.caller("gm").post(f"/lock/v1/credentials/{stay.key()['id']}/{verb}", body)
    assert answer.status_code in (200, 201, 202), answer.content
    stay.house.world.settle()


def hand(stay: Stay) -> Artifact:
    """Return what a guest is handed for the stay's newest key: the card that the desk writes where it waits for one, or what is
    there."""
    made = stay.encode() if stay.key()["waitingFor"] == "desk" else None
    return made or stay.artifact()


def at_desk(stay: Stay, card: Artifact | None) -> Artifact | None:
    """Return the card of a guest who comes to the desk if she has to: a new one, or her own, which was written again."""
    key = stay.key()
    return (stay.house.encode(key["id"]) if key["waitingFor"] == "desk" else None) or card


def write_again(stay: Stay, card: Artifact) -> None:
    """Lay a guest's card on the encoder of the house's SALTO system, and write it again."""
    assert "encode" in stay.key()["allowedActions"]
    stay.house.lay("salto", card)
    stay.house.encode(stay.key()["id"])


def written(stay: Stay, card: Artifact) -> Artifact:
    """Return the card of a guest who comes to the desk, where hers is written again if it is to be."""
    if "encode" in stay.key()["allowedActions"]:
        write_again(stay, card)
    return card
