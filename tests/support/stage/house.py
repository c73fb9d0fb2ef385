"""A hotel on the stage: rooms on any lock systems, bookings told over the bus, people who call, and doors that are asked.

One rule: who gets in is asked at the simulated lock, on its own clock; what is known is what was handed out.
"""

from __future__ import annotations

import io
import re
import secrets
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from django.core.management import CommandError, call_command
from django.test import Client

from credentials.models import KeyCredential
from devices import adapters, health_poll, selectors
from devices.models import LockDevice, VendorInstallation
from devices.relay_models import RelayDesk
from lockservice.console.models import StaffAct
from lockservice.core.idempotency import IdempotencyRecord
from lockservice.core.places import Property
from lockservice.core.tenancy import tenant
from lockservice.demo.building import HousePlan, PlanDoor, PlanSystem, put_up
from lockservice.demo.desk_seat import Seat
from sagas.events import envelope
from sagas.events.registry import spec
from sagas.flows import read_log
from sagas.models import Alert, DeadLetter, Saga
from sagas.outbox import new_event_id
from tests.support.hotel import full_subject
from tests.support.stage.callers import Caller, api_caller, console_user
from vendors.port.ids import new_id
from vendors.port.simulated import DoorAttempt, HeldKey
from vendors.port.types import CredentialKind
from vendors.support.control_port import ControlPort

if TYPE_CHECKING:
    from tests.support.stage.world import World

BASES = 190_000
START_S = 30.0
CARD_READY = "rfid_card_ready_at"
"""A reference that tells where a card lies; the card itself is handed over at the desk."""
NUMBERED = frozenset({"ttlock", "mock"})
"""Vendors whose locks learn a card's number: the desk reads it out."""


class CommandFailed(Exception):
    """A management command refused; the text is what it told."""


@dataclass(frozen=True)
class Artifact:
    """What a guest holds of one key. `value` is digits, a card's number, or a phone's token."""

    kind: str
    value: str = field(repr=False)
    key_id: str


class House:
    """A property of a tenant of its own.

    `rooms` maps room labels to vendor codes, `shared` areas (such as "lobby") to them. Rooms in `stand_alone` are out of every
    gateway's reach. Doors of one vendor are one installation.
    """

    def __init__(
        self,
        world: World,
        rooms: Mapping[str, str],
        *,
        shared: Mapping[str, str] | None = None,
        stand_alone: Sequence[str] = (),
        policy: Mapping[str, Any] | None = None,
        zone: str = "Asia/Kabul",
        name: str = "Hotel Silk, Kabul",
        limits: Mapping[str, int] | None = None,
    ) -> None:
        self.world = world
        self.zone = zone
        self.name = name
        self.tenant_id, self.property_id = new_id("tnt"), new_id("ppt")
        self.code = f"case-{secrets.token_hex(5)}"
        self.rooms = {label: new_id("rmu") for label in rooms}
        self.devices = {label: new_id("lck") for label in (*rooms, *(shared or {}))}
        self.vendors = {**rooms, **(shared or {})}
        self.installations = {vendor: new_id("vad") for vendor in dict.fromkeys(self.vendors.values())}
        self._base = secrets.randbelow(BASES) + 1
        self._processes: list[subprocess.Popen[str]] = []
        plan = self._plan(shared or {}, stand_alone, policy or {}, limits or {})
        self.built = put_up(plan, secrets.token_hex(16))
        numbers = {door.label: door.number for door in plan.doors}
        self.doors = {
            label: self.built[vendor].doors[numbers[label]]
            for label, vendor in self.vendors.items()
            if numbers[label] in self.built[vendor].doors
        }
        """Label or area → what the vendor calls the door."""
        world.houses.append(self)

    def _plan(
        self, shared: Mapping[str, str], stand_alone: Sequence[str], policy: Mapping[str, Any], limits: Mapping[str, int]
    ) -> HousePlan:
        offset = ZoneInfo(self.zone).utcoffset(self.world.now)
        assert offset is not None
        systems = [
            PlanSystem(vendor, vendor, self.world.place(vendor), self.code, self._base, installation, limits)
            for vendor, installation in self.installations.items()
        ]
        doors = [
            PlanDoor(
                number, label, None if label in stand_alone else 1, self.devices[label], self.vendors[label],
                room_id=room, floor=label[:1],
            )
            for number, (label, room) in enumerate(self.rooms.items(), start=1)
        ]  # fmt: skip
        doors += [
            PlanDoor(number, area, 1, self.devices[area], vendor, areas=(area,))
            for number, (area, vendor) in enumerate(shared.items(), start=900)
        ]
        return HousePlan(
            self.tenant_id, "Silk Road Stays", self.property_id, self.name, self.zone, int(offset.total_seconds()), systems,
            doors, policy, is_hurried=True,
        )  # fmt: skip

    # -- bookings

    def book(self, rooms: Sequence[str], *, settle: bool = True, **options: Any) -> Stay:
        """Confirm a booking from an hour ago for two days unless said otherwise. `rooms` are labels, or raw room ids."""
        stay = Stay(self, new_id("rsv"))
        stay.emit("booking.confirmed", rooms=rooms, settle=settle, **options)
        return stay

    def emit(self, subject: str, data: Mapping[str, Any], *, settle: bool = True, event_id: str = "", **more: Any) -> str:
        """Publish an event of this tenant as another service does; returns its id. Short subjects are completed."""
        event = envelope.Envelope(
            id=event_id or new_event_id(), subject=full_subject(subject), source="/services/reservation-service",
            time=more.get("time") or self.world.now, tenant_id=self.tenant_id, data=dict(data),
        )  # fmt: skip
        key = str(data.get("reservationId") or data.get("propertyId") or self.property_id)
        self.world.publish(spec(event.subject).topic or "", key, envelope.encode(event))
        if settle:
            self.world.settle()
        return event.id

    # -- people

    def caller(self, role: str = "front_desk", *, subject: str = "usr_clerk") -> Caller:
        """Return a caller of the API with a role at this house. Her acts are worked when the test settles."""
        return api_caller(self.tenant_id, role, (self.property_id,), subject)

    def console(self, role: str = "front_desk", **person: Any) -> Client:
        """Return a browser with a signed-in person; addresses begin with /console/. `person` as `console_user` takes it."""
        return console_user(self.tenant_id, role, **person)

    def page_of_stay(self, stay: Stay, role: str = "front_desk") -> str:
        """Return the console's page of a stay, as a person of this role sees it."""
        browser = self.console(role)
        listed = browser.get("/console/credentials/reservation/", {"q": stay.id}).content.decode()
        (address,) = re.findall(r'href="(/console/credentials/reservation/[0-9]+/change/)"', listed)
        return browser.get(address).content.decode()

    def signs_in(self, login: str, password: str) -> bool:
        """Say whether somebody gets past the console's sign-in page, from a new browser."""
        answer = Client().post("/console/login/", {"username": login, "password": password})
        return bool(answer.status_code == 302)

    def command(self, name: str, *arguments: str, **options: Any) -> str:
        """Run a management command in this process; returns what it printed. Raises CommandFailed where it refuses."""
        out = io.StringIO()
        try:
            call_command(name, *arguments, stdout=out, **options)
        except CommandError as error:
            raise CommandFailed(str(error)) from error
        return out.getvalue()

    # -- the desk's encoder

    def encode(self, key_id: str, *, settle: bool = True, **body: Any) -> Artifact | None:
        """Let the desk write a waiting key on a card, and return the card. None where none was written.

        Simulated encoders feed blank cards by themselves. Raises AssertionError where the API refuses.
        """
        found = self.caller().get(f"/lock/v1/credentials/{key_id}").json()
        label = next(label for label, device in self.devices.items() if device == found["doors"][0]["deviceId"])
        vendor = self.vendors[label]
        if vendor in NUMBERED and "cardNumber" not in body:
            body["cardNumber"] = str(2**31 + secrets.randbelow(2**31))
        before = self.cards(vendor)
        answer = self.caller().post(f"/lock/v1/credentials/{key_id}/encode", body)
        assert answer.status_code in (200, 201, 202), answer.content
        if not settle:
            return None
        self.world.settle()
        made = [number for number in self.cards(vendor) if number not in before]
        made = [number for number in made if number in self.cards(vendor, label)] or made  # others' may be written beside it
        if vendor in NUMBERED:
            made = [str(body["cardNumber"])] if str(body["cardNumber"]) in self.cards(vendor) else []
        return Artifact(found["kind"], made[-1], key_id) if made else None

    def lay(self, vendor: str, card: Artifact | None = None) -> str:
        """Lay a guest's card on the encoder of a lock system, or a fresh one, and let the encoder feed no cards from now on.
        Returns its number."""
        port = ControlPort(self.world.simulator(vendor).control)
        number = card.value if card is not None else None
        if vendor == "salto":
            port.post("/seed", {"property": self.code, "encoders": [{"name": "Front desk", "automatic": False}]})
            return str(port.post("/place", {"property": self.code, "encoder": "Front desk", "card": number})["card"])
        if vendor == "assa-abloy":
            number = number or str(secrets.randbelow(2**31) + 1000)
            return str(port.post("/place", {"house": self.code, "encoder": "desk-1", "serial": number})["lying"])
        port.post("/encoder", {"house": self.code, "automatic": False})
        return str(port.post("/place", {"house": self.code, "card": number})["uid"])

    def set_encoder(self, vendor: str, *, is_there: bool) -> None:
        """Take the desk's encoder off a lock system's line, or put it on again."""
        port, is_salto = ControlPort(self.world.simulator(vendor).control), vendor == "salto"
        encoder = {"name": "Front desk" if is_salto else "desk-1", "offline": not is_there}
        port.post("/seed", {"property" if is_salto else "code": self.code, "encoders": [encoder]})

    def swap_locks(self, one: str, other: str) -> None:
        """Hang the locks of two doors of one lock system on each other's doors, let the import say so, and work until nothing
        is due. Raises CommandFailed where the vendor gives no list."""
        vendor = self.vendors[one]
        for names in (self.doors, self.devices):
            names[one], names[other] = names[other], names[one]
        rows = [f"{self.doors[label]},{label},{label},,no" for label in (one, other)]
        with tempfile.NamedTemporaryFile("w", suffix=".csv", encoding="utf-8") as table:
            table.write("\n".join(["external_id,label,rooms,areas,shared", *rows, ""]))
            table.flush()
            self.command("import_devices", self.tenant_id, self.installations[vendor], table=table.name)
        self.world.settle()

    def configure(self, vendor: str, **settings: Any) -> None:
        """Change settings of a lock system in the house, as its page does."""
        with tenant(self.tenant_id):
            row = VendorInstallation.objects.get(tenant_id=self.tenant_id, id=self.installations[vendor])
        known, sealed = adapters.open_installation(row)
        adapters.seal_installation(row, {**known, **settings}, dict(sealed))
        selectors.forget()

    def speak_pms(self) -> None:
        """Let the service ask this house's SALTO server by its PMS protocol from now on."""
        seeded = ControlPort(self.world.simulator("salto").control).post("/seed", {"property": self.code, "pms": True})
        with tenant(self.tenant_id):
            row = VendorInstallation.objects.get(tenant_id=self.tenant_id, id=self.installations["salto"])
        settings, secrets = adapters.open_installation(row)
        by_pms = {"transport": "pms", "pms_address": seeded["pms"], "time_zone": self.zone, "encoder_timeout_s": 2.0}
        adapters.seal_installation(row, {**settings, **by_pms}, dict(secrets))

    def speak_visionline(self, *, named: bool, **settings: Any) -> None:
        """Let the service ask this house's ASSA ABLOY locks through a Visionline server from now on. `named` lets the server speak
        as its public clients show it: doors by name, numbers for ids and types, a card's end as booleans."""
        with tenant(self.tenant_id):
            row = VendorInstallation.objects.get(tenant_id=self.tenant_id, id=self.installations["assa-abloy"])
        password = secrets.token_hex(12)
        seed = {"code": self.code, "username": f"operator-{self.code}", "password": password, "timeZone": self.zone}
        ControlPort(self.world.simulator("assa-abloy").control).post("/seed", seed | {"namesDoors": named})
        by_server = {
            "mode": "visionline", "base_url": adapters.open_installation(row)[0]["base_url"], "time_zone": self.zone,
            "encoder": "desk-1", "door_types": {"1": "guest", "2": "common"},
        }  # fmt: skip
        adapters.seal_installation(row, by_server | settings, {"username": f"operator-{self.code}", "password": password})
        if named:
            for label in self.devices:
                if self.vendors[label] == "assa-abloy":
                    self.change_lock(label, external_id=label)
        selectors.forget()

    def seat_desk(self, vendor: str = "generic-wiegand") -> None:
        """Start a desk program whose encoder writes this house's cards, at the world's gateway; it ends with the test."""
        folder = Path(tempfile.mkdtemp(prefix="stage-desk-"))
        port = self.world.gateway_port()
        seat = Seat(vendor, self.code, self.world.place(vendor).address, self.tenant_id, self.property_id, folder)
        before = self._desk_connections()  # one that has just ended may still be there
        self._processes.append(self.world.start_process(*seat.argv(port)))
        ends = time.monotonic() + START_S
        while not self._desk_connections() - before:
            assert time.monotonic() < ends, "the desk does not come to the gateway"
            time.sleep(0.05)

    def _desk_connections(self) -> set[str]:
        with tenant(self.tenant_id):
            rows = RelayDesk.objects.filter(tenant_id=self.tenant_id, expires_at__gt=datetime.now(UTC))
            return {str(connection) for connection in rows.values_list("connection", flat=True)}

    def cards(self, vendor: str, at: str = "") -> list[str]:
        """Return the numbers of the cards that open doors of a lock system, or one of them, in the order of its own list."""
        doors = [door for label, door in self.doors.items() if self.vendors[label] == vendor and at in ("", label)]
        return [key.value for key in self.world.control(vendor).held(doors) if key.kind is CredentialKind.RFID_CARD]

    # -- the doors

    def opens(self, door: str, artifact: Artifact, at: datetime | None = None) -> bool:
        """Ask a door, by label or area, whether an artifact opens it now (or at an instant); leaves no trace there."""
        control = self.world.control(self.vendors[door])
        kind = CredentialKind(artifact.kind)
        return control.try_door(self.doors[door], kind, artifact.value, at or self.world.now).is_open

    def open_doors(self, artifacts: Sequence[Artifact]) -> dict[tuple[str, Artifact], tuple[bool, str]]:
        """Ask every door of the house about every artifact now, a request a lock system; returns whether it opens, and why."""
        now, found = self.world.now, {}
        for vendor in self.installations:
            pairs = [(label, one) for label in self.doors if self.vendors[label] == vendor for one in artifacts]
            attempts = [DoorAttempt(self.doors[label], CredentialKind(one.kind), one.value) for label, one in pairs]
            answers = self.world.control(vendor).try_doors(attempts, now) if attempts else []
            found |= {pair: (answer.is_open, answer.why) for pair, answer in zip(pairs, answers, strict=True)}
        return found

    def use(self, door: str, artifact: Artifact) -> bool:
        """Present an artifact at a door, as its holder does; the lock remembers it. Says whether it opened."""
        control = self.world.control(self.vendors[door])
        return control.try_door(self.doors[door], CredentialKind(artifact.kind), artifact.value).is_open

    def walk_in(self, door: str) -> Artifact:
        """Let somebody check a guest into a room at the vendor's own program, and let her phone open the door once."""
        port = ControlPort(self.world.simulator(self.vendors[door]).control)
        phone = Artifact("mobile_app", str(port.post("/reception", {"device": self.doors[door]})["value"]), "")
        assert self.use(door, phone)
        return phone

    def fault(self, vendor: str, rule: Mapping[str, Any]) -> None:
        """Set a fault at a vendor's simulator, in that simulator's own words (`/faults` of its control port), until healed."""
        ControlPort(self.world.simulator(vendor).control).post("/faults", dict(rule))

    def held(self, door: str) -> list[HeldKey]:
        """Return what a door holds."""
        return list(self.world.control(self.vendors[door]).held([self.doors[door]]))

    def vendor_calls(self) -> int:
        """Count the requests that concerned this house's doors so far."""
        by_vendor = {
            vendor: [d for label, d in self.doors.items() if self.vendors[label] == vendor] for vendor in self.installations
        }
        return sum(self.world.control(vendor).calls(doors) for vendor, doors in by_vendor.items())

    # -- upkeep that beat and `run_sagas` do

    def read_logs(self) -> None:
        """Read the logs of all locks now and work until nothing is due."""
        for label in self.doors:
            read_log.read(self.tenant_id, self.devices[label])
        self.world.settle()

    def poll_health(self) -> None:
        """Ask every lock system now how its locks are."""
        for installation in self.installations.values():
            health_poll.poll(self.tenant_id, installation, checks=len(self.doors))
        self.world.settle()

    def reconcile(self, *vendors: str) -> None:
        """Compare these lock systems, or all, with the books now, as the nightly run does, and work until nothing is due."""
        for vendor in vendors or self.installations:
            self.command("reconcile_vendor", self.tenant_id, self.installations[vendor], "--repair")
        self.world.settle()

    # -- what is told

    def alerts(self, code: str = "") -> list[dict[str, str]]:
        """Return the alerts raised so far, oldest first: code, severity, detail, runbook, credential, stay."""
        with tenant(self.tenant_id):
            rows = Alert.objects.filter(tenant_id=self.tenant_id).order_by("raised_at", "id")
            found = [
                {"id": r.id, "code": r.code, "severity": r.severity, "detail": r.detail, "runbook": r.runbook, "key": r.credential_id,
                 "stay": r.reservation_id}
                for r in rows
            ]  # fmt: skip
        return [alert for alert in found if code in ("", alert["code"])]

    def dead_letters(self) -> list[dict[str, str]]:
        """Return the dead letters of this tenant that nobody has replayed: subject, code, detail."""
        with tenant(self.tenant_id):
            rows = DeadLetter.objects.filter(tenant_id=self.tenant_id, replayed_at__isnull=True).order_by("id")
            return [{"subject": row.subject, "code": row.code, "detail": row.detail} for row in rows]

    def events(self, subject_part: str = "") -> list[dict[str, Any]]:
        """Return what the service has published of this tenant so far."""
        return self.world.events(self.tenant_id, subject_part)

    def recorded_actions(self) -> list[tuple[str, str, str]]:
        """Return who did what and why, as the console's record keeps it: person, action, reason."""
        with tenant(self.tenant_id):
            rows = StaffAct.objects.filter(tenant_id=self.tenant_id).order_by("id")
            return list(rows.values_list("actor_id", "action", "reason"))

    def footprint(self) -> dict[str, int]:
        """Count what an act may leave behind: keys, events, and requests to vendors. For assertions after a refusal."""
        with tenant(self.tenant_id):
            keys = KeyCredential.objects.filter(tenant_id=self.tenant_id).count()
        return {"keys": keys, "events": len(self.events()), "vendor calls": self.vendor_calls()}

    # -- the property

    def change_property(self, **columns: Any) -> None:
        """Change columns of the property's row, as onboarding does."""
        with tenant(self.tenant_id):
            Property.objects.filter(tenant_id=self.tenant_id, property_id=self.property_id).update(**columns)

    def change_lock(self, door: str, **columns: Any) -> None:
        """Change columns of a lock's row, as an import does."""
        with tenant(self.tenant_id):
            LockDevice.objects.filter(tenant_id=self.tenant_id, id=self.devices[door]).update(**columns)

    def forget_answers(self) -> None:
        """Forget what was answered under Idempotency-Keys, as happens after two days of real time."""
        with tenant(self.tenant_id):
            IdempotencyRecord.objects.filter(tenant_id=self.tenant_id).delete()

    def forget_work(self) -> None:
        """Let all work at this house's doors be gone, as after a faulty repair by hand."""
        with tenant(self.tenant_id):
            Saga.objects.filter(tenant_id=self.tenant_id).update(status="done", due_at=None)

    def local(self, *moment: int) -> datetime:
        """Return an instant by the clocks on the house's walls."""
        return datetime(*moment, tzinfo=ZoneInfo(self.zone))  # type: ignore[misc, arg-type]

    def plant(self, statement: str, **values: Any) -> None:
        """Change rows behind the service's back, as the tables' owner. `%(tenant)s` is this house's; no row is an error."""
        with self.world.as_owner() as connection:
            done = connection.execute(statement, {"tenant": self.tenant_id, **values})
            assert done.rowcount > 0, statement

    def close(self) -> None:
        """End the processes that were started for this house."""
        for process in reversed(self._processes):
            self.world.end_process(process)
        self._processes.clear()


class Stay:
    """One reservation. `version` rises with every event told of it."""

    def __init__(self, house: House, reservation_id: str) -> None:
        self.house = house
        self.id = reservation_id
        self.version = 0
        self.start = house.world.now - timedelta(hours=1)
        self.end = self.start + timedelta(days=2)
        self.rooms: list[str] = []
        self.status = "confirmed"
        self.guest = "Zahra Ahmadi"
        self.contact: dict[str, str] = {}
        self.extra: dict[str, Any] = {}
        self.artifacts: list[Artifact] = []
        self.shown: dict[str, Any] = {}

    def emit(
        self, subject: str, *, settle: bool = True, event_id: str = "", version: int | None = None, **changes: Any
    ) -> None:
        """Publish an event with the whole reservation: `start`, `end`, `rooms`, `status`, `guest` and her `contact`, or any field of the event."""
        for name in ("start", "end", "status", "guest", "contact"):
            setattr(self, name, changes.pop(name, getattr(self, name)))
        if (rooms := changes.pop("rooms", None)) is not None:
            self.rooms = list(rooms)
        self.extra |= changes
        self.version = self.version + 1 if version is None else version
        self.house.emit(subject, self.data(), settle=settle, event_id=event_id)

    def data(self) -> dict[str, Any]:
        """Return the reservation as events carry it."""
        data = {
            "reservationId": self.id,
            "propertyId": self.house.property_id,
            "version": self.version,
            "status": self.status,
            "rooms": [self.house.rooms.get(room, room) for room in self.rooms],
            "validFrom": self.start.isoformat(),
            "validUntil": self.end.isoformat(),
            "guest": {"id": f"gst_{self.id[-8:]}", "displayName": self.guest, "contact": self.contact, "locale": "prs"},
            "paymentStatus": "captured",
        }
        if "checkIn" in self.extra:
            data = {name: value for name, value in data.items() if name not in ("validFrom", "validUntil")}
        return data | self.extra

    def change(self, **changes: Any) -> None:
        """Other dates, rooms or words: `dates_changed`."""
        self.emit("booking.dates_changed", **changes)

    def cancel(self, **changes: Any) -> None:
        """The booking is cancelled."""
        self.emit("booking.cancelled", status="cancelled", **changes)

    def reinstate(self, **changes: Any) -> None:
        """A cancelled booking is confirmed again."""
        self.emit("booking.confirmed", status="confirmed", **changes)

    def no_show(self, **changes: Any) -> None:
        """The booking service says that the guest has not come."""
        self.emit("booking.no_show", status="no_show", **changes)

    def check_out(self, **changes: Any) -> None:
        """The guest has left."""
        self.emit("booking.checked_out", status="checked_out", **changes)

    # -- what the guest holds, and what the API says

    def told(self) -> dict[str, Any]:
        """Return what the API says of the stay."""
        answer = self.house.caller("front_desk_supervisor").get(f"/lock/v1/reservations/{self.id}/keys")
        assert answer.status_code == 200, answer.content
        return dict(answer.json())

    def keys(self) -> list[dict[str, Any]]:
        """Return the stay's credentials as the API shows them, newest first; none where the stay is not known."""
        answer = self.house.caller("front_desk_supervisor").get(f"/lock/v1/reservations/{self.id}/keys")
        if answer.status_code == 404:
            return []
        return [row["credential"] for row in answer.json()["keys"]]

    def credential(self, key_id: str) -> dict[str, Any]:
        """Return one of the stay's credentials as the API shows it."""
        found = self.keys()
        return next(row for row in found if row["id"] == key_id)

    def key(self) -> dict[str, Any]:
        """Return the stay's newest credential."""
        return self.keys()[0]

    def collect(self) -> list[Artifact]:
        """Exchange, as the booking app, every artifact not handed out yet; returns all that the guest holds."""
        self.look()
        return list(self.artifacts)

    def look(self) -> list[dict[str, Any]]:
        """Look at the stay as the booking app, exchange every artifact not handed out yet, and return the credentials, oldest
        first. The stay's verdict and warnings are kept as `shown`."""
        app = self.house.caller("booking_app", subject=f"app_{self.id[-8:]}")
        self.shown = app.get(f"/lock/v1/reservations/{self.id}/keys").json()
        rows = self.shown.get("keys", [])
        for row in rows:
            if row["artifact"] is None or row["artifact"]["type"] == CARD_READY:
                continue
            answer = app.post("/lock/v1/key-exchange", {"opaqueRef": row["artifact"]["opaqueRef"]})
            assert answer.status_code == 200, answer.content
            credential = row["credential"]
            self.artifacts.append(Artifact(credential["kind"], answer.json()["value"], credential["id"]))
        return [row["credential"] for row in reversed(rows)]

    def artifact(self) -> Artifact:
        """Return the newest artifact the guest holds, collecting first. Raises AssertionError where she has none."""
        held = self.collect()
        assert held, f"the guest was given nothing: {self.keys()}"
        return held[-1]

    def encode(self, **body: Any) -> Artifact | None:
        """Let the desk write the stay's waiting key on a card; the guest holds it from then on."""
        waiting = next(key for key in self.keys() if key["waitingFor"] == "desk")
        made = self.house.encode(waiting["id"], **body)
        if made is not None:
            self.artifacts.append(made)
        return made

    def opens(self, door: str, at: datetime | None = None) -> bool:
        """Ask a door whether any artifact the guest holds opens it."""
        return any(self.house.opens(door, artifact, at) for artifact in self.collect())
