"""Rotation with an overlap: new beside old, tried first, put back when wrong, and the list of what is due."""

from __future__ import annotations

import io
import json
import re
import secrets as chance
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connections

from devices import adapters, secret_due, secret_rotation, secret_upkeep, selectors, webhooks_addresses
from devices.models import SecretDue, SecretFingerprint, SecretRotation, VendorInstallation
from devices.secret_rotation import RotationRefused, RotationWaits
from devices.secret_sealing import SealedInstallation
from devices.secret_upkeep import Place
from lockservice.core.secret_store import MAX_BYTES, SecretMissing, SecretName, secret_store
from lockservice.core.tenancy import tenant
from tests.flows.conftest import alerts, keys, make_hotel, pin_of
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from tests.support.sweep_ttlock import TtlockCloud, TtlockHotel
from vendors.port.ids import new_id
from vendors.port.secrets import Token

Settle = Callable[..., int]
NAME = "webhook_secret"
DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def cloud() -> Iterator[TtlockCloud]:
    running = TtlockCloud()
    yield running
    running.stop()


@pytest.fixture
def house(database: str, locks: MockLocks) -> Hotel:
    return make_hotel(locks, secrets={NAME: fresh().reveal()})


def fresh() -> Token:
    return Token(f"secret-{new_id('evt')}")


def held(hotel: Hotel) -> dict[str, str]:
    with tenant(hotel.tenant_id):
        row = VendorInstallation.objects.get(tenant_id=hotel.tenant_id, id=hotel.installation_id)
    return adapters.open_installation(row)[1]


def due(hotel: Hotel) -> dict[str, tuple[str, timedelta]]:
    """Returns name → (reason, time left) of the open rows."""
    with tenant(hotel.tenant_id):
        lines = secret_due.listed(hotel.tenant_id, datetime.now(UTC))
    return {line.name: (line.reason, line.left) for line in lines}


def rotations(hotel: Hotel) -> list[tuple[str, dict[str, list[int]]]]:
    with tenant(hotel.tenant_id):
        return list(SecretRotation.objects.filter(tenant_id=hotel.tenant_id).order_by("id").values_list("stage", "versions"))


def open_rotations(hotel: Hotel) -> list[SecretRotation]:
    with tenant(hotel.tenant_id):
        return secret_rotation.open_rotations(hotel.tenant_id)


def over(hotel: Hotel) -> None:
    """Lets the time of every overlap be over."""
    with tenant(hotel.tenant_id):
        SecretRotation.objects.filter(tenant_id=hotel.tenant_id).update(retire_at=datetime.now(UTC) - DAY)


def rotate(hotel: Hotel, value: Token, name: str = NAME, **options: Any) -> secret_rotation.Rotated:
    return secret_rotation.rotate(hotel.tenant_id, hotel.installation_id, {name: value}, actor_id="usr_1", **options)


def stored(hotel: Hotel, version: int, name: str = NAME) -> str:
    place = SecretName(hotel.tenant_id, hotel.property_id, hotel.installation_id, name)
    return secret_store().read(place, version).reveal()


# --- With an overlap --------------------------------------------------------------------------


def test_a_new_value_stands_beside_the_old_one_until_the_overlap_is_over(house: Hotel) -> None:
    old, new = held(house)[NAME], fresh()
    done = rotate(house, new)
    assert (done.stage, done.names) == ("switched", (NAME,))
    assert held(house) == {NAME: new.reveal(), f"{NAME}_next": old}
    assert secret_rotation.retire_due(house.tenant_id) == 0
    over(house)
    assert secret_rotation.retire_due(house.tenant_id) == 1
    assert (held(house), stored(house, 1)) == ({NAME: new.reveal()}, old)  # out of use, not yet destroyed
    assert secret_rotation.retire_due(house.tenant_id) == 0
    over(house)
    assert secret_rotation.retire_due(house.tenant_id) == 1
    with pytest.raises(SecretMissing):
        stored(house, 1)
    assert rotations(house) == [("retired", {NAME: [1, 2]})]
    assert secret_rotation.retire_due(house.tenant_id) == 0


def test_a_rotated_secret_is_due_again_after_ninety_days(house: Hotel) -> None:
    with tenant(house.tenant_id):
        SecretDue.objects.filter(tenant_id=house.tenant_id, name=NAME).update(due_at=datetime.now(UTC) - DAY)
    assert due(house)[NAME][1] < timedelta(0)
    rotate(house, fresh())
    reason, left = due(house)[NAME]
    assert (reason, left.days) == ("cadence", 89)
    with tenant(house.tenant_id):
        assert SecretDue.objects.filter(tenant_id=house.tenant_id, name=NAME, done_at__isnull=False).count() == 1


def test_rolling_back_in_the_overlap_brings_the_old_value_back_and_it_is_due(house: Hotel) -> None:
    old, new = held(house)[NAME], fresh()
    rotate(house, new)
    assert secret_rotation.roll_back(house.tenant_id, house.installation_id).stage == "rolled_back"
    assert held(house) == {NAME: old}
    reason, left = due(house)[NAME]
    assert (reason, left <= DAY) == ("manual", True)
    with pytest.raises(RotationRefused, match="no rotation is staged"):
        secret_rotation.roll_back(house.tenant_id, house.installation_id)


def test_what_was_rolled_back_is_read_by_who_learned_of_it_before_and_destroyed_a_minute_later(house: Hotel) -> None:
    old, new = held(house)[NAME], fresh()
    rotate(house, new)
    with tenant(house.tenant_id):
        row = VendorInstallation.objects.get(tenant_id=house.tenant_id, id=house.installation_id)
        elsewhere = SealedInstallation.of(row).held_secrets()  # what another process knows, and has not read yet
    before = datetime.now(UTC)
    done = secret_rotation.roll_back(house.tenant_id, house.installation_id)
    assert done.retire_at is not None
    assert before <= done.retire_at - secret_rotation.SETTLE <= datetime.now(UTC)
    assert elsewhere.values()[NAME].reveal() == new.reveal()
    assert secret_rotation.retire_due(house.tenant_id) == 0
    assert [place.stage for place in open_rotations(house)] == ["rolled_back"]
    over(house)
    (kept,) = secret_upkeep.keep([Place(house.tenant_id, house.installation_id)])
    assert (kept.steps, kept.problem) == (("overlaps moved on: 1",), "")
    with pytest.raises(SecretMissing):
        stored(house, 2)
    assert (stored(house, 1), held(house)) == (old, {NAME: old})
    assert open_rotations(house) == []
    assert secret_rotation.retire_due(house.tenant_id) == 0


def test_values_of_which_the_store_took_only_some_are_destroyed_by_the_next_run(account: Account) -> None:
    hotel = account.hotel
    values = {"client_secret": fresh(), "password_md5": Token("x" * (MAX_BYTES + 1))}
    with pytest.raises(ValueError, match="bytes"):
        secret_rotation.stage(hotel.tenant_id, hotel.installation_id, values, actor_id="usr_1")
    assert rotations(hotel) == [("rolled_back", {"client_secret": [1, 2]})]
    assert stored(hotel, 2, "client_secret") == values["client_secret"].reveal()
    assert secret_rotation.retire_due(hotel.tenant_id) == 1
    with pytest.raises(SecretMissing):
        stored(hotel, 2, "client_secret")
    assert held(hotel)["client_secret"] == account.old


def test_rotating_twice_in_a_row_keeps_the_last_two(house: Hotel) -> None:
    first, second = fresh(), fresh()
    rotate(house, first)
    rotate(house, second)
    assert held(house) == {NAME: second.reveal(), f"{NAME}_next": first.reveal()}
    assert [stage for stage, _ in rotations(house)] == ["dropped", "switched"]


def test_without_an_overlap_the_old_value_is_out_of_use_at_once(house: Hotel) -> None:
    new = fresh()
    rotate(house, new, overlap=timedelta(0))
    assert held(house) == {NAME: new.reveal()}


def test_a_key_on_its_way_while_the_secret_is_rotated_gets_to_its_door(house: Hotel, locks: MockLocks, settle: Settle) -> None:
    house.tell("booking.confirmed", house.booking(new_id("rsv"), 1, ["101"]))
    rotate(house, fresh())
    settle(house)
    assert locks.opens(house.doors["101"], pin_of(house, keys(house)[0]))


# --- Refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [("api_key", "x", "UNKNOWN_SECRET"), (f"{NAME}_next", "x", "UNKNOWN_SECRET"), (NAME, " ", "EMPTY_VALUE")],
)
def test_what_cannot_be_rotated_changes_nothing(house: Hotel, name: str, value: str, code: str) -> None:
    before = held(house)
    with pytest.raises(RotationRefused) as caught:
        rotate(house, Token(value), name)
    assert caught.value.code == code
    assert (held(house), rotations(house)) == (before, [])


def test_the_present_value_and_one_of_before_are_no_new_value(house: Hotel) -> None:
    old, new = Token(held(house)[NAME]), fresh()
    rotate(house, new, overlap=timedelta(0))
    for value in (new, old):
        with pytest.raises(RotationRefused) as caught:
            rotate(house, value)
        assert caught.value.code == "SECRET_REUSED"
        assert value.reveal() not in str(caught.value)
    assert held(house) == {NAME: new.reveal()}


def test_a_value_of_another_house_is_refused_and_stays_free_of_it(house: Hotel, locks: MockLocks) -> None:
    theirs = fresh()
    make_hotel(locks, secrets={NAME: theirs.reveal()})
    with pytest.raises(RotationRefused) as caught:
        rotate(house, theirs)
    assert caught.value.code == "SECRET_REUSED"
    assert rotations(house) == []


# --- Tried at the vendor ----------------------------------------------------------------------


class Account:
    """A TTLock hotel, and the secrets its account takes."""

    def __init__(self, cloud: TtlockCloud) -> None:
        self.site = TtlockHotel(cloud)
        self.hotel, self.cloud = self.site.hotel, cloud
        self.old = held(self.hotel)["client_secret"]

    def takes(self, *values: str) -> None:
        self.cloud.ask("/seed", {"account": {"clientId": self.site.client_id, "clientSecrets": list(values)}})

    def lists(self) -> int:
        selectors.forget()
        with tenant(self.hotel.tenant_id):
            port = adapters.port_of(
                self.hotel.tenant_id, selectors.installation(self.hotel.tenant_id, self.hotel.installation_id)
            )
        return len(port.list_devices(self.hotel.property_id))


@pytest.fixture
def account(database: str, cloud: TtlockCloud) -> Account:
    return Account(cloud)


def test_a_value_the_vendor_takes_is_switched_to_and_the_old_one_can_end(account: Account) -> None:
    new = chance.token_hex(8)
    account.takes(account.old, new)
    assert rotate(account.hotel, Token(new), "client_secret").stage == "switched"
    account.takes(new)
    assert account.lists() == 2


def test_a_rotation_of_one_of_two_secrets_leaves_the_others_overlap_to_its_own_end(account: Account) -> None:
    hotel, new, pushes = account.hotel, chance.token_hex(8), [fresh(), fresh()]
    account.takes(account.old, new)
    both = {"client_secret": Token(new), NAME: pushes[0]}
    secret_rotation.rotate(hotel.tenant_id, hotel.installation_id, both, actor_id="usr_1", overlap=2 * DAY)
    rotate(hotel, pushes[1])
    now_held = held(hotel)
    assert (now_held["client_secret"], now_held["client_secret_next"]) == (new, account.old)
    assert (now_held[NAME], now_held[f"{NAME}_next"]) == (pushes[1].reveal(), pushes[0].reveal())
    for _ in range(2):  # out of use, then destroyed
        over(hotel)
        secret_rotation.retire_due(hotel.tenant_id)
    assert {name for name in held(hotel) if name.endswith("_next")} == set()
    with pytest.raises(SecretMissing):
        stored(hotel, 1, "client_secret")
    assert open_rotations(hotel) == []


def test_a_value_the_vendor_refuses_is_rolled_back_and_may_be_given_again(account: Account) -> None:
    new = chance.token_hex(8)
    with pytest.raises(RotationRefused) as caught:
        rotate(account.hotel, Token(new), "client_secret")
    assert caught.value.code == "VENDOR_REFUSED"
    assert held(account.hotel)["client_secret"] == account.old
    assert rotations(account.hotel) == [("rolled_back", {"client_secret": [1, 2]})]
    with pytest.raises(SecretMissing):
        stored(account.hotel, 2, "client_secret")
    assert account.lists() == 2
    account.takes(account.old, new)
    assert rotate(account.hotel, Token(new), "client_secret").stage == "switched"


def test_a_vendor_that_gives_no_answer_leaves_it_staged_and_the_next_run_goes_on(account: Account) -> None:
    new = chance.token_hex(8)
    account.takes(account.old, new)
    account.site.fault(path="lock/list", effect="http500", times=None)
    with pytest.raises(RotationWaits):
        rotate(account.hotel, Token(new), "client_secret")
    assert held(account.hotel)["client_secret"] == account.old
    assert [stage for stage, _ in rotations(account.hotel)] == ["staged"]
    with pytest.raises(RotationRefused) as caught:
        rotate(account.hotel, fresh(), "client_secret")
    assert caught.value.code == "ROTATION_STAGED"
    account.site.heal()
    place = Place(account.hotel.tenant_id, account.hotel.installation_id)
    (done,) = secret_upkeep.keep([place])
    assert (done.steps, done.problem) == (("rotation switched",), "")
    assert held(account.hotel)["client_secret"] == new


def test_rolled_back_while_its_values_are_being_stored_it_says_so_and_leaves_no_value(
    house: Hotel, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = secret_store()
    add = store.add

    def slow_add(name: SecretName, value: Token) -> int:
        secret_rotation.roll_back(house.tenant_id, house.installation_id)
        return add(name, value)

    old = held(house)
    monkeypatch.setattr(store, "add", slow_add)
    with pytest.raises(RotationRefused) as caught:
        rotate(house, fresh())
    assert caught.value.code == "INTERRUPTED"
    assert held(house) == old
    with pytest.raises(SecretMissing):
        stored(house, 2)
    assert rotations(house) == [("rolled_back", {NAME: [1, 2]})]
    assert open_rotations(house) == []


def test_a_rotation_staged_while_the_one_before_is_rolled_back_replaces_the_value_that_came_back(
    house: Hotel, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, third = held(house)[NAME], fresh()
    rotate(house, fresh())
    locked, staged = secret_rotation._locked, [""]

    def stage() -> str:
        try:
            return secret_rotation.stage(house.tenant_id, house.installation_id, {NAME: third}, actor_id="usr_2")
        finally:
            connections.close_all()

    def locked_late(tenant_id: str, rotation_id: str) -> Any:
        monkeypatch.setattr(secret_rotation, "_locked", locked)
        with ThreadPoolExecutor(1) as somebody_else:
            staged[0] = somebody_else.submit(stage).result()
        return locked(tenant_id, rotation_id)

    monkeypatch.setattr(secret_rotation, "_locked", locked_late)
    assert secret_rotation.roll_back(house.tenant_id, house.installation_id).stage == "rolled_back"
    assert held(house) == {NAME: old}
    secret_rotation.resume(house.tenant_id, staged[0])
    assert held(house) == {NAME: third.reveal(), f"{NAME}_next": old}
    for _ in range(2):  # out of use, then destroyed
        over(house)
        secret_rotation.retire_due(house.tenant_id)
    assert held(house) == {NAME: third.reveal()}
    for version in (1, 2):
        with pytest.raises(SecretMissing):
            stored(house, version)


def test_one_that_was_killed_before_its_values_were_stored_stands_in_nobodys_way(house: Hotel) -> None:
    value = fresh()
    with tenant(house.tenant_id):
        row = SecretRotation.objects.create(
            id=new_id("srt"), tenant_id=house.tenant_id, installation_id=house.installation_id, stage="staged", versions={},
            overlap_s=0, actor_id="usr_1", started_at=datetime.now(UTC) - timedelta(minutes=5),
        )  # fmt: skip
        from devices import secret_fingerprints

        secret_fingerprints.claim(
            adapters.manifest("mock"), house.tenant_id, house.property_id, {NAME: value}, datetime.now(UTC), row.id
        )
    assert rotate(house, value).stage == "switched"
    assert [stage for stage, _ in rotations(house)] == ["rolled_back", "switched"]
    with tenant(house.tenant_id):
        assert SecretFingerprint.objects.filter(tenant_id=house.tenant_id).count() == 2


# --- Due --------------------------------------------------------------------------------------


def test_what_is_made_due_is_brought_forward_and_never_put_off(house: Hotel) -> None:
    with tenant(house.tenant_id):
        webhooks_addresses.rotate(house.tenant_id, house.installation_id)
        assert secret_rotation.make_due(house.tenant_id, house.installation_id, detail="lck_1") == 2
        assert secret_rotation.make_due(house.tenant_id, house.installation_id, timedelta(days=3), "manual") == 2
    found = due(house)
    for name in (NAME, "token"):
        assert (found[name][0], found[name][1] <= DAY) == ("decommissioned", True)
    assert found["settings"][1].days == 364


def test_what_is_late_is_told_once_and_urgent_matters_are_critical(house: Hotel, locks: MockLocks) -> None:
    calm = make_hotel(locks, secrets={NAME: fresh().reveal()})
    with tenant(house.tenant_id):
        secret_rotation.make_due(house.tenant_id, house.installation_id, timedelta(seconds=-1))
    with tenant(calm.tenant_id):
        SecretDue.objects.filter(tenant_id=calm.tenant_id, name=NAME).update(due_at=datetime.now(UTC) - DAY)
    for _ in range(2):
        secret_due.tell_late()
    assert alerts(house) == [("SECRET_ROTATION_LATE", "critical")]
    assert alerts(calm) == [("SECRET_ROTATION_LATE", "warning")]


def test_data_keys_renew_themselves_once_a_year(house: Hotel) -> None:
    with tenant(house.tenant_id):
        SecretDue.objects.filter(tenant_id=house.tenant_id, kind="data_key").update(due_at=datetime.now(UTC) - DAY)
        before = VendorInstallation.objects.get(tenant_id=house.tenant_id, id=house.installation_id)
    (done,) = secret_upkeep.keep([Place(house.tenant_id, house.installation_id)])
    assert done.steps == ("new data key",)
    with tenant(house.tenant_id):
        after = VendorInstallation.objects.get(tenant_id=house.tenant_id, id=house.installation_id)
    assert bytes(after.settings_sealed) != bytes(before.settings_sealed)
    assert adapters.open_installation(after) == adapters.open_installation(before)
    assert due(house)["settings"][1].days == 364


# --- The command ------------------------------------------------------------------------------


def command(*words: str) -> str:
    out = io.StringIO()
    call_command("rotate_secrets", *words, stdout=out, stderr=out)
    return out.getvalue()


def test_the_command_takes_a_value_from_a_file_and_never_shows_it(house: Hotel, tmp_path: Path) -> None:
    new, file = fresh(), tmp_path / "new"
    file.write_text(f"{new.reveal()}\n")
    place = (house.tenant_id, house.installation_id)
    said = command(*place, "--secret", f"{NAME}={file}", "--dry-run")
    assert "nothing was changed" in said
    assert rotations(house) == []
    said = command(*place, "--secret", f"{NAME}={file}", "--overlap-hours", "2")
    assert re.search(rf"{NAME} switched, the old value ends \d{{4}}-", said)
    assert new.reveal() not in said
    assert held(house)[NAME] == new.reveal()
    assert "rolled_back" in command(*place, "--roll-back")


def test_the_command_takes_a_value_from_standard_input(house: Hotel, monkeypatch: pytest.MonkeyPatch) -> None:
    new = fresh()
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{new.reveal()}\r\n"))
    command(house.tenant_id, house.installation_id, "--secret", f"{NAME}=-")
    assert held(house)[NAME] == new.reveal()


def test_a_value_as_an_argument_is_refused(house: Hotel) -> None:
    for words in ((NAME,), (f"{NAME}=",), ("=x",)):
        with pytest.raises(CommandError, match="never an argument"):
            command(house.tenant_id, house.installation_id, "--secret", *words)
    with pytest.raises(CommandError, match="cannot be read"):
        command(house.tenant_id, house.installation_id, "--secret", f"{NAME}=/no/such/file")
    with pytest.raises(CommandError, match="no such installation"):
        command(house.tenant_id, new_id("vad"), "--secret", f"{NAME}=/dev/null")


def test_the_list_tells_days_left_what_is_late_and_who_must_act(house: Hotel) -> None:
    with tenant(house.tenant_id):
        secret_rotation.make_due(house.tenant_id, house.installation_id, timedelta(hours=-5), detail="lck_1")
    lines = command(house.tenant_id, house.installation_id, "--list").splitlines()
    assert lines[0] == (
        f"{house.tenant_id} {house.installation_id} secret {NAME}: LATE by 5 h"
        " (decommissioned lck_1; a person makes it at the vendor)"
    )
    assert lines[1] == f"{house.tenant_id} {house.installation_id} data_key settings: 364 days left (cadence; by itself)"
    assert lines[2] == "2 open"


def test_a_webhook_address_made_by_the_command_closes_its_row_and_the_old_one_is_taken_on(house: Hotel) -> None:
    with tenant(house.tenant_id):
        before = webhooks_addresses.rotate(house.tenant_id, house.installation_id).reveal()
        secret_rotation.make_due(house.tenant_id, house.installation_id)
    said = command(house.tenant_id, house.installation_id, "--webhook-address")
    after = said.strip().rpartition("/")[2]
    for token in (before, after):
        assert webhooks_addresses.recipient_of("mock", house.installation_id, token).tenant_id == house.tenant_id
    reason, left = due(house)["token"]
    assert (reason, left.days) == ("cadence", 89)


def test_a_run_without_arguments_goes_over_every_installation_and_says_so(house: Hotel) -> None:
    assert command(house.tenant_id, "--dry-run") == "dry run: 1 installations, 0 with work; nothing was changed\n"
    rotate(house, fresh())
    over(house)
    said = command(house.tenant_id)
    assert f"[1/1] {house.installation_id}: overlaps moved on: 1" in said
    assert "1 installations, 1 worked on, 0 left" in said


def test_no_value_of_a_rotation_stands_in_any_row(house: Hotel) -> None:
    new = fresh()
    rotate(house, new)
    with tenant(house.tenant_id):
        rows = [list(model.objects.filter(tenant_id=house.tenant_id).values()) for model in (SecretDue, SecretRotation)]
    assert new.reveal() not in json.dumps(rows, default=str)
