"""What a Visionline server tells of cards and doors is read strictly, in both shapes, and never guessed."""

from __future__ import annotations

from typing import Any

import pytest

from vendors.assa_abloy.reading import RowWrong
from vendors.assa_abloy.visionline_rows import devices_in, kind_in, number_or_text, status_of

LIVE = {"overridden": False, "overwritten": False}
TYPES = {1: "guest", 2: "common"}


@pytest.mark.parametrize(
    ("row", "status"),
    [
        ({"status": "valid"}, "valid"),
        ({"status": "overridden"}, "overridden"),
        (LIVE, "valid"),
        (LIVE | {"overridden": True}, "overridden"),
        (LIVE | {"overwritten": True}, "overwritten"),
        (LIVE | {"overridden": True, "overwritten": True}, "overridden"),
        (LIVE | {"cancelled": True}, "cancelled"),
        (LIVE | {"status": "valid"}, "valid"),
        (LIVE | {"status": "overwritten", "overwritten": True}, "overwritten"),
        (LIVE | {"status": "cancelled"}, "cancelled"),
    ],
)
def test_a_cards_end_is_read_in_both_shapes(row: dict[str, Any], status: str) -> None:
    assert status_of(row) == status


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({}, "a card without status and without overridden and overwritten"),
        ({"overridden": False}, "a card without status and without overwritten"),
        ({"status": "valid", "overridden": True, "overwritten": False}, "a card with status valid and overridden"),
        ({"status": "overridden", **LIVE}, "a card with status overridden and no flag set"),
        ({"status": "fine"}, "a card of unknown status"),
        ({"status": ["valid"]}, "a card of unknown status"),
        ({"status": {}}, "a card of unknown status"),
        ({"overridden": "false", "overwritten": False}, "a card whose overridden or overwritten is no boolean"),
        ({"overridden": 0, "overwritten": 0}, "a card whose overridden or overwritten is no boolean"),
        ({"overridden": None, "overwritten": None}, "a card whose overridden or overwritten is no boolean"),
    ],
)
def test_a_card_row_that_makes_no_sense_says_what_is_wrong(row: dict[str, Any], message: str) -> None:
    with pytest.raises(RowWrong) as caught:
        status_of(row)
    assert str(caught.value) == message


def test_the_answer_to_a_card_just_made_may_leave_its_state_out() -> None:
    assert status_of({}, is_new=True) == "valid"
    with pytest.raises(RowWrong):
        status_of({"overridden": False}, is_new=True)


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "", None, 2**63, "x" * 201, [1]])
def test_what_is_no_id_is_refused(value: object) -> None:
    with pytest.raises(RowWrong):
        number_or_text({"id": value}, "id")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1, "guest"), ("2", "common"), ("Guest", "guest"), ("guest entrance", "entrance"), ("guest common", "common"),
        ("common (PMS)", "common"), ("elevator reader relay", "elevator"), (9, None), (True, None), ("²", None), (None, None),
        ("sauna", None), ([1], None),
    ],
)  # fmt: skip
def test_a_doors_type_is_known_or_it_is_none(value: object, kind: str | None) -> None:
    assert kind_in(value, TYPES) == kind


def test_named_doors_are_addressed_by_name_and_the_rest_refused() -> None:
    rows: list[dict[str, Any]] = [
        {"doorID": 1, "doorName": "10358Z", "doorType": 1, "online": True},
        {"doorID": 2, "doorName": "Gym", "doorType": 2},
        {"doorID": 3, "doorName": "Sauna", "doorType": 77},
        {"doorID": 4, "doorName": "twice", "doorType": 1},
        {"doorID": 5, "doorName": "twice", "doorType": 1},
        {"doorID": 6, "doorName": "", "doorType": 1},
        {"doorID": 7, "doorName": "common:9", "doorType": 1},
        {"doorID": 8, "doorName": "a\x1b[2Jb", "doorType": 1},
        {"doorID": 9, "doorName": "n" * 51, "doorType": 1},
        {"doorID": "b\x1b[2J" + "9" * 190, "doorName": "302", "doorType": "guest"},
        {"doorID": "x9", "doorName": "301", "doorType": "guest"},
        {"doorName": "no id", "doorType": "guest"},
        {"doorID": True, "doorName": "no such id", "doorType": 1},
        {"doorID": "8888", "doorName": "of the other shape", "doorType": "guest"},
        {"doorID": 10, "doorName": "8888", "doorType": 1},  # the same name on the wire
    ]
    found = devices_in(rows, TYPES, 0)
    taken = [(one.external_id, one.label) for one in found if not one.refused]
    assert taken == [("10358Z", "10358Z"), ("common:Gym", "Gym"), ("x9", "301")]
    refused = {one.label: one.refused for one in found if one.refused}
    assert refused["Sauna"] == "unknown door type 77: see setting door_types"
    assert refused["twice"].endswith("several doors have this name")
    assert all(label.isprintable() and len(label) <= 60 for label in refused)
    assert all(why.isprintable() and len(why) <= 120 for why in refused.values())
    assert refused["no id"] == refused["no such id"] == "a door without an id"
    assert refused["of the other shape"].endswith("several doors have this name")
    assert len([one for one in found if one.refused]) == 12
