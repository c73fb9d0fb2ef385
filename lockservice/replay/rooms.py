"""Gives rooms to stays: never two stays in one room, always the same room for the same requests.

One rule: a stay keeps its room while the room is free for it; otherwise it gets the free room with the lowest number.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from datetime import datetime


class RoomPlan:
    """Which stay holds which room when. Rooms are numbered from 0; there are as many as were ever needed at once.

    Instants are of one kind throughout (all local, or all with a zone); starts are included, ends excluded.
    """

    def __init__(self) -> None:
        self._rooms: list[list[tuple[datetime, datetime, str]]] = []
        self._held: dict[str, tuple[int, datetime, datetime]] = {}

    @property
    def count(self) -> int:
        """How many rooms have been needed so far."""
        return len(self._rooms)

    def hold(self, stay: str, start: datetime, end: datetime, *, elsewhere: bool = False) -> int:
        """Gives the stay a room for this span in place of what it held, and returns it. `elsewhere` asks for another room.

        Raises ValueError for a span that does not end after its start.
        """
        if end <= start:
            raise ValueError("a span ends after its start")
        before = self._held.get(stay)
        self.release(stay)
        number = self._choose(start, end, before[0] if before else None, elsewhere=elsewhere)
        insort(self._rooms[number], (start, end, stay))
        self._held[stay] = (number, start, end)
        return number

    def release(self, stay: str) -> None:
        """Gives the stay's room back; nothing held is fine."""
        held = self._held.pop(stay, None)
        if held is not None:
            number, start, end = held
            self._rooms[number].remove((start, end, stay))

    def stays_in(self, number: int) -> list[tuple[datetime, datetime, str]]:
        """Returns who holds a room, by start."""
        return list(self._rooms[number])

    def _choose(self, start: datetime, end: datetime, before: int | None, *, elsewhere: bool) -> int:
        if before is not None and not elsewhere and self._is_free(before, start, end):
            return before
        for number in range(len(self._rooms)):
            if not (elsewhere and number == before) and self._is_free(number, start, end):
                return number
        self._rooms.append([])
        return len(self._rooms) - 1

    def _is_free(self, number: int, start: datetime, end: datetime) -> bool:
        """The spans of a room do not overlap, so only the neighbours of this one can be in the way."""
        spans = self._rooms[number]
        place = bisect_left(spans, (start,))
        if place > 0 and spans[place - 1][1] > start:
            return False
        return place == len(spans) or spans[place][0] >= end
