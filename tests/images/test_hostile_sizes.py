"""Sizes and counts that a file or a stack only claims: no more time and memory than its bytes warrant (forked.py)."""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Callable, Iterator

import pytest
from forked import Run, run_all
from looks import ROOT
from subjects import Subject
from test_hostile_files import EHDR, PHDR, appended, load, patch, refused

from arenascope.base.errors import ArenascopeError, MemoryReadError, TargetError
from arenascope.glibc.find.main_arena import _written
from arenascope.sources.core.core_image import CoreImage
from arenascope.sources.core.save_image import _was_saved, note_bytes
from arenascope.sources.elf.address_names import _names
from arenascope.sources.elf.elf_file import (
    AT_RANDOM,
    ENTRIES_LIMIT,
    MAGIC,
    MAX_SECTIONS,
    MAX_SEGMENTS,
    NT_PRSTATUS,
    PT_NOTE,
    SHT_SYMTAB,
    Elf,
    ElfFile,
    Note,
    buffer_reader,
    find_symbols,
    glibc_version,
)
from arenascope.sources.elf.environment_variables import from_stack
from arenascope.sources.elf.modules import Module, Modules
from arenascope.sources.live.process import _can_read
from arenascope.sources.shell_target import ShellTarget
from arenascope.sources.target import Region

pytestmark = pytest.mark.xdist_group("hostile sizes")

PAGE = 4096
STACK = 0x7FFF00000000
HELD = ROOT / "fixtures" / "build" / "fastbins"
SECTION = 64
MOST = 200 << 20


@pytest.fixture(scope="module")
def core() -> Iterator[Path]:
    with Subject("fastbins") as subject:
        yield subject.kernel_core()


def bounded(act: Callable[[], None]) -> None:
    (ended,) = run_all(lambda _: Run("it", act), 1)
    assert not ended.wrong


def test_more_program_headers_than_any_process_has(core: Path, tmp_path: Path) -> None:
    """PN_XNUM: section header 0 has their number, and behind the file's end is a hole."""
    path = Path(shutil.copy(core, tmp_path / "copy"))
    size = path.stat().st_size
    os.truncate(path, 1 << 40)
    patch(path, size, bytes(44) + struct.pack("<I", 1 << 31))
    patch(path, 40, struct.pack("<Q", size))
    patch(path, 56, struct.pack("<4H", 0xFFFF, SECTION, 0, 0))
    bounded(lambda: str(refused(path)))


@pytest.mark.full
def test_program_headers_that_are_a_hole(core: Path, tmp_path: Path) -> None:
    """As many as a core may have, none of them written."""
    path = Path(shutil.copy(core, tmp_path / "copy"))
    size = path.stat().st_size
    os.truncate(path, 1 << 30)
    patch(path, size, bytes(44) + struct.pack("<I", MAX_SEGMENTS))
    patch(path, 32, struct.pack("<2Q", size + SECTION, size))
    patch(path, 56, struct.pack("<4H", 0xFFFF, SECTION, 0, 0))
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        elf = Elf(buffer_reader(data, "it"))
        assert peak_of(lambda: elf.segments) < MOST
    assert elf.segments == []


def test_a_note_of_gigabytes(core: Path, tmp_path: Path) -> None:
    """Of a thread's registers, in a hole."""
    with CoreImage(str(core)) as image:
        index = next(index for index, each in enumerate(image.elf.segments) if each.type == PT_NOTE)
    path = Path(shutil.copy(core, tmp_path / "copy"))
    end, size = path.stat().st_size, 3 << 30
    first = bytearray(note_bytes([Note("CORE", NT_PRSTATUS, bytes(16))], "<"))
    struct.pack_into("<I", first, 4, size)
    os.truncate(path, 1 << 40)
    patch(path, end, first)
    patch(path, EHDR + index * PHDR + 8, struct.pack("<Q", end))
    patch(path, EHDR + index * PHDR + 32, struct.pack("<Q", size + (1 << 20)))

    def act() -> None:
        with CoreImage(str(path)) as image:
            assert image.threads() == []

    bounded(act)


class Stack:
    """Memory that reads as zeros, but for a vector, pointers below it and one string above."""

    def __init__(self, auxv: bytes, pointers: int) -> None:
        string = b"A=" + b"x" * (100 << 10) + b"\0"
        self.string = STACK + PAGE * 16
        self.data = struct.pack("<Q", self.string) * pointers + bytes(8) + auxv
        self.start = STACK - len(self.data)
        self.parts = ((self.start, self.data), (self.string, string))
        self.bytes = 0

    def read(self, address: int, size: int) -> bytes:
        if address < self.start - 64 * PAGE:
            raise MemoryReadError(address, size)
        self.bytes += size
        found = bytearray(size)
        for start, data in self.parts:
            low, high = max(start, address), min(start + len(data), address + size)
            if low < high:
                found[low - address : high - address] = data[low - start : high - start]
        return bytes(found)


def test_an_environment_of_one_string_again_and_again() -> None:
    auxv = {AT_RANDOM: STACK + PAGE}
    data = struct.pack("<4Q", AT_RANDOM, STACK + PAGE, 0, 0)
    stack = Stack(data, 700_000)
    assert from_stack(stack.read, auxv, data, 8, "<") == {"A": "x" * (100 << 10)}
    assert stack.bytes < 32 << 20


def test_a_vector_that_begins_everywhere() -> None:
    """Its own pair fills the stack, and what follows never fits."""
    auxv = {AT_RANDOM: STACK, 3: 1}
    pair = struct.pack("<2Q", AT_RANDOM, STACK)
    # the note ends in as many pairs as it has bytes for, which nobody compares
    note = pair + struct.pack("<2Q", 3, 1) + bytes(16)
    stack = Stack(pair * 300_000, 0)
    assert from_stack(stack.read, auxv, note, 8, "<") is None
    assert stack.bytes < 8 << 20


def longer_names(path: Path) -> Path:
    """All names of a program's table begin at the same one, of almost a page."""
    with ElfFile(str(path)) as file:
        at = next(index for index, each in enumerate(file.sections) if each.name == ".symtab")
        table, strings, headers, size = file.sections[at], file.sections[at].link, file._shoff, len(file.data)
    patch(path, size, b"A" * 4000 + b"\0")
    patch(path, headers + SECTION * strings + 24, struct.pack("<2Q", size, 4001))
    for entry in range(table.offset, table.offset + table.size, 24):
        patch(path, entry, bytes(4))
    return path


def test_names_that_are_longer_than_their_file(tmp_path: Path) -> None:
    path = Path(shutil.copy(HELD, tmp_path / "program"))
    with ElfFile(str(path)) as file:
        assert len(list(_names(file))) > 40
    with ElfFile(str(longer_names(path))) as file, pytest.raises(ArenascopeError):
        list(_names(file))


def test_a_name_without_end(tmp_path: Path) -> None:
    path = longer_names(Path(shutil.copy(HELD, tmp_path / "program")))
    patch(path, path.stat().st_size - 1, b"A" * 5000)
    with ElfFile(str(path)) as file:
        assert list(_names(file)) == []


HOLE = 1 << 40


def elf_of(path: Path, count: int, sections: list[bytes], strings: bytes) -> str:
    """A file of so many sections, of which these are the first but one; all that is not written is a hole."""
    header = bytearray(MAGIC + bytes([2, 1, 1]) + bytes(57))
    struct.pack_into("<HHI3QI6H", header, 16, 3, 62, 1, 0, 0, PAGE, 0, 64, 0, 0, SECTION, 0, 1)
    with open(path, "wb") as file:
        file.write(header)
        file.seek(PAGE)
        file.write(b"".join([section(0, 0, count), *sections]))
        file.seek(HOLE)
        file.write(strings)
        file.truncate(2 * HOLE)
    return str(path)


def section(kind: int, offset: int, size: int, link: int = 0, entry_size: int = 0) -> bytes:
    return struct.pack("<2I4Q2I2Q", 0, kind, 0, 0, offset, size, link, 0, 1, entry_size)


def peak_of(act: Callable[[], object]) -> int:
    """The most bytes that it holds at once."""
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [8192, HOLE])
@pytest.mark.parametrize("count", [4, MAX_SECTIONS, MAX_SECTIONS + 1])
def test_sections_of_long_names(count: int, size: int, tmp_path: Path) -> None:
    """One name of all of them, or a table of names that is a hole."""

    def act() -> None:
        with suppress(TargetError):
            file.build_id()

    with ElfFile(elf_of(tmp_path / "elf", count, [section(3, HOLE, size)], b"A" * 8192)) as file:
        bounded(act)
        assert peak_of(act) < MOST


@pytest.mark.parametrize(("entries", "names"), [(1 << 28, 4096), (100, HOLE), (ENTRIES_LIMIT, 4096)])
def test_a_table_of_symbols_that_is_a_hole(entries: int, names: int, tmp_path: Path) -> None:
    """All its entries begin at its strings' first byte, where no name is."""
    table = section(SHT_SYMTAB, PAGE * 16, entries * 24, link=1, entry_size=24)

    def act() -> None:
        assert find_symbols(file, ["main_arena"]) == {}

    with ElfFile(elf_of(tmp_path / "elf", 3, [section(3, HOLE, names), table], b"main_arena\0")) as file:
        bounded(act)
        assert peak_of(act) < MOST


def test_a_banner_that_is_nowhere(tmp_path: Path) -> None:
    with ElfFile(elf_of(tmp_path / "elf", 2, [section(3, HOLE, 16)], b"")) as file:
        bounded(lambda: str(glibc_version(file.data)))


def test_sections_that_claim_the_same_bytes(core: Path, tmp_path: Path) -> None:
    """Constants of 20,000 sections of one file, each of all its bytes."""
    path, count, end = tmp_path / "library.so", 20_000, 4 << 20
    header = bytearray(MAGIC + bytes([2, 1, 1]) + bytes(57))
    struct.pack_into("<HHI3QI6H", header, 16, 3, 62, 1, 0, 0, end + 16, 0, 64, 0, 0, SECTION, 0, 1)
    names = struct.pack("<2I4Q2I2Q", 8, 3, 0, 0, end, 16, 0, 0, 1, 0)
    constants = struct.pack("<2I4Q2I2Q", 0, 1, 2, 0, 0, end, 0, 0, 1, 0)
    first = struct.pack("<2I4Q2I2Q", 0, 0, 0, 0, 0, count, 0, 0, 0, 0)
    path.write_bytes(header + bytes(end - 64) + b".rodata\0.str\0\0\0\0" + first + names + constants * (count - 2))
    with CoreImage(str(core)) as image:
        modules = Modules(ShellTarget(image), [])
        module = Module((Region(0x10000, 0x11000, path=str(path)),))
        modules._files[module] = str(path)
        bounded(lambda: str(modules.strings(module, [b"a library's banner"])))


def test_data_of_a_library_that_is_a_hole(core: Path, tmp_path: Path) -> None:
    """Nothing is looked for where nothing was written."""
    start, size = 1 << 46, 1 << 40
    path = appended(core, tmp_path / "core", [load(start, 1 << 30, size)], (1 << 30) + size)
    with CoreImage(str(path)) as image:
        target = ShellTarget(image)
        regions = [each for each in target.regions() if each.start == start]
        assert len(regions) == 1
        assert list(_written(target, regions)) == []
        assert list(_written(target, target.regions())) != []


def test_a_fifo_in_place_of_a_file_that_was_mapped(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "library.so")
    assert not _can_read(str(tmp_path / "library.so"))
    # nor does `save` wait where its file should be
    bounded(lambda: str(_was_saved(str(tmp_path / "library.so"))))
    assert _can_read(str(HELD))
