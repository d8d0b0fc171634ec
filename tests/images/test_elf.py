"""ELF reading, against readelf, nm, ctypes and the loader."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from looks import give_up, needs

from arenascope.base.errors import MemoryReadError, TargetError
from arenascope.sources.elf.address_names import AddressNames
from arenascope.sources.elf.elf_file import (
    Elf,
    ElfFile,
    dynamic_symbols,
    find_debug_file,
    find_symbols,
    glibc_version,
    module_build_id,
)
from arenascope.sources.target import Region, SymbolPlace

SOURCE = """
__thread int slot[3] = {1};
__thread int other;
int tail = 7, long_tail[2] = {8};
static volatile int hidden = 9;
int function(void) { return hidden + slot[0] + other; }
"""


def tool(*arguments: str) -> str:
    needs(arguments[0])
    return subprocess.run(arguments, capture_output=True, text=True, check=True).stdout


def nm(path: Path, *flags: str) -> dict[str, tuple[int, int]]:
    """name: (value, size)."""
    rows = re.findall(r"^([0-9a-f]+) ([0-9a-f]+) \w ([^\s@]+)", tool("nm", "-S", *flags, str(path)), re.MULTILINE)
    return {name: (int(value, 16), int(size, 16)) for value, size, name in rows}


def readelf_symbols(path: str, names: set[str]) -> dict[str, tuple[int, int, str]]:
    """name: (value, size, type)."""
    found = {}
    for line in tool("readelf", "-sW", path).splitlines():
        words = line.split()
        if len(words) >= 8 and words[7].split("@")[0] in names and words[6] != "UND":
            found[words[7].split("@")[0]] = (int(words[1], 16), int(words[2], 0), words[3])
    return found


DEBUG = ["/nonexistent", "/usr/lib/debug"]


def own_memory(address: int, size: int) -> bytes:
    with open("/proc/self/mem", "rb", buffering=0) as file:
        try:
            file.seek(address)
            data = file.read(size)
        except OSError as error:
            raise MemoryReadError(address, size) from error
    return data


def own_module(part: str) -> tuple[int, str]:
    """(base, path) of a module of this process."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        words = line.split(None, 5)
        if len(words) > 5 and re.search(part, words[5]) and int(words[2], 16) == 0:
            return int(words[0].split("-")[0], 16), words[5]
    pytest.skip(f"this Python has no {part}")


@pytest.fixture(scope="module")
def libc() -> tuple[int, str]:
    return own_module(r"/libc\.so\.6$")


def test_headers_are_what_readelf_shows(libc):
    with ElfFile(libc[1]) as elf:
        shown = tool("readelf", "-lW", libc[1])
        loads = [
            (int(a, 16), int(b, 16), int(c, 16), int(d, 16))
            for a, b, c, d in re.findall(r"^ +LOAD +0x(\w+) 0x(\w+) 0x\w+ 0x(\w+) 0x(\w+)", shown, re.MULTILINE)
        ]
        assert [(s.offset, s.address, s.file_size, s.memory_size) for s in elf.segments if s.type == 1] == loads
        names = re.findall(r"^ +\[ *\d+\] (\S+) +[A-Z]", tool("readelf", "-SW", libc[1]), re.MULTILINE)
        assert [section.name for section in elf.sections if section.type] == names
        assert (elf.pointer_size, elf.byte_order, elf.type) == (8, sys.byteorder, 3)


def test_build_id_of_file_memory_and_debug_file(libc):
    shown = re.search(r"Build ID: (\w+)", tool("readelf", "-n", libc[1]))[1]
    with ElfFile(libc[1]) as elf:
        assert elf.build_id() == shown
    assert module_build_id(own_memory, libc[0]) == shown
    assert module_build_id(own_memory, libc[0] + 4096) is None
    assert module_build_id(own_memory, 16) is None
    path = find_debug_file(shown, DEBUG)
    if path is None:
        give_up("libc6-dbg is not installed")
    assert path == f"/usr/lib/debug/.build-id/{shown[:2]}/{shown[2:]}.debug"
    with ElfFile(path) as elf:
        assert elf.build_id() == shown


def test_no_build_id(build):
    with ElfFile(str(build("int main(void) { return 0; }", "-Wl,--build-id=none"))) as elf:
        assert elf.build_id() is None
    assert find_debug_file("00" * 20, DEBUG) is None
    assert find_debug_file("", DEBUG) is None


def test_malloc_symbols_in_debug_file(libc):
    path = find_debug_file(module_build_id(own_memory, libc[0]) or "", DEBUG)
    if path is None:
        give_up("libc6-dbg is not installed")
    names = {"main_arena", "mp_", "tcache", "thread_arena", "narenas", "no_such_symbol"}
    truth = readelf_symbols(path, names)
    assert {"main_arena", "mp_", "tcache", "thread_arena"} <= truth.keys()
    with ElfFile(path) as elf:
        found = find_symbols(elf, names)
    assert found.keys() == truth.keys()
    for name, (value, size, kind) in truth.items():
        (symbol,) = found[name]
        assert (symbol.value, symbol.size, symbol.is_tls) == (value, size, kind == "TLS")


def test_symbols_that_share_the_tail_of_a_string(build):
    path = build(SOURCE, "-shared", "-fPIC", name="lib.so")
    with ElfFile(str(path)) as elf:
        found = find_symbols(elf, ["tail", "long_tail", "hidden", "slot", "__cxa_finalize", "source.c"])
    truth = nm(path)
    for name in ("tail", "long_tail", "hidden", "slot"):
        assert [(s.value, s.size) for s in found[name]] == [truth[name]]
    assert found["slot"][0].is_tls
    assert not found["tail"][0].is_tls
    # undefined, and the name of a file
    assert found.keys() == {"tail", "long_tail", "hidden", "slot"}


def test_all_definitions_of_a_name(build, tmp_path):
    other = tmp_path / "other.c"
    other.write_text("static long twin = 2; long *get(void) { return &twin; }")
    path = build(
        "static int twin = 1; long *get(void); int main(void) { return *(volatile int *)&twin + !get(); }", str(other)
    )
    with ElfFile(str(path)) as elf:
        assert sorted(symbol.size for symbol in find_symbols(elf, ["twin"])["twin"]) == [4, 8]


def test_stripped_library_has_dynamic_symbols(build):
    path = build(SOURCE, "-shared", "-fPIC", "-s", name="lib.so")
    with ElfFile(str(path)) as elf:
        found = find_symbols(elf, ["tail", "hidden", "slot"])
    truth = nm(path, "-D")
    assert {name: (s[0].value, s[0].size) for name, s in found.items()} == {k: truth[k] for k in ("tail", "slot")}


@pytest.mark.parametrize("style", ["gnu", "sysv", "both"])
def test_dynamic_symbols_of_a_loaded_library(build, style):
    path = build(SOURCE, "-shared", "-fPIC", f"-Wl,--hash-style={style}", name=f"lib{style}.so")
    library = ctypes.CDLL(str(path))
    base, _ = own_module(f"lib{style}.so")
    found = dynamic_symbols(own_memory, base, ["tail", "long_tail", "function", "slot", "hidden", "__cxa_finalize"])
    assert found.keys() == {"tail", "long_tail", "function", "slot"}
    for name in ("tail", "long_tail"):
        assert found[name].value == ctypes.addressof(ctypes.c_int.in_dll(library, name))
    assert found["function"].value == ctypes.cast(library.function, ctypes.c_void_p).value
    assert found["slot"].is_tls
    assert found["slot"].value == nm(path)["slot"][0]


def test_dynamic_symbols_of_libc_and_vdso(libc):
    names = ["malloc", "environ", "gnu_get_libc_version", "mallinfo2", "nothing_of_the_kind", "main_arena"]
    truth = readelf_symbols(libc[1], set(names))
    found = dynamic_symbols(own_memory, libc[0], names)
    assert {name: s.value for name, s in found.items()} == {
        n: row[0] + libc[0] for n, row in truth.items() if row[2] != "NOTYPE" and n != "main_arena"
    }
    vdso, _ = own_module(r"\[vdso\]")
    symbol = dynamic_symbols(own_memory, vdso, ["__vdso_clock_gettime"]).get("__vdso_clock_gettime")
    assert symbol is None or vdso < symbol.value < vdso + (1 << 16)


def test_dynamic_symbols_of_a_program_without_relocation(build, start):
    program = build(
        """
#include <stdio.h>
#include <unistd.h>
int marked = 5;
int main(void) { printf("marked %p\\nready 0\\n", (void *)&marked); fflush(stdout); pause(); }
""",
        "-no-pie",
        "-rdynamic",
    )
    subject = start(program)
    base = min(s.address for s in ElfFile(str(program)).segments if s.type == 1)
    assert dynamic_symbols(subject.memory, base, ["marked"])["marked"].value == subject.facts["marked"]


def test_no_module_at_address():
    with pytest.raises(MemoryReadError):
        dynamic_symbols(own_memory, 16, ["malloc"])
    with pytest.raises(TargetError):
        dynamic_symbols(lambda address, size: bytes(size), 4096, ["malloc"])


def test_version_of_this_libc(libc):
    get = ctypes.CDLL(None).gnu_get_libc_version
    get.restype = ctypes.c_char_p
    with ElfFile(libc[1]) as elf:
        assert glibc_version(elf.data) == get().decode()
    with ElfFile(sys.executable) as elf:
        assert glibc_version(elf.data) is None


@pytest.mark.parametrize(
    ("banner", "version"),
    [
        (b"GNU C Library (Debian GLIBC 2.36-9+deb12u9) stable release version 2.36.\nCopyright", "2.36"),
        (b"GNU C Library (Ubuntu EGLIBC 2.19-0ubuntu6.15) stable release version 2.19, by Roland", "2.19"),
        (b"GNU C Library (GNU libc) stable release version 2.17, by Roland McGrath et al.", "2.17"),
        (b"GNU C Library stable release version 2.12.2.", "2.12.2"),
        (b"GNU C Library (GNU libc) development release version 2.42.9000.\n", "2.42.9000"),
        (b"GNU C Library (", None),
        (b"GNU C Library \n stable release version 2.36", None),
    ],
)
def test_banners(banner, version):
    assert glibc_version(b"\0rest of .rodata\0" + banner + b"\0") == version


def test_unreadable_module_raises_memory_error(libc):
    """A core holds libc's first page but not its tables: that must not look like "no such symbol"."""
    limit = libc[0] + os.sysconf("SC_PAGE_SIZE")

    def read(address, size):
        if address + size > limit:
            raise MemoryReadError(address, size)
        return own_memory(address, size)

    assert Elf(read, libc[0], mapped=True).segments
    with pytest.raises(MemoryReadError):
        dynamic_symbols(read, libc[0], ["malloc"])


class Pretended(AddressNames):
    """This process, as if a mapping without a name lay right after the last of a module's."""

    def __init__(self, path: str) -> None:
        super().__init__(())
        rows = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
        mine = [row for row in rows if row[5:] == [path]]
        spans = [tuple(int(each, 16) for each in row[0].split("-")) for row in mine]
        named = [
            Region(start, end, executable="x" in row[1], path=path, offset=start - spans[0][0])
            for row, (start, end) in zip(mine, spans)
        ]
        self._regions = [*named, Region(spans[-1][1], spans[-1][1] + (1 << 30))]

    read = staticmethod(own_memory)

    def regions(self) -> list[Region]:
        return self._regions

    def open_file(self, region: Region) -> None:
        return None


def test_what_lies_after_a_modules_bss_has_not_its_name(libc):
    """The kernel makes one mapping of both."""
    base, path = libc
    shown = tool("readelf", "-lW", path)
    loads = re.findall(r"^ +LOAD +0x\w+ 0x(\w+) 0x\w+ 0x\w+ 0x(\w+)", shown, re.MULTILINE)
    end = base + max(int(address, 16) + int(size, 16) for address, size in loads)
    image = Pretended(path)
    assert end > image.regions()[-1].start  # it has a .bss of pages
    assert image.describe(end - 1) == SymbolPlace("libc.so.6", end - 1 - base, in_file=True)
    assert image.describe(end) is None
    assert image.describe(end + (1 << 20)) is None


class LeftOut(Pretended):
    """As GDB's gcore has it: what it leaves out of a core, code with it, has no permissions."""

    def regions(self) -> list[Region]:
        return [each._replace(executable=False, present=not each.executable) for each in super().regions()]


def test_a_module_whose_code_is_left_out_of_a_core_is_one(libc):
    _, path = libc
    (whole,), (left_out,) = (each(path).programs() for each in (Pretended, LeftOut))
    assert [region.start for region in left_out] == [region.start for region in whole]
