"""A vendor's rate limit held by four worker processes at once, with Valkey there, gone, and back again empty.

Rule: how many calls a second or a minute saw is read from the vendor's own log.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from lockservice.embedded.local import REPOSITORY_ROOT
from tests.chaos.conftest import mock_hotel
from tests.chaos.estate import Estate, eventually
from tests.chaos.load import issued
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from tests.support.push_site import own_secrets
from tests.support.sweep_ttlock import CAPABILITIES, TtlockCloud
from tests.vendors.assa_abloy.harness import VostioSite
from tests.vendors.proxy import Proxy
from tests.vendors.site import Simulator
from vendors.port.ids import new_id

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]
WORKERS = 4
PER_SECOND = 30
PER_MINUTE = 60


def most_within(moments: Sequence[float], seconds: float) -> int:
    """The most calls that any span of that length saw."""
    ordered, first, most = sorted(moments), 0, 0
    for last, moment in enumerate(ordered):
        while ordered[first] <= moment - seconds:
            first += 1
        most = max(most, last - first + 1)
    return most


@pytest.fixture
def vostio() -> Iterator[VostioSite]:
    simulator = Simulator.start("assa-abloy")
    proxy = Proxy(simulator.url, lambda _: False)
    try:
        yield VostioSite(simulator, proxy, rateLimit=PER_SECOND)
    finally:
        proxy.stop()
        simulator.stop()


def _vostio_hotel(site: VostioSite) -> Hotel:
    from tests.support.hotel import build_hotel

    rooms = {str(number): door.external_id for number, door in enumerate(site.doors, 101)}
    settings = {**site.settings(), "base_url": site.simulator.url, "timeout_s": 10}
    return build_hotel(vendor=site.code, settings=settings, secrets={**site.secrets(), **own_secrets()}, rooms=rooms)


def test_four_processes_let_no_second_see_more_than_the_vendor_allows(
    estate: Estate, vostio: VostioSite, record_property: Any
) -> None:
    hotel = _vostio_hotel(vostio)
    argv = [
        sys.executable, "-m", "tests.support.limit_child", hotel.tenant_id, hotel.installation_id, hotel.devices["101"], "14",
    ]  # fmt: skip
    children = [
        subprocess.Popen(argv, cwd=REPOSITORY_ROOT, env=estate.environment(), stdout=subprocess.PIPE, text=True)
        for _ in range(WORKERS)
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    began = time.monotonic()
    time.sleep(4)
    estate.empty_valkey()
    lost = time.monotonic()
    time.sleep(3)
    estate.start_valkey()
    found = time.monotonic()
    told = [json.loads(child.communicate(timeout=60)[0]) for child in children]
    log = [call for call in vostio.simulator.get("/calls?limit=10000")["calls"] if call.get("house") == vostio.house]
    moments = [call["atS"] for call in log if "token" not in call["path"]]
    assert [child.returncode for child in children] == [0] * WORKERS
    assert sum(row["made"] for row in told) == len(moments)  # each call that reached the vendor was answered, none with 429
    assert all(row["waits"] > 0 for row in told)
    busiest = most_within(moments, 1.0)
    phases = {
        "with Valkey": [m for m in moments if m < lost],
        "without": [m for m in moments if lost <= m < found],
        "again": [m for m in moments if m >= found],
    }
    line = f"busiest second {busiest} of {PER_SECOND}; " + ", ".join(f"{name} {len(part)}" for name, part in phases.items())
    record_property("rate_limit_per_second", f"{line}; {time.monotonic() - began:.1f} s")
    print(line)  # noqa: T201 - the figures, for the reader of the run
    assert busiest <= PER_SECOND
    assert all(len(part) > PER_SECOND / 2 for part in phases.values())  # it was used, also while Valkey was gone


@pytest.fixture
def cloud() -> Iterator[TtlockCloud]:
    running = TtlockCloud()
    yield running
    running.stop()


def _ttlock_hotel(cloud: TtlockCloud) -> tuple[Hotel, str]:
    """A hotel of four gateways, so that four runners have a lane each, at a vendor that counts minutes."""
    import hashlib

    from tests.support.hotel import build_hotel

    tail = new_id("evt")[-8:].lower()
    account = {
        "clientId": f"app{tail}", "clientSecret": f"s{tail}", "username": f"owner{tail}@example.org", "password": f"p{tail}",
        "minuteLimit": PER_MINUTE,
    }  # fmt: skip
    gateways = cloud.ask("/seed", {"account": account, "gateways": [{"name": f"floor {n}"} for n in range(4)]})["gateways"]
    locks = [{"alias": f"{n + 1}0{m}", "gatewayId": gateways[n]["gatewayId"]} for n in range(4) for m in range(1, 4)]
    rows = cloud.ask("/seed", {"account": account, "locks": locks})["locks"]
    hotel = build_hotel(
        vendor="ttlock",
        settings={"base_url": cloud.url, "client_id": account["clientId"], "timeout_s": 10, "cloud_timeout_s": 10},
        secrets={
            "client_secret": account["clientSecret"],
            "username": account["username"],
            "password_md5": hashlib.md5(account["password"].encode(), usedforsecurity=False).hexdigest(),
        },
        rooms={row["alias"]: str(row["lockId"]) for row in rows},
        gateways={str(row["lockId"]): str(row["gatewayId"]) for row in rows},
        capabilities=CAPABILITIES,
        calls_per_minute=PER_MINUTE,
    )
    return hotel, account["clientId"]


def test_four_runners_let_no_minute_see_more_and_keep_nobody_else_waiting(
    estate: Estate, cloud: TtlockCloud, locks: MockLocks, record_property: Any
) -> None:
    limited, client_id = _ttlock_hotel(cloud)
    free = mock_hotel(locks, rooms=6)
    for number in range(60):
        for hotel in (limited, free):
            room = sorted(hotel.rooms)[number % len(hotel.rooms)]
            hotel.tell("booking.confirmed", hotel.booking(new_id("rsv"), 1, [room]))
    for number in range(WORKERS):
        estate.runner(f"runner-{number}")
    began = time.monotonic()
    eventually(lambda: issued([free]) == 60, 60, "the free house has all its keys")
    took_s, meanwhile = time.monotonic() - began, issued([limited])
    assert meanwhile <= PER_MINUTE / 5 + PER_MINUTE * 4 / 5 / 60 * took_s  # burst and refill since
    assert meanwhile < 55  # the limited one has work left, and kept no runner asleep over it
    eventually(lambda: issued([limited]) >= 20, 60, "the limited house goes on")
    estate.empty_valkey()
    time.sleep(5)
    estate.start_valkey()
    more = mock_hotel(locks, rooms=1)
    more.tell("booking.confirmed", more.booking(new_id("rsv"), 1, ["101"]))
    eventually(lambda: issued([more]) == 1, 20, "another house is served while the limited one waits")
    assert issued([limited]) < 60
    eventually(lambda: issued([limited]) == 60, 150, "the limited house has all its keys")
    log = cloud.ask(f"/calls?clientId={client_id}&limit=10000")["calls"]
    moments = [call["at"] / 1000 for call in log]
    busiest = most_within(moments, 60.0)
    line = (
        f"busiest minute {busiest} of {PER_MINUTE}, {len(log)} calls in {max(moments) - min(moments):.0f} s; the free house's"
        f" 60 keys in {took_s:.1f} s, the limited one then had {meanwhile}"
    )
    record_property("rate_limit_per_minute", line)
    print(line)  # noqa: T201
    assert busiest <= PER_MINUTE
    assert not [call for call in log if call.get("errcode") == 30006]
