"""A device at the cable that answers in time and makes no sense: what may have been written is unknown, and nothing is raised."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from vendors.generic_wiegand.virtual_encoder import VirtualEncoder
from vendors.port.relay import DeskJob, DeskResult, Outcome, Refusal, Stage

SPAN = {"from": "2026-01-01T00:00:00+00:00", "until": "2026-01-02T00:00:00+00:00"}
ENTERED = DeskJob(
    "job_1",
    "generic-wiegand",
    "enrol",
    {"kind": "rfid_card", "tag": "c-1", "mark": "gk-1", "number": "17", "doors": [{"door": "101"}], **SPAN},
)
TAKEN = DeskJob("job_2", "generic-wiegand", "withdraw", {"tag": "c-1", "doors": [{"door": "101", "entry": "e"}], **SPAN})
WRITTEN = DeskJob(
    "job_3", "generic-wiegand", "encode", {"kind": "rfid_card", "tag": "00" * 8, "uid": "04a1b2c3", "doors": [], **SPAN}
)
ANSWERS = [
    {},
    [],
    {"doors": 5},
    {"doors": None},
    {"records": []},
    {"propertyKey": 5, "records": 7},
    {"uid": "04a1b2c3", "kind": 5},
]


class Noted:
    """Progress of a job."""

    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self.is_called_off = False

    def reach(self, stage: Stage, note: str = "") -> None:
        self.stages.append(stage)


class Cable:
    """Answers everything alike. `lists` is how it answers the question for a card number's lines where that is told."""

    def __init__(self) -> None:
        self.body = b"{}"
        self.lists: bytes | None = None
        cable = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                body = cable.lists if cable.lists is not None and "number=" in self.path else cable.body
                self.send_response_only(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                self.do_GET()

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()


@pytest.fixture
def cable() -> Iterator[Cable]:
    made = Cable()
    yield made
    made.server.shutdown()
    made.server.server_close()


def driver_at(cable: Cable) -> VirtualEncoder:
    return VirtualEncoder(f"http://127.0.0.1:{cable.server.server_address[1]}", "hotel")


@pytest.mark.parametrize("answer", ANSWERS, ids=str)
@pytest.mark.parametrize("job", [ENTERED, TAKEN], ids=lambda job: job.action)
def test_a_line_that_may_have_been_written_is_unknown(cable: Cable, job: DeskJob, answer: object) -> None:
    cable.body, cable.lists = json.dumps(answer).encode(), b'{"entries": []}'
    noted = Noted()
    assert driver_at(cable).do(job, noted).outcome is Outcome.UNKNOWN
    assert noted.stages == [Stage.WRITING]


@pytest.mark.parametrize("answer", ANSWERS, ids=str)
def test_a_number_whose_lines_cannot_be_read_is_not_entered(cable: Cable, answer: object) -> None:
    cable.body = json.dumps(answer).encode()
    noted = Noted()
    assert driver_at(cable).do(ENTERED, noted).outcome is Outcome.REFUSED
    assert noted.stages == []


@pytest.mark.parametrize("answer", [*ANSWERS, "[" * 5000], ids=lambda answer: str(answer)[:30])
def test_a_card_that_cannot_be_read_is_not_written_and_a_recall_tells_nothing(cable: Cable, answer: object) -> None:
    cable.body = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
    noted = Noted()
    said: DeskResult = driver_at(cable).do(replace(WRITTEN, expires_in_s=0.3), noted)
    assert said.outcome in {Outcome.REFUSED, Outcome.EXPIRED}
    assert said.refusal in {None, Refusal.FAILED, Refusal.CARD_UNUSABLE, Refusal.ENCODER_OFFLINE}
    assert Stage.WRITING not in noted.stages
    for job in (ENTERED, WRITTEN):
        assert driver_at(cable).recall(job, Stage.WRITING, "04a1b2c3").outcome is Outcome.UNKNOWN
