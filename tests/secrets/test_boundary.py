"""An adapter that puts secrets into its exceptions: none of them gets past the boundary, into no row, event, alert or log."""

from __future__ import annotations

import base64
import json
import logging
import traceback
import urllib.parse
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from credentials import artifacts
from credentials.models import KeyCredential, Transition
from devices.secret_boundary import AdapterFault, BoundaryPort, Opening
from lockservice.core.secret_cache import HeldSecrets
from lockservice.core.tenancy import tenant
from sagas.models import Alert, OutboxEvent, Saga, SagaStep
from tests.flows.conftest import keys
from tests.support.added_vendor import added_vendor
from tests.support.hotel import ALL_KINDS, build_hotel
from vendors.port.errors import KeyIssueFailed, LockError, Reason
from vendors.port.ids import new_id
from vendors.port.protocol import Lookup, Resume
from vendors.port.secrets import MASK, CardNumber, Pin, Token, VendorRef
from vendors.port.types import (
    CallMeta,
    CallResult,
    CredentialHandle,
    CredentialKind,
    Door,
    DoorResult,
    Outcome,
    UpdateInput,
    Warning,  # noqa: A004 - the contract calls it so
    Window,
)

Settle = Callable[..., int]
SECRET = "correct/horse+battery staple"
CERT = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQDCqTmFUZs\n-----END PRIVATE KEY-----"
SPELLINGS = (
    SECRET, urllib.parse.quote(SECRET, safe=""), urllib.parse.quote_plus(SECRET), base64.b64encode(SECRET.encode()).decode(),
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC",
)  # fmt: skip
TEXT = " | ".join(SPELLINGS)


class Leaky:
    """Does with a call whatever it is told."""

    def __init__(self, does: Callable[..., Any]) -> None:
        self.does = does

    def revoke_credential(self, handle: Any, reason: Any, meta: Any) -> Any:
        return self.does(handle)

    def find(self, handle: Any, meta: Any) -> Any:
        return self.does(handle)

    list_keys = None


def port(does: Callable[..., Any]) -> Any:
    held = HeldSecrets.given({"api_key": Token(SECRET), "connector_key": Token(CERT), "pad": Token("ab")})
    return BoundaryPort(Opening("leaky", held, lambda _values: Leaky(does)))  # type: ignore[arg-type,return-value]


def raises(error: Exception) -> Callable[[Any], Any]:
    def do(_handle: Any) -> Any:
        raise error

    return do


def test_a_refusal_carries_no_spelling_of_a_secret_and_no_cause() -> None:
    def do(_handle: Any) -> Any:
        try:
            raise ConnectionError(f"https://vendor.example/?key={SECRET}")
        except ConnectionError as error:
            raise KeyIssueFailed("leaky", TEXT, reason=Reason.BUSY, retry_after_s=3.0) from error

    with pytest.raises(KeyIssueFailed) as caught:
        port(do).revoke_credential(None, None, None)
    error = caught.value
    assert (error.vendor_message, error.reason, error.retry_after_s) == (" | ".join([MASK] * 5), Reason.BUSY, 3.0)
    told = "".join(traceback.format_exception(error))
    assert not [spelling for spelling in SPELLINGS if spelling in told]
    assert (error.__cause__, error.__context__) == (None, None)


def test_a_mistake_of_the_adapter_is_told_by_its_kind_and_place_only() -> None:
    digits = str(482_000 + 913)
    mistake = f"no field in answer to api_key={SECRET}, PIN {digits}"
    with pytest.raises(AdapterFault) as caught:
        port(raises(KeyError(mistake))).revoke_credential(None, None, None)
    told = "".join(traceback.format_exception(caught.value))
    assert str(caught.value).startswith("KeyError: ")
    assert "test_boundary.py" in told
    assert not [spelling for spelling in (*SPELLINGS, digits, "battery") if spelling in told]
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


@pytest.mark.parametrize("kind", [ValueError, KeyError, lambda text: KeyIssueFailed("leaky", text)])
def test_a_secret_that_is_quoted_is_found_as_well(kind: Callable[[str], Exception]) -> None:
    odd = "p\u00e4ss\"wo\\rd's"
    spellings = {odd, json.dumps(odd), json.dumps(odd, ensure_ascii=False), repr(odd), ascii(odd)}
    text = "sent " + " and ".join(sorted(spellings))
    held = HeldSecrets.given({"api_key": Token(odd)})
    adapter = Leaky(raises(kind(text)))
    port: Any = BoundaryPort(Opening("leaky", held, lambda _values: adapter))  # type: ignore[arg-type,return-value]
    with pytest.raises((LockError, AdapterFault)) as caught:
        port.revoke_credential(None, None, None)
    words = getattr(caught.value, "vendor_message", "") + str(caught.value)
    assert not [part for part in ("wo\\", "rd's", "rd\\'s", 'ss"', "ss\\") if part in words]


@pytest.mark.parametrize(
    "error", [ValueError(TEXT), KeyError(TEXT), KeyIssueFailed("leaky", TEXT)], ids=lambda e: type(e).__name__
)
def test_an_adapter_that_cannot_be_built_quotes_no_secret_either(error: Exception) -> None:
    def build(_values: Any) -> Any:
        raise error

    held = HeldSecrets.given({"api_key": Token(SECRET), "connector_key": Token(CERT)})
    with pytest.raises((LockError, AdapterFault)) as caught:
        BoundaryPort(Opening("leaky", held, build)).list_devices("ppt_1")
    words = getattr(caught.value, "vendor_message", str(caught.value))
    told = words + "".join(traceback.format_exception(caught.value))
    assert MASK in words
    assert not [spelling for spelling in SPELLINGS if spelling in told]


def test_what_was_handed_to_the_call_is_as_secret_as_what_the_installation_holds() -> None:
    door = Door(device_id="lck_1", external_id="1", label="12", ref=VendorRef("ref of the door"))
    window = Window(datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 2, tzinfo=UTC))
    handle = CredentialHandle(
        credential_id="key_1", kind=CredentialKind.PIN_CODE, window=window, doors=(door,), pin=Pin("ABCD#9"),
        card_number=CardNumber("4829-1399"), issue_key="k",
    )  # fmt: skip
    handed = UpdateInput(handle=handle, meta=CallMeta("k", 1, 2))
    text = "door 12 said: pin ABCD#9 at ref of the door for card 4829-1399"
    with pytest.raises(LockError) as caught:
        port(raises(KeyIssueFailed("leaky", text))).revoke_credential(handed, None, None)
    assert caught.value.vendor_message == f"door 12 said: pin {MASK} at {MASK} for card {MASK}"


def test_warnings_and_doors_errors_of_an_answer_are_scrubbed_and_the_rest_comes_back_as_it_is() -> None:
    ref = VendorRef("given by the vendor")

    def do(_handle: Any) -> CallResult:
        failed = KeyIssueFailed("leaky", f"refused {SECRET} and given by the vendor")
        doors = (DoorResult("lck_1", Outcome.DONE, ref=ref), DoorResult("lck_2", Outcome.FAILED, error=failed))
        return CallResult(doors=doors, warnings=(Warning("ODD", f"asked with {SECRET}"),), calls=2, resume_token=None)

    answer = port(do).revoke_credential(None, None, None)
    assert answer.warnings == (Warning("ODD", f"asked with {MASK}"),)
    assert answer.doors[0].ref == ref
    assert answer.doors[1].error.vendor_message == f"refused {MASK} and {MASK}"
    assert answer.calls == 2


def test_optional_verbs_pass_the_boundary_too_and_missing_ones_stay_missing() -> None:
    leaky = port(raises(KeyIssueFailed("leaky", SECRET)))
    assert isinstance(leaky, Lookup)
    assert not isinstance(leaky, Resume)
    assert not hasattr(leaky, "list_keys")
    with pytest.raises(LockError) as caught:
        leaky.find(None, None)
    assert caught.value.vendor_message == MASK


# --- Through the whole service ----------------------------------------------------------------

MANIFEST = """
from vendors.port.manifest import VendorManifest
from vendors.port.types import CredentialKind, LockCapabilities
MANIFEST = VendorManifest(
    code="leaky", display_name="Leaky locks", adapter="vendors.leaky.adapter:build",
    kinds=(CredentialKind.PIN_CODE,), capabilities=LockCapabilities(pin=True, remote_issue=True, remote_revoke=True),
    setting_names=("way",), secret_names=("api_key",),
)
"""
ADAPTER = """
from vendors.port.errors import KeyIssueFailed
from vendors.port.types import AdapterDescription, LockCapabilities
class Adapter:
    def __init__(self, context): self.context = context
    def describe_adapter(self): return AdapterDescription("leaky", LockCapabilities(pin=True))
    def issue_credential(self, request):
        text = f"{self.context.secrets['api_key'].reveal()} refused {request.pin.reveal()}"
        if self.context.settings["way"] == "mistake":
            raise RuntimeError(text)
        raise KeyIssueFailed("leaky", text, retriable=False)
def build(context): return Adapter(context)
"""


@pytest.fixture(scope="module")
def leaky_vendor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Adds a vendor's folder for these tests, as anybody adds a vendor."""
    with added_vendor(tmp_path_factory.mktemp("more_vendors"), "leaky", MANIFEST, ADAPTER):
        yield


@pytest.mark.parametrize(("way", "code"), [("mistake", "INTERNAL_ERROR"), ("refusal", "KEY_ISSUE_FAILED")])
def test_no_row_event_alert_or_log_line_has_what_an_adapter_let_out(
    database: str, leaky_vendor: None, settle: Settle, caplog: pytest.LogCaptureFixture, way: str, code: str
) -> None:
    secret = f"api-{new_id('evt')}"
    caplog.set_level(logging.DEBUG)
    hotel = build_hotel(
        vendor="leaky", settings={"way": way}, secrets={"api_key": secret}, rooms={"101": "d1"},
        capabilities={**dict.fromkeys(ALL_KINDS, False), "pin": True, "remote_issue": True, "remote_revoke": True},
    )  # fmt: skip
    hotel.tell("booking.confirmed", hotel.booking(new_id("rsv"), 1, ["101"]))
    settle(hotel, now=True, rounds=2)
    (key,) = keys(hotel)
    with tenant(hotel.tenant_id):
        row = artifacts.current(hotel.tenant_id, [key.id]).get(key.id)
        pin = artifacts.open_pin(row) if row else None
        found = [
            json.dumps(list(model.objects.filter(tenant_id=hotel.tenant_id).values()), default=_plain)
            for model in (KeyCredential, Transition, Saga, SagaStep, OutboxEvent, Alert)
        ]
        codes = set(Alert.objects.filter(tenant_id=hotel.tenant_id).values_list("code", flat=True))
    logged = "\n".join(f"{record.getMessage()} {record.exc_text or ''} {record.__dict__}" for record in caplog.records)
    for text in (*found, logged):
        assert secret not in text
        assert pin is None or pin.reveal() not in text
    assert code in codes
    if way == "mistake":
        assert "AdapterFault" in found[3]


def _plain(value: Any) -> str:
    return bytes(value).decode("utf-8", "replace") if isinstance(value, (bytes, memoryview)) else str(value)
