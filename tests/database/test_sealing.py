"""A sealed value opens only at the place it was sealed for."""

from __future__ import annotations

import pytest

from lockservice.core import crypto
from lockservice.core.crypto import SealBroken

PLACE = ("credentials_artifact", "tk_1", "value_sealed")


def test_what_was_sealed_opens_at_its_place_and_never_looks_the_same() -> None:
    first, second = (crypto.seal("artifact", "tnt_a", PLACE, "482913") for _ in range(2))
    assert first != second
    assert b"482913" not in first
    assert crypto.unseal("artifact", "tnt_a", PLACE, first) == "482913"


@pytest.mark.parametrize(
    ("purpose", "tenant", "place"),
    [
        ("vendor-ref", "tnt_a", PLACE),
        ("artifact", "tnt_b", PLACE),
        ("artifact", "tnt_a", ("credentials_artifact", "tk_2", "value_sealed")),
        ("artifact", "tnt_a", ("credentials_artifact", "tk_1", "other")),
    ],
)
def test_a_ciphertext_moved_elsewhere_does_not_open(purpose: str, tenant: str, place: tuple[str, str, str]) -> None:
    sealed = crypto.seal("artifact", "tnt_a", PLACE, "482913")
    with pytest.raises(SealBroken):
        crypto.unseal(purpose, tenant, place, sealed)


def test_any_changed_byte_breaks_the_seal() -> None:
    sealed = crypto.seal("artifact", "tnt_a", PLACE, "482913")
    for position in range(len(sealed)):
        changed = bytearray(sealed)
        changed[position] ^= 1
        with pytest.raises(SealBroken):
            crypto.unseal("artifact", "tnt_a", PLACE, bytes(changed))


def test_a_blind_index_is_equal_within_a_tenant_and_differs_between_tenants() -> None:
    assert crypto.blind_index("artifact", "tnt_a", "482913") == crypto.blind_index("artifact", "tnt_a", "482913")
    assert crypto.blind_index("artifact", "tnt_a", "482913") != crypto.blind_index("artifact", "tnt_b", "482913")


def test_an_unknown_purpose_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown sealing purpose"):
        crypto.seal("gossip", "tnt_a", PLACE, "x")
