"""The allocator over real rows: free at every door, decided by the database, never beyond a door's capacity."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

from django.db import connection

from credentials import pin_slots
from credentials.models import PinSlot
from credentials.pin_slots import DoorFull, PinWish
from credentials.pins import NoPinPossible
from lockservice.core.outage import through_outages
from lockservice.core.tenancy import tenant
from vendors.port.ids import new_id
from vendors.port.secrets import Pin

FOUR_DIGITS = "0123"


def _wish(doors: tuple[str, ...], *, keypad: str = "0123456789", length: int = 6, capacity: int | None = None) -> PinWish:
    return PinWish(new_id("key"), doors, (keypad,), length, capacity)


def test_digits_are_unique_per_door_under_many_writers_at_once(database: str) -> None:
    tenant_id, street = new_id("tnt"), new_id("lck")

    def work(number: int) -> list[Pin]:
        def four() -> list[Pin]:
            with tenant(tenant_id):
                wishes = [_wish((street, f"lck_{number}"), keypad=FOUR_DIGITS, length=4) for _ in range(4)]
                return [pin for pin in pin_slots.allocate(tenant_id, wishes).values() if isinstance(pin, Pin)]

        # Second tries of few digits may meet in a deadlock, after which the runner repeats the step as this does.
        got = [pin for _ in range(6) for pin in through_outages(four, 60)]
        connection.close()
        return got

    with ThreadPoolExecutor(4) as pool:
        pins = [pin.reveal() for part in pool.map(work, range(4)) for pin in part]
    assert len(pins) == len(set(pins)) == 96  # of 4^4 possible, most are not trivial
    with tenant(tenant_id):
        assert PinSlot.objects.filter(tenant_id=tenant_id, device_id=street).count() == 96


def test_when_no_digits_are_left_it_says_so_and_leaves_no_rows(database: str) -> None:
    tenant_id, door = new_id("tnt"), new_id("lck")
    with tenant(tenant_id):
        wishes = [_wish((door,), keypad="012", length=4) for _ in range(90)]
        given = pin_slots.allocate(tenant_id, wishes)
        pins = [pin for pin in given.values() if isinstance(pin, Pin)]
        reasons = {type(reason) for reason in given.values() if not isinstance(reason, Pin)}
        assert reasons == {NoPinPossible}
        assert PinSlot.objects.filter(tenant_id=tenant_id).count() == len(pins)


def test_a_door_never_holds_more_than_it_can(database: str) -> None:
    tenant_id, door, other = new_id("tnt"), new_id("lck"), new_id("lck")
    with tenant(tenant_id):
        given = pin_slots.allocate(tenant_id, [_wish((door, other), capacity=3) for _ in range(5)])
        assert sorted(type(answer).__name__ for answer in given.values()) == ["DoorFull", "DoorFull", "Pin", "Pin", "Pin"]
        holder = next(key for key, answer in given.items() if isinstance(answer, Pin))
        now = datetime.now(UTC)
        pin_slots.release(tenant_id, [(holder, door, now + timedelta(days=30)), (holder, other, now + timedelta(days=30))])
        (again,) = pin_slots.allocate(tenant_id, [_wish((door, other), capacity=3)]).values()
        assert isinstance(again, Pin)
        (full,) = pin_slots.allocate(tenant_id, [_wish((door,), capacity=3)]).values()
        assert isinstance(full, DoorFull)


def test_resting_digits_are_not_given_again_until_their_rest_is_over(database: str) -> None:
    tenant_id, door = new_id("tnt"), new_id("lck")
    now = datetime.now(UTC)
    with tenant(tenant_id):
        wish = _wish((door,))
        (pin,) = pin_slots.allocate(tenant_id, [wish]).values()
        assert isinstance(pin, Pin)
        pin_slots.release(tenant_id, [(wish.credential_id, door, now + timedelta(days=30))])
        assert not pin_slots.take_at(tenant_id, new_id("key"), pin, [door])
        assert pin_slots.forget_rested(tenant_id, now + timedelta(days=29)) == 0
        assert pin_slots.forget_rested(tenant_id, now + timedelta(days=31)) == 1
        assert pin_slots.take_at(tenant_id, new_id("key"), pin, [door])


def test_a_moved_guest_keeps_her_digits_only_where_nobody_else_has_them(database: str) -> None:
    tenant_id, old, new = new_id("tnt"), new_id("lck"), new_id("lck")
    with tenant(tenant_id):
        mine = _wish((old,))
        (pin,) = pin_slots.allocate(tenant_id, [mine]).values()
        assert isinstance(pin, Pin)
        assert pin_slots.take_at(tenant_id, mine.credential_id, pin, [old, new])
        stranger = new_id("key")
        assert not pin_slots.take_at(tenant_id, stranger, pin, [new, new_id("lck")])
        assert not PinSlot.objects.filter(tenant_id=tenant_id, credential_id=stranger).exists()
