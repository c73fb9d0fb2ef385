"""What the registry knows of ASSA ABLOY."""

from __future__ import annotations

from vendors.port.manifest import CardsBy, LaneRule, SecretRule, VendorManifest
from vendors.port.types import CredentialKind, LockCapabilities

MANIFEST = VendorManifest(
    code="assa-abloy",
    display_name="ASSA ABLOY (Vostio, Visionline)",
    adapter="vendors.assa_abloy.adapter:build",
    kinds=(CredentialKind.MOBILE_APP, CredentialKind.RFID_CARD, CredentialKind.NFC_TAG),
    # At best: only locks on the network hear of a revoke before the next guest's key is used.
    capabilities=LockCapabilities(
        mobile_key=True,
        card_encoding=True,
        nfc=True,
        remote_revoke=True,
        remote_issue=True,
        scope_areas=True,
    ),
    aliases=("assa_abloy", "assa-vostio", "assa-abloy-vostio", "assa-abloy-visionline", "vostio", "visionline"),
    lane=LaneRule.INSTALLATION,
    lane_width=8,
    # The environment allows 30 a second; 25 leave room for the vendor's other callers and for clocks that disagree.
    calls_per_minute=1500,
    calls_per_second=30,
    # A card is laid on an encoder by a person.
    desk_kinds=(CredentialKind.RFID_CARD, CredentialKind.NFC_TAG),
    cards_by=CardsBy.ENCODER,
    spanning_kinds=(CredentialKind.MOBILE_APP, CredentialKind.RFID_CARD, CredentialKind.NFC_TAG),
    # Doors go by the order in which stays were begun on the list, not by their dates.
    outranking_kinds=(CredentialKind.MOBILE_APP,),
    superseding_kinds=(CredentialKind.MOBILE_APP, CredentialKind.RFID_CARD, CredentialKind.NFC_TAG),
    setting_names=(
        "mode",
        "base_url",
        "timeout_s",
        "encode_timeout_s",
        "encoder",
        "common_doors",
        "property_id",
        "grant",
        "client_id",
        "user_pool_id",
        "token_url",
        "issue_polls",
        "time_zone",
        "date_header",
        "date_line",
        "has_online_cards",
        "door_types",
        "site_certificate",
    ),
    secret_names=(
        "client_secret",
        "client_secret_next",
        "username",
        "password",
        "webhook_secret",
        "webhook_secret_next",
    ),
    secret_rules={"username": SecretRule(every_days=None, is_secret=False)},
    simulator="vendors.assa_abloy.simulator",
    simulated="vendors.assa_abloy.simulated:open_control",
)
