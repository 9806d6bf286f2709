"""The checksum is a CRC-32 that can be continued and split."""

from __future__ import annotations

import zlib

from flarelog.checksum import extend, suffix_digest
from tests.rows import together


def test_a_digest_is_the_crc_of_the_whole_prefix() -> None:
    data = b"to one place, live and byte for byte"
    for at in range(len(data) + 1):
        assert extend(extend(0, data[:at]), memoryview(data)[at:]) == zlib.crc32(data)
    assert extend(0, b"") == 0


@together("length", [0, 1, 2, 7, 64, 1000, 65_537])
@together("before", [b"", b"x", b"a prefix of some length" * 99])
def test_the_digest_of_a_suffix_follows_from_those_around_it(before: bytes, length: int) -> None:
    suffix = bytes(n * 7 % 251 for n in range(length))
    prefix = extend(0, before)
    assert suffix_digest(prefix, extend(prefix, suffix), length) == extend(0, suffix)
