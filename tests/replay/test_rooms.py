"""Never two stays in one room, whatever is asked for and in whatever order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockservice.replay.rooms import RoomPlan

DAY_ONE = datetime(2026, 3, 1, 14, tzinfo=UTC)
requests = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 200), st.integers(1, 60), st.sampled_from(("hold", "elsewhere", "release"))),
    max_size=80,
)


def play(asked: list[tuple[int, int, int, str]]) -> tuple[RoomPlan, list[int | None], dict[str, tuple[datetime, datetime]]]:
    plan, given_rooms, holding = RoomPlan(), [], {}
    for stay, start_h, length_h, what in asked:
        name, start = str(stay), DAY_ONE + timedelta(hours=start_h)
        if what == "release":
            plan.release(name)
            holding.pop(name, None)
            given_rooms.append(None)
            continue
        end = start + timedelta(hours=length_h)
        given_rooms.append(plan.hold(name, start, end, elsewhere=what == "elsewhere"))
        holding[name] = (start, end)
    return plan, given_rooms, holding


@given(requests)
def test_no_room_ever_holds_two_stays_at_once_and_every_stay_has_one_room(asked: list[tuple[int, int, int, str]]) -> None:
    plan, _, holding = play(asked)
    found = {}
    for number in range(plan.count):
        stays = plan.stays_in(number)
        assert all(one[1] <= other[0] for one, other in pairwise(stays))
        found.update({stay: (start, end) for start, end, stay in stays})
    assert found == holding


@given(requests)
def test_the_same_requests_get_the_same_rooms(asked: list[tuple[int, int, int, str]]) -> None:
    assert play(asked)[1] == play(asked)[1]


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(1, 20)), min_size=1, max_size=40))
def test_stays_asked_for_by_arrival_need_no_more_rooms_than_are_taken_at_once(spans: list[tuple[int, int]]) -> None:
    plan = RoomPlan()
    ordered = sorted(spans)
    for number, (start, length) in enumerate(ordered):
        plan.hold(str(number), DAY_ONE + timedelta(hours=start), DAY_ONE + timedelta(hours=start + length))
    at_once = max(sum(start <= hour < start + length for start, length in ordered) for hour in range(130))
    assert plan.count == at_once


def test_a_stay_keeps_its_room_while_it_is_free_and_moves_when_it_is_not() -> None:
    plan, day = RoomPlan(), timedelta(days=1)
    assert plan.hold("a", DAY_ONE, DAY_ONE + 2 * day) == 0
    assert plan.hold("b", DAY_ONE + 2 * day, DAY_ONE + 3 * day) == 0
    assert plan.hold("a", DAY_ONE, DAY_ONE + day) == 0
    assert plan.hold("a", DAY_ONE, DAY_ONE + 3 * day) == 1
    assert plan.hold("b", DAY_ONE + 2 * day, DAY_ONE + 3 * day, elsewhere=True) == 2


def test_a_span_that_does_not_go_forward_is_refused() -> None:
    with pytest.raises(ValueError, match="after its start"):
        RoomPlan().hold("a", DAY_ONE, DAY_ONE)
