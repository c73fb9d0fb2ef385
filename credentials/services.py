"""The only writers of credentials: a batch of locked keys, their moves, their doors and their events, flushed together.

One rule: one move is one locked row, one FSM call and one event; up to 50 moves share a transaction, and `KeyBatch.flush`
alone updates a state column.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from credentials import event_data, locks, notices, overlaps, stay_notices
from credentials.lifecycle import BY_NAME, LIVE, State
from credentials.models import CredentialDoor, KeyCredential
from credentials.notices import propagation_now
from credentials.targets import is_settled
from lockservice.core.bulk import insert_rows, update_rows
from sagas import alerts, intake, outbox
from sagas.intake import Start
from sagas.outbox import Cause, Emission

_KEY_COLUMNS = {
    "old_state": "text", "state": "text", "kind": "text", "waiting_for": "text", "propagation": "text",
    "effective_not_after": "timestamptz", "suspend_reason": "text", "revoke_reason": "text", "failure_code": "text",
    "warnings": "jsonb", "desired_version": "int", "pin_version": "int", "event_sequence": "int", "resuming": "bool",
    "open_work": "bool", "acting_saga": "text", "issued_at": "timestamptz", "ended_at": "timestamptz", "replaced_by": "text",
    "valid_from": "timestamptz", "valid_until": "timestamptz", "ends_at": "timestamptz", "intent": "text",
    "end_trigger": "text", "ended_by": "text",
}  # fmt: skip
_DOOR_COLUMNS = {
    "dropped": "bool", "old_room": "text", "state": "text", "carried_from": "timestamptz", "carried_until": "timestamptz",
    "pin_version": "int",
    "carried_version": "int", "rounds": "int", "vendor_ref_sealed": "bytea", "propagation": "text",
    "effective_not_after": "timestamptz", "verb": "text",
    "attempts": "smallint", "attempts_for": "int", "due_at": "timestamptz", "final": "bool",
    "error_code": "text", "error_reason": "text", "resume_token_sealed": "bytea",
}  # fmt: skip
_TRANSITION_COLUMNS = {
    "tenant_id": "text", "credential_id": "text", "sequence": "int", "move": "text", "source": "text", "target": "text",
    "subject": "text", "event_id": "text", "actor": "text", "reason": "text", "at": "timestamptz",
}  # fmt: skip


class StaleState(Exception):
    """A credential's state was not what the locked row said. A programming error: the transaction fails as a whole."""


@dataclass
class KeyBatch:
    """Locked credentials of one tenant and everything that is to be written about them in this transaction."""

    tenant_id: str
    now: datetime
    keys: dict[str, KeyCredential] = field(default_factory=dict)
    doors: dict[str, list[CredentialDoor]] = field(default_factory=dict)
    alerts: list[alerts.NewAlert] = field(default_factory=list)
    _loaded_states: dict[str, str] = field(default_factory=dict)
    _dirty_keys: dict[str, KeyCredential] = field(default_factory=dict)
    _dirty_doors: dict[int, CredentialDoor] = field(default_factory=dict)
    _retargeted: set[str] = field(default_factory=set)
    _new_keys: list[KeyCredential] = field(default_factory=list)
    _new_doors: list[CredentialDoor] = field(default_factory=list)
    _starts: list[tuple[Start, Cause]] = field(default_factory=list)
    _emissions: list[Emission] = field(default_factory=list)
    _transitions: list[tuple[Any, ...]] = field(default_factory=list)

    @classmethod
    def load(cls, tenant_id: str, credential_ids: Iterable[str], now: datetime) -> KeyBatch:
        """Locks the credentials and reads their doors. Inside a tenant's block."""
        keys = locks.lock_credentials(tenant_id, credential_ids)
        return cls._of(tenant_id, keys, now)

    @classmethod
    def load_stays(cls, tenant_id: str, reservation_ids: Iterable[str], now: datetime) -> KeyBatch:
        """Locks all credentials of reservations whose projections the caller has locked."""
        return cls._of(tenant_id, locks.lock_stays(tenant_id, reservation_ids), now)

    def of_stay(self, reservation_id: str) -> list[KeyCredential]:
        """Returns the batch's credentials of one reservation, oldest first."""
        return [key for key in self.keys.values() if key.reservation_id == reservation_id]

    @classmethod
    def _of(cls, tenant_id: str, keys: dict[str, KeyCredential], now: datetime) -> KeyBatch:
        doors = locks.doors_of(tenant_id, keys) if keys else {}
        batch = cls(tenant_id, now, keys, dict(doors))
        batch._loaded_states = {key.id: key.state for key in keys.values()}
        return batch

    def doors_at(self, key: KeyCredential) -> list[CredentialDoor]:
        """Returns the key's doors, those about to be inserted included."""
        return self.doors.setdefault(key.id, [])

    def add(self, key: KeyCredential, doors: list[CredentialDoor], cause: Cause) -> None:
        """Adds a new key in state `requested` and emits `credential.requested.v1`."""
        self.keys[key.id] = key
        self.doors[key.id] = doors
        self._new_keys.append(key)
        self._new_doors.extend(doors)
        self._tell(key, "request", "", State.REQUESTED, event_data.subject("requested"), event_data.requested(key), cause, "")

    def add_door(self, key: KeyCredential, door: CredentialDoor) -> None:
        """Adds a door to a key that exists."""
        self.doors_at(key).append(door)
        self._new_doors.append(door)

    def move(self, key: KeyCredential, name: str, data: Mapping[str, Any], cause: Cause, reason: str = "") -> None:
        """Makes one move of the lifecycle and emits its event. Raises django_fsm.TransitionNotAllowed."""
        source = key.state
        getattr(key, name)()
        if key.state != State.PENDING:
            notices.clear(key, notices.CARD_IN_USE)  # nobody is asked any more
        self._tell(key, name, source, key.state, event_data.subject(BY_NAME[name].event), data, cause, reason)
        self.touch(key)

    def emit(self, key: KeyCredential, subject: str, data: Mapping[str, Any], cause: Cause, reason: str = "") -> None:
        """Emits an event that is no move (`credential.updated.v1`, `vendor.error.v1`)."""
        self._tell(key, "note", key.state, key.state, subject, data, cause, reason)
        self.touch(key)

    def start(self, intention: Start, cause: Cause) -> None:
        """Starts a saga when the batch is flushed; an intention known already changes nothing."""
        self._starts.append((intention, cause))

    def touch(self, key: KeyCredential) -> None:
        """Marks a key as changed."""
        self._dirty_keys[key.id] = key

    def touch_door(self, door: CredentialDoor) -> None:
        """Marks a door as changed; a door not inserted yet is written by its insert."""
        if door.pk is not None:
            self._dirty_doors[door.pk] = door

    def retarget(self, key: KeyCredential) -> None:
        """Notes that the doors shall carry something else now: old budgets and final refusals no longer count."""
        key.desired_version += 1
        key.open_work = True
        self._retargeted.add(key.id)
        self.touch(key)

    def flush(self) -> None:
        """Writes everything. Raises StaleState when a locked row was not as loaded, and intake.NotAtWork when a key's doors are
        open and the work that was started for it had ended before; then nothing may be committed."""
        self._tell_of_overlaps()
        for key in self._dirty_keys.values():
            settle_summary(key, self.doors_at(key), self.now)
        for key in self._new_keys:
            settle_summary(key, self.doors_at(key), self.now)
        if self._new_keys:
            KeyCredential.objects.bulk_create(self._new_keys)
        self._flush_keys()
        self._flush_doors()
        insert_rows("credentials_transition", _TRANSITION_COLUMNS, self._transitions)
        outbox.write(self.tenant_id, self._emissions, self.now)
        alerts.raise_alerts(self.tenant_id, self.alerts, self.now)
        intake.start(self.tenant_id, self._starts, self.now)
        intake.require_at_work(self.tenant_id, [item for item, _ in self._starts if self._has_open_doors(item)])
        self._forget()

    def _tell_of_overlaps(self) -> None:
        """Warns keys that are made or changed of other stays in their rooms, and lets these stays' keys be looked at."""
        fresh = {key.id for key in self._new_keys} | self._retargeted
        made = [
            key for key in self.keys.values() if key.state in LIVE and (key.id in fresh or self._is_new_as(key, State.ACTIVE))
        ]
        noted = [k for k in self._dirty_keys.values() if k.state not in LIVE and notices.is_noted(k, notices.STAYS_OVERLAP)]
        asked = [(key, self.doors_at(key)) for key in (*made, *noted)]
        found = overlaps.neighbours(self.tenant_id, asked) if asked else {}
        for key, _ in asked:
            others = found.get(key.id, [])
            was_noted = notices.is_noted(key, notices.STAYS_OVERLAP)
            overlaps.set_warning(key, others if key.state in LIVE else ())
            if others or was_noted:
                self.touch(key)
                self._look_at_others(key, others, overlaps.noted_stays(key, self.doors_at(key)) if was_noted else set())

    def _is_new_as(self, key: KeyCredential, state: State) -> bool:
        return key.state == state and self._loaded_states.get(key.id, key.state) != state

    def _look_at_others(self, key: KeyCredential, others: list[overlaps.Neighbour], noted: set[str]) -> None:
        """Starts a look at the stays of `others`, and at those `noted`: they were told of a key that may be elsewhere now."""
        cause = Cause(correlation_id=key.reservation_id or key.id)
        name = stay_notices.name_stay(self.tenant_id, str(key.reservation_id), key.property_id, key.rooms) if others else None
        beside = {str(other.key.reservation_id) for other in others}
        for stay in sorted(beside | noted):
            if name is not None and key.state in LIVE and stay in beside:
                self.alerts.append(overlaps.alert(key, name, stay))
            again = intake.own_key("room-overlap", stay, key.id, str(key.event_sequence), str(key.desired_version))
            lane = intake.internal_lane(self.tenant_id)
            self.start(Start(flow=overlaps.FLOW, key=again, lane=lane, reservation_id=stay), cause)

    def _has_open_doors(self, item: Start) -> bool:
        key = self.keys.get(item.credential_id or "")
        return key is not None and key.open_work

    def _flush_keys(self) -> None:
        fresh = {key.id for key in self._new_keys}
        rows = [self._key_row(key) for key in self._dirty_keys.values() if key.id not in fresh]
        done = _update_states(rows)
        if len(done) != len(rows):
            raise StaleState(f"{len(rows) - len(done)} credentials moved under a lock")

    def _key_row(self, key: KeyCredential) -> tuple[Any, ...]:
        old = self._loaded_states.get(key.id, key.state)
        values = [json.dumps(key.warnings) if name == "warnings" else getattr(key, name) for name in list(_KEY_COLUMNS)[1:]]
        return (key.id, old, *values)

    def _flush_doors(self) -> None:
        if self._new_doors:
            CredentialDoor.objects.bulk_create(self._new_doors)
        rows = [(door.pk, *(getattr(door, name) for name in _DOOR_COLUMNS)) for door in self._dirty_doors.values()]
        update_rows("credentials_credentialdoor", ("id", "bigint"), _DOOR_COLUMNS, rows)

    def _tell(
        self,
        key: KeyCredential,
        move: str,
        source: str,
        target: str,
        subject: str,
        data: Mapping[str, Any],
        cause: Cause,
        reason: str,
    ) -> None:
        key.event_sequence += 1
        event_id = outbox.new_event_id()
        self._emissions.append(Emission(event_id, subject, key.id, key.event_sequence, data, cause))
        self._transitions.append(
            (
                self.tenant_id,
                key.id,
                key.event_sequence,
                move,
                source,
                str(target),
                subject,
                event_id,
                cause.actor,
                reason[:40],
                self.now,
            )
        )

    def _forget(self) -> None:
        self._loaded_states = {key.id: key.state for key in self.keys.values()}
        self._retargeted.clear()
        for pending in (self._dirty_keys, self._dirty_doors):
            pending.clear()
        for done in (self._starts, self._new_keys, self._new_doors, self._emissions, self._transitions, self.alerts):
            done.clear()


def settle_summary(key: KeyCredential, doors: list[CredentialDoor], now: datetime) -> None:
    """Brings the credential's propagation, its bound and `open_work` in step with its doors. `now` is the hotel's."""
    key.open_work = not is_settled(key, doors)
    key.propagation, key.effective_not_after = propagation_now(key, doors, now, open_work=key.open_work)


def _update_states(rows: list[tuple[Any, ...]]) -> list[Any]:
    """The one statement that updates credentials' states, `WHERE state = old`."""
    return update_rows(
        "credentials_keycredential",
        ("id", "text"),
        _KEY_COLUMNS,
        rows,
        guard="t.state = v.v_old_state",
        skip=("old_state",),
    )
