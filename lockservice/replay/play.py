"""Plays a file of bookings from beginning to end, and says at the end whether everything agrees.

One rule: it may be interrupted anywhere and run again: ids follow from the file, so what was told before is not told twice.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TextIO

from django.conf import settings

from devices import simulated
from devices.simulated import SimulatorPlace
from lockservice.core.outage import through_outages
from lockservice.demo import moved_clock
from lockservice.demo.building import put_up
from lockservice.demo.desk_seat import Seat, needs_desk
from lockservice.demo.moved_clock import ClockState
from lockservice.replay import report, timeline
from lockservice.replay.bookings import Booking, digest_of
from lockservice.replay.clerk import Clerk
from lockservice.replay.crew import Crew
from lockservice.replay.doors import DoorCheck
from lockservice.replay.drive import PATIENCE_S, Driver, Work
from lockservice.replay.hands import Hands
from lockservice.replay.house import TIME_ZONE, ReplayHouse, house_of
from lockservice.replay.progress import Progress
from lockservice.replay.report import Report, VendorShare
from lockservice.replay.timeline import Timeline
from lockservice.replay.watch import Watch
from sagas import bus
from vendors.port.simulated import SimulatorControl

LOOKS = 25
"""How often on the way the ledger is held against the doors; at the end once more."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to play. `vendors`: one, or several that share the rooms. `speed`: hotel seconds a real second, None as fast as it
    goes. `place`: where the one vendor's simulator runs, None where the settings say. `runners`: how many processes run sagas,
    beside others that consume and publish; 0 does all of it in this process. `has_desk`: whether a desk without hardware
    makes the cards of those vendors that need one; without it their guests wait."""

    bookings: Sequence[Booking]
    vendors: tuple[str, ...]
    tenant_id: str | None = None
    place: SimulatorPlace | None = None
    speed: float | None = None
    runners: int = 0
    has_desk: bool = False


def play(request: Request, out: TextIO, say: Callable[[str], None]) -> Report:
    """Plays the bookings. Needs a database login that works queues.

    Raises lockservice.replay.crew.CrewFailed, lockservice.replay.drive.StandsStill, sagas.bus.port.BusUnavailable or
    vendors.port.simulated.SimulatorUnreachable; run it again after the repair.
    """
    story = timeline.plan(request.bookings, TIME_ZONE)
    means = "+".join((*request.vendors, *(["desk"] if request.has_desk else [])))
    said = "\x1f".join((digest_of(request.bookings), means, request.tenant_id or ""))
    digest = hashlib.sha256(said.encode()).hexdigest()
    house = house_of(digest, story.rooms_count, request.tenant_id, request.vendors)
    with Crew(settings.LOCAL_DIRECTORY, request.vendors, request.place, request.runners) as crew:
        say(_beginning(story, crew))
        controls = {vendor: simulated.control_of(vendor, place) for vendor, place in crew.places.items()}
        built = put_up(house.plan(crew.places), str(settings.LOCAL_DIRECTORY.secret("simulators.key")))
        doors = {vendor: list(part.doors.values()) for vendor, part in built.items()}
        for vendor in request.vendors if request.has_desk else ():
            if needs_desk(vendor):
                place = crew.places[vendor].address
                crew.seat(Seat(vendor, house.code, place, house.tenant_id, house.property_id, settings.LOCAL_DIRECTORY.run))
        stage = _Stage(request, house, story, controls, doors)
        found = moved_clock.read()
        progress = Progress(out, len(story.planned))
        if request.runners:
            outcome = stage.run(crew, progress, lambda _waiting, _left: False)
        else:
            with Hands(crew.found) as hands:
                outcome = stage.run(crew, progress, hands.turn)
        _restore_clock(found, story, controls.values())
    return outcome


class _Stage:
    """One run, with what it needs at hand."""

    def __init__(
        self,
        request: Request,
        house: ReplayHouse,
        story: Timeline,
        controls: Mapping[str, SimulatorControl],
        doors: Mapping[str, Sequence[str]],
    ) -> None:
        self._request = request
        self._house = house
        self._story = story
        self._controls = controls
        self._doors = doors
        self._check = DoorCheck(house.tenant_id, house.property_id, controls)
        self._look_every = max(1, len(story.planned) // LOOKS)
        self._looked_at = 0

    def run(self, crew: Crew, progress: Progress, work: Callable[[int, Work], bool]) -> Report:
        tenant_id = self._house.tenant_id
        before, places = report.count(tenant_id), report.last_places(tenant_id)
        calls_before, started = self._calls(), time.monotonic()
        outcome = Report(
            property_name=self._house.name, vendor=", ".join(self._request.vendors), bookings_count=self._story.bookings_count,
            told_count=len(self._story.planned), steps_count=0, seconds=0.0, before=before, after=before,
            vendors={vendor: VendorShare() for vendor in self._request.vendors},
        )  # fmt: skip
        watch, link = Watch(bus.from_settings(), tenant_id), bus.from_settings()
        clerk = Clerk(tenant_id, self._request.vendors, has_desk=self._request.has_desk)
        driver = Driver(
            self._house.names, link, self._controls.values(), check=crew.check, look=watch.look, serve=clerk.serve,
            work=work, speed=self._request.speed,
        )  # fmt: skip
        try:
            driver.run(self._story, lambda told, now: self._quiet(outcome, progress, told, now))
        finally:
            progress.close()
            link.close()
            watch.close()
        outcome.steps_count, outcome.seconds = driver.pace.steps_count, time.monotonic() - started
        self._look_at_doors(outcome, driver.now)
        self._conclude(outcome, watch, places, driver, calls_before)
        return outcome

    def _calls(self) -> dict[str, int]:
        return {vendor: control.calls(self._doors[vendor]) for vendor, control in self._controls.items()}

    def _quiet(self, outcome: Report, progress: Progress, told: int, now: datetime) -> None:
        progress.show(told, now)
        if told - self._looked_at >= self._look_every:
            self._looked_at = told
            self._look_at_doors(outcome, now)

    def _look_at_doors(self, outcome: Report, now: datetime) -> None:
        found = through_outages(lambda: self._check.look(now), PATIENCE_S)
        waiting = through_outages(lambda: report.waiting(self._house.tenant_id), PATIENCE_S)
        outcome.add_comparisons(found, f"{now:%Y-%m-%d %H:%M}")
        outcome.add_waiting(waiting)

    def _conclude(
        self, outcome: Report, watch: Watch, places: dict[str, int], driver: Driver, calls_before: Mapping[str, int]
    ) -> None:
        tenant_id = self._house.tenant_id
        outcome.after = report.count(tenant_id)
        for vendor, calls_count in self._calls().items():
            outcome.vendors[vendor].new_calls_count = calls_count - calls_before[vendor]
            outcome.vendors[vendor].keys = report.keys_of(tenant_id, vendor)
        outcome.events_seen_count = watch.seen.events_count
        outcome.events_repeated_count = watch.seen.repeated_count
        outcome.add_faults("unfinished", report.unfinished(tenant_id, timeline.endings(self._story)))
        outcome.add_faults("event", watch.seen.faults)
        outcome.add_faults("order", watch.gaps(places))
        seen = watch.seen.events_count - watch.seen.repeated_count
        if seen != outcome.new_events_count:
            outcome.add_faults("bus", [f"{outcome.new_events_count} events were promised, {seen} were seen"])
        if driver.pace.impatient_count:
            outcome.add_faults("pace", [f"{driver.pace.impatient_count} steps went on over a retry that was waiting"])


def _beginning(story: Timeline, crew: Crew) -> str:
    first, span = timeline.span_of(story)
    found = f"; found running: {', '.join(crew.found)}" if crew.found else ""
    return (
        f"{story.bookings_count} bookings, {len(story.planned)} events from {first:%Y-%m-%d} over {span.days} days, "
        f"{story.rooms_count} rooms; started: {', '.join(crew.started)}{found}"
    )


def _restore_clock(found: ClockState, story: Timeline, controls: Collection[SimulatorControl]) -> None:
    """Gives the clock back as it was; one that an interrupted replay left standing goes back to real time."""
    first, span = timeline.span_of(story)
    is_left_over = found.stopped and first - timedelta(days=1) <= found.now <= first + span + timedelta(days=60)
    if found.stopped and not is_left_over:
        moved_clock.stop_at(found.now)
        for control in controls:
            control.set_clock(found.now, running=False)
        return
    state = moved_clock.run_ahead(found.ahead)
    for control in controls:
        control.set_clock(None if state.is_real else state.now, running=True)
