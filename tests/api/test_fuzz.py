"""Random and edge-case requests made from the OpenAPI document: no 5xx, and no answer the document does not name.

The runs are seeded and bounded. A finding is printed with the request that repeats it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.api.conftest import issue_body, issue_key
from tests.support.hotel import Hotel
from tests.support.web_server import Caller, WebServer, caller

CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
    "response_schema_conformance,negative_data_rejection,missing_required_header,unsupported_method,"
    "allow_header_conformance,ignored_auth"
)
ROLES = ("gm", "booking_app")


def fuzz(web: WebServer, token: str, folder: Path, parameters: dict[str, str], phases: str) -> subprocess.CompletedProcess[str]:
    # A server may also refuse an address for its length; every other refusal is the service's own.
    refusals = [
        "[checks.negative_data_rejection]",
        'expected-statuses = ["400", "401", "403", "404", "409", "413", "414", "415", "422"]',
    ]
    lines = [f'"{name}" = {json.dumps(value)}' for name, value in parameters.items()]
    config = folder / "schemathesis.toml"
    config.write_text("\n".join(["[parameters]", *lines, *refusals, ""]), encoding="utf-8")
    return subprocess.run(
        [
            sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run", f"{web.url}/api/schema/",
            "--checks", CHECKS, "--phases", phases, "--seed", "7", "--max-examples", "12",
            "--workers", "2", "--continue-on-failure", "--no-shrink", "--suppress-health-check", "all", "--warnings", "off",
            "--header", f"Authorization: Bearer {token}", "--request-timeout", "15", "--no-color",
        ],
        cwd=folder, env={**os.environ, "PYTHONWARNINGS": "ignore"}, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip


@pytest.mark.timeout(400)
@pytest.mark.parametrize("phase", ["coverage", pytest.param("fuzzing", marks=pytest.mark.chaos)])
def test_requests_about_nothing_find_no_undocumented_answer(web: WebServer, hotel: Hotel, tmp_path: Path, phase: str) -> None:
    someone = caller(web, hotel.tenant_id, *ROLES)
    run = fuzz(web, someone.token, tmp_path, {}, phase)
    assert run.returncode == 0, run.stdout[-20000:] + run.stderr[-3000:]


@pytest.mark.timeout(400)
def test_requests_about_real_things_find_no_undocumented_answer(
    web: WebServer, hotel: Hotel, desk: Caller, tmp_path: Path
) -> None:
    key = issue_key(hotel, desk)
    with_saga = desk.post("/lock/v1/credentials", issue_body(hotel, "102")).json()
    real = {
        "credential_id": key["id"], "reservation_id": key["reservationId"], "device_id": hotel.devices["101"],
        "operation_id": with_saga["id"], "propertyId": hotel.property_id,
    }  # fmt: skip
    someone = caller(web, hotel.tenant_id, *ROLES)
    run = fuzz(web, someone.token, tmp_path, real, "fuzzing")
    assert run.returncode == 0, run.stdout[-20000:] + run.stderr[-3000:]
