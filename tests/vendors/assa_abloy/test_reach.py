"""Before a change at a networked door is believed, the vendor is asked whether the door answers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from vendors.assa_abloy.errors import Refused, Unclear, unreachable
from vendors.assa_abloy.reach import Reach
from vendors.port.types import CredentialHandle, CredentialKind, Door, Window

START = datetime(2026, 6, 1, tzinfo=UTC)
DOORS = (Door("a", "a"), Door("off", "off", has_remote=False), Door("b", "b"), Door("c", "c"))
KEY = CredentialHandle("key", CredentialKind.RFID_CARD, Window(START, START + timedelta(days=1)), DOORS)


def _reached(reach: Reach) -> str:
    return "".join(door.device_id for door in reach.of_key(KEY).doors if door.has_remote)


def test_each_networked_door_is_asked_once() -> None:
    asked = []

    def answers(door: Door) -> bool:
        asked.append(door.device_id)
        return door.device_id != "b"

    reach = Reach(answers)
    assert (_reached(reach), _reached(reach), asked) == ("ac", "ac", ["a", "b", "c"])


@pytest.mark.parametrize(
    ("failure", "asked_at_most", "reached"),
    [(Unclear(unreachable("silent")), ["a"], ""), (Refused(404, "unknown"), ["a", "b", "c"], "bc")],
    ids=["no answer", "refused"],
)
def test_after_a_question_without_an_answer_no_more_is_asked(
    failure: Exception, asked_at_most: list[str], reached: str
) -> None:
    asked = []

    def answers(door: Door) -> bool:
        asked.append(door.device_id)
        if door.device_id == "a":
            raise failure
        return True

    assert (_reached(Reach(answers)), asked) == (reached, asked_at_most)
