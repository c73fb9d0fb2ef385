"""The verb that closes the gap between what a door shall carry and what it is known to carry."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from credentials.lifecycle import State
from credentials.targets import KEPT, RELEASED, Verb, is_left, is_settled, next_verb, opens_a_room, wanted

START = datetime(2026, 5, 1, tzinfo=UTC)
END = START + timedelta(days=2)


@dataclass
class Key:
    state: str = "active"
    resuming: bool = False
    valid_from: datetime = START
    valid_until: datetime = END
    pin_version: int = 1


@dataclass
class Door:
    dropped: bool = False
    state: str = "present"
    verb: str = ""
    carried_from: datetime | None = START
    carried_until: datetime | None = END
    pin_version: int = 1
    room_id: str = "rmu_1"
    old_room: str = ""


EMPTY = Door(state="none", carried_from=None, carried_until=None, pin_version=0)

keys = st.builds(
    Key, state=st.sampled_from([state.value for state in State]), resuming=st.booleans(), pin_version=st.integers(1, 2)
)
doors = st.builds(
    Door,
    dropped=st.booleans(),
    state=st.sampled_from(["none", "present", "suspended", "absent"]),
    verb=st.sampled_from(["", *Verb]),
    carried_until=st.sampled_from([END, END - timedelta(hours=1)]),
    pin_version=st.integers(0, 2),
    room_id=st.sampled_from(["", "rmu_1"]),
    old_room=st.sampled_from(["", KEPT, RELEASED]),
)


def after(key: Key, door: Door, verb: Verb) -> Door:
    """What the door carries once the verb was confirmed."""
    if verb is Verb.REVOKE:
        return replace(door, state="absent", verb="", carried_from=None, carried_until=None, pin_version=0)
    if verb is Verb.SUSPEND:
        return replace(door, state="suspended", verb="")
    pin = key.pin_version if verb is Verb.ISSUE else door.pin_version
    window = {"carried_from": key.valid_from, "carried_until": key.valid_until}
    return replace(door, state="present", verb="", pin_version=pin, **window)


@given(keys, doors)
def test_confirmed_verbs_always_lead_to_what_is_wanted_within_three_steps(key: Key, door: Door) -> None:
    for _ in range(3):
        verb = next_verb(key, door)
        if verb is None:
            break
        door = after(key, door, verb)
    assert next_verb(key, door) is None
    if wanted(key, door) == "present":
        assert (door.state, door.carried_until) == ("present", key.valid_until)
        assert door.pin_version == key.pin_version or door.old_room == KEPT
    elif wanted(key, door) == "absent":
        assert door.state in ("none", "absent")
    else:
        assert door.state != "present"


@given(keys, doors)
def test_a_door_in_doubt_is_never_settled(key: Key, door: Door) -> None:
    if door.verb:
        assert not is_settled(key, [door])


@given(keys, doors)
def test_a_key_that_is_over_is_only_ever_taken_away(key: Key, door: Door) -> None:
    if key.state in ("revoked", "failed") or is_left(door):
        assert next_verb(key, door) in (None, Verb.REVOKE)


def test_what_is_asked_in_the_common_cases() -> None:
    assert next_verb(Key("pending"), EMPTY) is Verb.ISSUE
    assert next_verb(Key(), Door()) is None
    assert next_verb(Key(valid_until=END + timedelta(days=1)), Door()) is Verb.UPDATE
    assert next_verb(Key("suspended"), Door()) is Verb.SUSPEND
    assert next_verb(Key("suspended", resuming=True), Door(state="suspended")) is Verb.UNSUSPEND
    assert next_verb(Key("revoked"), Door()) is Verb.REVOKE
    assert next_verb(Key("failed"), Door(state="none", verb="issue")) is Verb.REVOKE
    assert next_verb(Key(pin_version=2), Door()) is Verb.REVOKE


def test_a_room_that_was_left_is_taken_unless_it_is_kept() -> None:
    assert next_verb(Key(), Door(dropped=True)) is Verb.REVOKE
    assert next_verb(Key(), Door(dropped=True, old_room=RELEASED)) is Verb.REVOKE
    kept = Door(dropped=True, old_room=KEPT)
    assert next_verb(Key(), kept) is None
    assert next_verb(Key(pin_version=2), kept) is None  # she knows the digits of before
    assert next_verb(Key(valid_until=END + timedelta(days=1)), kept) is Verb.UPDATE
    assert next_verb(Key("suspended"), kept) is Verb.SUSPEND
    assert next_verb(Key("revoked"), kept) is Verb.REVOKE


def test_a_key_opens_a_room_only_when_a_rooms_door_is_certain() -> None:
    shared = Door(room_id="")
    assert opens_a_room(Key(), [Door(), shared])
    assert not opens_a_room(Key(), [Door(state="none"), shared])
    assert not opens_a_room(Key(), [Door(verb="issue"), shared])
    assert opens_a_room(Key(), [shared])
