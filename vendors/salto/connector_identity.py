"""The certificate we show to a property's connector, and the authority we accept there.

One rule: the private key is never left on a disk, and an expired certificate is not shown: the connector then counts as not
reached.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509

from vendors.port.secrets import Token

WARN_BEFORE = timedelta(days=14)


class ConnectorIdentity:
    """A client certificate with its key. Raises ValueError for PEM that cannot be read or does not belong together."""

    def __init__(self, certificate: Token, key: Token, authority_pem: str) -> None:
        try:
            self._expires_at = x509.load_pem_x509_certificate(certificate.reveal().encode()).not_valid_after_utc
            self.tls = ssl.create_default_context(cadata=authority_pem or None)
            self.tls.minimum_version = ssl.TLSVersion.TLSv1_2
            _load(self.tls, f"{certificate.reveal().strip()}\n{key.reveal().strip()}\n")
        except (ValueError, ssl.SSLError):
            raise ValueError("secrets connector_cert and connector_key, or setting connector_ca, cannot be used") from None

    def is_expired(self, now: datetime) -> bool:
        """Says whether the certificate is over."""
        return now >= self._expires_at

    def expires_soon(self, now: datetime) -> datetime | None:
        """Returns the end when fewer than 14 days are left, else None."""
        return self._expires_at if now >= self._expires_at - WARN_BEFORE else None


def _load(context: ssl.SSLContext, pem: str) -> None:
    """Gives the key to the TLS library, which reads files only: a file in memory, or one of our own that goes at once."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("connector", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, pem.encode())
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "identity.pem")
        path.touch(mode=0o600)
        path.write_text(pem)
        context.load_cert_chain(path)
