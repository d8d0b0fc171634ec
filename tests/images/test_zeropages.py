"""Swap, by entries as the kernel defines them: a swap file is not for a test to switch on."""

from __future__ import annotations

import os
import struct

from arenascope.sources.live import zeropages

PAGE = os.sysconf("SC_PAGE_SIZE")


def test_swapped_pages(monkeypatch):
    monkeypatch.setattr(zeropages, "zero_frames", lambda page_size: frozenset({7}))
    zeros = zeropages.ZeroPages(0, PAGE, lambda start, end: iter(()))
    present, swapped, exclusive = 1 << 63, 1 << 62, 1 << 56
    entries = [0, present | exclusive | 5, swapped | 9, present | 7, present | 8, present | 1 << 55 | 7, 1 << 55]
    assert zeros.settle(0, struct.pack("7Q", *entries)) == bytes([0, 1, 2, 0, 1, 0, 0])
