"""Three vendors' own wires, spoken as somebody else's program would: keys planted, changed and taken behind the service's back.

Rule: what a door holds and whether it opens is asked at the simulator's control port.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

import urllib3

from credentials.models import KeyCredential
from devices.simulated import SimulatorPlace, control_of
from tests.support.hotel import Hotel, build_hotel
from tests.vendors.site import Simulator
from vendors.port.simulated import HeldKey, WantedDoor, WantedHouse
from vendors.port.types import CredentialKind, Window
from vendors.support.marks import key_name, mark_of, tag_of

ROOMS = ("101", "102")
GUEST = {"id": "gst_wire", "displayName": "Zahra Ahmadi", "contact": {"phoneE164": "+93700123456"}, "locale": "en"}


class Wire:
    """A house at a vendor's simulator, its hotel with us, and the vendor's wire. `kind` is what its doors carry here."""

    code = ""
    kind = CredentialKind.MOBILE_APP
    capabilities: Mapping[str, bool] = {"mobile_key": True, "remote_issue": True, "remote_revoke": True}

    def __init__(self, simulator: Simulator, base: int) -> None:
        self.url = simulator.url
        address = simulator.url.removeprefix("http://")
        self.control = control_of(self.code, SimulatorPlace(address, simulator.control))
        doors = [WantedDoor(number, label) for number, label in enumerate(ROOMS, start=1)]
        house = f"house-{secrets.token_hex(4)}"
        self.secret = secrets.token_hex(8)
        self.built = self.control.build(WantedHouse(house, base, doors, 0, self.secret, is_hurried=True))
        self.house = house
        rooms = {label: self.built.doors[number] for number, label in enumerate(ROOMS, start=1)}
        gateway = next(iter(self.built.gateways.values()), "")
        self.hotel: Hotel = build_hotel(
            vendor=self.code,
            settings=self.settings(),
            secrets=self.secrets(),
            rooms=rooms,
            gateways=dict.fromkeys(rooms.values(), gateway) if gateway else None,
            capabilities=self.capabilities,
            calls_per_minute=6000,
        )

    def settings(self) -> Mapping[str, object]:
        return self.built.settings

    def secrets(self) -> Mapping[str, str]:
        return self.built.secrets

    def held(self, label: str) -> list[HeldKey]:
        """What the room's door holds, apart from what rests or is over."""
        return [key for key in self.control.held([self.hotel.doors[label]]) if not key.is_resting]

    def opens(self, label: str, value: str) -> bool:
        return self.control.try_door(self.hotel.doors[label], self.kind, value).is_open

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        raw = json.dumps(body).encode() if body is not None else None
        answer = urllib3.request(method, self.url + path, body=raw, headers={"Content-Type": "application/json", **headers})
        assert answer.status < 300, answer.data
        return answer.json() if answer.data else {}

    def plant_stranger(self, label: str, window: Window) -> None:
        raise AssertionError("each wire has its own")

    def plant_ours(self, label: str, key: KeyCredential, window: Window) -> None:
        raise AssertionError("each wire has its own")

    def alter(self, label: str, window: Window) -> None:
        raise AssertionError("each wire has its own")

    def drop(self, label: str) -> None:
        raise AssertionError("each wire has its own")


class TtlockWire(Wire):
    code = "ttlock"
    kind = CredentialKind.PIN_CODE
    capabilities = {"pin": True, "remote_issue": True, "remote_revoke": True}

    def _call(self, path: str, **fields: Any) -> Any:
        account = {
            "client_id": self.built.settings["client_id"],
            "client_secret": self.built.secrets["client_secret"],
            "username": self.built.secrets["username"],
            "password": self.built.secrets["password_md5"],
        }
        token = self._form("/oauth2/token", account)["access_token"]
        own = {"clientId": account["client_id"], "accessToken": token, "date": int(time.time() * 1000)}
        answer = self._form(f"/v3/{path}", {**own, **fields})
        assert answer.get("errcode", 0) == 0, answer
        return answer

    def _form(self, path: str, fields: Mapping[str, Any]) -> Any:
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        return urllib3.request("POST", self.url + path, body=urlencode(fields), headers=headers).json()

    def _add(self, label: str, digits: str, name: str, window: Window) -> None:
        self._call(
            "keyboardPwd/add", lockId=self.hotel.doors[label], keyboardPwd=digits, keyboardPwdName=name, keyboardPwdType=3,
            addType=2, **_period(window),
        )  # fmt: skip

    def _id(self, label: str) -> int:
        rows = self._call("lock/listKeyboardPwd", lockId=self.hotel.doors[label], pageNo=1, pageSize=20)["list"]
        return int(rows[0]["keyboardPwdId"])

    def plant_stranger(self, label: str, window: Window) -> None:
        self._add(label, "904512", "Cleaner Gulnora", window)

    def plant_ours(self, label: str, key: KeyCredential, window: Window) -> None:
        self._add(label, "771204", key_name(key.issue_key, key.id), window)

    def alter(self, label: str, window: Window) -> None:
        self._call(
            "keyboardPwd/change", lockId=self.hotel.doors[label], keyboardPwdId=self._id(label), changeType=2, **_period(window)
        )

    def drop(self, label: str) -> None:
        self._call("keyboardPwd/delete", lockId=self.hotel.doors[label], keyboardPwdId=self._id(label), deleteType=2)


class SaltoWire(Wire):
    code = "salto"

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        return self.send(
            method, f"/api/{path}", body, **{
                "Authorization": f"ApiKey {self.built.secrets['api_key']}", "X-Property-Id": self.house,
                "X-Idempotency-Key": secrets.token_hex(32),
            },
        )  # fmt: skip

    def _make(self, label: str, reservation: str, operator: str, phone: str, window: Window) -> None:
        self._ask(
            "POST", "keys", {
                "propertyId": self.house, "reservationRef": reservation, "operator": operator, "kind": "mobile_app", "mode": "new",
                "rooms": [self.hotel.doors[label]], "authorizations": {"grant": [], "deny": []}, "cancellable": True,
                "phone": phone, **_instants(window),
            },
        )  # fmt: skip

    def _ref(self, label: str) -> str:
        return str(self._ask("GET", f"keys?room={self.hotel.doors[label]}&status=live")["items"][0]["cardRef"])

    def plant_stranger(self, label: str, window: Window) -> None:
        self._make(label, "PMS-4711", "Front desk", "+992900111222", window)

    def plant_ours(self, label: str, key: KeyCredential, window: Window) -> None:
        self._make(label, key.id, mark_of(key.issue_key), "+93700123456", window)

    def alter(self, label: str, window: Window) -> None:
        self._ask("PATCH", f"keys/{self._ref(label)}", _instants(window))

    def drop(self, label: str) -> None:
        self._ask("DELETE", f"keys/{self._ref(label)}?strategy=checkout")


class SaltoCards(SaltoWire):
    """The same house with cards: stand-alone habits of the encoder, and a card that can be written again there."""

    kind = CredentialKind.RFID_CARD
    capabilities = {"card_encoding": True, "remote_issue": True, "remote_revoke": True}

    def write_card(self, label: str) -> None:
        self._ask("POST", f"keys/{self._ref(label)}/encode", {"encoderId": self.built.settings["encoder"]})


class VostioWire(Wire):
    code = "assa-abloy"
    _token = ""

    def _ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        if not self._token:
            login = f"{self.built.settings['client_id']}:{self.built.secrets['client_secret']}"
            sign_in = urllib3.make_headers(basic_auth=login) | {"Content-Type": "application/x-www-form-urlencoded"}
            form = "grant_type=client_credentials"
            answer = urllib3.request("POST", f"{self.url}/oauth2/token", body=form, headers=sign_in)
            assert answer.status == 200, answer.data
            self._token = str(answer.json()["access_token"])
        key = {"Idempotency-Key": secrets.token_hex(32)} if method == "POST" else {}
        return self.send(method, path, body, Authorization=f"Bearer {self._token}", **key, **headers)

    def _make(self, label: str, external: str, name: str, phone: str, window: Window) -> None:
        self._ask(
            "POST", "/access-grants", {
                "propertyId": self.house, "externalRef": external, "kind": "mobile_app", "stay": {"mode": "override"},
                "guestDoors": [self.hotel.doors[label]], "commonDoors": [], "label": name, "endpoint": {"phoneE164": phone},
                **_instants(window),
            },
        )  # fmt: skip

    def _grant(self, label: str) -> dict[str, Any]:
        query = urlencode({"doorId": self.hotel.doors[label], "status": "issuing,active,suspended"})
        return dict(self._ask("GET", f"/access-grants?{query}")["items"][0])

    def plant_stranger(self, label: str, window: Window) -> None:
        self._make(label, "PMS-4711", "Room 102", "+992900111222", window)

    def plant_ours(self, label: str, key: KeyCredential, window: Window) -> None:
        name = mark_of(key.issue_key)[3:] + tag_of(key.id)[2:]
        self._make(label, tag_of(key.id), name, "+93700123456", window)

    def alter(self, label: str, window: Window) -> None:
        grant = self._grant(label)
        self._ask("PATCH", f"/access-grants/{grant['grantId']}", _instants(window), **{"If-Match": str(grant["version"])})

    def drop(self, label: str) -> None:
        self._ask("DELETE", f"/access-grants/{self._grant(label)['grantId']}?reason=checkout")


class VisionlineWire(VostioWire):
    """The same doors on the other product's server; the hands go on speaking to the first one's."""

    def settings(self) -> Mapping[str, object]:
        return {"mode": "visionline", "base_url": self.url, "time_zone": "UTC", "encoder": self.built.settings["encoder"]}

    def secrets(self) -> Mapping[str, str]:
        password = hashlib.sha256(f"{self.secret}\x1f{self.house}\x1fpassword".encode()).hexdigest()[:32]
        return {"username": f"operator-{self.house}", "password": password}


WIRES: dict[str, type[Wire]] = {
    "ttlock": TtlockWire,
    "salto": SaltoWire,
    "vostio": VostioWire,
    "visionline": VisionlineWire,
}


def _period(window: Window) -> dict[str, int]:
    return {"startDate": _ms(window.valid_from), "endDate": _ms(window.valid_until)}


def _ms(instant: datetime) -> int:
    return int(instant.timestamp() * 1000)


def _instants(window: Window) -> dict[str, str]:
    form = "%Y-%m-%dT%H:%M:%S+00:00"
    return {"validFrom": window.valid_from.strftime(form), "validUntil": window.valid_until.strftime(form)}
