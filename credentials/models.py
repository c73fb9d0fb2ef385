"""Rows of the credential room. Written by `credentials.services` alone.

One rule: the state column changes only by an FSM call on a locked row and the one flush of `services.flush_batch`; a database
trigger refuses every move that `lifecycle.MOVES` does not know.
"""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django_fsm import FSMField, transition

from credentials import targets
from credentials.lifecycle import BY_NAME, LIVE, WAITING, State
from vendors.port.types import CredentialKind, Intent, Propagation, RevokeReason, SuspendReason


def _values(enum: type) -> list[str]:
    return [str(member) for member in enum]  # type: ignore[attr-defined]


def _sources(move: str) -> list[str]:
    return sorted(BY_NAME[move].sources)


class DoorState(models.TextChoices):
    """What is known to be at a door. Doubt is told apart by CredentialDoor.verb: set, the last call's effect is open."""

    NONE = "none", "nothing was sent"
    PRESENT = "present", "key is there"
    SUSPENDED = "suspended", "key rests"
    ABSENT = "absent", "key was taken back"


class OldRoom(models.TextChoices):
    """What becomes of a door whose room was left. Empty where none was left, or where it is simply taken."""

    KEPT = targets.KEPT, "opens until the new room does"
    RELEASED = targets.RELEASED, "is taken now"


class KeyCredential(models.Model):
    """One key, over all doors of its holder at one installation.

    valid_from/valid_until are what the doors shall carry (aware UTC, grace included); doors say what they do carry.
    ends_at is the due time (hotel clock) at which a live key is revoked as `window_ended`.
    end_trigger says what ended the key, empty for a person's own revoke; ended_by is who asked for it, empty for nobody.
    desired_version grows with every intended change of the doors; event_sequence counts this key's events, gap-free.
    """

    id = models.CharField(max_length=64, primary_key=True)
    tenant_id = models.CharField(max_length=64)
    property_id = models.CharField(max_length=64)
    installation_id = models.CharField(max_length=64)
    vendor = models.CharField(max_length=40)
    reservation_id = models.CharField(max_length=64, null=True, blank=True)
    incarnation = models.PositiveIntegerField(default=1)
    ordinal = models.PositiveIntegerField(default=0)
    holder_kind = models.CharField(max_length=8, default="guest")
    holder_id = models.CharField(max_length=64, blank=True)
    kind = models.CharField(max_length=20)
    preferred_kinds = ArrayField(models.CharField(max_length=20), default=list)
    intent = models.CharField(max_length=12, default=Intent.NEW.value)
    rooms = ArrayField(models.CharField(max_length=64), default=list)
    floors = ArrayField(models.CharField(max_length=16), default=list)
    areas = ArrayField(models.CharField(max_length=16), default=list)
    valid_from = models.DateTimeField()
    valid_until = models.DateTimeField()
    ends_at = models.DateTimeField()
    state = FSMField(default=State.REQUESTED.value, protected=True)
    waiting_for = models.CharField(max_length=8, blank=True)
    propagation = models.CharField(max_length=12, default=Propagation.UNKNOWN.value)
    effective_not_after = models.DateTimeField(null=True)
    suspend_reason = models.CharField(max_length=20, blank=True)
    revoke_reason = models.CharField(max_length=20, blank=True)
    failure_code = models.CharField(max_length=60, blank=True)
    warnings = models.JSONField(default=list)
    capabilities = models.JSONField(default=dict)
    issue_key = models.CharField(max_length=80)
    replaces = models.CharField(max_length=64, null=True, blank=True)
    replaced_by = models.CharField(max_length=64, null=True, blank=True)
    desired_version = models.PositiveIntegerField(default=1)
    pin_version = models.PositiveIntegerField(default=0)
    event_sequence = models.PositiveIntegerField(default=0)
    resuming = models.BooleanField(default=False)
    open_work = models.BooleanField(default=True)
    provisional = models.BooleanField(default=False)
    local_id = models.CharField(max_length=64, null=True, blank=True)
    requested_by = models.CharField(max_length=64, blank=True)
    channel_hint = models.CharField(max_length=12, blank=True)
    card_number_sealed = models.BinaryField(null=True)
    acting_saga = models.CharField(max_length=64, null=True)
    requested_at = models.DateTimeField()
    issued_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    end_trigger = models.CharField(max_length=32, blank=True)
    ended_by = models.CharField(max_length=64, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(state__in=_values(State)), name="credential_state_known"),
            models.CheckConstraint(condition=models.Q(kind__in=_values(CredentialKind)), name="credential_kind_known"),
            models.CheckConstraint(
                condition=models.Q(valid_until__gt=models.F("valid_from")), name="credential_window_forward"
            ),
            models.CheckConstraint(
                condition=models.Q(suspend_reason__in=["", *_values(SuspendReason)]), name="credential_suspend_reason"
            ),
            models.CheckConstraint(
                condition=models.Q(revoke_reason__in=["", *_values(RevokeReason)])
                & (~models.Q(state=State.REVOKED.value) | ~models.Q(revoke_reason="")),
                name="credential_revoke_reason",
            ),
            models.UniqueConstraint(fields=["tenant_id", "id"], name="credential_in_tenant"),
            models.UniqueConstraint(fields=["tenant_id", "installation_id", "issue_key"], name="credential_once_per_issue_key"),
            models.UniqueConstraint(
                fields=["tenant_id", "reservation_id", "incarnation", "installation_id", "ordinal"],
                condition=models.Q(state__in=sorted(LIVE), reservation_id__isnull=False),
                name="credential_one_live_per_intended_key",
            ),
        ]
        indexes = [
            models.Index(fields=["tenant_id", "reservation_id"], name="credential_by_reservation"),
            models.Index(fields=["tenant_id", "property_id", "state"], name="credential_by_property"),
            models.Index(fields=["tenant_id", "holder_id"], name="credential_by_holder"),
            models.Index(
                fields=["ends_at"],
                condition=models.Q(state__in=sorted(LIVE)),
                name="credential_live_by_end",
            ),
            models.Index(
                fields=["waiting_for"],
                condition=models.Q(state__in=sorted(WAITING)) & ~models.Q(waiting_for=""),
                name="credential_waits",
            ),
            models.Index(fields=["tenant_id", "property_id", "valid_until"], name="credential_by_departure"),
            models.Index(fields=["tenant_id", "id"], condition=models.Q(open_work=True), name="credential_open_work"),
            models.Index(fields=["tenant_id", "id"], condition=models.Q(state__in=sorted(LIVE)), name="credential_live"),
        ]

    def __str__(self) -> str:
        return self.id

    @transition(field=state, source=_sources("hand_over"), target=State.PENDING.value)
    def hand_over(self) -> None:
        """The vendor is about to be asked."""

    @transition(field=state, source=_sources("activate"), target=State.ACTIVE.value)
    def activate(self) -> None:
        """A room door confirmed the key."""

    @transition(field=state, source=_sources("suspend"), target=State.SUSPENDED.value)
    def suspend(self) -> None:
        """The key shall rest."""

    @transition(field=state, source=_sources("unsuspend"), target=State.ACTIVE.value)
    def unsuspend(self) -> None:
        """The key opens again."""

    @transition(field=state, source=_sources("revoke"), target=State.REVOKED.value)
    def revoke(self) -> None:
        """The key is over, whatever the doors still say."""

    @transition(field=state, source=_sources("fail"), target=State.FAILED.value)
    def fail(self) -> None:
        """The key never came to be, or was called off first."""


class CredentialDoor(models.Model):
    """A credential at one door: what the door is known to carry, and the open call if there is one.

    `dropped` doors (a room that was moved out of) shall carry nothing, unless `old_room` says that they are kept until the new
    room opens; a key that was left as a whole has its doors kept without being dropped. `verb` is written before a call and
    cleared when its effect is known; `rounds` counts keys taken back here, so that giving one anew is a new effect; `attempts`
    counts calls made for the present `desired_version`; `due_at` (real time) delays the next one.
    """

    tenant_id = models.CharField(max_length=64)
    credential = models.ForeignKey(KeyCredential, on_delete=models.PROTECT, related_name="doors", db_constraint=False)
    device_id = models.CharField(max_length=64)
    room_id = models.CharField(max_length=64, blank=True)
    lane = models.CharField(max_length=200)
    dropped = models.BooleanField(default=False)
    old_room = models.CharField(max_length=8, blank=True, default="", db_default="", choices=OldRoom.choices)
    state = models.CharField(max_length=10, choices=DoorState.choices, default=DoorState.NONE)
    carried_from = models.DateTimeField(null=True)
    carried_until = models.DateTimeField(null=True)
    pin_version = models.PositiveIntegerField(default=0)
    carried_version = models.PositiveIntegerField(default=0)
    rounds = models.PositiveIntegerField(default=0)
    vendor_ref_sealed = models.BinaryField(null=True)
    propagation = models.CharField(max_length=12, default=Propagation.UNKNOWN.value)
    effective_not_after = models.DateTimeField(null=True)
    verb = models.CharField(max_length=10, blank=True)
    attempts = models.PositiveSmallIntegerField(default=0)
    attempts_for = models.PositiveIntegerField(default=0)
    due_at = models.DateTimeField(null=True)
    final = models.BooleanField(default=False)
    error_code = models.CharField(max_length=60, blank=True)
    error_reason = models.CharField(max_length=24, blank=True)
    resume_token_sealed = models.BinaryField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant_id", "credential", "device_id"], name="door_once_per_credential"),
            models.CheckConstraint(condition=models.Q(state__in=DoorState.values), name="door_state_known"),
        ]
        indexes = [
            models.Index(fields=["tenant_id", "device_id", "state"], name="door_by_device"),
            models.Index(
                fields=["tenant_id", "device_id", "id"],
                condition=models.Q(state__in=[DoorState.PRESENT, DoorState.SUSPENDED]) | ~models.Q(verb=""),
                name="door_that_may_open",
            ),
            models.Index(
                fields=["tenant_id", "effective_not_after"],
                condition=models.Q(state=DoorState.ABSENT, propagation=Propagation.PROPAGATING.value),
                name="door_not_told",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.credential_id} at {self.device_id}"


class Reservation(models.Model):
    """Projection of a booking of another service, as far as keys need it. Deleted on a schedule.

    incarnation counts from 1 and grows when a cancelled booking is confirmed again. guest_sealed holds name and contact.
    check_in and check_out are set where the stay was given as days: its window then follows the property's hours and zone.
    content is a keyed digest of the version's content. warnings hold code and detail of what could not be done.
    """

    tenant_id = models.CharField(max_length=64)
    reservation_id = models.CharField(max_length=64)
    property_id = models.CharField(max_length=64)
    version = models.BigIntegerField()
    incarnation = models.PositiveIntegerField(default=1)
    status = models.CharField(max_length=20)
    rooms = ArrayField(models.CharField(max_length=64), default=list)
    valid_from = models.DateTimeField()
    valid_until = models.DateTimeField()
    check_in = models.DateField(null=True)
    check_out = models.DateField(null=True)
    guest_id = models.CharField(max_length=64, blank=True)
    guest_sealed = models.BinaryField(null=True)
    locale = models.CharField(max_length=16, blank=True)
    payment_status = models.CharField(max_length=32, blank=True)
    id_verified = models.BooleanField(default=False)
    preferred_kinds = ArrayField(models.CharField(max_length=20), default=list)
    floors = ArrayField(models.CharField(max_length=16), default=list)
    areas = ArrayField(models.CharField(max_length=16), null=True)
    party_size = models.PositiveSmallIntegerField(null=True)
    channel_hint = models.CharField(max_length=12, blank=True)
    content = models.CharField(max_length=80, blank=True)
    warnings = models.JSONField(default=list)
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant_id", "reservation_id"], name="reservation_once")]
        indexes = [
            models.Index(fields=["tenant_id", "property_id", "valid_from"], name="reservation_by_arrival"),
            models.Index(fields=["tenant_id", "property_id", "valid_until"], name="reservation_by_departure"),
            models.Index(
                fields=["tenant_id", "valid_until"],
                condition=models.Q(guest_sealed__isnull=False),
                name="reservation_with_guest",
            ),
            models.Index(fields=["valid_until", "id"], condition=models.Q(status="confirmed"), name="reservation_standing"),
        ]

    def __str__(self) -> str:
        return self.reservation_id


class ArrivalSign(models.Model):
    """Something that shows that the guest of a stay has come. Written once per stay, incarnation and kind; never changed.

    kind: door (a key of the stay opened), card (one was written), check_in (the booking service said so), desk (a person did).
    at is the hotel's time of what is told; detail names the door or the person.
    """

    tenant_id = models.CharField(max_length=64)
    reservation_id = models.CharField(max_length=64)
    incarnation = models.PositiveIntegerField(default=1)
    kind = models.CharField(max_length=8)
    detail = models.CharField(max_length=120, blank=True)
    at = models.DateTimeField()
    noted_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant_id", "reservation_id", "incarnation", "kind"], name="arrival_sign_once")
        ]
        indexes = [models.Index(fields=["tenant_id", "noted_at"], name="arrival_sign_by_age")]

    def __str__(self) -> str:
        return f"{self.reservation_id}: {self.kind}"


class PinSlot(models.Model):
    """A PIN taken at a door, as a blind index: the unique row decides whether digits are free there.

    Stays while the key may be at the door and then rests until `rests_until` (hotel clock).
    """

    tenant_id = models.CharField(max_length=64)
    device_id = models.CharField(max_length=64)
    pin_index = models.BinaryField()
    credential_id = models.CharField(max_length=64)
    rests_until = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant_id", "device_id", "pin_index"], name="pin_once_per_door")]
        indexes = [
            models.Index(fields=["tenant_id", "credential_id"], name="pin_by_credential"),
            models.Index(fields=["tenant_id", "device_id", "rests_until"], name="pin_by_door"),
            models.Index(
                fields=["tenant_id", "rests_until"], condition=models.Q(rests_until__isnull=False), name="pin_resting"
            ),
        ]


class Artifact(models.Model):
    """What the holder receives, sealed, under a single-use reference (`id`, `tk_…`). Erased after the stay."""

    id = models.CharField(max_length=64, primary_key=True)
    tenant_id = models.CharField(max_length=64)
    credential_id = models.CharField(max_length=64)
    type = models.CharField(max_length=20)
    version = models.PositiveIntegerField(default=1)
    value_sealed = models.BinaryField(null=True)
    current = models.BooleanField(default=True)
    exchanged_by = models.CharField(max_length=64, blank=True)
    exchange_key = models.CharField(max_length=255, blank=True)
    exchanged_at = models.DateTimeField(null=True)
    erased_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()

    class Meta:
        indexes = [
            models.Index(fields=["tenant_id", "credential_id"], name="artifact_by_credential"),
            models.Index(
                fields=["tenant_id", "credential_id"], condition=models.Q(erased_at__isnull=True), name="artifact_kept"
            ),
        ]


class Transition(models.Model):
    """One line of a credential's story: a move and its event, or a note such as `waiting for the desk`. Append-only."""

    tenant_id = models.CharField(max_length=64)
    credential_id = models.CharField(max_length=64)
    sequence = models.PositiveIntegerField()
    move = models.CharField(max_length=20)
    source = models.CharField(max_length=12)
    target = models.CharField(max_length=12)
    subject = models.CharField(max_length=100)
    event_id = models.CharField(max_length=64)
    actor = models.CharField(max_length=64)
    reason = models.CharField(max_length=40, blank=True)
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant_id", "credential_id", "sequence"], name="transition_sequence_once")
        ]


class KeyPolicyRow(models.Model):
    """A property's KeyKindPolicy as edited in the console; `values` hold only what differs from the default."""

    tenant_id = models.CharField(max_length=64)
    property_id = models.CharField(max_length=64)
    values = models.JSONField(default=dict, blank=True)
    changed_by = models.CharField(max_length=64, blank=True)
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name = "key kind policy"
        verbose_name_plural = "key kind policies"
        constraints = [models.UniqueConstraint(fields=["tenant_id", "property_id"], name="policy_once_per_property")]
