"""The life of a credential: every state, every move, in one table.

    requested → pending → active ⇄ suspended        active | suspended → revoked        requested | pending → failed

Nothing else moves. `pending` is written before the vendor is called, so that a crash during the call leaves a credential that
says somebody was asked. `revoked` and `failed` are terminal: a new key is a new credential.
One rule: whoever needs to know a move (the FSM decorators, the database trigger, buttons, `allowedActions`, tests, the diagram
in the README) reads MOVES; nobody lists the moves again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Where a credential stands."""

    REQUESTED = "requested"
    PENDING = "pending"
    ACTIVE = "active"
    SUSPENDED = "suspended"
    REVOKED = "revoked"
    FAILED = "failed"


LIVE = frozenset({State.REQUESTED, State.PENDING, State.ACTIVE, State.SUSPENDED})
"""States in which a credential is, or may still become, a key that opens."""

WAITING = frozenset({State.REQUESTED, State.PENDING})
"""States in which a credential can wait for somebody (`waiting_for`): pending, for the desk, while its card is in use."""

TERMINAL = frozenset({State.REVOKED, State.FAILED})

WINDOW_ENDED = "window_ended"
COMES_BACK = frozenset(
    {WINDOW_ENDED, "room_moved", "also_killed", "device_decommissioned", "doors_changed", "property.deactivated"}
)
"""What may have ended a key (`end_trigger`) and does not hold its stay shut: the booking may give another one. A person's own
revoke has no trigger, and holds."""


@dataclass(frozen=True, slots=True)
class Move:
    """One allowed move. `event` is the last part of the subject it emits, `melmastoon.lock.credential.<event>.v1`."""

    name: str
    sources: frozenset[State]
    target: State
    event: str


MOVES: tuple[Move, ...] = (
    Move("hand_over", frozenset({State.REQUESTED}), State.PENDING, "pending"),
    Move("activate", frozenset({State.PENDING}), State.ACTIVE, "issued"),
    Move("suspend", frozenset({State.ACTIVE}), State.SUSPENDED, "suspended"),
    Move("unsuspend", frozenset({State.SUSPENDED}), State.ACTIVE, "unsuspended"),
    Move("revoke", frozenset({State.ACTIVE, State.SUSPENDED}), State.REVOKED, "revoked"),
    Move("fail", frozenset({State.REQUESTED, State.PENDING}), State.FAILED, "failed"),
)

BY_NAME: dict[str, Move] = {move.name: move for move in MOVES}

ACTIONS: dict[str, frozenset[State]] = {
    "update": LIVE,
    "suspend": frozenset({State.ACTIVE}),
    "unsuspend": frozenset({State.SUSPENDED}),
    "revoke": LIVE,
    "replace": frozenset({State.ACTIVE}),
    "encode": frozenset({State.REQUESTED, State.PENDING, State.ACTIVE}),
    "retry": frozenset({State.ACTIVE, State.SUSPENDED, State.REVOKED, State.FAILED}),
    "choose_pin": LIVE | {State.FAILED},
    "leave_old_room": frozenset({State.ACTIVE, State.SUSPENDED}),
}
"""What a person may ask for in each state. Revoking a key not yet active abandons it (`fail`)."""


def allowed_actions(state: State | str) -> tuple[str, ...]:
    """Returns the actions a person may ask for in this state, in a stable order."""
    return tuple(name for name, states in ACTIONS.items() if State(state) in states)


def may(action: str, state: State | str) -> bool:
    """Says whether the action is allowed in the state. Raises KeyError for an action that does not exist."""
    return State(state) in ACTIONS[action]
