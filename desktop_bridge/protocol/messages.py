"""What desk and gateway say, version 1. One JSON object a text frame, its kind in `type`.

    desk ──── GET /relay/v1, Authorization: Bearer <token of role desk> ────► gateway    401, 403 or 101
    desk ──── hello {version, program, vendors, encoder, holding} ──────────► gateway
    desk ◄─── welcome {version, deskId, heartbeatS} ──────────────────────── gateway
    desk ◄─── offer {jobId, vendor, action, body, numbers, needsCard, expiresInS}
    desk ──── accept {jobId} ──────────────────────────────────────────────►           the desk has noted it on disk
    desk ◄─── go {jobId}, or cancel {jobId} where it was called off meanwhile           only after `go` may anything be written
    desk ──── progress {jobId, stage} ─────────────────────────────────────►
    desk ──── result {jobId, outcome, refusal?, detail, body} ─────────────►
    desk ◄─── taken {jobId}                                                             the desk may forget it
    desk ◄─── cancel {jobId}                                                            answered by a result
    desk ◄─── ask {jobId}                                                               what came of it? a result, or progress
    desk ──── ping {encoderReady} ─────────────────────────────────────────►           each heartbeat
    desk ◄─── pong {}
    desk ◄─── refusal {code, detail, jobId?}                                            one message was refused

One rule: a job is known by its id alone, through every connection; the same message twice is the same as once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from desktop_bridge.protocol.reading import BadFrame, Fields, read_object
from vendors.port.relay import DeskJob, DeskResult, Outcome, Refusal, Stage

VERSION = 1
PATH = "/relay/v1"
MAX_HOLDING = 64
MAX_EXPIRY_S = 3600.0
DETAIL_CHARS = 300


@dataclass(frozen=True, slots=True)
class Hello:
    """The desk introduces itself. `vendors` are those it has a driver for; `encoder` is a word for a person; `holding` are the
    jobs it began and has no receipt for."""

    version: int
    program: str
    vendors: tuple[str, ...]
    encoder: str = ""
    holding: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Welcome:
    """The gateway takes the desk. A ping is expected each `heartbeat_s` seconds."""

    version: int
    desk_id: str
    heartbeat_s: float


@dataclass(frozen=True, slots=True)
class Offer:
    """A job for the desk. It may be offered again, under the same id, on a later connection."""

    job: DeskJob


@dataclass(frozen=True, slots=True)
class Accept:
    """The desk has noted the job and waits for `go`."""

    job_id: str


@dataclass(frozen=True, slots=True)
class Go:
    """The desk may begin."""

    job_id: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """The job is called off, as far as nothing was written."""

    job_id: str


@dataclass(frozen=True, slots=True)
class Ask:
    """What came of the job?"""

    job_id: str


@dataclass(frozen=True, slots=True)
class Taken:
    """The result is in the service's rows."""

    job_id: str


@dataclass(frozen=True, slots=True)
class Progressed:
    """The desk has come so far."""

    job_id: str
    stage: Stage


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a job."""

    job_id: str
    result: DeskResult


@dataclass(frozen=True, slots=True)
class Ping:
    """The desk lives."""

    is_encoder_ready: bool = True


@dataclass(frozen=True, slots=True)
class Pong:
    """So does the gateway."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A message was refused; with most codes the connection closes after it."""

    code: str
    detail: str
    job_id: str = ""


FromDesk = Hello | Accept | Progressed | Result | Ping
FromGateway = Welcome | Offer | Go | Cancel | Ask | Taken | Pong | Refused


@dataclass(frozen=True, slots=True)
class _Kind:
    name: str
    write: Callable[[Any], Mapping[str, Any]]
    read: Callable[[Fields], Any] = field(repr=False)


def encode(message: FromDesk | FromGateway) -> str:
    """Returns the frame of a message."""
    kind = _BY_TYPE[type(message)]
    return json.dumps({"type": kind.name, **kind.write(message)}, ensure_ascii=False, separators=(",", ":"))


def from_desk(frame: str | bytes) -> FromDesk:
    """Reads what a desk sent. Raises BadFrame."""
    message: FromDesk = _read(frame, _DESK_KINDS)
    return message


def from_gateway(frame: str | bytes) -> FromGateway:
    """Reads what the gateway sent. Raises BadFrame."""
    message: FromGateway = _read(frame, _GATEWAY_KINDS)
    return message


def _read(frame: str | bytes, kinds: Mapping[str, _Kind]) -> Any:
    document = read_object(frame)
    name = document.get("type")
    kind = kinds.get(name) if isinstance(name, str) else None
    if kind is None:
        raise BadFrame("unknown_type", "no message of this version and direction")
    fields = Fields({key: value for key, value in document.items() if key != "type"}, kind.name)
    message = kind.read(fields)
    fields.finish()
    return message


def _job_only(name: str, made: type) -> _Kind:
    return _Kind(name, lambda m: {"jobId": m.job_id}, lambda f: made(f.text("jobId")))


def _write_offer(message: Offer) -> Mapping[str, Any]:
    job = message.job
    return {
        "jobId": job.job_id, "vendor": job.vendor, "action": job.action, "body": dict(job.body), "numbers": dict(job.numbers),
        "needsCard": job.needs_card, "expiresInS": job.expires_in_s,
    }  # fmt: skip


def _read_offer(f: Fields) -> Offer:
    return Offer(
        DeskJob(
            job_id=f.text("jobId"),
            vendor=f.text("vendor"),
            action=f.text("action", 32),
            body=f.document("body"),
            numbers=f.numbers("numbers"),
            needs_card=f.flag("needsCard"),
            expires_in_s=f.number("expiresInS", 0, MAX_EXPIRY_S),
        )
    )


def _write_result(message: Result) -> Mapping[str, Any]:
    said = message.result
    row = {
        "jobId": message.job_id,
        "outcome": said.outcome.value,
        "detail": said.detail[:DETAIL_CHARS],
        "body": dict(said.result),
    }
    return row | ({"refusal": said.refusal.value} if said.refusal is not None else {})


def _read_result(f: Fields) -> Result:
    job_id, outcome = f.text("jobId"), f.choice("outcome", Outcome)
    refusal = f.choice("refusal", Refusal, or_none=True)
    detail, body = f.text("detail", DETAIL_CHARS, default=""), f.document("body")
    if outcome is None or (outcome is Outcome.REFUSED) != (refusal is not None):
        raise BadFrame("bad_field", "result.refusal stands with the outcome refused, and only there")
    return Result(job_id, DeskResult(outcome, refusal, detail, body))


def _read_hello(f: Fields) -> Hello:
    version = f.whole("version", 1, 1_000)
    return Hello(
        version,
        f.text("program", 80),
        f.texts("vendors", 16),
        f.text("encoder", 80, default=""),
        f.texts("holding", MAX_HOLDING),
    )


def _stage(f: Fields) -> Stage:
    stage = f.choice("stage", Stage)
    if stage is None:
        raise BadFrame("bad_field", "progress.stage must be one of the words of this version")
    return stage


_DESK: Mapping[type, _Kind] = {
    Hello: _Kind(
        "hello",
        lambda m: {
            "version": m.version, "program": m.program, "vendors": list(m.vendors), "encoder": m.encoder,
            "holding": list(m.holding),
        },
        _read_hello,
    ),
    Accept: _job_only("accept", Accept),
    Progressed: _Kind(
        "progress", lambda m: {"jobId": m.job_id, "stage": m.stage.value}, lambda f: Progressed(f.text("jobId"), _stage(f))
    ),
    Result: _Kind("result", _write_result, _read_result),
    Ping: _Kind("ping", lambda m: {"encoderReady": m.is_encoder_ready}, lambda f: Ping(f.flag("encoderReady"))),
}  # fmt: skip
_GATEWAY: Mapping[type, _Kind] = {
    Welcome: _Kind(
        "welcome",
        lambda m: {"version": m.version, "deskId": m.desk_id, "heartbeatS": m.heartbeat_s},
        lambda f: Welcome(f.whole("version", 1, 1_000), f.text("deskId"), f.number("heartbeatS", 0.01, 3600)),
    ),
    Offer: _Kind("offer", _write_offer, _read_offer),
    Go: _job_only("go", Go),
    Cancel: _job_only("cancel", Cancel),
    Ask: _job_only("ask", Ask),
    Taken: _job_only("taken", Taken),
    Pong: _Kind("pong", lambda m: {}, lambda f: Pong()),
    Refused: _Kind(
        "refusal",
        lambda m: {"code": m.code, "detail": m.detail[:DETAIL_CHARS], "jobId": m.job_id},
        lambda f: Refused(f.text("code"), f.text("detail", DETAIL_CHARS, default=""), f.text("jobId", default="")),
    ),
}
_BY_TYPE = {**_DESK, **_GATEWAY}
_DESK_KINDS = {kind.name: kind for kind in _DESK.values()}
_GATEWAY_KINDS = {kind.name: kind for kind in _GATEWAY.values()}
