"""What `save --redact` keeps of mapped files: headers that name them, and of libc and ld.so what is the files' own."""

from __future__ import annotations

import struct
from contextlib import ExitStack, suppress
from typing import Mapping, Optional

from ...base.errors import ArenascopeError
from ...glibc.find.which_allocator import places_of_modules
from ...glibc.params import MAX_FAST, PERTURB
from ...session.session import Session
from ...sources.elf.address_names import modules_of
from ...sources.elf.elf_file import Elf, ElfFile
from ...sources.elf.modules import FIRST_PAGE, Module, Modules
from ...sources.elf.notes import Buffer
from ...sources.target import Region
from .provable_words import SMALL, Kept, Proved
from .redacted_headers import headers_of


class RedactedFiles:
    """What is kept of the files of one image."""

    def __init__(self, session: Session, proved: Proved) -> None:
        self.session, self.proved = session, proved
        self.memory, self.page = session.memory, session.target.page_size
        self._modules = Modules(session.target, modules_of(session.regions))

    def kept(self) -> Kept:
        theirs: dict[int, Region] = {}
        nameless = {each.start: each.end for each in self.session.regions if not each.path}
        paths = {name for each in self._modules.all for name in (each.path, each.name)}
        for module in self._modules.all:
            # what is only read is data, whatever it begins with
            if not any(each.executable for each in module.regions) or module.regions[0].shared:
                continue
            try:
                elf = Elf(self.memory.read, module.base, mapped=True)
                end = module.regions[-1].end
                yield from headers_of(elf, module, nameless.get(end, end), paths)
                build_id = elf.build_id()
            except (ArenascopeError, struct.error, ValueError):
                continue
            if build_id is None and self._is_loaded(module) and self._modules.file_of(module):
                # the same first page is then what tells its file
                yield module.base, min(FIRST_PAGE, module.regions[0].size)
            if module.regions[0].finds_malloc:
                yield from self._of_library(module)
                theirs.update((each.start, each) for each in module.regions if each.writable)
        yield from self._variables(theirs)
        for place in places_of_modules(self.session.target, self.session.regions):
            whole = (place.address, place.bytes)
            yield from self.proved.words(*whole) if place.words else (whole,)

    def _is_loaded(self, module: Module) -> bool:
        """By the loader, or the kernel as the program: any other file may be the program's data."""
        return module in (self._modules.in_order or ()) or module == self._modules.program

    def _of_library(self, module: Module) -> Kept:
        """What stands in the file, too; else, and where that is not to be had, as of variables what is proved."""
        with ExitStack() as stack:
            file: Optional[Buffer] = None
            with suppress(ArenascopeError):
                file = stack.enter_context(ElfFile(self._modules.file_of(module) or "")).data
            for region in module.regions:
                if not (region.writable or region.shared):
                    yield from self._of_constants(region, file)

    def _of_constants(self, region: Region, file: Optional[Buffer]) -> Kept:
        for start in range(region.start, region.end, self.page):
            data = self.memory.try_read(start, self.page)
            at = start - region.start + region.offset
            same = file is not None and bytes(file[at : at + self.page]).ljust(self.page, b"\0") == data
            if data is not None:
                yield from ((start, self.page),) if same else self.proved.words(start, self.page)

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
