"""The table of moves, and that the FSM, the actions and the table are one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
from django_fsm import TransitionNotAllowed

from credentials.lifecycle import ACTIONS, BY_NAME, LIVE, MOVES, TERMINAL, State, allowed_actions
from credentials.models import KeyCredential

ALLOWED = {
    (State.REQUESTED, State.PENDING), (State.PENDING, State.ACTIVE), (State.ACTIVE, State.SUSPENDED),
    (State.SUSPENDED, State.ACTIVE), (State.ACTIVE, State.REVOKED), (State.SUSPENDED, State.REVOKED),
    (State.REQUESTED, State.FAILED), (State.PENDING, State.FAILED),
}  # fmt: skip


def _key(state: State) -> KeyCredential:
    now = datetime.now(UTC)
    return KeyCredential(id="key_x", state=state.value, valid_from=now, valid_until=now + timedelta(days=1), ends_at=now)


def test_the_table_holds_exactly_the_moves_of_the_design() -> None:
    assert {(source, move.target) for move in MOVES for source in move.sources} == ALLOWED


@pytest.mark.parametrize(("state", "name"), list(product(State, BY_NAME)))
def test_the_model_makes_a_move_exactly_where_the_table_has_it(state: State, name: str) -> None:
    key = _key(state)
    if state in BY_NAME[name].sources:
        getattr(key, name)()
        assert key.state == BY_NAME[name].target
    else:
        with pytest.raises(TransitionNotAllowed):
            getattr(key, name)()
        assert key.state == state


def test_a_state_cannot_be_set_by_hand() -> None:
    with pytest.raises(AttributeError):
        _key(State.REQUESTED).state = State.ACTIVE.value


def test_states_are_live_or_terminal_and_nothing_leaves_a_terminal_one() -> None:
    assert set(State) == LIVE | TERMINAL
    assert not any(source in TERMINAL for move in MOVES for source in move.sources)


def test_what_a_person_may_ask_for_in_each_state() -> None:
    assert {state: allowed_actions(state) for state in State} == {
        State.REQUESTED: ("update", "revoke", "encode", "choose_pin"),
        State.PENDING: ("update", "revoke", "encode", "choose_pin"),  # encode: while its card is in use
        State.ACTIVE: ("update", "suspend", "revoke", "replace", "encode", "retry", "choose_pin", "leave_old_room"),
        State.SUSPENDED: ("update", "unsuspend", "revoke", "retry", "choose_pin", "leave_old_room"),
        State.REVOKED: ("retry",),
        State.FAILED: ("retry", "choose_pin"),
    }
    assert set().union(*ACTIONS.values()) == set(State)
