"""Writes the headers and notes of an ELF core as fs/binfmt_elf.c lays them out; core_notes.py reads the same."""

from __future__ import annotations

import os
import struct
from typing import Iterable, Iterator, NamedTuple, Sequence

from ..elf.elf_file import ET_CORE, MAGIC, PN_XNUM, PT_LOAD, PT_NOTE, Segment
from ..elf.elf_notes import NT_AUXV, NT_FILE, NT_PRPSINFO, NT_PRSTATUS, NT_SIGINFO, FileMapping, Note
from ..target import RegisterSets

SIGINFO_BYTES = 128
STOPPED_BY = 19
"""SIGSTOP: the process was stopped, and nothing is wrong with it."""
EV_CURRENT = 1


class ElfForm(NamedTuple):
    """The format of a core's structures."""

    machine: int
    """Its ELF number."""
    word: int
    mark: str
    """struct's sign for its byte order."""

    @property
    def header_bytes(self) -> int:
        return 64 if self.word == 8 else 52

    @property
    def program_header_bytes(self) -> int:
        return 56 if self.word == 8 else 32

    @property
    def section_header_bytes(self) -> int:
        return 64 if self.word == 8 else 40


class Who(NamedTuple):
    """The fields of NT_PRPSINFO."""

    pid: int
    name: str
    arguments: str
    uid: int = 0


def head_bytes(form: ElfForm, segments: int) -> int:
    """Returns the size of the headers; too many segments for the field need a section header as well."""
    more = form.section_header_bytes if segments >= PN_XNUM else 0
    return form.header_bytes + segments * form.program_header_bytes + more


def head(form: ElfForm, segments: Sequence[Segment]) -> bytes:
    """Returns the ELF header and the program headers."""
    many = len(segments) >= PN_XNUM
    ident = MAGIC + bytes([form.word // 4, 1 if form.mark == "<" else 2, EV_CURRENT]) + bytes(9)
    sections_at = form.header_bytes + len(segments) * form.program_header_bytes if many else 0
    address = "Q" if form.word == 8 else "I"
    elf = struct.pack(
        f"{form.mark}2HI3{address}I6H",
        ET_CORE,
        form.machine,
        EV_CURRENT,
        0,
        form.header_bytes,
        sections_at,
        0,
        form.header_bytes,
        form.program_header_bytes,
        min(len(segments), PN_XNUM),
        form.section_header_bytes if many else 0,
        1 if many else 0,
        0,
    )
    rows = b"".join(_program_header(form, each) for each in segments)
    # sh_info of section header 0 has the count
    last = struct.pack(f"{form.mark}2I4{address}2I2{address}", *[0] * 7, len(segments), 0, 0) if many else b""
    return ident + elf + rows + last


def _program_header(form: ElfForm, segment: Segment) -> bytes:
    kind, flags, offset, address, size, memory, align = segment
    if form.word == 8:
        return struct.pack(f"{form.mark}2I6Q", kind, flags, offset, address, 0, size, memory, align)
    return struct.pack(f"{form.mark}8I", kind, offset, address, 0, size, memory, flags, align)


def note_segment(offset: int, size: int) -> Segment:
    return Segment(PT_NOTE, flags=0, offset=offset, address=0, file_size=size, memory_size=0, align=4)


def load_segment(flags: int, offset: int, address: int, file_size: int, memory_size: int, page: int) -> Segment:
    return Segment(PT_LOAD, flags, offset, address, file_size=file_size, memory_size=memory_size, align=page)


def note_bytes(notes: Iterable[Note], mark: str) -> bytes:
    parts = []
    for note in notes:
        owner = os.fsencode(note.owner) + b"\0"
        parts.append(struct.pack(f"{mark}3I", len(owner), len(note.data), note.type))
        parts += [_padded(owner), _padded(note.data)]
    return b"".join(parts)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def process_notes(
    form: ElfForm, who: Who, auxv: bytes, files: Sequence[FileMapping], page: int, threads: Sequence[RegisterSets]
) -> Iterator[Note]:
    """Returns notes in the kernel's order: the process's notes stand among those of the first thread."""
    shared = (
        Note("CORE", NT_PRPSINFO, _prpsinfo(form, who)),
        Note("CORE", NT_SIGINFO, struct.pack(f"{form.mark}i", STOPPED_BY).ljust(SIGINFO_BYTES, b"\0")),
        Note("CORE", NT_AUXV, auxv),
        Note("CORE", NT_FILE, _files(form, files, page)),
    )
    first = True
    for thread in threads:
        yield Note("CORE", NT_PRSTATUS, prstatus(form, thread, who.pid))
        if first:
            yield from shared
        first = False
        yield from (Note(*each) for each in thread.others)
    if first:
        yield from shared


def prstatus(form: ElfForm, thread: RegisterSets, parent: int) -> bytes:
    """Returns struct elf_prstatus, without parents and times. Without a signal LLDB 22 waits for ever."""
    word = "Q" if form.word == 8 else "I"
    signals = struct.pack(f"{form.mark}3ihh2{word}", STOPPED_BY, 0, 0, STOPPED_BY, 0, 0, 0)
    pids = struct.pack(f"{form.mark}4i", thread.tid, 0, parent, parent)
    data = signals + pids + bytes(8 * form.word) + thread.general + struct.pack(f"{form.mark}i", 0)
    return data + bytes(-len(data) % form.word)


def _prpsinfo(form: ElfForm, who: Who) -> bytes:
    state = struct.pack(f"{form.mark}4b", 0, ord("t"), 0, 0)
    name, arguments = os.fsencode(who.name)[:15], os.fsencode(who.arguments)[:79]
    if form.word == 8:
        start = state + bytes(4) + struct.pack(f"{form.mark}Q2I", 0, who.uid & 0xFFFFFFFF, 0)
    else:
        start = state + struct.pack(f"{form.mark}I2H", 0, who.uid & 0xFFFF, 0)
    pids = struct.pack(f"{form.mark}4i", who.pid, 0, who.pid, who.pid)
    return start + pids + name.ljust(16, b"\0") + arguments.ljust(80, b"\0")


def _files(form: ElfForm, files: Sequence[FileMapping], page: int) -> bytes:
    word = "Q" if form.word == 8 else "I"
    data = struct.pack(f"{form.mark}2{word}", len(files), page)
    for each in files:
        data += struct.pack(f"{form.mark}3{word}", each.start, each.end, each.offset // page)
    return data + b"".join(os.fsencode(each.path) + b"\0" for each in files)
