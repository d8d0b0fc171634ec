"""Pointers to insides that are meant: by what stands in front of them, and nothing that only looks like it."""

from __future__ import annotations

from struct import pack
from typing import Optional

import pytest
from heap_places import APP
from heapbuilder import HeapImage

from arenascope.base.errors import MemoryReadError
from arenascope.blocks.graph.blocks import live_blocks
from arenascope.blocks.graph.edges import build
from arenascope.blocks.graph.leaks import DEFINITE, POSSIBLE, UNMARKED, Reach
from arenascope.blocks.graph.pointer_strength import hands_out_pieces, is_by_design
from arenascope.blocks.graph.refs import ImageSearch
from arenascope.blocks.graph.roots import find_roots
from arenascope.session.session import Session
from arenascope.sources.memory import Memory

AT = 0x5500_0000_1000
"""A page's start."""


def sds(past: int, kind: int, text: bytes, room: Optional[int] = None) -> bytes:
    form = {3: "B", 5: "H", 9: "I", 17: "Q"}[past]
    room = len(text) if room is None else room
    return pack(f"<{form}{form}B", len(text), room, kind) + text + bytes(room - len(text) + 1)


def zend(entries: int, places: Optional[list[int]] = None) -> bytes:
    places = [0xFFFFFFFF, 0] * entries if places is None else places
    return pack(f"<{2 * entries}I", *places) + bytes(32 * entries)


def table(size: int, control: bytes) -> bytes:
    again = control[:16] if len(control) >= 16 else b"\xff" * (16 - len(control)) + control
    return b"x" * (size * len(control)) + control + again


def lua_state(common: int, kind: int = 8) -> bytes:
    return pack("<3QQ2Q", 0, 0, kind, AT + 64, common, 0).ljust(216, b"\0")


CONTROL = bytes([0x80, *range(15), *[0xFF] * 16])
SIZED = pack("<Q", 100) + bytes(100)
TWO_WORDS = pack("<QQ", 0, 100) + bytes(100)
PACKED = b"\xff" * 8 + bytes(16 * 8)
MEANT = {
    "size in front": (SIZED, 8),
    "size in front of the second word": (TWO_WORDS, 16),
    "the whole size in front": (pack("<QQ", 328, 0) + bytes(312), 16),
    "sds of a byte": (sds(3, 1, b"hello", 40), 3),
    "sds of two": (sds(5, 2, b"h" * 300), 5),
    "sds of four": (sds(9, 3, b"h" * 3000), 9),
    "sds of eight": (sds(17, 4, b"hello", 3000), 17),
    "the shortest sds": (bytes([5 << 3]) + b"hello" + bytes(1), 1),
    "PHP's array": (zend(8), 64),
    "PHP's array without keys": (PACKED, 8),
    "a hash table": (table(24, CONTROL), 24 * 32),
    "a small hash table": (table(16, b"\xff\x01\xff\xff"), 64),
    "aligned by hand, the start in front": (bytes(40) + pack("<Q", AT) + bytes(200), 48),
    "a header behind a buffer, the start first": (bytes(200) + pack("<4Q", AT, 1, 2, 3), 200),
    "a header behind a buffer, the start second": (bytes(200) + pack("<4Q", 1, AT, 2, 3), 200),
    "the main thread of Lua": (lua_state(AT + 216) + bytes(1000), 8),
    "a line of the cache, the start further behind": (bytes(64 + 40) + pack("<Q", AT) + bytes(200), 64),
}
CHANCE = {
    "a size that is another": (pack("<Q", 40) + bytes(100), 8),
    "a whole size that is another": (pack("<QQ", 240, 0) + bytes(300), 16),
    "a text of another type": (sds(3, 2, b"hello", 40), 3),
    "a text longer than its room": (pack("<BBB", 41, 40, 1) + bytes(41), 3),
    "a text without its end": (sds(3, 1, b"hello", 40)[:8] + b"x" * 36, 3),
    "half a block": (sds(3, 1, b"hello", 40) + bytes(60), 3),
    "an array with a place beyond it": (zend(8, [8] * 16), 64),
    "an array of twelve": (zend(12), 96),
    "zeros": (bytes(24 * 32 + 48), 24 * 32),
    "a table that is not repeated": (table(24, CONTROL)[:-1] + b"\x01", 24 * 32),
    "another place of it": (table(24, CONTROL), 24 * 32 + 16),
    "a place two words behind where the start is kept": (bytes(40) + pack("<Q", AT) + bytes(200), 56),
    "no type of Lua's": (lua_state(AT + 216, kind=5) + bytes(1000), 8),
    "a state of no other's": (lua_state(AT + 4096), 8),
    "no line of the cache, the start further behind": (bytes(80 + 40) + pack("<Q", AT) + bytes(200), 80),
    "beside another's start": (bytes(40) + pack("<Q", AT + 16) + bytes(200), 48),
}


def op_slab(first: int, words: int) -> bytes:
    return pack("<4Q4H", 0, first, 0, 0, 0, words, 0, 0) + bytes(8 * words)


def slab(after: int, before: int) -> bytes:
    return bytes(1024 - 48) + pack("<2Q2Q", 0, 3, after, before)


INFO = AT + 1024 - 48
POOLS = {
    "perl's ops": op_slab(AT, 64),
    "a pool that knows its end": pack("<2Q", AT + 100, AT + 512) + bytes(496),
    "an obstack's chunk": pack("<2Q", AT + 4064, 0) + bytes(4048),
    "glib's slab": slab(INFO, INFO),
}
NO_POOLS = {
    "ops of another size": op_slab(AT, 70)[:-64],
    "ops without a first slab": op_slab(0, 64),
    "its middle": pack("<2Q", AT + 100, AT + 300) + bytes(496),
    "a small block": pack("<2Q", AT + 16, AT + 24) + bytes(8),
    "its end, far inside": bytes(64) + pack("<Q", AT + 512) + bytes(440),
    "a ring of others": slab(INFO, INFO - 16),
    "half a page": slab(INFO, INFO)[1000:],
}


def memory_of(data: bytes) -> tuple[Memory, int]:
    """And how much of the block can be used, as malloc rounds it up."""
    block = data + bytes(-(len(data) + 8) % 16)

    def read(address: int, size: int) -> bytes:
        if not AT <= address <= address + size <= AT + len(block):
            raise MemoryReadError(address, size)
        return block[address - AT : address - AT + size]

    return Memory(read, 8, "little"), len(block)


def asked(data: bytes, past: int) -> bool:
    memory, usable = memory_of(data)
    return is_by_design(memory, AT, usable, past)


@pytest.mark.parametrize("name", MEANT)
def test_what_is_meant(name: str) -> None:
    data, past = MEANT[name]
    assert asked(data, past)
    assert not any(asked(data, other) for other in range(1, len(data), 7) if other != past)


@pytest.mark.parametrize("name", CHANCE)
def test_what_is_chance(name: str) -> None:
    assert not asked(*CHANCE[name])


@pytest.mark.parametrize("name", [*POOLS, *NO_POOLS])
def test_a_pool_is_told_by_its_header(name: str) -> None:
    memory, usable = memory_of({**POOLS, **NO_POOLS}[name])
    assert hands_out_pieces(memory, AT, usable) == (name in POOLS)


@pytest.mark.parametrize("broken", [None, 0, 1, 30, 49])
def test_a_list_amid_structs_is_sure_as_far_as_its_links_lead_back(broken: Optional[int]) -> None:
    """`broken`: a node that does not."""
    image = HeapImage("2.36-64")
    head = next(each.start for each in image.fixed if each.path == APP and each.present)
    nodes = [image.row.user(image.main.used(image.row.request2size(48)).address) for _ in range(50)]
    lost = image.row.user(image.main.used(image.row.request2size(48)).address)
    links = [head, *(each + 16 for each in nodes)]
    target = image.target()
    for address in (head, *nodes, lost):
        for at in range(0, 48, 8):
            image.space.put(address + at, 0, 8)
    for here, after in zip(links, links[1:]):
        image.space.put(here, after, 8)
        if broken is None or after != links[broken + 1]:
            image.space.put(after + 8, here, 8)
    session = Session(target)
    blocks = live_blocks(session)
    search = ImageSearch(session, blocks, find_roots(session, blocks))
    marks = Reach(search, build(search)).marks
    sure = len(nodes) if broken is None else broken
    assert [marks[blocks.find(each)] for each in nodes] == [DEFINITE] * sure + [POSSIBLE] * (len(nodes) - sure)
    assert marks[blocks.find(lost)] == UNMARKED
