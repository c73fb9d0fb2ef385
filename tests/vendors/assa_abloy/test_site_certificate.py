"""A Visionline server signs its own certificate: the one captured at pairing is trusted, and no other."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.vendors.assa_abloy.conftest import NewHouse
from tests.vendors.assa_abloy.harness import VisionlineSite
from vendors import registry
from vendors.port.errors import Reason, VendorUnreachable


def self_signed(name: str) -> tuple[str, str]:
    """A certificate and its key, both PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return certificate.public_bytes(serialization.Encoding.PEM).decode(), private.decode()


class Refusing(BaseHTTPRequestHandler):
    """Takes no login, so that an answer shows that the handshake went well."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(401)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


class Quiet(HTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that breaks off the handshake, as it should."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, str]]:
    certificate, key = self_signed("visionline.local")
    file = tmp_path / "server.pem"
    file.write_text(certificate + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    http = Quiet(("127.0.0.1", 0), Refusing)
    http.socket = context.wrap_socket(http.socket, server_side=True)
    thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{http.server_address[1]}", certificate
    http.shutdown()
    with suppress(OSError):
        http.server_close()
    thread.join()


@pytest.mark.parametrize(
    ("trusted", "reason"), [("its own", Reason.SETTINGS), ("another", Reason.OTHER), ("public", Reason.OTHER)]
)
def test_only_the_paired_certificate_is_spoken_to(
    new_house: NewHouse, server: tuple[str, str], trusted: str, reason: Reason
) -> None:
    site = new_house(VisionlineSite)
    url, certificate = server
    pinned = {"its own": certificate, "another": self_signed("visionline.local")[0], "public": None}[trusted]
    settings = {**site.settings(), "base_url": url, "site_certificate": pinned}
    port = registry.build(site.code, site.context(settings=settings))
    with pytest.raises(VendorUnreachable) as caught:
        port.list_devices("p")
    assert caught.value.reason is reason
    assert ("certificate" in caught.value.vendor_message) is (trusted != "its own")


def test_a_text_that_is_no_certificate_is_named(new_house: NewHouse) -> None:
    site = new_house(VisionlineSite)
    with pytest.raises(ValueError, match="site_certificate"):
        registry.build(site.code, site.context(settings={**site.settings(), "site_certificate": "nonsense"}))
