"""Mobile keys: an eKey sent to a user of our own making, whom the guest's app signs in as.

One rule: look before sending again, since a second eKey to the same receiver replaces the first and gets another id; and never
let the vendor make the user (`createUser`), since its password would be the end of the guest's own number.
Source: the vendor's eKey and user pages.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import replace
from typing import Any

from vendors.port.clock import Clock
from vendors.port.errors import KeyIssueFailed
from vendors.port.secrets import Token
from vendors.port.types import CredentialKind, Door, DoorResult, Outcome, Propagation

from .client import TtlockClient
from .door_keys import DoorKeys, Held, Wire, Work, rows_in
from .errors import GONE, USER_EXISTS, Refused, Unclear
from .manifest import MANIFEST
from .pins import new_id
from .refs import EKEY, Ref
from .settings import Settings
from .wire import to_ms

OVER = frozenset({"110408", "110410"})
"""keyStatus of an eKey that was deleted, or reset with its lock."""
NO = 2
"""The vendor's no where yes is 1 (remoteEnable, createUser)."""


class EkeyKeys(DoorKeys):
    """eKeys of the locks."""

    def __init__(self, client: TtlockClient, clock: Clock, settings: Settings) -> None:
        wire = Wire(
            kind=CredentialKind.MOBILE_APP,
            ref_kind=EKEY,
            list_path="lock/listKey",
            id_field="keyId",
            name_field="keyName",
            change_path="key/changePeriod",
            delete_path="key/delete",
            at_lock=False,
        )
        super().__init__(wire, client, clock)
        self._secret = settings.user_secret
        self._prefix = settings.user_prefix

    def add(self, work: Work, door: Door) -> DoorResult:
        """Registers the credential's user where needed, and sends the eKey."""
        work.username = work.username or self._user(work)
        fields: dict[str, object] = {
            "lockId": door.external_id,
            "receiverUsername": work.username,
            "keyName": work.name,
            "remarks": work.mark,
            "startDate": to_ms(work.window.valid_from),
            "endDate": to_ms(work.window.valid_until),
            "remoteEnable": NO,
            "createUser": NO,
            "clientNonce": work.mark,
        }
        answer = self.client.ask(work.call, "key/send", fields)
        return self.done(door, Ref(door.external_id, EKEY, new_id(answer, "keyId")))

    def adopt(self, work: Work, door: Door, held: Held) -> DoorResult:
        """Takes over an eKey of ours, and learns its receiver from it."""
        work.username = held.username or work.username
        return super().adopt(work, door, held)

    def rest(self, work: Work, door: Door) -> DoorResult:
        """Freezes the eKey; the phone learns of it when it next syncs."""
        if self.ref_at(door) is None:
            return self.take(work, door)
        frozen = self._switched(work, door, "key/freeze")
        return DoorResult(door.device_id, Outcome.DONE) if frozen is None else self._until_synced(work, door, frozen)

    def wake(self, work: Work, door: Door) -> DoorResult:
        """Thaws the eKey and gives it the window it has by now."""
        thawed = self._switched(work, door, "key/unfreeze")
        return self.change(work, door if thawed is None else replace(door, ref=thawed.text))

    def read_row(self, row: dict[str, Any]) -> Held | None:
        """Reads one row of the list; None for one that no longer is a key."""
        return None if str(row.get("keyStatus")) in OVER else super().read_row(row)

    def gone(self, work: Work, door: Door) -> DoorResult:
        """Deleted in the cloud; a phone that holds the key may open by radio until it syncs."""
        return self._until_synced(work, door, None)

    def artifact(self, work: Work) -> Token | None:
        """Returns what the guest's app signs in with: JSON with `username` and `password`. None while no user is known."""
        if work.username is None:
            return None
        password = self._password(work.username.rpartition("_")[2])
        return Token(json.dumps({"username": work.username, "password": password}))

    def _user(self, work: Work) -> str:
        """Registers `gk<16 hex of the credential>` and returns the name with the prefix the vendor puts before it."""
        name = f"gk{work.tag.removeprefix('c-')}"
        digest = hashlib.md5(self._password(name).encode(), usedforsecurity=False).hexdigest()
        fields: dict[str, object] = {"username": name, "password": digest}
        try:
            answer = self.client.ask_as_application(work.call, "user/register", fields)
        except Refused as refused:
            if refused.code != USER_EXISTS:
                raise
            return f"{self._known_prefix(work)}{name}"
        registered = answer.get("username")
        if not isinstance(registered, str) or not registered.endswith(name):
            raise Unclear(KeyIssueFailed(MANIFEST.code, "no user name in the answer"))
        self._prefix = registered.removesuffix(name)
        return registered

    def _known_prefix(self, work: Work) -> str:
        """The application's prefix with its underscore, the same for all its users: known already, or read off any user."""
        if self._prefix is None:
            fields: dict[str, object] = {"startDate": 0, "endDate": 0, "pageNo": 1, "pageSize": 20}
            document = self.client.ask_as_application(work.call, "user/list", fields)
            for row in rows_in(document):
                name = str(row.get("userid") or row.get("username") or "")
                if "_gk" in name:
                    self._prefix = name[: name.rindex("_gk") + 1]
                    break
            else:
                raise KeyIssueFailed(MANIFEST.code, "the application's user prefix is not known")
        return self._prefix

    def _password(self, name: str) -> str:
        """Computes the user's password, so that a repeat after a lost answer gives the guest the same one: 96 bits."""
        mac = hmac.new(self._secret.reveal().encode(), f"ttlock-user\n{name}".encode(), hashlib.sha256)
        return base64.urlsafe_b64encode(mac.digest()[:12]).decode()

    def _switched(self, work: Work, door: Door, path: str) -> Ref | None:
        """Freezes or thaws the eKey, under another id if it is not found under ours; None where there is none."""
        ref = self.ref_at(door)
        if ref is None:
            return None
        try:
            self.client.ask(work.call, path, {"keyId": ref.id})
        except Refused as refused:
            if refused.code not in GONE:
                raise
        else:
            return ref
        other = next((held for held in self.find(work, door) if held.id != ref.id), None)
        if other is None:
            return None
        self.client.ask(work.call, path, {"keyId": other.id})
        return self.ref_of(door, other)

    def _until_synced(self, work: Work, door: Door, ref: Ref | None) -> DoorResult:
        return DoorResult(
            door.device_id,
            Outcome.DONE,
            ref=ref.text if ref else None,
            propagation=Propagation.PROPAGATING,
            effective_not_after=work.window.valid_until,
        )
