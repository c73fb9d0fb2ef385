"""What the registry knows of generic Wiegand and RFID encoders."""

from __future__ import annotations

from vendors.port.manifest import CardsBy, LaneRule, VendorManifest
from vendors.port.types import CredentialKind, LockCapabilities

from .manifest_code import CODE

MANIFEST = VendorManifest(
    code=CODE,
    display_name="Wiegand and RFID encoders",
    adapter="vendors.generic_wiegand.adapter:build",
    kinds=(CredentialKind.RFID_CARD, CredentialKind.NFC_TAG),
    # At best: a controller in the house hears at once, while a desk is connected; a lock that stands alone hears of nothing.
    capabilities=LockCapabilities(
        card_encoding=True, nfc=True, offline_issuance=True, remote_issue=True, remote_revoke=True, scope_areas=True
    ),
    aliases=("wiegand", "wiegand-generic", "generic-rfid"),
    lane=LaneRule.INSTALLATION,
    lane_width=4,
    desk_kinds=(CredentialKind.RFID_CARD, CredentialKind.NFC_TAG),
    spanning_kinds=(CredentialKind.RFID_CARD, CredentialKind.NFC_TAG),
    cards_by=CardsBy.RELAY,
    setting_names=(
        "locks",
        "property_number",
        "card_timeout_s",
        "wait_s",
        "card_records",
        "tag_records",
        "card_format",
    ),
    secret_names=("webhook_secret", "webhook_secret_next"),
    simulator="vendors.generic_wiegand.simulator",
    simulated="vendors.generic_wiegand.simulated:open_control",
    virtual_desk="vendors.generic_wiegand.virtual_encoder:open_driver",
)
