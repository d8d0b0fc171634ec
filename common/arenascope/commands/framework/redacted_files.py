"""What `save --redact` keeps of mapped files: headers that name them, and of libc and ld.so what is the files' own."""

from __future__ import annotations

import struct
from contextlib import ExitStack, suppress
from typing import Mapping, Optional, Sequence

from ...base.errors import ArenascopeError
from ...base.records import NamedTuple
from ...glibc.find.allocators import places_of_modules
from ...glibc.params import MAX_FAST, PERTURB
from ...session.session import Session
from ...sources.elf.file import PF_W, PT_INTERP, PT_LOAD, PT_NOTE, Elf, ElfFile
from ...sources.elf.modules import FIRST_PAGE, Module, Modules
from ...sources.elf.naming import modules_of
from ...sources.elf.notes import Buffer
from ...sources.target import Region, Span
from .proved import SMALL, Kept, Proved

IN_HEADERS = (PT_INTERP, PT_NOTE)


class _Loaded(NamedTuple):
    """A file that the loader mapped."""

    module: Module
    headers: Sequence[Span]
    """ELF and program headers, notes, the loader's name: as far as they lie in the first mapping."""
    writable: Sequence[Span]
    """What the file says can be written, though the loader may have closed it since (RELRO)."""


class RedactedFiles:
    """What is kept of the files of one image."""

    def __init__(self, session: Session, proved: Proved) -> None:
        self.session, self.proved = session, proved
        self.memory, self.page = session.memory, session.target.page_size
        self._modules = Modules(session.target, modules_of(session.regions))

    def kept(self) -> Kept:
        theirs: dict[int, Region] = {}
        for module in self._modules.all:
            # what is only read is data, whatever it begins with
            if not any(each.executable for each in module.regions) or module.regions[0].shared:
                continue
            loaded = self._read_headers(module)
            if loaded is None:
                continue
            yield from ((low, high - low) for low, high in loaded.headers)
            if module.regions[0].finds_malloc:
                yield from self._of_library(loaded)
                theirs.update((each.start, each) for each in module.regions if each.writable)
        yield from self._variables(theirs)
        for place in places_of_modules(self.session.target, self.session.regions):
            whole = (place.address, place.bytes)
            yield from self.proved.words(*whole) if place.words else (whole,)

    def _read_headers(self, module: Module) -> Optional[_Loaded]:
        try:
            elf = Elf(self.memory.read, module.base, mapped=True)
            segments, bias, first = elf.segments, elf.bias, module.regions[0]
        except (ArenascopeError, struct.error, ValueError):
            return None
        headers = [Span(module.base, module.base + elf.headers_end)]
        headers += [_memory_of(each.address + bias, each.file_size) for each in segments if each.type in IN_HEADERS]
        loads = (each for each in segments if each.type == PT_LOAD and each.flags & PF_W)
        writable = [_memory_of(each.address + bias, each.memory_size) for each in loads]
        if elf.build_id() is None and self._modules.file_of(module):
            # the same first page is then what tells its file
            headers = [Span(first.start, first.start + FIRST_PAGE)]
        inside = [Span(low, min(high, first.end)) for low, high in headers if first.start <= low < first.end]
        return _Loaded(module, inside, writable)

    def _of_library(self, loaded: _Loaded) -> Kept:
        """What nobody wrote since the file was mapped; else, as of variables, what is proved."""
        with suppress(ArenascopeError), ExitStack() as stack:
            path = self._modules.file_of(loaded.module)
            file = stack.enter_context(ElfFile(path)).data if path is not None else None
            for region in loaded.module.regions:
                if not (region.writable or region.shared):
                    yield from self._of_constants(region, loaded.writable, file)

    def _of_constants(self, region: Region, writable: Sequence[Span], file: Optional[Buffer]) -> Kept:
        for start in range(region.start, region.end, self.page):
            data = self.memory.try_read(start, self.page)
            at = start - region.start + region.offset
            written = any(low < start + self.page and start < high for low, high in writable)
            if not written and file is not None:
                written = bytes(file[at : at + self.page]).ljust(self.page, b"\0") != data
            if data is not None:
                yield from self.proved.words(start, self.page) if written else ((start, self.page),)

    def _variables(self, theirs: Mapping[int, Region]) -> Kept:
        """Of libc and ld.so, and of a static program."""
        session = self.session
        copies = (copy.libc for copy in session.located.copies)
        data = {each.start: each for libc in (*copies, session.located.libc) for each in libc.data}
        small = dict.fromkeys(data, 0)
        before: Optional[Region] = None
        for region in session.regions:
            behind = before is not None and before.end == region.start and not region.path and region.writable
            if region.start in theirs or (behind and before is not None and before.start in theirs):
                data[region.start], small[region.start] = region, SMALL
            before = region
        for start, region in data.items():
            # what the kernel put right behind .bss is one mapping with it
            end = session.bss_ends.get(start, region.end)
            yield from self.proved.words(start, end - start, small[start])
        for name in (MAX_FAST, PERTURB):
            at = session.located.find_static(session.target, name)
            if at is not None:
                yield at, 4


def _memory_of(start: int, size: int) -> Span:
    return Span(start, start + size)
