"""How much of x86-64's vector registers a signal frame may have. What a thread that was made to call goes through:
images/test_calling.py."""

from __future__ import annotations

import struct

import pytest

from arenascope.sources.live import injection_x86_64 as injection


@pytest.mark.parametrize(
    ("size", "features", "in_use", "bytes_used"),
    [
        (2696, 0x2E7, 7, 2696),
        (832, 7, 7, 832),
        (11008, 0x602E7, 7, 2816),
        (11008, 0x602E7, 0x40007, None),
        (512, 7, 7, None),
    ],
)
def test_how_much_of_the_vectors_a_signal_frame_may_have(size, features, in_use, bytes_used):
    data = bytearray(b"\x77" * max(size, 520))
    struct.pack_into("<Q", data, injection.SW_NOTES, features)
    struct.pack_into("<Q", data, 512, in_use)
    assert injection.usable(bytes(data[:size])) == bytes_used
