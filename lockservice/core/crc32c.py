"""CRC-32C (Castagnoli), with which Google's services check that a request or an answer arrived whole.

One rule: pure and table-driven, for secrets and keys of a few kilobytes. Source: RFC 3720 appendix B.4; polynomial 0x1EDC6F41,
here reflected; the check value of the ASCII digits 1 to 9 is 0xE3069283.
"""

from __future__ import annotations

from typing import Final

_POLYNOMIAL: Final = 0x82F63B78


def crc32c(content: bytes) -> int:
    """Returns the checksum, 0 to 2**32 - 1."""
    rest = 0xFFFFFFFF
    for byte in content:
        rest = _TABLE[(rest ^ byte) & 0xFF] ^ (rest >> 8)
    return rest ^ 0xFFFFFFFF


def _entry(index: int) -> int:
    for _ in range(8):
        index = (index >> 1) ^ (_POLYNOMIAL if index & 1 else 0)
    return index


_TABLE: Final = tuple(_entry(index) for index in range(256))
