"""What the registry knows of TTLock."""

from __future__ import annotations

from vendors.port.manifest import LaneRule, SecretRule, VendorManifest
from vendors.port.types import CredentialKind, LockCapabilities

MANIFEST = VendorManifest(
    code="ttlock",
    display_name="TTLock",
    adapter="vendors.ttlock.adapter:build",
    kinds=(CredentialKind.PIN_CODE, CredentialKind.MOBILE_APP, CredentialKind.RFID_CARD),
    capabilities=LockCapabilities(
        mobile_key=True,
        card_encoding=True,
        pin=True,
        remote_revoke=True,
        remote_issue=True,
    ),
    # A gateway carries one radio command at a time and answers -3003 to a second one.
    lane=LaneRule.GATEWAY,
    windows_by_door=True,
    calls_per_minute=100,
    calls_per_month=30_000,
    # The vendor's month begins in Beijing (fact sheet §6, confidence A).
    quota_utc_offset_h=8,
    # The lock learns a card's number; somebody has to lay the card on a reader first.
    desk_kinds=(CredentialKind.RFID_CARD,),
    setting_names=(
        "base_url",
        "client_id",
        "region",
        "grant",
        "timeout_s",
        "cloud_timeout_s",
        "reader_byte_order",
        "user_prefix",
    ),
    secret_names=(
        "client_secret",
        "client_secret_next",
        "username",
        "password_md5",
        "user_secret",
        "webhook_secret",
        "webhook_secret_next",
    ),
    secret_rules={"username": SecretRule(every_days=None, is_secret=False)},
    simulator="vendors.ttlock.simulator",
    simulated="vendors.ttlock.simulated:open_control",
    door_capacity={CredentialKind.PIN_CODE: 250, CredentialKind.RFID_CARD: 1000},
)
