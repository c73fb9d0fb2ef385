"""The picture of a key's life, the count of nights, and the roles: pure parts of the console."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from credentials.lifecycle import ACTIONS, MOVES, State
from lockservice.console.arrivals import night
from lockservice.console.key_forms import BUTTONS
from lockservice.console.roles import Right, Role, permissions_of, revoke_reasons, suspend_reasons
from lockservice.console.state_picture import HEIGHT, NODE_WIDTH, WIDTH, draw
from lockservice.core.auth_permissions import ROLES, Permission


def test_the_picture_has_every_state_and_every_move() -> None:
    picture = draw("active", [("", "requested"), ("requested", "pending"), ("pending", "active")], mirrored=False)
    assert len(picture.nodes) == len(State)
    assert len(picture.arrows) == sum(len(move.sources) for move in MOVES)
    assert sum(arrow.was_made for arrow in picture.arrows) == 2
    assert [node.is_here for node in picture.nodes].count(True) == 1
    assert sum(node.was_here for node in picture.nodes) == 2


def test_the_picture_is_mirrored_for_right_to_left() -> None:
    plain, mirrored = (draw("requested", [], mirrored=flag) for flag in (False, True))
    assert [node.x for node in mirrored.nodes] == [WIDTH - node.x for node in plain.nodes]


def test_every_node_lies_inside_and_every_arrow_ends_outside_of_nodes() -> None:
    picture = draw("requested", [], mirrored=True)
    for node in picture.nodes:
        assert node.left >= 0
        assert node.left + NODE_WIDTH <= WIDTH
        assert node.top >= 0
        assert node.top + picture.node_height <= HEIGHT
    for arrow in picture.arrows:
        for x, y in ((arrow.x1, arrow.y1), (arrow.x2, arrow.y2)):
            inside = [n for n in picture.nodes if abs(x - n.x) < NODE_WIDTH / 2 and abs(y - n.y) < picture.node_height / 2]
            assert inside == []


@pytest.mark.parametrize(
    ("now", "first"),
    [("2026-11-27T22:30:00", "2026-11-27T01:30:00"), ("2026-11-28T01:29:00", "2026-11-27T01:30:00"), ("2026-11-28T01:30:00", "2026-11-28T01:30:00")],
)  # fmt: skip
def test_the_night_lasts_until_six_in_the_morning_of_the_house(now: str, first: str) -> None:
    start, end = night(datetime.fromisoformat(now).replace(tzinfo=UTC), "Asia/Kabul")
    assert start == datetime.fromisoformat(first).replace(tzinfo=UTC)
    assert (end - start).total_seconds() == 24 * 3600


def test_every_action_of_the_lifecycle_has_its_button() -> None:
    assert set(ACTIONS) <= set(BUTTONS)
    assert set(BUTTONS) - set(ACTIONS) == {"confirm", "reveal"}


def test_roles_of_the_desk_are_those_of_the_api_and_support_gets_no_pin_and_no_name() -> None:
    for role in (Role.FRONT_DESK, Role.FRONT_DESK_SUPERVISOR, Role.GM):
        assert permissions_of(role) >= ROLES[role.value]
    assert not permissions_of(Role.SUPPORT) & {
        Permission.PIN_REVEAL,
        Right.GUEST_READ,
        Permission.KEY_ENCODE,
        Permission.POLICY_EDIT,
    }
    assert Permission.KEY_READ not in permissions_of(Role.AUDITOR) | permissions_of(Role.PLATFORM)


def test_a_clerk_revokes_for_checkout_and_loss_only() -> None:
    assert [reason.value for reason in revoke_reasons(permissions_of(Role.FRONT_DESK))] == ["checkout", "lost"]
    assert [reason.value for reason in suspend_reasons(permissions_of(Role.FRONT_DESK))] == ["manual"]
    assert [reason.value for reason in revoke_reasons(permissions_of(Role.GM))] == [
        "checkout",
        "cancellation",
        "security",
        "lost",
    ]
    assert revoke_reasons(permissions_of(Role.AUDITOR)) == ()
