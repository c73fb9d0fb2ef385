"""Lays out the life of a credential as a small picture: states as nodes, moves as arrows.

One rule: the moves are those of `credentials.lifecycle.MOVES`; only where a state stands on the page is decided here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from credentials.lifecycle import MOVES, State
from lockservice.console.words import STATES, Word

WIDTH, HEIGHT = 720, 132
NODE_WIDTH, NODE_HEIGHT = 128, 34
_PLACES: dict[State, tuple[int, int]] = {
    State.REQUESTED: (72, 28),
    State.PENDING: (262, 28),
    State.ACTIVE: (452, 28),
    State.REVOKED: (646, 28),
    State.FAILED: (167, 104),
    State.SUSPENDED: (549, 104),
}
_APART = 9.0
"""Pixels from the middle for each of the two arrows of a move and its way back."""


@dataclass(frozen=True, slots=True)
class Node:
    """A state: centre, word, and whether the credential is or was there."""

    x: int
    y: int
    left: int
    top: int
    word: Word
    is_here: bool
    was_here: bool


@dataclass(frozen=True, slots=True)
class Arrow:
    """A move, from border to border, and whether the credential made it."""

    x1: float
    y1: float
    x2: float
    y2: float
    was_made: bool


@dataclass(frozen=True, slots=True)
class Picture:
    """What the template draws."""

    nodes: list[Node]
    arrows: list[Arrow]
    width: int = WIDTH
    height: int = HEIGHT
    node_width: int = NODE_WIDTH
    node_height: int = NODE_HEIGHT


def draw(state: str, made: Iterable[tuple[str, str]], *, mirrored: bool) -> Picture:
    """Returns the picture for a credential in `state` that made the moves (source, target). Mirrored for right-to-left."""
    made = set(made)
    seen = {target for _, target in made} | {state}
    nodes = [_node(place, state, seen, mirrored) for place in _PLACES]
    pairs = {(source, move.target) for move in MOVES for source in move.sources}
    arrows = [_arrow(source, target, pairs, made, mirrored) for source, target in sorted(pairs)]
    return Picture(nodes, arrows)


def _at(state: State, mirrored: bool) -> tuple[int, int]:
    x, y = _PLACES[state]
    return (WIDTH - x, y) if mirrored else (x, y)


def _node(place: State, state: str, seen: set[str], mirrored: bool) -> Node:
    x, y = _at(place, mirrored)
    return Node(
        x=x,
        y=y,
        left=x - NODE_WIDTH // 2,
        top=y - NODE_HEIGHT // 2,
        word=STATES[place],
        is_here=place == state,
        was_here=place in seen and place != state,
    )


def _arrow(source: State, target: State, pairs: set[tuple[State, State]], made: set[tuple[str, str]], mirrored: bool) -> Arrow:
    (ax, ay), (bx, by) = _at(source, mirrored), _at(target, mirrored)
    dx, dy = float(bx - ax), float(by - ay)
    across = (NODE_WIDTH / 2 + 4) / abs(dx) if dx else 1.0
    along = (NODE_HEIGHT / 2 + 4) / abs(dy) if dy else 1.0
    cut = min(across, along)
    shift = (
        (_APART if dy > 0 else -_APART) if (target, source) in pairs else 0.0
    )  # sideways, so that both ends stay at a border
    return Arrow(
        round(ax + dx * cut + shift, 1),
        round(ay + dy * cut, 1),
        round(bx - dx * cut + shift, 1),
        round(by - dy * cut, 1),
        (source.value, target.value) in made,
    )
