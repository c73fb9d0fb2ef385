"""What changes in the cloud's records alone, by hand in the vendor's own app or by a loss at the vendor.

One rule: the doors are not told; they go on with what they know.
"""

from __future__ import annotations

from dataclasses import replace

from .model import Lock
from .world import World


def forget(lock: Lock, value: str) -> int:
    """Lose the records of a code or a card's number; return how many there were."""
    codes = [p.passcode_id for p in lock.passcodes.values() if p.code == value]
    cards = [c.card_id for c in lock.cards.values() if c.number == value]
    for passcode_id in codes:
        del lock.passcodes[passcode_id]
    for card_id in cards:
        del lock.cards[card_id]
    return len(codes) + len(cards)


def renumber(world: World, lock: Lock, value: str, name: str | None) -> int:
    """Delete and enter a code or card again: the same value under another id, and another name if one is given."""
    codes = [p for p in lock.passcodes.values() if p.code == value]
    cards = [c for c in lock.cards.values() if c.number == value]
    forget(lock, value)
    for code in codes:
        fresh = replace(code, passcode_id=world.new_id(), name=code.name if name is None else name)
        lock.passcodes[fresh.passcode_id] = fresh
    for card in cards:
        again = replace(card, card_id=world.new_id(), name=card.name if name is None else name)
        lock.cards[again.card_id] = again
    return len(codes) + len(cards)
