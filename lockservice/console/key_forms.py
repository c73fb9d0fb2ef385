"""The forms behind a credential's buttons, one for each act, and what each calls.

One rule: a form only translates; `sagas.acts` decides whether the act is possible. Times are typed in the property's zone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

from django import forms
from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from credentials import notices
from credentials.lifecycle import LIVE, State
from credentials.models import KeyCredential
from devices import adapters, selectors
from lockservice.console import roles, words
from lockservice.console.acting import ReasonForm
from lockservice.console.session import Desk
from lockservice.console.story import room_labels
from lockservice.core.auth_permissions import Permission, to_revoke, to_suspend
from sagas import acts, pin_acts
from sagas import offered as offered_acts
from sagas.flows.card_in_use import KEY_ON_CARD
from vendors.port.manifest import CardsBy
from vendors.port.secrets import CardNumber, Pin
from vendors.port.types import CredentialKind, RevokeReason, SuspendReason

_ACT_ID = re.compile(r"[0-9a-f]{32}")
_PIN = re.compile(r"[0-9]{4,9}")
_CARD = re.compile(r"[0-9]{4,20}")

REVOKE_WORDS = {
    RevokeReason.CHECKOUT: _("checked out"),
    RevokeReason.CANCELLATION: _("booking cancelled"),
    RevokeReason.SECURITY: _("security"),
    RevokeReason.LOST: _("lost"),
}
SUSPEND_WORDS = {
    SuspendReason.MANUAL: _("by hand"),
    SuspendReason.NO_SHOW: _("no-show"),
    SuspendReason.FRAUD_REVIEW: _("under review"),
    SuspendReason.OVERDUE_PAYMENT: _("payment overdue"),
}


class KeyForm(ReasonForm):
    """An act on one credential. `act_id` is made when the form is shown: pressed twice, it acts once."""

    act_id = forms.CharField(widget=forms.HiddenInput)

    def __init__(self, desk: Desk, key: KeyCredential, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(data, initial={"act_id": acts.new_act_id()}, auto_id=f"{self.name}-%s")
        self.desk = desk
        self.key = key
        self.zone = desk.zone_of(key.property_id)
        self.prepare()
        self.order_fields([*(name for name in self.fields if name != "reason"), "reason"])

    name = ""
    danger = False
    hint: Promise | str = ""

    @property
    def title(self) -> Any:
        """What the button says."""
        return words.ACTIONS[self.name]

    def prepare(self) -> None:
        """Fills choices and first values."""

    def clean_act_id(self) -> str:
        """Takes only ids of our making."""
        value: str = self.cleaned_data["act_id"]
        if not _ACT_ID.fullmatch(value):
            raise ValidationError(_("Open the page again."))
        return value

    def act(self) -> Any:
        """Carries the act out. Raises sagas.acts.Refused."""
        raise TypeError(f"{type(self).__name__} has no act")

    @property
    def recorded_reason(self) -> str:
        """What the record keeps as the reason."""
        return str(self.cleaned_data["reason"])

    @property
    def _act_id(self) -> str:
        return str(self.cleaned_data["act_id"])


class WallTimeInput(forms.DateTimeInput):
    """A browser's date and time field, to the minute."""

    input_type = "datetime-local"

    def __init__(self) -> None:
        super().__init__(format="%Y-%m-%dT%H:%M")


class UpdateForm(KeyForm):
    """Another window, other rooms. `seen` is what the form was filled from: a booking that moved meanwhile is not moved back
    by somebody who only chose another room."""

    name = "update"
    seen = forms.CharField(widget=forms.HiddenInput, required=False)
    valid_from = forms.DateTimeField(label=_("Opens from"), widget=WallTimeInput)
    valid_until = forms.DateTimeField(label=_("Opens until"), widget=WallTimeInput)
    rooms = forms.MultipleChoiceField(label=_("Rooms"), widget=forms.CheckboxSelectMultiple, required=False)

    def prepare(self) -> None:
        zone = ZoneInfo(self.zone)
        for name in ("valid_from", "valid_until"):
            local = getattr(self.key, name).astimezone(zone)
            self.initial[name] = local.replace(tzinfo=None, second=0, microsecond=0)
            self.fields[name].help_text = self.zone
        rooms = _rooms_of(self.key)
        self.initial["seen"] = seen(self.key)
        self.initial["rooms"] = list(self.key.rooms)
        self.fields["rooms"].choices = sorted(rooms.items(), key=lambda item: item[1])  # type: ignore[attr-defined]

    def full_clean(self) -> None:
        """Reads times in the property's zone; a time that does not exist or exists twice there is refused."""
        with timezone.override(self.zone):
            super().full_clean()

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("seen") != seen(self.key):
            raise ValidationError(_("Open the page again."))
        start, end = cleaned.get("valid_from"), cleaned.get("valid_until")
        if start and end and end <= start:
            raise ValidationError(_("The end must lie after the start."))
        if not self.errors and not self._changed():
            raise ValidationError(_("Nothing was changed."))
        return cleaned

    def act(self) -> Any:
        changed = self._changed()
        return acts.update(
            self.desk.tenant_id,
            self.key.id,
            self.desk.actor,
            self._act_id,
            valid_from=self.cleaned_data["valid_from"] if "valid_from" in changed else None,
            valid_until=self.cleaned_data["valid_until"] if "valid_until" in changed else None,
            rooms=tuple(self.cleaned_data["rooms"]) if "rooms" in changed else None,
        )

    def _changed(self) -> set[str]:
        before = {name: getattr(self.key, name).replace(second=0, microsecond=0) for name in ("valid_from", "valid_until")}
        changed = {name for name, value in before.items() if self.cleaned_data.get(name) != value}
        return changed | ({"rooms"} if set(self.cleaned_data.get("rooms", ())) != set(self.key.rooms) else set())


class SuspendForm(KeyForm):
    """Lets the key rest."""

    name = "suspend"
    cause = forms.ChoiceField(label=_("Because"))

    def prepare(self) -> None:
        reasons = roles.suspend_reasons(self.desk.permissions)
        self.fields["cause"].choices = [(reason.value, SUSPEND_WORDS[reason]) for reason in reasons]  # type: ignore[attr-defined]

    def act(self) -> Any:
        cause = SuspendReason(self.cleaned_data["cause"])
        return acts.suspend(self.desk.tenant_id, self.key.id, cause, self.desk.actor, self._act_id)


class UnsuspendForm(KeyForm):
    """Lets the key open again."""

    name = "unsuspend"

    def act(self) -> Any:
        return acts.unsuspend(self.desk.tenant_id, self.key.id, self.desk.actor, self._act_id)


class RevokeForm(KeyForm):
    """Ends the key."""

    name = "revoke"
    danger = True
    cause = forms.ChoiceField(label=_("Because"))
    reissue = forms.BooleanField(label=_("If lost: give a new key at once"), required=False, initial=True)

    def prepare(self) -> None:
        reasons = roles.revoke_reasons(self.desk.permissions)
        self.fields["cause"].choices = [(reason.value, REVOKE_WORDS[reason]) for reason in reasons]  # type: ignore[attr-defined]

    def act(self) -> Any:
        cause = RevokeReason(self.cleaned_data["cause"])
        reissue = bool(self.cleaned_data["reissue"]) if cause is RevokeReason.LOST else None
        return acts.revoke(self.desk.tenant_id, self.key.id, cause, self.desk.actor, self._act_id, reissue=reissue)


class ReplaceForm(KeyForm):
    """Ends a lost key and gives a new one."""

    name = "replace"
    danger = True
    kind = forms.ChoiceField(label=_("New key"), required=False)

    def prepare(self) -> None:
        kinds = [(kind.value, words.KINDS[kind].text) for kind in CredentialKind]
        self.fields["kind"].choices = [("", _("same kind")), *kinds]  # type: ignore[attr-defined]

    def act(self) -> Any:
        kind = CredentialKind(self.cleaned_data["kind"]) if self.cleaned_data["kind"] else None
        return acts.replace(self.desk.tenant_id, self.key.id, self.desk.actor, self._act_id, kind=kind)


class EncodeForm(KeyForm):
    """Moves on a key that waits for a card."""

    name = "encode"
    card_number = forms.RegexField(
        _CARD,
        label=_("Number of the card, as read at the desk"),
        widget=forms.TextInput(attrs={"inputmode": "numeric", "dir": "ltr"}),
    )
    confirm_card_in_use = forms.BooleanField(
        label=_("Write over the other guest's key on this card; she gets another card"), required=False
    )
    card_in_use = forms.RegexField(KEY_ON_CARD, widget=forms.HiddenInput, required=False)
    """Which key the person was told of: the tick is for that one alone."""

    def prepare(self) -> None:
        if self.key.state == State.ACTIVE:  # the guest's own card is written again: its number is known
            del self.fields["card_number"]
        elif adapters.manifest(self.key.vendor).cards_by is not CardsBy.NUMBER:  # the encoder reads the card itself
            self.fields["card_number"].required = False
        self.initial["card_in_use"] = notices.subject_of(self.key, notices.CARD_IN_USE)
        if self.key.state == State.ACTIVE or not (self.is_bound or self.initial["card_in_use"]):
            del self.fields["confirm_card_in_use"], self.fields["card_in_use"]  # nothing was told that could be confirmed

    @property
    def recorded_reason(self) -> str:
        """Adds what was confirmed."""
        confirmed = f"the key {self._confirmed} on the card may be written over: " if self._confirmed else ""
        return confirmed + super().recorded_reason

    @property
    def _confirmed(self) -> str:
        return self.cleaned_data.get("card_in_use", "") if self.cleaned_data.get("confirm_card_in_use") else ""

    def tell(self, told: str) -> None:
        """Shows the form again with the key that was told of now; nothing is ticked."""
        data = {name: value for name, value in self.data.items() if name != "confirm_card_in_use"}
        self.data = {**data, "card_in_use": told}

    def act(self) -> Any:
        given = self.cleaned_data.get("card_number")
        number = CardNumber(given) if given else None
        return acts.encode(
            self.desk.tenant_id, self.key.id, self.desk.actor, self._act_id, card_number=number,
            confirm_card_in_use=self._confirmed,
        )  # fmt: skip


class ChoosePinForm(KeyForm):
    """Takes digits that a person chose. They are not shown again and stand in no record."""

    name = "choose_pin"
    pin = forms.RegexField(
        _PIN,
        label=_("Digits"),
        widget=forms.TextInput(attrs={"inputmode": "numeric", "dir": "ltr", "autocomplete": "off"}),
        error_messages={"invalid": _("4 to 9 digits.")},
    )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("pin") and cleaned["pin"] in cleaned.get("reason", ""):
            raise ValidationError(_("The reason is kept: it must not hold the digits."))
        return cleaned

    def act(self) -> Any:
        pin = Pin(self.cleaned_data["pin"])
        try:
            return pin_acts.choose(self.desk.tenant_id, self.key.id, pin, self.desk.actor, self._act_id)
        except acts.Refused as refused:
            raise acts.Refused(refused.code, refused.fields.get("pin", refused.detail)) from None


class ConfirmForm(KeyForm):
    """The guest's papers were seen."""

    name = "confirm"

    def act(self) -> Any:
        return acts.confirm_identity(self.desk.tenant_id, self.key.id, self.desk.actor, self._act_id)


class RetryForm(KeyForm):
    """Repairs doors that are open, or issues a failed key anew."""

    name = "retry"

    @property
    def title(self) -> Any:
        return _("Issue anew") if self.key.state == "failed" else words.ACTIONS["retry"]

    def act(self) -> Any:
        return acts.retry(self.desk.tenant_id, self.key.id, self.desk.actor, self._act_id)


class LeaveOldRoomForm(KeyForm):
    """Takes the room that a guest moved out of before her new one opens."""

    name = "leave_old_room"
    danger = True

    def act(self) -> Any:
        return acts.leave_old_room(self.desk.tenant_id, self.key.id, self.desk.actor, self._act_id)


class RevealForm(KeyForm):
    """Shows the PIN, once, to a person who may see it."""

    name = "reveal"

    def act(self) -> Any:
        return acts.reveal_pin(self.desk.tenant_id, self.key.id)


@dataclass(frozen=True, slots=True)
class Button:
    """An act, the rights of which one is asked for, and when it is shown where `sagas.offered` does not decide."""

    form: type[KeyForm]
    permissions: tuple[Permission, ...]
    shown: Callable[[KeyCredential], bool] | None = None


def _has_pin(key: KeyCredential) -> bool:
    """A key that is over has nothing to show: its digits belong to nobody, and soon to somebody else."""
    return key.kind == CredentialKind.PIN_CODE and key.state in LIVE


_SUSPEND = tuple(to_suspend(reason) for reason in SuspendReason)
_REVOKE = tuple(to_revoke(reason) for reason in REVOKE_WORDS)

BUTTONS: dict[str, Button] = {
    "encode": Button(EncodeForm, (Permission.KEY_ENCODE,)),
    "confirm": Button(
        ConfirmForm, (Permission.KEY_ENCODE,), lambda key: key.state == State.REQUESTED and key.waiting_for == "id"
    ),
    "retry": Button(RetryForm, (Permission.KEY_ISSUE,)),
    "leave_old_room": Button(LeaveOldRoomForm, (Permission.KEY_UPDATE,)),
    "update": Button(UpdateForm, (Permission.KEY_UPDATE,)),
    "unsuspend": Button(UnsuspendForm, (Permission.KEY_UNSUSPEND,)),
    "suspend": Button(SuspendForm, _SUSPEND),
    "replace": Button(ReplaceForm, (Permission.KEY_REPLACE,)),
    "revoke": Button(RevokeForm, _REVOKE),
    "choose_pin": Button(ChoosePinForm, (Permission.PIN_CHOOSE,)),
    "reveal": Button(RevealForm, (Permission.PIN_REVEAL,), _has_pin),
}
"""Every act, in the order of the page."""


def offered(desk: Desk, key: KeyCredential, bound: KeyForm | None = None) -> list[KeyForm]:
    """Returns the forms a person is offered on a credential; `bound` takes the place of its own kind."""
    found: list[KeyForm] = []
    works = offered_acts.actions_of(key.tenant_id, [key])[key.id]
    for name, button in BUTTONS.items():
        is_shown = button.shown(key) if button.shown is not None else name in works
        if bound is not None and bound.name == name:
            found.append(bound)
        elif desk.may_any(button.permissions) and is_shown:
            found.append(button.form(desk, key))
    return found


def seen(key: KeyCredential) -> str:
    """Returns what a page tells of a key's window and rooms, for a form to bring back."""
    told = f"{key.valid_from.isoformat()} {key.valid_until.isoformat()} {' '.join(sorted(key.rooms))}"
    return hashlib.sha256(told.encode()).hexdigest()[:32]


def _rooms_of(key: KeyCredential) -> dict[str, str]:
    devices = selectors.property_devices(key.tenant_id, key.property_id)
    ids = {room for device in devices if device.installation_id == key.installation_id for room in device.rooms}
    labels = room_labels(key.tenant_id, sorted(ids | set(key.rooms)))
    return {room: labels.get(room, room) for room in sorted(ids | set(key.rooms))}
