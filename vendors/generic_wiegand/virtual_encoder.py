"""The desk's driver for the simulated encoder and controller: does what a driver of a real one would, over HTTP for cables.

| action | does |
|---|---|
| encode | waits for a card, voids what is on it of other credentials, writes a record for each door, reads back |
| enrol | enters a number, or that of a card laid down, into the controller's lists |
| change, withdraw, rest, wake | changes lines of the lists |
| list, log, doors | reads the controller |

One rule: before the first write the stage is noted, and after a lost answer the device is read, never written again. What a
card carries is read first: another credential's live key is in use, unless the job names it as one that may be lost.
Write order of a record: void the MAC, blocks 0 and 1, MAC last, so that a torn card never holds a record that opens wrongly.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from vendors.port.relay import DeskJob, DeskResult, Outcome, Progress, Refusal, Stage
from vendors.support.card_check import name_of
from vendors.support.http import AnswerLost, HttpClient, NotSent

from .records import BLOCK_BYTES, BODY_BYTES, Record, seal, unpack

TIMEOUT_S = 5.0
LOOK_S = 0.1
"""How often the encoder is looked at for a card."""
LEFT_S = 120.0
"""For so long a card of the same number is taken for the one that was written and still lies there: an encoder that is only
looked at while a job waits does not see it taken away. Later it is a card that was handed back."""
VOID = bytes(BLOCK_BYTES)
NOBODYS = "-"
"""A tag that no line has: what is removed is named by its line alone."""
READINGS: Mapping[str, str] = {"list": "/controller/list", "log": "/controller/log", "doors": "/controller/doors"}
CHANGES = frozenset({"change", "withdraw", "rest", "wake"})
SEVERAL_WRITES = frozenset({"encode", "change"})
SENSELESS = (LookupError, ValueError, TypeError, AttributeError, OverflowError)
"""What reading a job, or a device's answer, ends in where a part is missing or of another type."""


class _Said(Exception):
    """The device refused, with its word."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class _Noted:
    """Passes stages on, and remembers whether anything may have been written."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.has_begun = False

    def reach(self, stage: Stage, note: str = "") -> None:
        """Notes the stage."""
        self._progress.reach(stage, note)
        self.has_begun = self.has_begun or stage is not Stage.AWAITING_CARD

    @property
    def is_called_off(self) -> bool:
        """Says whether the job was called off."""
        return self._progress.is_called_off


class VirtualEncoder:
    """A DeskDriver. One card at a time: jobs that need one take turns, and one card is one job's: while it lies there the next
    job waits for another."""

    def __init__(self, encoder: str, house: str, name: str = "desk", timeout_s: float = TIMEOUT_S) -> None:
        self._http = HttpClient(encoder)
        self._house = house
        self._name = name
        self._timeout_s = timeout_s
        self._turn = threading.Lock()
        self._left = ("", 0.0)

    def do(self, job: DeskJob, progress: Progress) -> DeskResult:
        """Does the job. Raises nothing."""
        ends = time.monotonic() + job.expires_in_s
        noted = _Noted(progress)
        try:
            return self._do(job, noted, ends)
        except NotSent:
            cut = DeskResult(Outcome.REFUSED, Refusal.ENCODER_OFFLINE, "nobody answers at the cable")
        except _Said as said:
            cut = _refused(said.code)
        except AnswerLost:
            if noted.has_begun or job.action in READINGS:
                return DeskResult(Outcome.UNKNOWN, detail="the answer was lost on the cable")
            cut = DeskResult(Outcome.REFUSED, Refusal.ENCODER_OFFLINE, "no usable answer came before anything was written")
        except SENSELESS as error:
            if noted.has_begun:  # an answer to a write that says nothing: it may have been done
                return DeskResult(Outcome.UNKNOWN, detail=f"an answer made no sense: {type(error).__name__}")
            cut = DeskResult(Outcome.REFUSED, Refusal.FAILED, f"the job makes no sense: {type(error).__name__}")
        if noted.has_begun and job.action in SEVERAL_WRITES:
            return DeskResult(Outcome.UNKNOWN, detail=f"cut off between two writes: {cut.detail}")
        return cut

    def _do(self, job: DeskJob, progress: Progress, ends: float) -> DeskResult:
        if job.action in READINGS:
            return self._read(job)
        if job.action == "encode":
            return self._with_card(job, progress, ends, self._encode)
        if job.action == "enrol" and job.body.get("number") is None:
            return self._with_card(job, progress, ends, self._enrol_card)
        if job.action == "enrol":
            return self._enrol(job, progress, str(job.body["number"]))
        if job.action in CHANGES:
            return self._change(job, progress)
        return DeskResult(Outcome.REFUSED, Refusal.NOT_SUPPORTED, f"no action {job.action[:20]}")

    def recall(self, job: DeskJob, stage: Stage | None, note: str) -> DeskResult:
        """Reads back what became of a job. Raises nothing; what cannot be read is UNKNOWN."""
        if stage in (None, Stage.AWAITING_CARD):
            return DeskResult(Outcome.REFUSED, Refusal.NOT_DONE, "nothing had been written")
        try:
            return self._recall_card(job, note) if job.action == "encode" else self._recall_lines(job)
        except (NotSent, AnswerLost, _Said, *SENSELESS):
            return DeskResult(Outcome.UNKNOWN, detail="it cannot be read back now")

    # --- cards

    def _with_card(self, job: DeskJob, progress: Progress, ends: float, act: Any) -> DeskResult:
        progress.reach(Stage.AWAITING_CARD)
        while not self._turn.acquire(timeout=LOOK_S):
            if (over := _over(progress, ends)) is not None:
                return over
        try:
            while True:
                if (over := _over(progress, ends)) is not None:
                    return over
                card = self._card(job)
                if card:
                    result: DeskResult = act(job, progress, card)
                    if result.outcome is Outcome.DONE:
                        self._left = (str(card["uid"]), time.monotonic() + LEFT_S)
                    return result
                time.sleep(LOOK_S)
        finally:
            self._turn.release()

    def _card(self, job: DeskJob) -> dict[str, Any]:
        """Looks at the encoder. A job for a certain card leaves others alone, any other job the card that was just written."""
        wanted, (left, until) = str(job.body.get("uid") or ""), self._left
        card = self._get("/encoder/card", {"kind": str(job.body["kind"]), **({"uid": wanted} if wanted else {})})
        uid = card.get("uid")
        if uid != left or time.monotonic() >= until:
            left, self._left = "", ("", 0.0)
        return {} if (uid != wanted if wanted else uid == left) else card

    def _encode(self, job: DeskJob, progress: Progress, card: Mapping[str, Any]) -> DeskResult:
        if card["kind"] != job.body["kind"]:
            return DeskResult(Outcome.REFUSED, Refusal.CARD_UNUSABLE, "a card of another kind lies on the encoder")
        uid, key = str(card["uid"]), bytes.fromhex(str(self._get("/encoder/about", {})["propertyKey"]))
        wanted = {record.door: record for record in _records(job)}
        held = self._held(uid)
        others = _others_on(job, uid, key, held.values())
        if any(other["name"] not in job.body.get("overwrites", ()) for other in others):
            return _in_use(job, others)
        layout = _layout({} if job.body.get("exact") else held, wanted, bytes.fromhex(str(job.body["tag"])))
        progress.reach(Stage.WRITING, uid)
        for sector in sorted({*held, *layout}):
            if any(held.get(sector, b"")):
                self._write(uid, sector, 2, VOID)
        for sector, record in layout.items():
            body = record.pack()
            self._write(uid, sector, 0, body[:BLOCK_BYTES])
            self._write(uid, sector, 1, body[BLOCK_BYTES:])
            self._write(uid, sector, 2, seal(body, key, bytes.fromhex(uid)))
        progress.reach(Stage.VERIFYING, uid)
        return self._verified(job, uid, key, layout, others)

    def _verified(
        self, job: DeskJob, uid: str, key: bytes, layout: Mapping[int, Record], others: list[dict[str, str]]
    ) -> DeskResult:
        after = self._held(uid)
        for sector, record in layout.items():
            body = record.pack()
            if after.get(sector) != body + seal(body, key, bytes.fromhex(uid)):
                self._void(uid, layout)
                return DeskResult(Outcome.REFUSED, Refusal.VERIFY_FAILED, "the card does not hold what was written")
        return DeskResult(Outcome.DONE, result=_card_result(job, uid, layout.values()) | {"overwritten": others})

    def _recall_card(self, job: DeskJob, uid: str) -> DeskResult:
        """The same card must lie on the encoder again."""
        card = self._get("/encoder/card", {"kind": str(job.body["kind"]), "uid": uid})
        if card.get("uid") != uid:
            return DeskResult(Outcome.UNKNOWN, detail="the card is not there")
        key, wanted = bytes.fromhex(str(self._get("/encoder/about", {})["propertyKey"])), _records(job)
        found = {
            sector: record.door
            for sector, blob in self._held(uid).items()
            if (record := unpack(blob[:BODY_BYTES])) is not None
            and blob[BODY_BYTES:] == seal(blob[:BODY_BYTES], key, bytes.fromhex(uid))
            and blob[:BODY_BYTES] in {r.pack() for r in wanted}
        }
        if set(found.values()) == {record.door for record in wanted}:
            return DeskResult(Outcome.DONE, result=_card_result(job, uid, wanted))
        self._void(uid, found)
        return DeskResult(Outcome.REFUSED, Refusal.NOT_DONE, "the card does not hold all of its records")

    def _held(self, uid: str) -> dict[int, bytes]:
        rows = self._get("/encoder/records", {"uid": uid})["records"]
        return {int(sector): bytes.fromhex(blob) for sector, blob in rows.items()}

    def _void(self, uid: str, sectors: Iterable[int]) -> None:
        """Makes records of half a card open nothing: our books will say that it was not made. Raises what writing raises."""
        for sector in sectors:
            self._write(uid, sector, 2, VOID)

    def _write(self, uid: str, sector: int, block: int, data: bytes) -> None:
        body = {"uid": uid, "sector": sector, "block": block, "data": data.hex(), "encoder": self._name}
        self._send("POST", "/encoder/block", body)

    # --- the controller

    def _enrol_card(self, job: DeskJob, progress: Progress, card: Mapping[str, Any]) -> DeskResult:
        return self._enrol(job, progress, str(card["number"]))

    def _enrol(self, job: DeskJob, progress: Progress, number: str) -> DeskResult:
        """Enters a card's number. Lines that it has for others go first: one card would open their doors as well."""
        lines = self._get("/controller/list", {"number": number})["entries"]
        others = _others_in(job, number, lines)
        if any(other["name"] not in job.body.get("overwrites", ()) for other in others):
            return _in_use(job, others)
        progress.reach(Stage.WRITING, number)
        names = {other["name"] for other in others}
        for line in lines:
            if _line_name(number, line) in names:
                rows = [{"door": line["door"], "entry": line["entry"]}]
                self._send("POST", "/controller/remove", {"doors": rows, "tag": str(line["tag"] or NOBODYS)})
        said = self._put(job, [row["door"] for row in job.body["doors"]], number)
        return DeskResult(Outcome.DONE, result={"doors": said, "overwritten": others})

    def _put(self, job: DeskJob, doors: list[str], number: str) -> list[dict[str, Any]]:
        names = ("kind", "from", "until", "mark", "tag")
        body = {name: job.body[name] for name in names} | {"doors": doors, "number": number}
        return list(self._send("POST", "/controller/put", body)["doors"])

    def _change(self, job: DeskJob, progress: Progress) -> DeskResult:
        progress.reach(Stage.WRITING)
        body: dict[str, Any] = {"doors": job.body["doors"], "tag": job.body["tag"]}
        if job.action == "withdraw":
            said = self._send("POST", "/controller/remove", body)["doors"]
        elif job.action == "rest":
            said = self._send("POST", "/controller/set", body | {"resting": True})["doors"]
        elif job.action == "wake":
            said = self._send("POST", "/controller/set", body | _span(job) | {"resting": False})["doors"]
        else:
            said = self._move(job, body)
        return DeskResult(Outcome.DONE, result={"doors": list(said)})

    def _move(self, job: DeskJob, body: dict[str, Any]) -> list[dict[str, Any]]:
        """Window, then new doors, then the old ones, which are kept while a new one is not reached."""
        said: list[dict[str, Any]] = []
        if job.body["doors"]:
            said += self._send("POST", "/controller/set", body | _span(job))["doors"]
        added = [str(row["door"]) for row in job.body.get("added") or ()]
        removed = list(job.body.get("removed") or ())
        if added:
            number = job.body.get("number") or self._number_of(job)
            said += self._put(job, added, str(number))
        if removed and any("code" in row for row in said):
            return [*said, *({"door": row["door"], "code": "held_back"} for row in removed)]
        if removed:
            said += self._send("POST", "/controller/remove", body | {"doors": removed})["doors"]
        return said

    def _number_of(self, job: DeskJob) -> str:
        doors = [str(row["door"]) for name in ("doors", "removed") for row in job.body.get(name) or ()]
        lines = self._lines(doors, str(job.body["tag"]))
        if not lines:
            raise _Said("entry_missing")
        return str(lines[0]["number"])

    def _recall_lines(self, job: DeskJob) -> DeskResult:
        """Reads the lists: what each door shows of the credential tells whether the change was made there."""
        groups = {name: [str(row["door"]) for row in job.body.get(name) or ()] for name in ("doors", "added", "removed")}
        every = [door for doors in groups.values() for door in doors]
        lines = {str(row["door"]): row for row in self._lines(every, str(job.body["tag"]))}
        said = [_shown(job, name, door, lines.get(door)) for name, doors in groups.items() for door in doors]
        if all(row.get("code") == "not_done" for row in said):
            return DeskResult(Outcome.REFUSED, Refusal.NOT_DONE, "the lists show nothing of it")
        return DeskResult(Outcome.DONE, result={"doors": said})

    def _lines(self, doors: list[str], tag: str) -> list[dict[str, Any]]:
        return list(self._get("/controller/list", {"doors": ",".join(doors), "tag": tag})["entries"])

    def _read(self, job: DeskJob) -> DeskResult:
        query = {name: str(value) for name, value in job.body.items() if value is not None and name != "doors"}
        if "doors" in job.body:
            query["doors"] = ",".join(str(row["door"]) for row in job.body["doors"])
        return DeskResult(Outcome.DONE, result=self._get(READINGS[job.action], query))

    # --- the cable

    def _get(self, path: str, query: Mapping[str, str]) -> dict[str, Any]:
        asked = urlencode({"house": self._house, "encoder": self._name, **query})
        return self._understood(self._http.send("GET", f"{path}?{asked}", timeout_s=self._timeout_s))

    def _send(self, method: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        content = json.dumps({"house": self._house, **body}).encode()
        headers = {"Content-Type": "application/json"}
        return self._understood(self._http.send(method, path, body=content, headers=headers, timeout_s=self._timeout_s))

    def _understood(self, answer: Any) -> dict[str, Any]:
        try:
            document = answer.json()
        except ValueError:
            raise AnswerLost("no JSON came back") from None
        if not isinstance(document, dict) or (answer.status >= 500 and "code" not in document):
            raise AnswerLost("no usable answer came back")
        if answer.status != 200:
            raise _Said(str(document.get("code", "failed")))
        return document


def open_driver(encoder: str, house: str) -> VirtualEncoder:
    """Opens the driver; makes no call."""
    return VirtualEncoder(encoder, house)


def _in_use(job: DeskJob, others: list[dict[str, str]]) -> DeskResult:
    """The card is somebody's: those whom nobody has confirmed come first."""
    known = job.body.get("overwrites", ())
    held = sorted(others, key=lambda other: other["name"] in known)
    return DeskResult(Outcome.REFUSED, Refusal.CARD_IN_USE, "the card carries another live key", {"held": held})


def _now(job: DeskJob) -> datetime:
    """The hotel's time when the job was handed over; the desk's own clock counts only where that is not told."""
    told = job.body.get("now")
    return datetime.fromisoformat(str(told)) if told else datetime.now(UTC)


def _others_on(job: DeskJob, uid: str, key: bytes, held: Iterable[bytes]) -> list[dict[str, str]]:
    """The live keys of other credentials on a card, one row each: genuine records of this property that have not ended."""
    now = _now(job)
    found: dict[str, dict[str, str]] = {}
    for blob in held:
        body, record = blob[:BODY_BYTES], unpack(blob[:BODY_BYTES])
        if record is None or blob[BODY_BYTES:] != seal(body, key, bytes.fromhex(uid)):
            continue
        is_own = record.tag.hex() == job.body["tag"]
        if not is_own and record.property_number == int(job.body["property"]) and record.valid_until > now:
            tag = f"c-{record.tag.hex()}"
            found[tag] = {"name": name_of(f"{uid}.{tag}"), "tag": tag, "until": record.valid_until.isoformat()}
    return list(found.values())


def _others_in(job: DeskJob, number: str, lines: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """The keys of others that a controller's list has for a card's number, one row each; those that rest may open again."""
    now = _now(job)
    found: dict[str, dict[str, str]] = {}
    for line in lines:
        if line["tag"] != job.body["tag"] and datetime.fromisoformat(str(line["until"])) > now:
            name = _line_name(number, line)
            found[name] = {"name": name, "tag": str(line["tag"] or ""), "until": str(line["until"])}
    return list(found.values())


def _line_name(number: str, line: Mapping[str, Any]) -> str:
    return name_of(f"{number}.{line['tag'] or line['entry']}")


def _over(progress: Progress, ends: float) -> DeskResult | None:
    if progress.is_called_off:
        return DeskResult(Outcome.CANCELLED, detail="called off before a card was written")
    if time.monotonic() >= ends:
        return DeskResult(Outcome.EXPIRED, detail="nobody laid a card on the encoder")
    return None


def _refused(code: str) -> DeskResult:
    """A card that was taken away or changed may be half written: nobody knows what it holds until it is read."""
    if code in ("no_card", "card_swapped"):
        return DeskResult(Outcome.UNKNOWN, detail="the card was taken away while it was written")
    known = {"encoder_offline": Refusal.ENCODER_OFFLINE, "no_controller": Refusal.NOT_SUPPORTED}
    return DeskResult(Outcome.REFUSED, known.get(code, Refusal.FAILED), code.replace("_", " "))


def _records(job: DeskJob) -> list[Record]:
    """The records a job asks for: fixed sequences as they are, others by the running number of their door, 0 at shared ones."""
    body = job.body
    span = (datetime.fromisoformat(body["from"]), datetime.fromisoformat(body["until"]))
    return [
        Record(
            int(body["property"]),
            int(row["door"]),
            _sequence(job, row),
            *span,
            bytes.fromhex(body["tag"]),
            4 * bool(row["joins"]),
        )
        for row in body["doors"]
    ]


def _sequence(job: DeskJob, row: Mapping[str, Any]) -> int:
    if row.get("shared"):
        return 0
    fixed = row.get("sequence")
    return int(fixed) if fixed is not None else int(job.numbers[str(row["door"])])


def _layout(held: Mapping[int, bytes], wanted: Mapping[int, Record], tag: bytes) -> dict[int, Record]:
    """Which record goes into which sector: what the card holds of this credential stays, all else makes room."""
    kept = [r for blob in held.values() if (r := unpack(blob[:BODY_BYTES])) is not None and any(blob[BODY_BYTES:])]
    own = {r.door: r for r in kept if r.tag == tag}
    return dict(enumerate((own | dict(wanted)).values(), start=1))


def _card_result(job: DeskJob, uid: str, records: Any) -> dict[str, Any]:
    doors = {str(row["door"]) for row in job.body["doors"]}
    written = {str(record.door): record.sequence for record in records if str(record.door) in doors}
    facts = {name: job.body[name] for name in ("mark", "from", "until")}
    return {"uid": uid, "records": written, "dropped": list(job.body.get("dropped") or ()), **facts}


def _span(job: DeskJob) -> dict[str, Any]:
    return {"from": job.body["from"], "until": job.body["until"]}


def _shown(job: DeskJob, group: str, door: str, line: Mapping[str, Any] | None) -> dict[str, Any]:
    gone_is_right = job.action == "withdraw" or group == "removed"
    if gone_is_right:
        return {"door": door, "code": "not_done"} if line else {"door": door, "entry": None}
    right = line is not None and (
        (job.action == "enrol" and line["mark"] == job.body["mark"])
        or (job.action == "rest" and line["resting"])
        or (job.action == "wake" and not line["resting"] and _same_span(job, line))
        or (job.action == "change" and _same_span(job, line))
    )
    return {"door": door, "entry": line["entry"]} if right and line is not None else {"door": door, "code": "not_done"}


def _same_span(job: DeskJob, line: Mapping[str, Any]) -> bool:
    ours, theirs = _span(job), (line["from"], line["until"])
    return all(
        datetime.fromisoformat(a) == datetime.fromisoformat(b)
        for a, b in zip((ours["from"], ours["until"]), theirs, strict=True)
    )
