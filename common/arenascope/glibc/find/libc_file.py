"""Finds libc's mappings: its data (with main_arena), build-id and version."""

from __future__ import annotations

import re
from typing import Mapping, NamedTuple, Optional, Sequence

from ...base.errors import ArenascopeError
from ...base.heap_model import Allocator, ArenaHeader, Statement
from ...sources.elf.elf_file import ElfSymbol, dynamic_symbols, glibc_version, module_build_id, proven_files
from ...sources.elf.modules import modules_of
from ...sources.memory import Memory
from ...sources.target import Region, Target

LIBC_NAME = re.compile(r"/(libc\.so\.6|libc-2\.[0-9]+\.so|libc_malloc_debug\.so\.0)( \(deleted\))?$")
MUSL_NAME = re.compile(r"/(ld-musl-|libc\.musl-)|musl[^/]*/(lib/)?libc\.so")
BSS_LIMIT = 64 << 20
TEXT_LIMIT = 16 << 20
"""The most bytes that are searched for the version: a libc's read-only part has 2 MB."""


Bss = Mapping[int, Region]
"""Nameless writable mappings by start address."""


class Libc(NamedTuple):
    """A mapped module that may hold main_arena."""

    path: str
    base: Optional[int]
    build_id: Optional[str]
    data: tuple[Region, ...]
    """Its writable mappings, with the anonymous one that follows them (bss)."""
    version: Optional[str]


def find_libcs(target: Target, memory: Memory, regions: Sequence[Region]) -> list[Libc]:
    """Returns the copies of glibc that are mapped, in address order (dlmopen and libc_malloc_debug bring further
    ones)."""
    bss = bss_of(regions)
    return [describe(target, memory, bss, module) for module in modules_of(regions) if LIBC_NAME.search(module[0].path)]


def module_at(target: Target, memory: Memory, regions: Sequence[Region], address: Optional[int]) -> Libc:
    """Returns the module whose data holds this address: a libc, or the program itself if it is static."""
    if address is not None:
        bss = bss_of(regions)
        for module in modules_of(regions):
            if any(region.contains(address) for region in _data(module, bss)):
                return describe(target, memory, bss, module)
    return Libc("", base=None, build_id=None, data=(), version=None)


def bss_of(regions: Sequence[Region]) -> Bss:
    """Returns bss by address, as every module asks what follows it: a process may have as many modules as mappings."""
    return {region.start: region for region in regions if not region.path and region.writable}


def _data(module: Sequence[Region], bss: Bss) -> tuple[Region, ...]:
    writable = [region for region in module if region.writable and not region.shared]
    # what the loader mapped right after the file's last part; [heap] is a mapping of its own
    following = bss.get(module[-1].end)
    return tuple(region for region in (*writable, following) if region is not None and region.size <= BSS_LIMIT)


def describe(target: Target, memory: Memory, bss: Bss, module: Sequence[Region]) -> Libc:
    base = module[0].start if not module[0].offset else None
    inside = module_build_id(memory.read, base) if base is not None else None
    version = _version_in_file(target, module[0], inside) or _version_in_memory(memory, module)
    return Libc(module[0].path, base, build_id=inside, data=_data(module, bss), version=version)


def _version_in_file(target: Target, region: Region, inside: Optional[str]) -> Optional[str]:
    """Reads the version from the file on disk, if its build-id proves that it is the one in memory."""
    path = target.open_file(region)
    if inside is None:
        return None
    return next((glibc_version(file.data) for file in proven_files([path], inside)), None)


def _version_in_memory(memory: Memory, module: Sequence[Region]) -> Optional[str]:
    for region in module:
        if region.writable or not region.present or region.size > TEXT_LIMIT:
            continue
        version = glibc_version(memory.try_read(region.start, region.size) or b"")
        if version:
            return version
    return None


def build_id_at(memory: Memory, regions: Sequence[Region], address: int) -> Optional[str]:
    """Returns the build-id, from memory, of the module whose data holds this address."""
    bss = bss_of(regions)
    for module in modules_of(regions):
        if module[0].offset == 0 and any(region.contains(address) for region in _data(module, bss)):
            return module_build_id(memory.read, module[0].start)
    return None


def file_data(regions: Sequence[Region]) -> list[Region]:
    """Returns the writable data of every mapped file: a static program keeps main_arena there."""
    bss = bss_of(regions)
    writable = list(dict.fromkeys(region for module in modules_of(regions) for region in _data(module, bss)))
    if not writable:
        # an image that names no files (a remote stub): all that is writable and small enough for data
        writable = [region for region in regions if region.writable and region.size <= BSS_LIMIT and region.present]
    return writable


def what_is_there(
    libcs: Sequence[Libc],
    regions: Sequence[Region],
    notes: Sequence[str],
    shortage: Sequence[Statement],
    others: Sequence[Allocator],
) -> tuple[str, str]:
    """Explains in one line why no heap of glibc was found, and what to try."""
    if shortage:
        return (
            f"no arena was found; {'; '.join(each.text for each in shortage)}",
            "get a whole core, or look at the live process",
        )
    named = {each.name: each for each in others}
    if "musl" in named:
        return "this process runs on musl, not on glibc: it has no arenas", named["musl"].instead
    if not regions:
        return "the mappings of this image are not known, and main_arena has no symbol", "load libc's debug symbols"
    if libcs and not any(region.present for libc in libcs for region in libc.data):
        return (
            "this core does not hold libc's data, so no arena can be found",
            "dump with coredump_filter 0x33 (anonymous and dirty private pages)",
        )
    if libcs:
        reason = f"; {notes[0]}" if notes else ""
        return f"no arena was found in {libcs[0].path}{reason}", "load the debug symbols of exactly this libc"
    if others:
        return f"{' and '.join(named)} serves memory here, and no glibc is mapped", others[0].instead
    return "no glibc was found in this image", "a static program needs its symbols or a main_arena that was used"


def exported_symbols(memory: Memory, libc: Libc, names: Sequence[str]) -> dict[str, ElfSymbol]:
    """Returns what libc exports, from its tables in memory; {} if the image lacks them."""
    try:
        return dynamic_symbols(memory.read, libc.base, names) if libc.base is not None else {}
    except ArenascopeError:
        return {}


def exported(memory: Memory, libc: Libc, *names: str) -> dict[str, int]:
    """Returns the addresses of the same."""
    return {name: symbol.value for name, symbol in exported_symbols(memory, libc, names).items()}


def current_brk(
    target: Target, memory: Memory, libc: Libc, regions: Sequence[Region], main: ArenaHeader
) -> Optional[int]:
    """Returns the value of __curbrk: exported by every libc.so.6, a symbol in a static program. None if it is not
    found.

    The end of the [heap] mapping is not the same: it is rounded to a page. Yet it suffices for systrim.
    """
    address = exported(memory, libc, "__curbrk").get("__curbrk")
    if address is None:
        address = _by_symbol(target, memory, libc, regions)
    brk = memory.try_word(address) if address is not None else None
    return brk if brk is not None else _by_mapping(main, regions)


def _by_symbol(target: Target, memory: Memory, libc: Libc, regions: Sequence[Region]) -> Optional[int]:
    """Uses the debugger's symbol, moved to where this libc was loaded if it belongs to another copy (dlmopen)."""
    symbol = target.symbol("__curbrk")
    if symbol is None or any(region.contains(symbol.address) for region in libc.data):
        return symbol.address if symbol else None
    copy = module_at(target, memory, regions, symbol.address)
    if libc.base is None or copy.base is None or copy.build_id != libc.build_id or copy.build_id is None:
        return None
    return symbol.address - copy.base + libc.base


def _by_mapping(main: ArenaHeader, regions: Sequence[Region]) -> Optional[int]:
    """Returns a break that serves systrim as well as the real one, from the mapping that top ends in.

    top ends at a page's edge and never beyond the break, so the mapping ends there exactly if the break does.
    """
    if main.top_bytes is None:
        return None
    end = main.top + main.top_bytes
    here = next((region for region in regions if region.contains(end - 1)), None)
    if not main.contiguous or here is None or any(region.start == end for region in regions):
        return None
    return here.end


def lies_in_libc(libc: Libc) -> bool:
    """Tells whether malloc is a library's, whose own tables tell where its functions lie; a static program has none."""
    return bool(LIBC_NAME.search(libc.path))
