"""ELF files of 32 bits, of other machines and byte orders, and what is none."""

from __future__ import annotations

import errno
import os
import re
import shutil
import struct
import subprocess

import pytest
from looks import give_up
from test_elf import SOURCE, nm, readelf_symbols, tool

from arenascope.base.errors import TargetError
from arenascope.sources.elf.elf_file import ElfFile, find_symbols, parse_notes


@pytest.mark.full
def test_32_bit(build):
    source = SOURCE + "void _start(void) { tail += function() + long_tail[0]; for (;;); }"
    path = build(source, "-m32", "-nostdlib", "-static", "-ffreestanding", "-fno-pie", "-no-pie", "-Wl,--build-id")
    with ElfFile(str(path)) as elf:
        assert (elf.pointer_size, elf.byte_order, elf.machine) == (4, "little", 3)
        assert elf.build_id() == re.search(r"Build ID: (\w+)", tool("readelf", "-n", str(path)))[1]
        found = find_symbols(elf, ["tail", "slot", "hidden"])
    truth = nm(path)
    assert {name: (s[0].value, s[0].size) for name, s in found.items()} == {
        name: truth[name] for name in ("tail", "slot", "hidden")
    }


@pytest.mark.full
@pytest.mark.parametrize(
    ("compiler", "size", "order"),
    [
        ("s390x-linux-gnu-gcc", 8, "big"),
        ("powerpc-linux-gnu-gcc", 4, "big"),
        ("arm-linux-gnueabihf-gcc", 4, "little"),
        ("aarch64-linux-gnu-gcc", 8, "little"),
    ],
)
def test_other_machines(compiler, size, order, tmp_path):
    if not shutil.which(compiler):
        give_up(f"{compiler} is not installed")
    (tmp_path / "s.c").write_text(SOURCE)
    path = tmp_path / "lib.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-nostdlib", "-Wl,--build-id", str(tmp_path / "s.c"), "-o", str(path)],
        check=True,
    )
    with ElfFile(str(path)) as elf:
        assert (elf.pointer_size, elf.byte_order) == (size, order)
        assert elf.build_id() == re.search(r"Build ID: (\w+)", tool("readelf", "-n", str(path)))[1]
        found = find_symbols(elf, ["tail", "slot", "hidden"])
    truth = readelf_symbols(str(path), {"tail", "slot", "hidden"})
    assert {n: (s[0].value, s[0].size, "TLS" if s[0].is_tls else "OBJECT") for n, s in found.items()} == truth


def big_endian_elf() -> bytes:
    """Sections of a 64-bit big-endian file, as no compiler for one need be here: .symtab, .strtab and a build-id."""
    strings = b"\0main_arena\0tcache\0"
    symbols = (
        bytes(24) + struct.pack(">IBBHQQ", 1, 1, 0, 5, 0x1234, 2200) + struct.pack(">IBBHQQ", 12, 6, 0, 5, 0x48, 8)
    )
    note = struct.pack(">3I", 4, 3, 3) + b"GNU\0" + b"\xab\xcd\xef\0"
    names = b"\0.note\0"
    body = strings + symbols + note + names
    offsets = [64, 64 + len(strings), 64 + len(strings + symbols), 64 + len(strings + symbols + note)]
    header = (
        b"\x7fELF\x02\x02\x01"
        + bytes(9)
        + struct.pack(">HHIQQQIHHHHHH", 3, 22, 1, 0, 0, 64 + len(body), 0, 64, 56, 0, 64, 5, 4)
    )

    def section(name, kind, offset, size, link=0, entry=0):
        return struct.pack(">IIQQQQIIQQ", name, kind, 0, 0, offset, size, link, 0, 1, entry)

    return (
        header
        + body
        + bytes(64)
        + section(0, 3, offsets[0], len(strings))
        + section(0, 2, offsets[1], len(symbols), 1, 24)
        + section(1, 7, offsets[2], len(note))
        + section(0, 3, offsets[3], len(names))
    )


def test_big_endian(tmp_path):
    path = tmp_path / "big"
    path.write_bytes(big_endian_elf())
    assert "main_arena" in tool("readelf", "-sW", str(path))
    with ElfFile(str(path)) as elf:
        assert elf.byte_order == "big"
        assert elf.build_id() == "abcdef"
        found = find_symbols(elf, ["main_arena", "tcache", "arena"])
    assert found.keys() == {"main_arena", "tcache"}
    assert (found["main_arena"][0].value, found["main_arena"][0].size) == (0x1234, 2200)
    assert found["tcache"][0].is_tls


def test_notes_keep_to_their_alignment():
    property_note = struct.pack("<3I", 4, 16, 5) + b"GNU\0" + bytes(16)
    odd = struct.pack("<3I", 5, 3, 1) + b"CORE\0\0\0\0" + b"abc\0"
    assert [(n.owner, n.type, len(n.data)) for n in parse_notes(property_note * 2, "<", 8)] == [("GNU", 5, 16)] * 2
    assert [(n.owner, n.data) for n in parse_notes(odd * 2, "<", 1)] == [("CORE", b"abc")] * 2
    assert len(list(parse_notes(odd + odd[:-3], "<"))) == 1


def test_files_that_are_none(tmp_path):
    for content, words in (
        (b"", "cannot open"),
        (b"#!/bin/sh\n echo this is a script", "not an ELF file"),
        (b"\x7fELF\x02\x01" + bytes(12), "cut short"),
    ):
        path = tmp_path / "file"
        path.write_bytes(content)
        with pytest.raises(TargetError, match=words):
            ElfFile(str(path))
    with pytest.raises(TargetError, match=os.strerror(errno.ENOENT)):
        ElfFile(str(tmp_path / "absent"))
