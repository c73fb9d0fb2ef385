"""Walks through one flow of the sweep and dies at each of its points in turn, or at each that is no repeat, or at (some of) the repeats.

Rule: this process forks and never touches the database, the bus or gRPC. A child dies at one point; another process lives on,
and prepares and ends each run. Each point has a tenant of its own. A point counts only if the child died there, under the name
it had in the recording run.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import socket
import sys
import traceback
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from typing import IO, Any

import urllib3

from credentials import house
from credentials.models import KeyPolicyRow
from devices import selectors
from devices.models import LockDevice
from lockservice.core import wake
from lockservice.core.tenancy import queues, tenant
from sagas.bus.topology import SERVICE_GROUP
from sagas.consumer import topics_by_urgency
from sagas.events import registry, validate
from sagas.events.refusals import EventRefused
from sagas.publisher import ensure_shards
from tests.support import crash_points
from tests.support.checkers import Doors, MockDoors, TtlockDoors, findings
from tests.support.hotel import Hotel, build_hotel
from tests.support.sweep_flows import FLOWS, LONG_FLOWS, TTLOCK_FLOWS, Flow
from tests.support.sweep_stage import Stage, SweepBus, let_leases_run_out, project
from tests.support.sweep_ttlock import CloudAt, TtlockHotel
from vendors import registry as vendors
from vendors.port.ids import new_id

BUS_LEASE_S = 0.5
"""How soon another consumer gets what a dead one held (6 s in life)."""
TRIES = 6
"""A machine that stalls lets a short wait or a lease renewal come at another place of the run; then the point is taken again
with a new tenant, until the child dies where it shall."""


class Site:
    """Where the vendor and the bus are. Connections are opened by children only."""

    def __init__(self, place: dict[str, str]) -> None:
        self._place = place
        self._prefix = f"{{sweep-{uuid.uuid4().hex[:8]}}}"

    def bus(self) -> SweepBus:
        return SweepBus(self._place["redis"], prefix=self._prefix, lease_s=BUS_LEASE_S)

    def open(self) -> None:
        """Makes what all stages share."""
        self.bus().subscribe(topics_by_urgency(), SERVICE_GROUP)
        with queues():
            ensure_shards()

    def hotel(self, flow: Flow) -> Hotel:
        if flow.vendor == "ttlock":
            return TtlockHotel(self._ttlock()).hotel
        url = self._place["setting"] + (f"?{flow.query}" if flow.query else "")
        rooms = {label: new_id("lck") for label in ("101", "102", "103")}
        hotel = build_hotel(
            vendor="mock", settings={"url": url}, rooms=rooms, shared={"lobby": new_id("lck")}, policy=flow.policy or None
        )
        if flow.installations == 2:
            build_hotel(vendor="mock", settings={"url": url}, rooms={"201": new_id("lck")}, into=hotel)
        if flow.keypad:
            with tenant(hotel.tenant_id):
                LockDevice.objects.filter(id=hotel.devices["101"]).update(digits=flow.keypad)
        if flow.spare:
            self._add_spare(hotel)
        return hotel

    def _add_spare(self, hotel: Hotel) -> None:
        """A lock system without failures that reaches room 101 too, and that the policy names for outages."""
        first = hotel.installation_id
        build_hotel(vendor="mock", settings={"url": self._place["setting"]}, rooms={"spare": new_id("lck")}, into=hotel)
        with tenant(hotel.tenant_id):
            LockDevice.objects.filter(tenant_id=hotel.tenant_id, id=hotel.devices["spare"]).update(rooms=[hotel.rooms["101"]])
            values = {"fallback_installation_id": hotel.installation_id, "outage_patience_minutes": 0}
            KeyPolicyRow.objects.create(tenant_id=hotel.tenant_id, property_id=hotel.property_id, values=values)
        hotel.installation_id = first

    def doors(self, hotel: Hotel) -> Doors:
        if self._is_ttlock(hotel):
            return TtlockDoors(self._ttlock().ask, hotel.doors.values())
        return MockDoors(self._ask, hotel.doors.values())

    def created(self, hotel: Hotel) -> dict[str, list[int]]:
        """What each door holds now, and how many keys were ever put there."""
        labels = {external: label for label, external in hotel.doors.items()}
        if self._is_ttlock(hotel):
            held = Counter(key.door for key in self.doors(hotel).held())
            return {label: [held[lock], self._ttlock().given(lock)] for lock, label in labels.items()}
        return {
            labels[door["device"]]: [len(door["keys"]), door["created"]]
            for door in self._ask(f"/dump?device={','.join(labels)}", None)["doors"]
        }

    def _ttlock(self) -> CloudAt:
        return CloudAt(self._place["ttlock_url"], self._place["ttlock_control"])

    def _is_ttlock(self, hotel: Hotel) -> bool:
        return all(external.isdigit() for external in hotel.doors.values())

    def _ask(self, path: str, body: dict[str, Any] | None) -> Any:
        method = "GET" if body is None else "POST"
        return urllib3.request(method, self._place["control"] + path, json=body).json()


def in_child(work: Callable[[int], Any]) -> tuple[int, str]:
    """Runs `work(pipe)` in a forked child and returns its exit status and what it wrote to the pipe."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            said = work(writer)
            os.write(writer, json.dumps(said).encode())
            os._exit(0)
        except BaseException:  # noqa: BLE001 - a child must never return into the parent's loop
            traceback.print_exc()
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), said


class Survivor:
    """A process of the service that lives on: it reaches the starting states, and ends what a process that died left undone.

    It is one for many points, since most of a short life goes into connecting and looking things up for the first time. What the
    product remembers for seconds is forgotten between two requests. After an error a new one takes its place.
    """

    def __init__(self, site: Site, flow: Flow) -> None:
        self._works = {"prepare": lambda _: _prepare(site, flow), "finish": lambda facts: _finish(site, flow, facts)}
        self._child = 0
        self._pipe: IO[str] | None = None

    def ask(self, what: str, facts: dict[str, Any] | None = None) -> dict[str, Any] | None:
        """Return the answer to one request, or None if it failed."""
        pipe = self._pipe or self._born()
        pipe.write(json.dumps([what, facts]) + "\n")
        pipe.flush()
        if not (said := pipe.readline()):
            self.end()
            return None
        answer: dict[str, Any] = json.loads(said)
        return answer

    def end(self) -> None:
        """Let the process end, if there is one."""
        if self._pipe is not None:
            self._pipe.close()
            os.waitpid(self._child, 0)
            self._pipe = None

    def _born(self) -> IO[str]:
        here, there = socket.socketpair()
        self._child = os.fork()
        if self._child == 0:
            here.close()
            try:
                self._live(there.makefile("rw"))
                os._exit(0)
            except BaseException:  # noqa: BLE001 - a child must never return into the parent's loop
                traceback.print_exc()
                os._exit(1)
        there.close()
        self._pipe = here.makefile("rw")
        here.close()  # the file keeps it open
        return self._pipe

    def _live(self, pipe: IO[str]) -> None:
        for line in pipe:
            what, facts = json.loads(line)
            house.forget()
            selectors.forget()
            pipe.write(json.dumps(self._works[what](facts)) + "\n")
            pipe.flush()


def _prepare(site: Site, flow: Flow) -> dict[str, Any]:
    stage = Stage(site.hotel(flow), {}, site.bus())
    flow.prepare(stage)
    stage.raw_bus.close()
    opened = stage.hotel.opened_at.isoformat()
    return {"hotel": asdict(stage.hotel) | {"opened_at": opened}, "memo": stage.memo}


def _finish(site: Site, flow: Flow, facts: dict[str, Any], points: crash_points.CrashPoints | None = None) -> dict[str, Any]:
    """Run the flow to quiet and return its end: projection, doors, findings; and the points reached, if they are counted."""
    stage = stage_of(site, facts)
    if points is None:
        let_leases_run_out()
    else:
        crash_points.arm(points)
    flow.drive(stage)
    names = list(points.names) if points is not None else []
    repeats = list(points.repeats) if points is not None else []
    stage.settle()
    end = {
        "points": names,
        "repeats": repeats,
        "end": {**project(stage), "doors": site.created(stage.hotel)},
        "findings": findings(stage.hotel, site.doors(stage.hotel)),
    }
    stage.raw_bus.close()
    return end


def stage_of(site: Site, facts: dict[str, Any]) -> Stage:
    opened = datetime.fromisoformat(facts["hotel"]["opened_at"])
    return Stage(Hotel(**facts["hotel"] | {"opened_at": opened}), dict(facts["memo"]), site.bus())


def prepare(survivor: Survivor) -> dict[str, Any]:
    facts = survivor.ask("prepare")
    if facts is None:
        raise RuntimeError("the starting state could not be reached")
    return facts


def finish(survivor: Survivor, facts: dict[str, Any]) -> dict[str, Any]:
    return survivor.ask("finish", facts) or {"points": [], "repeats": [], "end": {}, "findings": ["the run after it failed"]}


def die_at(site: Site, flow: Flow, facts: dict[str, Any], number: int) -> str | None:
    """Lets the flow run into its n-th point and returns the name the point had; None when the run ended before it."""

    def work(pipe: int) -> None:
        stage = stage_of(site, facts)
        crash_points.arm(crash_points.CrashPoints(die_at=number, tell_to=pipe))
        flow.drive(stage)

    status, said = in_child(work)
    if status not in (crash_points.CRASHED, 0):
        raise RuntimeError(f"the disturbed child failed at point {number}")
    return said if status == crash_points.CRASHED else None


def record(site: Site, flow: Flow, survivor: Survivor) -> dict[str, Any]:
    """Records the undisturbed run, in a process of its own as those that die have: the first one that goes through the same
    points as the one before it."""
    before: dict[str, Any] = {"points": None}
    for _ in range(TRIES):
        facts = prepare(survivor)
        status, said = in_child(lambda _, facts=facts: _finish(site, flow, facts, crash_points.CrashPoints()))
        if status != 0:
            raise RuntimeError("the undisturbed run failed")
        run: dict[str, Any] = json.loads(said)
        if run["points"] == before["points"]:
            return run
        before = run
    raise RuntimeError("no two undisturbed runs are alike")


def sweep(name: str, place: dict[str, str], which: str) -> dict[str, Any]:
    """Die at the points that `which` says: "all", "distinct", "repeats", "some repeats" (each third), "distinct and some repeats",
    or the number of one."""
    flow, site = {**FLOWS, **LONG_FLOWS, **TTLOCK_FLOWS}[name], Site(place)
    in_child(lambda _: site.open())
    survivor = Survivor(site, flow)
    undisturbed = record(site, flow, survivor)
    points: list[str] = undisturbed["points"]
    chosen = _chosen(which, len(points), set(undisturbed["repeats"]))
    died, wrong = [], []
    for number in chosen:
        for _ in range(TRIES):
            facts = prepare(survivor)
            point = die_at(site, flow, facts, number)
            after = finish(survivor, facts)
            if point == points[number - 1] or after["findings"] or after["end"] != undisturbed["end"]:
                break
        died.append(point)
        if after["findings"] or after["end"] != undisturbed["end"]:
            wrong.append({"number": number, "point": point, "findings": after["findings"], "end": after["end"]})
    survivor.end()
    assert "grpc" not in sys.modules, "a forked gRPC does not survive"
    return {"flow": name, "points": points, "chosen": chosen, "died": died, "undisturbed": undisturbed, "wrong": wrong}


def _chosen(which: str, count: int, repeats: set[int]) -> list[int]:
    if which.isdecimal():
        return [int(which)]
    points = set(range(1, count + 1))
    some = set(sorted(repeats)[::3])
    wanted = {
        "all": points, "distinct": points - repeats, "repeats": repeats, "some repeats": some,
        "distinct and some repeats": points - repeats | some,
    }  # fmt: skip
    return sorted(wanted[which])


def warm_up() -> None:
    """Loads what is loaded on first use, once here in place of once in each child. Opens nothing."""
    for module in (
        "vendors.mock.adapter",
        "vendors.ttlock.adapter",
        "lockservice.core.kms_file",
        "lockservice.core.secret_store_file",
        "encodings.idna",
    ):
        importlib.import_module(module)
    vendors.manifests()
    wake.hint("sagas.drain", "saga")
    for event in registry.produced():
        with suppress(EventRefused):
            validate.validate(event.subject, {})
    crash_points.watch()
    gc.freeze()
