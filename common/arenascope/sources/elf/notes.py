"""ELF notes: of a module its build-id, of a core its threads and mappings."""

from __future__ import annotations

import mmap
import os
import struct
from typing import Iterable, Iterator, NamedTuple, Optional, Union

Buffer = Union[bytes, bytearray, memoryview, mmap.mmap]

NT_GNU_BUILD_ID = 3
"""Linkers write it, as "GNU"; the kernel's numbers stand in kernel_records.py."""
MAX_NOTES = 1 << 20
"""A core has about six for each thread."""
LONGEST_OWNER = 64


class Note(NamedTuple):
    """One note: "CORE" or "GNU" or the like, its number, its bytes."""

    owner: str
    type: int
    data: bytes


class NotePlace(NamedTuple):
    """Where a whole note lies: its header, owner and bytes, from the first byte of all notes on."""

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
    """The notes in `data`, as far as they are whole; those before the one with which they would exceed `most` bytes."""
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
