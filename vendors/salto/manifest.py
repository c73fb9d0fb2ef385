"""What the registry knows of SALTO."""

from __future__ import annotations

from vendors.port.manifest import CardsBy, LaneRule, SecretRule, VendorManifest
from vendors.port.types import CredentialKind, LockCapabilities

from .manifest_code import CODE

MANIFEST = VendorManifest(
    code=CODE,
    display_name="SALTO",
    adapter="vendors.salto.adapter:build",
    kinds=(CredentialKind.RFID_CARD, CredentialKind.MOBILE_APP, CredentialKind.PIN_CODE),
    capabilities=LockCapabilities(
        mobile_key=True,
        card_encoding=True,
        pin=True,
        remote_revoke=True,
        remote_issue=True,
        scope_areas=True,
    ),
    aliases=("salto-svn", "salto-space", "xs4"),
    # The property's server serves one PMS connection, and answers carry no number: they match by order.
    lane=LaneRule.INSTALLATION,
    lane_width=1,
    # A person lays the card on the encoder.
    desk_kinds=(CredentialKind.RFID_CARD,),
    cards_by=CardsBy.ENCODER,
    spanning_kinds=(CredentialKind.RFID_CARD, CredentialKind.MOBILE_APP),
    # Doors go by the order in which stays were begun on the list, not by their dates.
    outranking_kinds=(CredentialKind.MOBILE_APP,),
    superseding_kinds=(CredentialKind.RFID_CARD, CredentialKind.MOBILE_APP),
    setting_names=(
        "transport",
        "base_url",
        "property_ref",
        "connector_url",
        "connector_ca",
        "pms_address",
        "encoder",
        "encoder_device_id",
        "time_zone",
        "timeout_s",
        "encoder_timeout_s",
        "cancellable_keys",
        "deny_list_places",
        "log_dates",
    ),
    secret_names=(
        "api_key",
        "api_key_next",
        "connector_cert",
        "connector_key",
        "webhook_secret",
        "webhook_secret_next",
    ),
    # A certificate is due before it ends; a new one has a new key.
    secret_rules={
        "connector_cert": SecretRule(every_days=365, is_secret=False, with_name="connector_key"),
        "connector_key": SecretRule(every_days=365, with_name="connector_cert"),
    },
    simulator="vendors.salto.simulator",
    simulated="vendors.salto.simulated:open_control",
)
