"""Parses ELF notes: a module's build-id, a core's threads and mappings."""

from __future__ import annotations

import mmap
import os
import struct
from typing import Iterable, Iterator, Mapping, NamedTuple, Optional, Union

Buffer = Union[bytes, bytearray, memoryview, mmap.mmap]

NT_GNU_BUILD_ID = 3
"""Linkers write it, as "GNU"; the kernel's numbers stand below."""
MAX_NOTES = 1 << 20
"""A core has about six for each thread."""
LONGEST_OWNER = 64


class Note(NamedTuple):
    """One note: "CORE" or "GNU" or the like, its number, its bytes."""

    owner: str
    type: int
    data: bytes


class NotePlace(NamedTuple):
    """The place of a whole note: its header, owner and bytes, from the first byte of all notes on."""

    start: int
    owner: int
    owner_bytes: int
    type: int
    data: int
    data_bytes: int

    @property
    def end(self) -> int:
        return self.data + self.data_bytes


def places_of_notes(data: Buffer, mark: str, align: int = 4) -> Iterator[NotePlace]:
    # Only GNU properties are aligned to 8; cores say 0 or 1 and mean 4.
    align = 8 if align == 8 else 4
    header = struct.Struct(mark + "3I")
    at, end = 0, len(data)
    for _ in range(MAX_NOTES):
        if at + header.size > end:
            return
        name_size, size, kind = header.unpack_from(data, at)
        start = _round_up(at + header.size + name_size, align)
        # zeros: what was never written
        if not (name_size or size or kind) or start + size > end:
            return
        yield NotePlace(at, owner=at + header.size, owner_bytes=name_size, type=kind, data=start, data_bytes=size)
        at = _round_up(start + size, align)


def parse_notes(data: Buffer, mark: str, align: int = 4, most: Optional[int] = None) -> Iterator[Note]:
    """Returns the complete notes in `data`, up to the one with which they would exceed `most` bytes."""
    left = len(data) if most is None else most
    for each in places_of_notes(data, mark, align):
        left -= each.data_bytes
        if left < 0:
            return
        name = bytes(data[each.owner : each.owner + min(each.owner_bytes, LONGEST_OWNER)])
        yield Note(string_at(name, 0), each.type, bytes(data[each.data : each.end]))


def gnu_build_id(notes: Iterable[Note]) -> Optional[str]:
    return next((n.data.hex() for n in notes if n.owner == "GNU" and n.type == NT_GNU_BUILD_ID and n.data), None)


def _round_up(value: int, align: int) -> int:
    return (value + align - 1) // align * align


def string_at(data: bytes, start: int, limit: Optional[int] = None) -> str:
    end = len(data) if limit is None else min(start + limit, len(data))
    stop = data.find(b"\0", start, end)
    return os.fsdecode(data[start : end if stop < 0 else stop])


# <linux/elf.h>: "CORE" and "LINUX" own the notes of cores, and the sets of ptrace(2) have the same numbers
NT_PRSTATUS, NT_PRPSINFO, NT_AUXV, NT_SIGINFO, NT_FILE = 1, 3, 6, 0x53494749, 0x46494C45
NT_386_TLS, NT_ARM_TLS = 0x200, 0x401
NT_FPREGSET, NT_X86_XSTATE, NT_S390_HIGH_GPRS, NT_ARM_VFP, NT_ARM_SVE = 2, 0x202, 0x300, 0x400, 0x405
NT_ARM_SSVE, NT_ARM_ZA, NT_ARM_GCS = 0x40B, 0x40C, 0x410
REGISTER_NOTES = (
    ("CORE", NT_FPREGSET),
    ("LINUX", NT_X86_XSTATE),
    ("LINUX", NT_386_TLS),
    ("LINUX", NT_ARM_VFP),
    ("LINUX", NT_ARM_TLS),
    ("LINUX", NT_ARM_SVE),
    ("LINUX", NT_S390_HIGH_GPRS),
)
"""Register sets besides the general ones; each machine has some of them."""
# <linux/auxvec.h>
AT_NULL, AT_PHDR, AT_PHNUM, AT_PAGESZ, AT_BASE, AT_ENTRY = 0, 3, 5, 6, 7, 9
AT_PLATFORM, AT_SECURE, AT_RANDOM, AT_EXECFN, AT_SYSINFO_EHDR = 15, 23, 25, 31, 33
DELETED = " (deleted)"
OWN = "ARENASCOPE"
"""The owner of our own notes, which `save` writes."""
NT_MOMENT, NT_RESIDENT, NT_SWAPPED, NT_VECTORS = 1, 2, 3, 16
"""The last one has vector registers one after another, by debuggers' names (WIDE in registers.py); core/saved_note.py
describes the others."""


class FileMapping(NamedTuple):
    """One row of NT_FILE."""

    start: int
    end: int
    offset: int
    path: str


def parse_auxv(data: bytes, pointer_size: int, mark: str) -> dict[int, int]:
    """Returns the auxiliary vector up to AT_NULL."""
    pair = struct.Struct(mark + ("2I" if pointer_size == 4 else "2Q"))
    auxv: dict[int, int] = {}
    for kind, value in pair.iter_unpack(data[: len(data) // pair.size * pair.size]):
        if kind == AT_NULL:
            break
        auxv[kind] = value
    return auxv


def is_secure(auxv: Mapping[int, int]) -> Optional[bool]:
    """As in Target: the program's file is set-user-ID or set-group-ID, or has capabilities. None if it does not say."""
    secure = auxv.get(AT_SECURE)
    return None if secure is None else bool(secure)


def undeleted(path: str) -> str:
    """Removes the kernel's mark for a file that has been removed or replaced since."""
    return path[: -len(DELETED)] if path.endswith(DELETED) else path
