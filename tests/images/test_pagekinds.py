"""Swap, by entries as the kernel defines them: a swap file is not for a test to switch on."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct

import pytest

from arenascope.sources.live import pagemap

PAGE = os.sysconf("SC_PAGE_SIZE")


def test_swapped_pages(monkeypatch):
    monkeypatch.setattr(pagemap, "zero_frames", lambda page_size: frozenset({7}))
    kinds = pagemap.PageKinds(0, PAGE, lambda start, end: iter(()))
    present, swapped, exclusive = 1 << 63, 1 << 62, 1 << 56
    entries = [0, present | exclusive | 5, swapped | 9, present | 7, present | 8, present | 1 << 55 | 7, 1 << 55]
    assert kinds.settle(0, struct.pack("7Q", *entries)) == bytes([0, 1, 2, 0, 1, 0, 0])


PLACE, GUARD = 5 << 5, 1 << 58
GUARD_MARKER, TYPE_3 = 4 << 5 | 31, 3


def test_a_mark_of_the_kernels_is_no_swap():
    """By its type, the lowest 5 bits, where frames are shown; by bit 58 (Linux 6.15) for everybody."""
    kinds = pagemap.PageKinds(0, PAGE, lambda start, end: iter(()))
    swapped = 1 << 62
    entries = [swapped | PLACE | TYPE_3, swapped | GUARD_MARKER, swapped | GUARD, swapped | PLACE]
    assert kinds.settle(0, struct.pack("4Q", *entries)) == bytes([2, 0, 0, 2])
    assert kinds.exact


@pytest.mark.parametrize("hidden", [False, True])
def test_swap_whose_type_is_hidden(monkeypatch, hidden):
    """As smaps says of the mapping; nothing is asked where the kernel has no guards, or tells them."""
    monkeypatch.setattr(pagemap, "guards_hidden", lambda page_size: hidden)
    with mmap.mmap(-1, 4 * PAGE) as memory:
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        kinds = pagemap.PageKinds(os.getpid(), PAGE, lambda start, end: iter([(start, entries)]))
        entries = struct.pack("2Q", 1 << 62, 1 << 62)
        assert kinds.settle(start, entries) == bytes(2 * [0 if hidden else 2])
        assert kinds.exact
        assert kinds.settle(0, entries) == bytes(2 * [0 if hidden else 2])  # where smaps has no mapping
        assert kinds.exact is not hidden
