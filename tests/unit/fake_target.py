"""A Target over memory that a test wrote: a sparse address space, and what a debugger would know about it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Mapping, Optional, Sequence

from glibc_rows import Row
from glibc_tables import INTS

from arenascope.base.errors import MemoryReadError, UsageError
from arenascope.sources.elf.elf_file import build_id_in_memory, differ
from arenascope.sources.target import (
    ByteOrder,
    FieldPlace,
    Image,
    MemoryPiece,
    Region,
    RegisterSets,
    StructInfo,
    Symbol,
    SymbolPlace,
    ThreadInfo,
)
from arenascope.sources.type_source import TypeSource

# the processor of a row's architecture, where it has another name
MACHINES = {"x86-64": "x86_64", "ppc64le": "ppc64", "ppc32": "ppc"}


class Space:
    """Bytes by address, of which only pages that were written take memory; the rest reads as zero."""

    PAGE = 4096
    EMPTY = bytes(PAGE)

    def __init__(self, word: int, byte_order: ByteOrder) -> None:
        self.word_size = word
        self.byte_order = byte_order
        self._pages: dict[int, bytearray] = {}

    def write(self, address: int, data: bytes) -> None:
        while data:
            page, offset = divmod(address, self.PAGE)
            part = data[: self.PAGE - offset]
            block = self._pages.setdefault(page, bytearray(self.PAGE))
            block[offset : offset + len(part)] = part
            address, data = address + len(part), data[len(part) :]

    def read(self, address: int, size: int) -> bytes:
        parts = []
        while size > 0:
            page, offset = divmod(address, self.PAGE)
            part = self._pages.get(page, self.EMPTY)[offset : offset + size]
            parts.append(part)
            address, size = address + len(part), size - len(part)
        return b"".join(parts)

    def put(self, address: int, value: int, size: int = 0) -> None:
        """An unsigned number of `size` bytes (0: a word)."""
        width = size or self.word_size
        self.write(address, (value & ((1 << (8 * width)) - 1)).to_bytes(width, self.byte_order))

    def get(self, address: int, size: int = 0) -> int:
        return int.from_bytes(self.read(address, size or self.word_size), self.byte_order)


class FakeImage(Image):
    """Nothing is known of it but what a test sets."""

    online: Optional[int] = None
    """Processors of its machine."""

    def processors(self) -> Optional[int]:
        return self.online


@dataclass
class FakeTarget:
    """Implements arenascope.sources.target.Target. Tests may set any field before the walk."""

    row: Row
    space: Space
    mappings: Sequence[Region]
    symbols: Mapping[str, int]
    structs: Mapping[str, StructInfo]
    thread_infos: Sequence[ThreadInfo]
    thread_locals: Mapping[str, int]
    """The offset of each thread-local variable from the thread pointer."""
    door: str = "fake"
    kind: str = "core"
    pid: Optional[int] = 4000
    env: Optional[Mapping[str, str]] = field(default_factory=dict)
    secure: Optional[bool] = None
    image: FakeImage = field(default_factory=FakeImage)
    files: Mapping[str, str] = field(default_factory=dict)
    """Local paths by the path of the mapped file."""
    regions_known: bool = True
    """False: memory can be read, but nothing tells what is mapped."""
    symbol_build_id: Optional[str] = None
    """Of the file that symbols came from; None where the debugger does not tell."""
    reads: int = 0
    bytes_read: int = 0

    def __post_init__(self) -> None:
        self.pointer_size = self.row.word
        self.byte_order = self.row.byte_order
        self.machine = MACHINES.get(self.row.arch, self.row.arch)
        self.page_size = self.row.page_size
        self.mappings = sorted(self.mappings, key=lambda region: region.start)
        self._starts = [region.start for region in self.mappings]

    def forget_types(self) -> None: ...

    def reset_counts(self) -> None:
        self.reads = self.bytes_read = 0

    def read(self, address: int, size: int) -> bytes:
        at, end = address, address + size
        while at < end:
            index = bisect_right(self._starts, at) - 1
            region = self.mappings[index] if index >= 0 else None
            if region is None or at >= region.end or not (region.readable and region.present):
                raise MemoryReadError(address, size)
            at = region.end
        self.reads += 1
        self.bytes_read += size
        return self.space.read(address, size)

    def fill(self, address: int, block: memoryview) -> int:
        """As a file does: up to the end of the mapping."""
        index = bisect_right(self._starts, address) - 1
        size = min(len(block), self.mappings[index].end - address) if index >= 0 else 0
        block[: max(size, 1)] = self.read(address, max(size, 1))
        return size

    types: Optional[TypeSource] = None
    memory_tid: Optional[int] = None

    def register_sets(self) -> Sequence[RegisterSets]:
        return ()

    def stop_if_asked(self) -> None:
        pass

    def pieces(self, start: int, end: int) -> Optional[Sequence[MemoryPiece]]:
        return None

    def symbol(self, name: str) -> Optional[Symbol]:
        inside = [build_id_in_memory(self.read, each.start) for each in self.mappings if each.finds_malloc]
        if name not in self.symbols or any(differ(each, self.symbol_build_id) for each in inside):
            return None
        return Symbol(self.symbols[name], self.symbol_build_id)

    def describe(self, address: int) -> Optional[SymbolPlace]:
        return next((SymbolPlace(name, 0) for name, place in self.symbols.items() if place == address), None)

    def struct(self, name: str) -> Optional[StructInfo]:
        return self.structs.get(name)

    def regions(self) -> Sequence[Region]:
        return list(self.mappings) if self.regions_known else []

    def threads(self) -> Sequence[ThreadInfo]:
        return list(self.thread_infos)

    def thread_local(self, name: str, thread: ThreadInfo) -> Optional[int]:
        if name not in self.thread_locals or thread.thread_pointer is None:
            return None
        return thread.thread_pointer + self.thread_locals[name]

    def evaluate(self, expression: str) -> int:
        try:
            return int(expression, 0)
        except ValueError:
            raise UsageError(f"not a number: {expression}") from None

    def environment(self) -> Optional[Mapping[str, str]]:
        return self.env

    def is_secure(self) -> Optional[bool]:
        return self.secure

    def symbol_files(self, region: Region, build_id: str) -> Sequence[str]:
        return ()

    def loaded_build_id(self, region: Region) -> Optional[str]:
        return self.symbol_build_id if region.finds_malloc else None

    def open_file(self, region: Region) -> Optional[str]:
        return self.files.get(region.path)


def _info(name: str, row: Row, layout: Mapping[str, int], arrays: Mapping[str, int]) -> StructInfo:
    fields = {
        field_name: FieldPlace(offset, arrays.get(field_name, 4 if field_name in INTS else row.word))
        for field_name, offset in layout.items()
        if field_name != "sizeof"
    }
    return StructInfo(name, layout["sizeof"], fields)


def debug_structs(row: Row) -> dict[str, StructInfo]:
    """What this glibc's debug information would say."""
    word = row.word
    arrays = {"fastbinsY": row.nfastbins * word, "bins": 254 * word, "binmap": 16}
    par = dict(row.par)
    if row.counts_free_slots:
        par["tcache_small_bins"] = par.pop("tcache_bins")
    prefix = "mchunk_" if row.number >= (2, 25) else ""
    names = (prefix + "prev_size", prefix + "size", "fd", "bk", "fd_nextsize", "bk_nextsize")
    chunk = {name: index * word for index, name in enumerate(names)}
    infos = [
        _info("malloc_state", row, row.state, arrays),
        _info("_heap_info", row, row.heap_info, {}),
        _info("heap_info", row, row.heap_info, {}),
        _info("malloc_par", row, par, {}),
        _info("malloc_chunk", row, {**chunk, "sizeof": 6 * word}, {}),
    ]
    if row.has_tcache:
        slots, entries, count_size = row.tcache["slots"], row.tcache["entries"], row.tcache["count_size"]
        counts = "num_slots" if row.counts_free_slots else "counts"
        layout = {counts: row.tcache["counts"], "entries": entries, "sizeof": row.tcache["sizeof"]}
        infos.append(
            _info("tcache_perthread_struct", row, layout, {counts: slots * count_size, "entries": slots * word})
        )
        entry = {"next": 0, **({"key": word} if row.tcache_key else {})}
        infos.append(_info("tcache_entry", row, {**entry, "sizeof": len(entry) * word}, {}))
    return {info.name: info for info in infos}
