"""What the registry knows of the mock vendor."""

from __future__ import annotations

from vendors.port.manifest import LaneRule, VendorManifest
from vendors.port.types import CredentialKind, LockCapabilities

MANIFEST = VendorManifest(
    code="mock",
    display_name="Mock locks",
    adapter="vendors.mock.adapter:build",
    kinds=(
        CredentialKind.PIN_CODE,
        CredentialKind.MOBILE_APP,
        CredentialKind.RFID_CARD,
        CredentialKind.QR_CODE,
        CredentialKind.NFC_TAG,
    ),
    capabilities=LockCapabilities(
        mobile_key=True,
        card_encoding=True,
        pin=True,
        qr=True,
        nfc=True,
        remote_revoke=True,
        remote_issue=True,
        offline_issuance=False,
        scope_floors=True,
        scope_areas=True,
    ),
    lane=LaneRule.INSTALLATION,
    lane_width=8,
    windows_by_door=True,
    desk_kinds=(CredentialKind.RFID_CARD, CredentialKind.NFC_TAG),
    setting_names=("url", "timeout_s"),
    secret_names=("webhook_secret", "webhook_secret_next"),
    simulator="vendors.mock.simulator",
    simulated="vendors.mock.simulated:open_control",
    door_capacity={CredentialKind.PIN_CODE: 1000, CredentialKind.RFID_CARD: 1000},
)
