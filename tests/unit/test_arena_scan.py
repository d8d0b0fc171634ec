"""main_arena without symbols, and with symbols that lie."""

from __future__ import annotations

import random
import struct
from dataclasses import replace
from typing import Optional

import pytest
from fake_door import run_json, run_text
from fake_target import FakeTarget, Space
from heap_mixtures import everything
from heap_pictures import laid, seen
from heapbuilder import HeapImage, Row

from arenascope.base.errors import NotFoundError
from arenascope.glibc.arena import TOLERANCE, scan
from arenascope.present.shared_text.lines_and_tables import NO_HEAP
from arenascope.session.session import Session
from arenascope.sources.memory import Memory
from arenascope.sources.target import Region

some_rows = pytest.mark.parametrize("row", ["2.17-64", "2.23-arm", "2.31-i386", "2.36-64", "2.36-s390x", "2.43-64"])


def smallest_by_bin(row: Row) -> dict[int, int]:
    """The least chunk size of every bin that has one."""
    sizes: dict[int, int] = {}
    for size in range(row.minsize, 1 << 20, row.alignment):
        sizes.setdefault(row.bin_index(size), size)
    return sizes


def all_bins_filled(name: str) -> HeapImage:
    image = HeapImage(name)
    for size in smallest_by_bin(image.row).values():
        image.main.used(image.row.minsize)
        image.main.free(size, into="bin")
    image.main.free(0x500)
    return image


@some_rows
def test_bin_127_alone_is_enough(row: str) -> None:
    image = all_bins_filled(row)
    assert set(image.truth.main.bins) >= set(range(2, 127)) - {95}, "95 has no sizes where A is 16 on 32-bit"
    session = Session(image.target(symbols=False))
    assert session.located.located_by == "scan"
    assert seen(session) == laid(image)
    assert session.findings == []


@some_rows
def test_damaged_bins_are_tolerated_to_a_point(row: str) -> None:
    image = all_bins_filled(row)
    for index in list(image.truth.main.bins)[:TOLERANCE]:
        image.corrupt.dangle_bin(image.main, index)
    session = Session(image.target(symbols=False))
    assert session.located.main_arena == image.main.address
    _ = session.arenas
    assert {finding.arena for finding in session.findings} == {0}
    assert len(session.findings) == TOLERANCE
    image.corrupt.dangle_bin(image.main, 50)
    with pytest.raises(NotFoundError):
        _ = Session(image.target(symbols=False)).located


@pytest.mark.parametrize(("word", "order"), [(8, "little"), (4, "little"), (8, "big")])
def test_self_pointers_alone_are_no_arena(word: int, order: str) -> None:
    start, size = 0x7F0000000000 if word == 8 else 0xB0000000, (1 << 20) + (1 << 18)
    space, rng = Space(word, order), random.Random(word)
    for at in range(start, start + size, 2 * word):
        kind = rng.random()
        if kind < 0.3:
            space.put(at, start + rng.randrange(size // word) * word)
        elif kind < 0.4:
            # the head of an empty list, as bins are
            space.put(at, at - 2 * word)
            space.put(at + word, at - 2 * word)
        elif kind < 0.6:
            space.put(at, rng.getrandbits(8 * word))

    def read(address: int, count: int) -> bytes:
        return space.read(address, count)

    assert list(scan(Memory(read, word, order), start, start + size)) == []


def test_a_pair_that_straddles_two_blocks() -> None:
    """Bin 127's two words, wherever main_arena lies from the start of its mapping."""
    image = everything("2.36-64")
    target = image.target()
    memory = Memory(target.read, 8, "little")
    bins = image.main.address + image.row.state["bins"]
    pair = bins + 252 * 8
    for start in (pair, pair - 8, pair - (1 << 20), pair + 8 - (1 << 20), pair - (1 << 20) + 16):
        padded = Memory(lambda address, size: image.space.read(address, size), 8, "little")
        assert [hit.bins for hit in scan(padded, start, pair + 16) if hit.ring] == [bins]
    assert [hit for hit in scan(memory, pair + 8, pair + 64) if hit.ring] == []


# what is where main_arena should be


@pytest.mark.parametrize("row", ["2.17-64", "2.31-i386", "2.36-64", "2.41-arm"])
@pytest.mark.parametrize("symbols", [True, False])
def test_malloc_was_never_called(row: str, symbols: bool) -> None:
    image = HeapImage(row, heap=False)
    target = image.target(symbols=symbols)
    session = Session(target)
    assert session.located.main_arena == image.main.address
    assert session.located.located_by == ("symbols" if symbols else "scan")
    assert not session.started
    for command in ("arenas", "heaps", "bins", "threads", "mmapped", "trim"):
        assert NO_HEAP in run_text(target, command)
        assert run_json(target, command)["complete"] is True


def test_no_glibc_at_all() -> None:
    image = HeapImage("2.36-64")
    musl = [Region(0x7F0000000000, 0x7F0000010000, path="/lib/ld-musl-x86_64.so.1")]
    cases = [(musl, "musl"), ([], "mappings"), ([Region(0x400000, 0x410000, path="/usr/bin/app")], "no glibc")]
    for mappings, words in cases:
        target = replace(image.target(symbols=False), mappings=mappings)
        with pytest.raises(NotFoundError, match=words):
            _ = Session(target).located


def test_a_core_without_libcs_data() -> None:
    image = HeapImage("2.36-64")
    target = image.target(symbols=False)
    libc = {each.end for each in target.mappings if each.path.endswith("libc.so.6")}
    # its data, and bss after it
    without = [
        each._replace(present=False) if each.end in libc or each.start in libc else each for each in target.mappings
    ]
    with pytest.raises(NotFoundError):
        _ = Session(replace(target, mappings=without)).located


# symbols that lie


@some_rows
def test_a_symbol_that_leads_astray(row: str) -> None:
    image = everything(row)
    for wrong in (image.addresses["main_arena"] + 0x40, image.addresses["mp_"], image.nowhere):
        target = image.target()
        target = replace(target, symbols={**target.symbols, "main_arena": wrong})
        session = Session(target)
        assert session.located.located_by == "scan"
        assert any(f"{wrong:#x}" in note for note in session.located.notes)
        assert seen(session) == laid(image)


def with_build_id(target: FakeTarget, build_id: bytes, told: Optional[str]) -> FakeTarget:
    """The target with libc's ELF header in memory, and the build-id of the file that its symbols came from."""
    libc = next(region for region in target.mappings if region.path.endswith("libc.so.6"))
    note = struct.pack("<3I4s", 4, len(build_id), 3, b"GNU\0") + build_id
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHI3QI6H", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 64, 0, 0)
    segments = struct.pack("<2I6Q", 1, 4, 0, 0, 0, 0x1000, 0x1000, 0x1000)
    segments += struct.pack("<2I6Q", 4, 4, 0x200, 0x200, 0, len(note), len(note), 4)
    target.space.write(libc.start, header + segments)
    target.space.write(libc.start + 0x200, note)
    first = libc._replace(end=libc.start + 0x1000, present=True)
    rest = libc._replace(start=first.end, offset=0x1000)
    mappings = [*(region for region in target.mappings if region != libc), first, rest]
    return replace(target, mappings=mappings, symbol_build_id=told)


@pytest.mark.parametrize("row", ["2.36-64", "2.43-64"])
def test_symbols_of_another_libc(row: str) -> None:
    image = everything(row)
    inside = bytes(range(20))
    told = with_build_id(image.target(), inside, inside.hex())
    assert Session(told).located.located_by == "symbols"
    assert Session(told).located.libc.build_id == inside.hex()
    assert Session(told).located.notes == ()
    # the address is even right: it is not to be believed all the same
    session = Session(with_build_id(image.target(), inside, "ff" * 20))
    assert session.located.located_by == "scan"
    assert session.located.other_file
    said = session.other_files()
    assert said is not None
    assert "libc.so.6" in said.names["named"].split(", ")
    assert seen(session) == laid(image)


# two libcs


def beside(first: HeapImage, second: HeapImage, **view: bool) -> FakeTarget:
    """One process with both: the second's thread and files lie elsewhere, as dlmopen leaves them."""
    target, other = first.target(**view), second.target(**view)
    second_only = [region for region in other.mappings if region.path != "[stack]" and "/usr/bin" not in region.path]
    for page, data in second.space._pages.items():
        first.space._pages.setdefault(page, data)
    return replace(target, mappings=[*target.mappings, *second_only])


@some_rows
@pytest.mark.parametrize("symbols", [True, False])
def test_dlmopen_brings_a_second_libc(row: str, symbols: bool) -> None:
    program, inner = everything(row), HeapImage(row, seed=5, brk=False)
    inner.main.used(0x80000)
    for known in (program, inner):
        target = beside(program, inner, symbols=symbols)
        if symbols:
            # the debugger may know either copy's
            target = replace(target, symbols=dict(known.target().symbols))
        session = Session(target)
        assert session.located.main_arena == program.main.address
        assert session.located.others == (inner.main.address,)
        assert any(f"{inner.main.address:#x}" in note for note in session.located.notes)
        picture = seen(session)
        assert picture["arenas"] == laid(program)["arenas"]
        assert picture["params"] == program.truth.mp
        assert picture["threads"] == laid(program)["threads"]
