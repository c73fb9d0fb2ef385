"""Break-glass: an incident, two others who agree, one look, an end, and a secret that must be rotated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connections
from django.test import override_settings

from devices import break_glass, secret_due, secret_rotation
from devices.break_glass import BreakGlassRefused
from devices.models import BreakGlass, BreakGlassStep, SecretDue, VendorInstallation
from lockservice.core.secret_store import SecretName, secret_store
from lockservice.core.tenancy import tenant
from sagas.models import Alert
from tests.flows.conftest import alerts, make_hotel
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from vendors.port.ids import new_id
from vendors.port.secrets import Token

NAME = "webhook_secret"
DAY = timedelta(days=1)
ASKER, FIRST, SECOND = "usr_asker", "usr_first", "usr_second"
REASON = "the vendor's portal lost our key"


@pytest.fixture
def secret() -> str:
    return f"glass-{new_id('evt')}"


@pytest.fixture
def house(database: str, locks: MockLocks, secret: str) -> Hotel:
    return make_hotel(locks, secrets={NAME: secret})


def ask(house: Hotel) -> BreakGlass:
    return break_glass.ask(house.tenant_id, house.installation_id, NAME, incident="INC-2026/117", reason=REASON, actor_id=ASKER)


def agreed(house: Hotel) -> BreakGlass:
    row = ask(house)
    for person in (FIRST, SECOND):
        row = break_glass.approve(house.tenant_id, row.id, actor_id=person)
    return row


def read(row: BreakGlass) -> BreakGlass:
    with tenant(row.tenant_id):
        return BreakGlass.objects.get(tenant_id=row.tenant_id, id=row.id)


def steps(row: BreakGlass) -> list[tuple[str, str]]:
    with tenant(row.tenant_id):
        return [(step.step, step.actor_id) for step in break_glass.steps_of(row)]


def due(house: Hotel) -> tuple[str, str, timedelta]:
    with tenant(house.tenant_id):
        (line,) = [line for line in secret_due.listed(house.tenant_id, datetime.now(UTC)) if line.name == NAME]
    return line.reason, line.detail, line.left


def let_time_pass(row: BreakGlass) -> None:
    with tenant(row.tenant_id):
        BreakGlass.objects.filter(tenant_id=row.tenant_id, id=row.id).update(
            expires_at=datetime.now(UTC) - timedelta(seconds=1)
        )


def refused(call: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(BreakGlassRefused) as caught:
        call()
    return caught.value.code, caught.value.detail


def test_two_others_agree_and_the_asker_looks_once(house: Hotel, secret: str) -> None:
    row = agreed(house)
    assert row.state == "approved"
    assert break_glass.reveal(house.tenant_id, row.id, actor_id=ASKER) == Token(secret)
    assert refused(lambda: break_glass.reveal(house.tenant_id, row.id, actor_id=ASKER)) == (
        "TRANSITION_REFUSED", "not possible while revealed",
    )  # fmt: skip
    assert steps(row) == [("requested", ASKER), ("approved", FIRST), ("approved", SECOND), ("revealed", ASKER)]
    assert alerts(house) == [("BREAK_GLASS_REQUESTED", "warning"), ("BREAK_GLASS_OPENED", "critical")]


def test_a_secret_that_was_shown_is_due_at_once_and_within_a_day_of_the_close(house: Hotel) -> None:
    assert due(house)[0] == "cadence"
    row = agreed(house)
    assert due(house)[0] == "cadence"
    break_glass.reveal(house.tenant_id, row.id, actor_id=ASKER)
    reason, detail, left = due(house)
    assert (reason, detail) == ("break_glass", row.id)
    assert DAY < left <= DAY + break_glass.OPEN_FOR
    break_glass.close(house.tenant_id, row.id, actor_id=ASKER, reason="done")
    reason, detail, left = due(house)
    assert (reason, detail, left <= DAY) == ("break_glass", row.id, True)
    assert read(row).state == "closed"


def test_a_secret_rotated_before_the_close_is_not_due_again(house: Hotel) -> None:
    row = agreed(house)
    break_glass.reveal(house.tenant_id, row.id, actor_id=ASKER)
    value = Token(f"glass-{new_id('evt')}")
    secret_rotation.rotate(house.tenant_id, house.installation_id, {NAME: value}, actor_id=ASKER)
    break_glass.close(house.tenant_id, row.id, actor_id=ASKER)
    assert due(house)[0] == "cadence"


def test_a_value_that_was_shown_is_taken_no_longer_than_its_rotation_may_wait(house: Hotel, secret: str) -> None:
    row = agreed(house)
    break_glass.reveal(house.tenant_id, row.id, actor_id=ASKER)
    break_glass.close(house.tenant_id, row.id, actor_id=ASKER)
    _reason, _detail, left = due(house)
    value = Token(f"glass-{new_id('evt')}")
    done = secret_rotation.rotate(house.tenant_id, house.installation_id, {NAME: value}, actor_id=ASKER)
    assert done.retire_at is not None
    ends = datetime.now(UTC) + left
    assert ends - timedelta(minutes=1) < done.retire_at <= ends


def test_a_value_that_was_shown_and_is_due_no_longer_stands_beside_the_new_one(house: Hotel) -> None:
    row = agreed(house)
    break_glass.reveal(house.tenant_id, row.id, actor_id=ASKER)
    with tenant(house.tenant_id):
        SecretDue.objects.filter(tenant_id=house.tenant_id, name=NAME).update(due_at=datetime.now(UTC) - DAY)
    value = Token(f"glass-{new_id('evt')}")
    secret_rotation.rotate(house.tenant_id, house.installation_id, {NAME: value}, actor_id=ASKER)
    with tenant(house.tenant_id):
        (held,) = VendorInstallation.objects.filter(tenant_id=house.tenant_id, id=house.installation_id)
    assert held.secret_versions == {NAME: 2}


def test_rolling_back_to_a_value_that_was_shown_is_as_urgent_as_it_was(house: Hotel) -> None:
    row = agreed(house)
    break_glass.reveal(house.tenant_id, row.id, actor_id=ASKER)
    _reason, _detail, before = due(house)
    value = Token(f"glass-{new_id('evt')}")
    secret_rotation.rotate(house.tenant_id, house.installation_id, {NAME: value}, actor_id=ASKER)
    break_glass.close(house.tenant_id, row.id, actor_id=ASKER)
    assert due(house)[0] == "cadence"
    secret_rotation.roll_back(house.tenant_id, house.installation_id)
    reason, detail, left = due(house)
    assert (reason, detail) == ("break_glass", row.id)
    assert left <= DAY < before


def test_what_nobody_looked_at_is_withdrawn_and_needs_no_rotation(house: Hotel) -> None:
    row = agreed(house)
    break_glass.close(house.tenant_id, row.id, actor_id=ASKER)
    assert (read(row).state, due(house)[0]) == ("closed", "cadence")
    assert refused(lambda: break_glass.reveal(house.tenant_id, row.id, actor_id=ASKER))[0] == "TRANSITION_REFUSED"


def test_who_asks_cannot_agree_and_nobody_agrees_twice(house: Hotel) -> None:
    row = ask(house)
    assert refused(lambda: break_glass.approve(house.tenant_id, row.id, actor_id=ASKER)) == (
        "TRANSITION_REFUSED", "who asks cannot agree",
    )  # fmt: skip
    break_glass.approve(house.tenant_id, row.id, actor_id=FIRST)
    assert refused(lambda: break_glass.approve(house.tenant_id, row.id, actor_id=FIRST)) == (
        "TRANSITION_REFUSED", "this person has agreed already",
    )  # fmt: skip
    assert (read(row).state, steps(row)) == ("requested", [("requested", ASKER), ("approved", FIRST)])
    assert refused(lambda: break_glass.reveal(house.tenant_id, row.id, actor_id=ASKER))[0] == "TRANSITION_REFUSED"


def test_only_the_asker_looks_and_closes(house: Hotel) -> None:
    row = agreed(house)
    for person in (FIRST, SECOND, "usr_stranger"):
        for act in (break_glass.reveal, break_glass.close):
            assert refused(lambda act=act, person=person: act(house.tenant_id, row.id, actor_id=person)) == (  # type: ignore[misc]
                "TRANSITION_REFUSED", "only the person who asked may do this",
            )  # fmt: skip
    assert (read(row).state, due(house)[0]) == ("approved", "cadence")


def test_one_refusal_ends_it(house: Hotel) -> None:
    row = agreed(house)
    break_glass.refuse(house.tenant_id, row.id, actor_id="usr_third", reason="the incident is over")
    assert read(row).state == "refused"
    assert refused(lambda: break_glass.reveal(house.tenant_id, row.id, actor_id=ASKER))[0] == "TRANSITION_REFUSED"


@pytest.mark.parametrize("stage", ["asked", "agreed", "shown"])
def test_a_request_ends_by_itself(house: Hotel, stage: str) -> None:
    row = ask(house) if stage == "asked" else agreed(house)
    if stage == "shown":
        break_glass.reveal(house.tenant_id, row.id, actor_id=ASKER)
    let_time_pass(row)
    for act in (break_glass.approve, break_glass.reveal, break_glass.close):
        assert refused(lambda act=act: act(house.tenant_id, row.id, actor_id=ASKER)) == (  # type: ignore[misc]
            "TRANSITION_REFUSED", "the request's time is over",
        )  # fmt: skip
    assert break_glass.close_expired() >= 1
    assert (read(row).state, steps(row)[-1]) == ("expired", ("expired", ""))
    reason, _detail, left = due(house)
    assert (reason == "break_glass", left <= DAY) == ((True, True) if stage == "shown" else (False, False))
    assert break_glass.close_expired() == 0


def test_after_the_second_agreement_there_is_an_hour(house: Hotel) -> None:
    row = agreed(house)
    assert timedelta(minutes=59) < row.expires_at - datetime.now(UTC) <= break_glass.REVEAL_WITHIN


@pytest.mark.parametrize(
    ("incident", "reason", "name", "code"),
    [
        ("", REASON, NAME, "VALIDATION_FAILED"),
        ("two words", REASON, NAME, "VALIDATION_FAILED"),
        ("INC-1", "because", NAME, "VALIDATION_FAILED"),
        ("INC-1", REASON, "api_key", "VALIDATION_FAILED"),
        ("INC-1", REASON, "settings", "VALIDATION_FAILED"),
    ],
)
def test_a_request_names_incident_reason_and_a_secret_that_is_there(
    house: Hotel, incident: str, reason: str, name: str, code: str
) -> None:
    call = lambda: break_glass.ask(  # noqa: E731
        house.tenant_id, house.installation_id, name, incident=incident, reason=reason, actor_id=ASKER
    )
    assert refused(call)[0] == code
    with tenant(house.tenant_id):
        assert not BreakGlass.objects.filter(tenant_id=house.tenant_id).exists()
        assert not Alert.objects.filter(tenant_id=house.tenant_id).exists()


def test_one_secret_has_one_open_request_and_another_tenant_sees_none(house: Hotel, locks: MockLocks) -> None:
    row = ask(house)
    assert refused(lambda: ask(house)) == ("TRANSITION_REFUSED", "a request for this secret is open already")
    other = make_hotel(locks)
    for act in (break_glass.approve, break_glass.reveal, break_glass.close):
        assert refused(lambda act=act: act(other.tenant_id, row.id, actor_id=FIRST)) == (  # type: ignore[misc]
            "NOT_FOUND", "no such request",
        )  # fmt: skip
    assert refused(
        lambda: break_glass.ask(other.tenant_id, house.installation_id, NAME, incident="INC-1", reason=REASON, actor_id=ASKER)
    ) == ("NOT_FOUND", "no such lock system")


def test_a_store_that_is_down_uses_the_look_not_up(house: Hotel, secret: str, tmp_path: Path) -> None:
    row = agreed(house)
    with override_settings(SECRET_STORE_FOLDER=str(tmp_path / "away")):
        assert refused(lambda: break_glass.reveal(house.tenant_id, row.id, actor_id=ASKER))[0] == "VENDOR_UNREACHABLE"
    assert break_glass.reveal(house.tenant_id, row.id, actor_id=ASKER).reveal() == secret


def test_a_value_that_was_changed_in_the_store_is_not_shown_and_uses_the_look_not_up(house: Hotel, secret: str) -> None:
    row = agreed(house)
    place = SecretName(house.tenant_id, house.property_id, house.installation_id, NAME)
    (file,) = Path(settings.SECRET_STORE_FOLDER).joinpath(*place.parts).iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert refused(lambda: break_glass.reveal(house.tenant_id, row.id, actor_id=ASKER))[0] == "VENDOR_UNREACHABLE"
    file.write_bytes(whole)
    assert break_glass.reveal(house.tenant_id, row.id, actor_id=ASKER).reveal() == secret


def test_a_look_at_one_secret_needs_no_other(database: str, locks: MockLocks, secret: str) -> None:
    house = make_hotel(locks, secrets={NAME: secret, f"{NAME}_next": f"glass-{new_id('evt')}"})
    secret_store().destroy(SecretName(house.tenant_id, house.property_id, house.installation_id, NAME), 2)
    assert break_glass.reveal(house.tenant_id, agreed(house).id, actor_id=ASKER).reveal() == secret


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(3) as workers:
        yield workers


def test_of_two_looks_at_the_same_moment_one_sees_it(house: Hotel, pool: ThreadPoolExecutor) -> None:
    row = agreed(house)

    def look(_: int) -> bool:
        try:
            break_glass.reveal(house.tenant_id, row.id, actor_id=ASKER)
        except BreakGlassRefused:
            return False
        finally:
            connections.close_all()
        return True

    assert sorted(pool.map(look, range(3))) == [False, False, True]
    assert [step for step, _ in steps(row)].count("revealed") == 1


def test_the_story_can_only_grow_and_no_row_has_the_value(house: Hotel, secret: str) -> None:
    row = agreed(house)
    break_glass.reveal(house.tenant_id, row.id, actor_id=ASKER)
    with tenant(house.tenant_id):
        for model in (BreakGlass, BreakGlassStep, SecretDue, Alert):
            assert secret not in str(list(model.objects.filter(tenant_id=house.tenant_id).values()))
    from django.db.utils import ProgrammingError

    for change in ("update", "delete"):
        with pytest.raises(ProgrammingError, match="permission denied"), tenant(house.tenant_id):
            rows = BreakGlassStep.objects.filter(tenant_id=house.tenant_id)
            rows.update(actor_id="usr_x") if change == "update" else rows.delete()
