"""ELF files of another byte order, and what is none."""

from __future__ import annotations

import errno
import os
import struct

import pytest
from test_elf import tool

from arenascope.base.errors import TargetError
from arenascope.sources.elf.elf_file import ElfFile, find_symbols, parse_notes


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
