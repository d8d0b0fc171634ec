"""Reads the notes of an ELF core: threads and their registers, the process, auxv, mapped files."""

from __future__ import annotations

import os
import struct
from typing import Iterable, Optional

from ..elf.elf_file import Elf
from ..elf.elf_notes import (
    NT_386_TLS,
    NT_ARM_TLS,
    NT_AUXV,
    NT_FILE,
    NT_PRPSINFO,
    NT_PRSTATUS,
    NT_SIGINFO,
    NT_VECTORS,
    OWN,
    REGISTER_NOTES,
    FileMapping,
    Note,
    parse_auxv,
    undeleted,
)
from ..elf.registers import PRSTATUS, ThreadRecord, thread_from_record
from ..target import RegisterSet, RegisterSets, ThreadInfo


class CoreNotes:
    """The notes of a core, read once."""

    def __init__(self, elf: Elf, notes: Iterable[Note]) -> None:
        self.elf = elf
        self.records: list[ThreadRecord] = []
        self._others: list[list[RegisterSet]] = []
        self.auxv_bytes = b""
        self.files: list[FileMapping] = []
        self.file_page_size: Optional[int] = None
        self.pid: Optional[int] = None
        self.name: Optional[str] = None
        self.arguments: Optional[str] = None
        self.own: dict[int, bytes] = {}
        """The notes of `save`: see saved_note.py."""
        order = []
        for note in notes:
            self._take(note)
            order.append((note.owner, note.type))
        self.made_by = self._recognise(order)

    def _recognise(self, order: list[tuple[str, int]]) -> str:
        """Returns "kernel", "gcore" or "other".

        fs/binfmt_elf.c writes no section headers (one where PN_XNUM needs it) and begins with these notes in this
        order; gcore writes through BFD, which gives every segment a section. QEMU's user-mode cores have neither.
        """
        kernel = [("CORE", kind) for kind in (NT_PRSTATUS, NT_PRPSINFO, NT_SIGINFO, NT_AUXV)]
        if ("GDB", 0xFF000000) in order or self.elf.section_count > 1:
            return "gcore"
        return "kernel" if order[:4] == kernel else "other"

    def _take(self, note: Note) -> None:
        if self.records and (note.owner, note.type) in (*REGISTER_NOTES, (OWN, NT_VECTORS)):
            # a thread's other notes follow its NT_PRSTATUS
            self._others[-1].append(RegisterSet(note.owner, note.type, note.data))
        if note.owner == "LINUX":
            if note.type in (NT_386_TLS, NT_ARM_TLS) and self.records:
                self.records[-1] = self.records[-1]._replace(tls=note.data)
        elif note.owner == OWN:
            self.own.setdefault(note.type, note.data)
        elif note.owner != "CORE":
            return
        elif note.type == NT_PRSTATUS:
            self._take_prstatus(note.data)
        elif note.type == NT_PRPSINFO:
            self._take_prpsinfo(note.data)
        elif note.type == NT_AUXV:
            self.auxv_bytes = note.data
        elif note.type == NT_FILE:
            self._take_files(note.data)

    def _take_prstatus(self, data: bytes) -> None:
        pid_at, registers_at = PRSTATUS[self.elf.pointer_size]
        if len(data) >= registers_at:
            tid = struct.unpack_from(self.elf.mark + "i", data, pid_at)[0]
            self.records.append(ThreadRecord(tid, data[registers_at:]))
            self._others.append([])

    def _take_prpsinfo(self, data: bytes) -> None:
        # From its end, as 32-bit machines differ in the size of a uid: four pids, fname[16], psargs[80]
        if len(data) < 112:
            return
        self.pid = struct.unpack_from(self.elf.mark + "i", data, len(data) - 112)[0]
        self.name = os.fsdecode(data[-96:-80].split(b"\0")[0])
        self.arguments = os.fsdecode(data[-80:].split(b"\0")[0].rstrip())

    def _take_files(self, data: bytes) -> None:
        word = "I" if self.elf.pointer_size == 4 else "Q"
        size = self.elf.pointer_size
        if len(data) < 2 * size:
            return
        count, page = struct.unpack_from(f"{self.elf.mark}2{word}", data)
        table_end = size * (2 + 3 * count)
        if table_end > len(data):
            return
        self.file_page_size = page
        rows = struct.iter_unpack(f"{self.elf.mark}3{word}", data[2 * size : table_end])
        names = data[table_end:].split(b"\0")
        for (start, end, offset), name in zip(rows, names):
            if start >= end:
                continue
            self.files.append(FileMapping(start, end, offset * page, undeleted(os.fsdecode(name))))

    @property
    def auxv(self) -> dict[int, int]:
        return parse_auxv(self.auxv_bytes, self.elf.pointer_size, self.elf.mark)

    def register_sets(self) -> list[RegisterSets]:
        """Returns each thread's registers in the notes' order."""
        return [RegisterSets(each.tid, each.registers, others) for each, others in zip(self.records, self._others)]

    def threads(self) -> list[ThreadInfo]:
        """Returns threads by tid. The kernel writes the thread that crashed first, and only the main thread's name.

        fill_psinfo() of fs/binfmt_elf.c takes the group leader's comm; gcore writes the program's name there.
        """
        elf = self.elf
        threads = [thread_from_record(elf.machine, elf.pointer_size, elf.byte_order, record) for record in self.records]
        if self.made_by == "kernel":
            threads = [each._replace(name=self.name) if each.tid == self.pid else each for each in threads]
        return sorted(threads, key=lambda thread: thread.tid)
