"""The domain's words as people read them, with the tone and sign each is shown in.

One rule: a colour never speaks alone; every tone has its sign, and an unknown word is shown as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from sagas.verdict import Why

GOOD, BUSY, WARN, BAD, CALM, OVER = "good", "busy", "warn", "bad", "calm", "over"

SIGNS = {GOOD: "✓", BUSY: "…", WARN: "!", BAD: "✕", CALM: "○", OVER: "–"}


@dataclass(frozen=True, slots=True)
class Word:
    """A word for people and the tone it is shown in."""

    text: Promise | str
    tone: str = CALM

    @property
    def sign(self) -> str:
        """The sign that goes with the tone."""
        return SIGNS[self.tone]


STATES = {
    "requested": Word(_("requested"), CALM),
    "pending": Word(_("at the vendor"), BUSY),
    "active": Word(pgettext_lazy("key", "active"), GOOD),
    "suspended": Word(_("suspended"), WARN),
    "revoked": Word(_("revoked"), OVER),
    "failed": Word(pgettext_lazy("key", "failed"), BAD),
}
WAITING = {
    "desk": Word(_("for the desk"), WARN),
    "room": Word(_("for a room"), WARN),
    "id": Word(_("for papers"), WARN),
}
WHY = {
    Why.NO_ROOM: _("no room yet"),
    Why.NO_LOCK: _("the room has no lock here"),
    Why.NO_KEY: _("no key"),
    Why.KEY_FAILED: _("key failed"),
    Why.KEY_ENDED: _("the key was ended"),
    Why.STILL_OPENS: _("the key was ended, but the door still opens for it"),
    Why.OTHER_ROOM: _("the key is for another room"),
    Why.WAITS_FOR_DESK: _("card at the desk"),
    Why.WAITS_FOR_ROOM: _("no room yet"),
    Why.WAITS_FOR_ID: _("waits for an ID check"),
    Why.WAITS: _("waits for somebody"),
    Why.ON_ITS_WAY: _("on its way"),
    Why.NOT_AT_DOOR: _("not at the door yet"),
    Why.SUSPENDED: _("suspended"),
    Why.NOT_KNOWN: _("not known"),
    Why.ENDS_EARLY: _("shuts before she leaves"),
    Why.STARTS_LATE: _("opens after she comes"),
    Why.CARD_OLD: _("card must be updated"),
    Why.CLOCK_OFF: _("the lock's clock is wrong"),
    Why.BATTERY_FLAT: _("the lock's battery is nearly flat"),
    Why.OUT_OF_REACH: _("the lock is not reached"),
    Why.NOT_HEARD_OF: _("the lock was not heard of"),
    Why.VENDOR_SILENT: _("the lock system does not answer"),
    Why.DIFFERS: _("the door says otherwise"),
    Why.OCCUPIED: _("another guest is in the room"),
}
"""Why a stay's door is not green."""
PROPAGATION = {
    "confirmed": Word(_("confirmed at the door"), GOOD),
    "propagating": Word(_("on its way to the door"), BUSY),
    "unknown": Word(_("not known"), WARN),
}
PROPAGATION_SHORT = {
    "confirmed": Word(_("confirmed"), GOOD),
    "propagating": Word(_("on its way"), BUSY),
    "unknown": Word(_("not known"), WARN),
}
DOORS = {
    "none": Word(_("nothing sent yet"), CALM),
    "present": Word(_("holds the key"), GOOD),
    "suspended": Word(_("key rests"), WARN),
    "absent": Word(_("key taken back"), OVER),
}
KINDS = {
    "mobile_app": Word(_("phone")),
    "pin_code": Word(_("PIN")),
    "rfid_card": Word(_("card")),
    "qr_code": Word(_("QR code")),
    "nfc_tag": Word(_("NFC tag")),
}
SAGAS = {
    "due": Word(_("due now"), BUSY),
    "running": Word(_("running"), BUSY),
    "retry": Word(_("waits to try again"), WARN),
    "timer": Word(_("waits for its time"), CALM),
    "done": Word(_("done"), GOOD),
    "dead": Word(_("dead"), BAD),
}
OUTCOMES = {
    "done": Word(_("done"), GOOD),
    "deferred": Word(_("accepted, answer later"), BUSY),
    "unknown": Word(_("answer lost"), WARN),
    "failed": Word(pgettext_lazy("step", "failed"), BAD),
    "refused": Word(_("refused"), BAD),
    "bug": Word(_("our mistake"), BAD),
}
SEVERITIES = {
    "critical": Word(_("critical"), BAD),
    "warning": Word(_("warning"), WARN),
    "info": Word(_("note"), CALM),
}
BOOKINGS = {
    "confirmed": Word(_("confirmed"), GOOD),
    "cancelled": Word(_("cancelled"), OVER),
    "checked_out": Word(_("checked out"), OVER),
    "no_show": Word(_("no-show"), WARN),
    "fraud_flagged": Word(_("under review"), BAD),
}
BREAK_GLASS = {
    "requested": Word(_("waits for agreement"), WARN),
    "approved": Word(_("may be looked at"), BUSY),
    "revealed": Word(_("was looked at"), BAD),
    "closed": Word(_("closed"), OVER),
    "expired": Word(_("time ran out"), OVER),
    "refused": Word(_("refused"), OVER),
}
ACTIONS = {
    "update": _("Change window or rooms"),
    "suspend": _("Suspend"),
    "unsuspend": _("Resume"),
    "revoke": _("Revoke"),
    "replace": _("Replace a lost key"),
    "encode": _("Encode a card"),
    "retry": _("Repair open doors"),
    "choose_pin": _("Choose the PIN"),
    "leave_old_room": _("Take the old room back now"),
    "confirm": _("Papers were seen"),
    "arrived": _("The guest is here"),
    "reveal": _("Show the PIN"),
    "glass_ask": _("Ask to see a vendor secret"),
    "glass_approve": _("Agree"),
    "glass_refuse": _("Refuse"),
    "glass_reveal": _("Show the secret, once"),
    "glass_close": _("Close the case"),
}
MOVES = {
    "request": _("asked for"),
    "hand_over": _("handed to the vendor"),
    "activate": _("issued"),
    "suspend": _("suspended"),
    "unsuspend": _("resumed"),
    "revoke": _("revoked"),
    "fail": _("failed"),
    "note": _("noted"),
}


def word(table: dict[str, Word], value: str) -> Word:
    """Returns the word for a value, or the value itself."""
    return table.get(value) or Word(value)
