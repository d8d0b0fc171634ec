"""Memory: the ways around a copy give what a plain read gives; spans of it, put together."""

from __future__ import annotations

import tempfile
from typing import Optional

from arenascope.base.errors import MemoryReadError
from arenascope.sources.memory import Memory
from arenascope.sources.target import View, joined


def test_nodes_of_a_window_are_those_that_a_read_gives() -> None:
    """A free chunk's size and links, without a copy: at the edges of what is mapped and of the megabytes kept, too."""
    base, size = 0x7F0000100000 - 4096, 3 << 20
    data = bytes(range(256)) * (size // 256)

    def read(address: int, count: int) -> bytes:
        if not base <= address <= address + count <= base + size:
            raise MemoryReadError(address, count)
        return data[address - base : address - base + count]

    def window(address: int) -> Optional[View]:
        return View(memoryview(data), base, base + size) if base <= address < base + size else None

    with tempfile.TemporaryFile() as file:
        file.write(b"in front" + data)
        file.flush()

        def in_file(address: int) -> Optional[View]:
            view = window(address)
            return view and view._replace(file=file.fileno(), offset=8)

        _same_nodes(base, size, Memory(read, 8, "little"), Memory(read, 8, "little", None, window))
        large = Memory(read, 8, "little", None, in_file)
        _same_nodes(base, size, Memory(read, 8, "little"), large)
        # a file that is cut meanwhile
        file.truncate(size // 2)
        _same_nodes(base, size, Memory(read, 8, "little"), large)


def _same_nodes(base: int, size: int, plain: Memory, fast: Memory) -> None:
    # whoever holds a reader goes on with it, though for a large file another takes its place
    held = fast.node
    edges = [base, *(base + 4096 + (n << 20) for n in range(3)), base + size]
    for place in [edge + step for edge in edges for step in range(-64, 64, 8)]:
        results = []
        for node in (plain.node, fast.node, held, fast.node):
            try:
                results.append(node(place))
            except MemoryReadError:
                results.append(None)
        assert results == 4 * results[:1], hex(place)


def test_spans_that_touch_or_overlap_become_one() -> None:
    """Also where one lies within another, or stands there twice."""
    spans = [(40, 60), (0, 10), (45, 50), (10, 12), (70, 80), (11, 20), (70, 80)]
    covered = {address for start, end in spans for address in range(start, end)}
    apart = joined(sorted(spans))
    assert [(each.start, each.end) for each in apart] == [(0, 20), (40, 60), (70, 80)]
    assert {address for each in apart for address in range(each.start, each.end)} == covered
    assert joined([]) == []
