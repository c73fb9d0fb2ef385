"""What telephone numbers are read as, and which are none."""

from __future__ import annotations

import pytest

from credentials import phones
from credentials.policy import KeyKindPolicy

KABUL = "+93700123456"


@pytest.mark.parametrize(
    ("written", "country", "read"),
    [
        ("+93700123456", "AF", KABUL),
        ("+93 (0) 700 123-456", "", KABUL),
        ("tel:+93-700-123-456", "", KABUL),
        ("\u200e+93 700\u200f 123 456\u202c", "", KABUL),  # marks of direction
        ("0700123456", "AF", KABUL),
        ("  0700.123.456 ", "AF", KABUL),
        ("700123456", "AF", KABUL),
        ("93700123456", "AF", KABUL),
        ("0093 700 123 456", "AF", KABUL),
        ("0093 700 123 456", "", KABUL),
        ("0093 700 123 456", "US", KABUL),  # where abroad is dialled by 011
        ("\u0660\u0667\u0660\u0660\u0661\u0662\u0663\u0664\u0665\u0666", "AF", KABUL),  # Arabic-Indic digits
        ("\u06f0\u06f7\u06f0\u06f0 \u06f1\u06f2\u06f3 \u06f4\u06f5\u06f6", "AF", KABUL),  # Persian digits
        ("\u0660\u0660\u0669\u0663700123456", "US", KABUL),
        ("+351 912 345 678", "AF", "+351912345678"),
        ("912345678", "PT", "+351912345678"),
    ],
)
def test_a_number_is_read_as_people_write_it(written: str, country: str, read: str) -> None:
    assert phones.as_e164(written, country) == read


@pytest.mark.parametrize(
    ("written", "country"),
    [
        (None, "AF"),
        ("", "AF"),
        ("12345", "AF"),
        ("+93", ""),
        ("0700123456", ""),  # of which country nobody knows
        ("0700123456", "PT"),
        ("020 123 4567", "AF"),  # a landline
        ("+44 20 7946 0958", ""),
        ("0700123456 ext. 12", "AF"),  # behind a switchboard
        ("0700123456 / 0799123456", "AF"),
        ("call me", "AF"),
        ("1-800-FLOWERS", "US"),
        ("+999000000001", "AF"),
        ("+93700123456" * 4, "AF"),
    ],
)
def test_what_reaches_no_mobile_phone_is_no_number(written: str | None, country: str) -> None:
    assert phones.as_e164(written, country) is None


def test_a_time_zone_tells_its_country_where_it_has_one() -> None:
    zones = ("Asia/Kabul", "Asia/Dushanbe", "Asia/Tokyo", "Europe/Berlin", "UTC", "Etc/GMT+3", "Nowhere/Land")
    assert [phones.country_of(zone) for zone in zones] == ["AF", "TJ", "JP", "DE", "", "", ""]


@pytest.mark.parametrize("country", ["af", "XX", "AFG", "93"])
def test_a_policy_names_a_country_by_its_two_letters(country: str) -> None:
    assert KeyKindPolicy.from_values({"phone_country": "AF"}).phone_country == "AF"
    with pytest.raises(ValueError, match="two letters"):
        KeyKindPolicy.from_values({"phone_country": country})
