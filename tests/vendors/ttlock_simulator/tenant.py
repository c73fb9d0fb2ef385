"""A hotel that talks to the simulator over HTTP, as an adapter and an operator would."""

from __future__ import annotations

import hashlib
import itertools
import json
import subprocess
import sys
import time
from typing import Any

import requests

HOUR = 3_600_000
DAY = 24 * HOUR
_numbers = itertools.count(1)

Json = dict[str, Any]


class Simulator:
    """The program, running, and a session to both of its ports."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "vendors.ttlock.simulator", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        ready = json.loads(self.process.stdout.readline())
        self.url, self.control_url = ready["url"], ready["control"]
        self.session = requests.Session()

    def stop(self) -> int:
        """Asks it to end and returns its status."""
        self.session.close()
        self.process.terminate()
        status = self.process.wait(10)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status

    def control(self, method: str, path: str, body: Any = None, status: int = 200) -> Json:
        """Calls the control port."""
        answer = self.session.request(method, self.control_url + path, json=body, timeout=30)
        assert answer.status_code == status, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None) -> Json:
        return self.control("POST", path, body or {})

    def now(self) -> int:
        return self.control("GET", "/clock")["now"]


class Tenant:
    """One application with its owner account, two gateways and three locks: two through gateways, one without."""

    def __init__(self, simulator: Simulator, **account: Any) -> None:
        self.simulator = simulator
        number = next(_numbers)
        self.client_id = f"client{number}"
        self.username = f"owner{number}@hotel.test"
        self.password = f"secret-{number}"
        fields = {
            "clientId": self.client_id,
            "clientSecret": "s3cret",
            "username": self.username,
            "password": self.password,
            **account,
        }
        self.account_fields = fields
        seeded = self.seed(gateways=[{"name": "one"}, {"name": "two"}])
        self.gateway, self.other_gateway = (g["gatewayId"] for g in seeded["gateways"])
        self.lock = self.add_lock()
        self.lock_apart = self.add_lock(gatewayId=None)
        self.token = self.sign_in()["access_token"]

    def seed(self, **body: Any) -> Json:
        return self.simulator.post("/seed", {"account": self.account_fields, **body})

    def add_lock(self, **fields: Any) -> int:
        fields = {"gatewayId": self.gateway, **fields}
        return self.seed(locks=[fields])["locks"][0]["lockId"]

    def change_lock(self, lock: int, **fields: Any) -> None:
        self.seed(locks=[{"lockId": lock, **fields}])

    def oauth(self, **fields: Any) -> Json:
        fields = {"clientId": self.client_id, "clientSecret": "s3cret", **fields}
        return self.simulator.session.post(self.simulator.url + "/oauth2/token", data=fields, timeout=30).json()

    def sign_in(self, username: str | None = None, password: str | None = None) -> Json:
        digest = hashlib.md5((password or self.password).encode()).hexdigest()
        return self.oauth(username=username or self.username, password=digest, grant_type="password")

    def fields(self, **fields: Any) -> Json:
        own = {"clientId": self.client_id, "accessToken": self.token, "date": self.simulator.now()}
        return {name: value for name, value in {**own, **fields}.items() if value is not None}

    def call(self, path: str, **fields: Any) -> Json:
        url = f"{self.simulator.url}/v3/{path}"
        answer = self.simulator.session.post(url, data=self.fields(**fields), timeout=30)
        assert answer.status_code == 200
        return answer.json()

    def secret_call(self, path: str, **fields: Any) -> Json:
        return self.call(path, accessToken=None, clientSecret="s3cret", **fields)

    def errcode(self, path: str, **fields: Any) -> int:
        return self.call(path, **fields).get("errcode", 0)

    def hour(self, offset: int = 0) -> int:
        """The present whole hour in UTC, moved by so many hours."""
        now = self.simulator.now()
        return now - now % HOUR + offset * HOUR

    def add_code(self, code: str, lock: int | None = None, start: int = -1, end: int = 2, **fields: Any) -> Json:
        """Adds a custom code; start and end are hours from the present whole hour."""
        fields = {"addType": 2, "keyboardPwdName": f"gk-{code}", "keyboardPwdType": 3, **fields}
        return self.call(
            "keyboardPwd/add",
            lockId=lock or self.lock,
            keyboardPwd=code,
            startDate=self.hour(start),
            endDate=self.hour(end),
            **fields,
        )

    def random_code(self, lock: int | None = None, start: int = 0, end: int = 48, kind: int = 3) -> Json:
        return self.call(
            "keyboardPwd/get",
            lockId=lock or self.lock,
            keyboardPwdType=kind,
            startDate=self.hour(start),
            endDate=self.hour(end),
        )

    def send_key(self, username: str, lock: int | None = None, start: int = -1, end: int = 2, **fields: Any) -> Json:
        return self.call(
            "key/send",
            lockId=lock or self.lock,
            receiverUsername=username,
            keyName="guest",
            startDate=self.hour(start),
            endDate=self.hour(end),
            **fields,
        )

    def guest(self, **fields: Any) -> str:
        """Makes a phone-app account and returns its name."""
        username = f"guest{next(_numbers)}@mail.test"
        self.seed(users=[{"username": username, "password": "guest-pw", **fields}])
        return username

    def attempt(self, value: str, lock: int | None = None, kind: str = "pin_code", **fields: Any) -> Json:
        body = {"device": lock or self.lock, "kind": kind, "value": value, **fields}
        return self.simulator.post("/try", body)

    def why(self, value: str, lock: int | None = None, kind: str = "pin_code", **fields: Any) -> str:
        return self.attempt(value, lock, kind, **fields)["why"]

    def dump(self, lock: int | None = None) -> Json:
        found = self.simulator.control("GET", f"/dump?lockId={lock or self.lock}")["locks"]
        assert len(found) == 1
        return found[0]

    def fault(self, **rule: Any) -> None:
        self.simulator.post("/faults", {"clientId": self.client_id, **rule})

    def creates(self, path: str = "keyboardPwd/add", lock: int | None = None) -> int:
        counts = self.simulator.control("GET", "/calls?limit=1")["counts"]["applied"]["byLock"]
        return counts.get(str(lock or self.lock), {}).get(path, 0)


def wait_until(condition: Any, seconds: float = 5.0) -> None:
    """Looks again and again for a bounded time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)
