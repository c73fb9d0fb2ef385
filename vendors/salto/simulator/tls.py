"""The certificates of the connector: an authority of the simulator's own, a server certificate, one for each property.

One rule: keys are made at start and live as long as the process; nothing here is fit for anything but loopback.
"""

from __future__ import annotations

import ipaddress
import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PROPERTY_URI = "urn:salto:property:"
LIFE_DAYS = 60


class Authority:
    """Signs certificates for the server and for properties."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "simulated connector authority")])
        self._certificate = (
            self._started(self._name, self._key.public_key(), LIFE_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def pem(self) -> str:
        """The authority's certificate."""
        return _pem(self._certificate)

    def client(self, property_id: str, days: float = LIFE_DAYS) -> tuple[str, str]:
        """Returns certificate and key in PEM for a property, valid for so many days."""
        name = x509.UniformResourceIdentifier(f"{PROPERTY_URI}{property_id}")
        return self._leaf(property_id, name, ExtendedKeyUsageOID.CLIENT_AUTH, days)

    def server_context(self) -> ssl.SSLContext:
        """Returns a context that serves 127.0.0.1 and asks every client for a certificate of this authority."""
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        certificate, key = self._leaf("connector", address, ExtendedKeyUsageOID.SERVER_AUTH, LIFE_DAYS)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "server.pem")
            path.write_text(certificate + key)
            context.load_cert_chain(path)
        context.load_verify_locations(cadata=self.pem)
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _leaf(self, name: str, alternative: x509.GeneralName, use: x509.ObjectIdentifier, days: float) -> tuple[str, str]:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
        identifier = self._certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        certificate = (
            self._started(subject, key.public_key(), days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
            .add_extension(x509.ExtendedKeyUsage([use]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode()
        return _pem(certificate), private

    def _started(self, subject: x509.Name, public: ec.EllipticCurvePublicKey, days: float) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=days))
        )


def property_in(certificate: object) -> str:
    """Returns the property a client certificate names, empty when it names none."""
    names = certificate.get("subjectAltName", ()) if isinstance(certificate, dict) else ()
    found = [value for kind, value in names if kind == "URI" and str(value).startswith(PROPERTY_URI)]
    return str(found[0]).removeprefix(PROPERTY_URI) if len(found) == 1 else ""


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
