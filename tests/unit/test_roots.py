"""Which mappings are whose variables, and what of a stack is nobody's."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any, Callable, Sequence

import pytest

from arenascope.base.errors import MemoryReadError
from arenascope.blocks.graph import roots
from arenascope.blocks.graph.roots import _candidates, _constant_files
from arenascope.sources.elf.modules import bss_ends
from arenascope.sources.target import Region, ThreadInfo

PAGE = 0x1000


PROGRAM = "/usr/sbin/mariadbd"


def region(number: int, flags: str, path: str = "", pages: int = 1) -> Region:
    start = 0x555500000000 + number * PAGE
    return Region(
        start, start + pages * PAGE, "r" in flags, "w" in flags, "x" in flags, path=path, offset=number * PAGE
    )


def unreadable(address: int, size: int) -> bytes:
    raise MemoryReadError(address, size)


def header(memory: int) -> Callable[[int, int], bytes]:
    """Of a file whose one segment takes so many bytes."""
    elf = b"\x7fELF\2\1\1".ljust(16, b"\0") + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    image = elf + struct.pack("<IIQQQQQQ", 1, 6, 0, 0, 0, 0x1800, memory, PAGE)
    start = region(0, "r").start
    return lambda address, size: image[address - start :][:size].ljust(size, b"\0")


@pytest.mark.parametrize(
    ("protected", "kind"),
    [
        (("rw", PROGRAM), "global"),
        # the end of .data, protected by the program
        (("r", PROGRAM), "global"),
        # somebody else's file that lies there
        (("r", "/usr/share/words"), "mapping"),
        (("", ""), "mapping"),
    ],
)
def test_bss_is_a_programs_variables(protected: tuple[str, str], kind: str) -> None:
    """Also where its headers cannot be read."""
    regions = [region(0, "rx", PROGRAM), region(1, "rw", PROGRAM), region(2, *protected), region(3, "rw")]
    assert dict(_candidates(regions, bss_ends(unreadable, PAGE, regions)))[regions[3]] == kind


@pytest.mark.parametrize(("end", "variables"), [(0x2000, 0), (0x2001, 1), (0x5000, 3), (0x6000, 4), (0x7000, 4)])
def test_what_lies_behind_bss_is_no_variable(end: int, variables: int) -> None:
    regions = [region(0, "rx", PROGRAM), region(1, "rw", PROGRAM), region(2, "rw", pages=4)]
    found = [(each.start, each.size // PAGE, kind) for each, kind in _candidates(regions, ends(end, regions))]
    start = regions[2].start
    after = (start + variables * PAGE, 4 - variables, "mapping")
    assert found[1:] == [each for each in ((start, variables, "global"), after) if each[1]]


def test_memory_shared_by_many_is_not_read() -> None:
    """No file's variables lie behind it, and a page that was read would be the process's from then on."""
    shared = region(0, "rw", "/dev/zero (deleted)")._replace(shared=True)
    assert bss_ends(unexpected, PAGE, [shared, region(1, "rw")]) == {}


def unexpected(address: int, size: int) -> bytes:
    raise AssertionError(f"{address:#x} was read")


def test_who_follows_is_not_protected() -> None:
    """Another library's first mapping, right behind variables."""
    other = region(3, "r", "/usr/lib/libz.so.1")
    regions = [region(0, "rx", PROGRAM), region(1, "rw", PROGRAM), region(2, "rw"), other, region(4, "rx", other.path)]
    again = [*regions[:2], region(2, "r", PROGRAM)._replace(offset=0), region(3, "rx", PROGRAM)._replace(offset=PAGE)]
    assert [each for each, _ in _candidates(regions, ends(0x3000, regions))] == regions[1:3]
    assert [each for each, _ in _candidates(again, ends(0x2000, again))] == again[1:2]


def ends(end: int, regions: list[Region]) -> dict[int, int]:
    return bss_ends(header(end), PAGE, regions)


DATA = region(1, "r", PROGRAM)


@pytest.mark.parametrize(
    "regions",
    [
        [DATA, region(2, "rw", PROGRAM)],
        [region(1, "rw", PROGRAM), region(2, "r", PROGRAM)],
        [DATA, region(2, "rw")],
    ],
    ids=["relro", "the end of .data", "all in front of .bss"],
)
def test_variables_that_a_program_protected(regions: list[Region]) -> None:
    regions = [region(0, "rx", PROGRAM), *regions]
    assert [kind for _, kind in _candidates(regions, ends(0x3000, regions))] == ["global", "global"]


OUT, ALL = False, True


@pytest.mark.parametrize(
    ("below", "counts"),
    [
        ([region(1, "")], OUT),
        # another thread's stack, whose guard may lie above nothing
        ([region(0, "rw"), region(1, "")], OUT),
        ([region(-1, "rx", "/lib/x.so"), region(0, "rw"), region(1, "")], OUT),
        # what the kernel joined with a stack, or a stack in what the program mapped
        ([], ALL),
        ([region(0, "")], ALL),
        ([region(1, "r")], ALL),
        # a stack in .bss, also one with a guard
        ([region(1, "rw", "/bin/x")], ALL),
        ([region(-1, "rw", "/bin/x"), region(0, "rw"), region(1, "")], ALL),
    ],
)
def test_below_a_stack_pointer(monkeypatch: pytest.MonkeyPatch, below: Sequence[Region], counts: bool) -> None:
    """Where libc does not tell of stacks: before 2.34, in static programs."""
    monkeypatch.setattr(roots, "used_stacks", lambda *_: None)
    here = region(2, "rw")._replace(end=region(2, "rw").start + 16 * PAGE)
    session: Any = SimpleNamespace(
        target=SimpleNamespace(machine="x86_64", pid=1, page_size=PAGE, pointer_size=8, byte_order="little"),
        regions=[*below, here],
        memory=SimpleNamespace(pointer_size=8, byte_order="little", try_words=lambda start, count: None),
        located=SimpleNamespace(libc=None),
    )
    thread = ThreadInfo(2, stack_pointer=here.start + 9 * PAGE, thread_pointer=here.end - PAGE)
    dead = [each for each in roots.StackWords(session, [thread], {}, session.memory).marks() if each.kind is None]
    assert bool(dead) == (not counts)
    assert all((each.start, each.end) == (here.start, here.start + 9 * PAGE - 128) for each in dead)


@pytest.mark.parametrize(
    ("path", "root"),
    [
        ("/dev/shm/cache", True),
        ("/memfd:cache", True),
        ("/SYSV00000000", True),
        ("[anon_shmem:cache]", True),
        ("/anon_hugepage", True),
        # a count, and nothing that leads anywhere
        ("/dev/shm/sem.lock", False),
        ("/var/cache/file", False),
    ],
)
def test_shared_memory_is_no_file(path: str, root: bool) -> None:
    shared = region(0, "rw", path)._replace(shared=True)
    assert shared.is_shared_memory == root
    assert [kind for _, kind in _candidates([shared], {})] == ["mapping"] * root


DATA_FILE = "/var/cache/data"


@pytest.mark.parametrize(
    ("regions", "asked"),
    [
        ([region(0, "r", DATA_FILE)], [0]),
        # others' variables behind it
        ([region(0, "r", DATA_FILE), region(1, "rw", PROGRAM)], [0]),
        # a program's constants, RELRO and code
        ([region(0, "r", PROGRAM), region(1, "rx", PROGRAM), region(2, "r", PROGRAM), region(3, "rw", PROGRAM)], []),
        # what can be written to, or is protected beside that, is a root as it is
        ([region(0, "r", DATA_FILE), region(1, "rw", DATA_FILE)], []),
        # what is shared with the file, what nobody can read, what is no file's
        ([region(0, "r", DATA_FILE)._replace(shared=True), region(1, "", DATA_FILE), region(2, "r")], []),
    ],
)
def test_files_that_may_have_been_changed(regions: list[Region], asked: list[int]) -> None:
    assert list(_constant_files(regions, {})) == [regions[at] for at in asked]
