"""Where everything lies: mappings, symbols, thread blocks and mp_'s settings of a built process."""

from __future__ import annotations

import random
from typing import Union

from glibc_rows import up

from arenascope.sources.target import Region

LIBC, APP = "/lib/libc.so.6", "/usr/bin/app"
TEXT, RODATA, DATA, BSS = 0x150000, 0x50000, 0x4000, 0xD000
STACK, TLS_BLOCK = 0x40000, 0x1000

# executable, break, libc, mappings of malloc's heaps, thread stacks, main stack: as Linux places them
PLAN = {
    8: (0x555555550000, 0x555555600000, 0x7FFFF7C00000, 0x7FF000000000, 0x7FE000000000, 0x7FFFFFFE0000),
    4: (0x56550000, 0x56600000, 0xF7C00000, 0xE0000000, 0x90000000, 0xFFFE0000),
}
STATIC_PLAN = {8: (0x400000, 0x700000), 4: (0x8050000, 0x8400000)}


class Places:
    """The part of HeapImage that knows addresses."""

    PID = 4000

    def place(self, seed: int, brk_offset: int, static: bool) -> None:
        word, page = self.row.word, self.row.page_size
        rng = random.Random(f"places {seed}")
        # seed 0 is the process without address space randomization
        shift = 0x10000 * rng.randrange(1, 0x1000 if word == 8 else 0x20) if seed else 0
        exe, brk, libc, heaps, stacks, self.main_stack = PLAN[word]
        if static:
            exe, brk = STATIC_PLAN[word]
            # __libc_setup_tls takes the main thread's block from the break before malloc exists
            brk_offset = brk_offset or 0xD40
        self.static = static
        self.heap_start = brk + shift
        self.first_brk = self.heap_start + brk_offset
        self.brk_limit = self.first_brk + (1 << 40 if word == 8 else 0x20000000)
        self.nowhere = 1 << 46 if word == 8 else 1 << 30
        """An aligned address that nothing is mapped at."""
        self.cuts: list[tuple[int, int]] = []
        self.fixed: list[Region] = []
        self._mapped = libc - shift
        self._next_heap = heaps
        self._next_stack = stacks - shift
        data = self._place_files(exe, libc - shift, page, static)
        self._place_symbols(data, data + up(DATA, page))

    def _place_files(self, exe: int, libc: int, page: int, static: bool) -> int:
        """The file mappings; where the data segment with malloc's variables begins."""
        path, base = (APP, exe) if static else (LIBC, libc)
        rodata, data = base + TEXT, base + TEXT + RODATA
        bss = data + up(DATA, page)
        if not static:
            self.fixed += [
                Region(exe, exe + 0x10000, writable=False, executable=True, path=APP, present=False),
                Region(exe + 0x10000, exe + 0x20000, path=APP, offset=0x10000),
            ]
        self.fixed += [
            Region(base, rodata, writable=False, executable=True, path=path, present=False),
            Region(rodata, data, writable=False, path=path, offset=TEXT),
            Region(data, bss, path=path, offset=TEXT + RODATA),
            Region(bss, bss + up(BSS, page)),
        ]
        self.main_tls = self.heap_start if static else bss + up(BSS, page) + page
        if not static:
            self.fixed.append(Region(self.main_tls, self.main_tls + up(TLS_BLOCK, page)))
        banner = f"GNU C Library (GNU libc) stable release version {self.row.version}.\n\0{self.row.version}\0"
        self.space.write(rodata + 0x8000, banner.encode())
        self.rodata = rodata
        return data

    def _place_symbols(self, data: int, bss: int) -> None:
        word = self.row.word
        mp = data + 0x4A0
        main_arena = mp + 0x920
        self.addresses = {
            "mp_": mp,
            "narenas": mp - word,
            "main_arena": main_arena,
            "free_list": bss + 0x100,
            "tcache_key": bss + 0x110,
            "global_max_fast": bss + 0x120,
            "__curbrk": bss + 0x1A0,
            "__malloc_hook": main_arena - 2 * word,
            "__tcache_dummy": self.rodata + 0x9000,
        }
        # list heads of other code that look like an empty bin
        for decoy in (data + 0x100, data + 0x3000, bss + 0x400):
            self.space.put(decoy, decoy - 2 * word)
            self.space.put(decoy + word, decoy - 2 * word)
        for name, value, size in (("narenas", 1, word), ("global_max_fast", self.row.max_fast, 0)):
            small = name == "global_max_fast" and self.row.number >= (2, 37)
            self.space.put(self.addresses[name], value, 1 if small else size)

    # mappings that come with laying

    def map_anonymous(self, size: int, gap: int = 0) -> int:
        self._mapped = (self._mapped - gap - size) & -self.grain
        self.fixed.append(Region(self._mapped, self._mapped + size))
        return self._mapped

    def reserve_heap(self) -> int:
        self._next_heap = (self._next_heap - self.heap_max) & -self.heap_max
        return self._next_heap

    def map_stack(self, number: int) -> tuple[int, int]:
        """(stack pointer, thread pointer) of a thread."""
        page = self.row.page_size
        if number == 0:
            end, block = self.main_stack, self.main_tls
            self.fixed.append(Region(end - STACK, end, path="[stack]"))
        else:
            # the thread's block is the upper end of its stack, a guard page the lower
            end = self._next_stack
            start = end - STACK
            block = end - TLS_BLOCK
            self._next_stack = start - page
            self.fixed.append(Region(start - page, start, readable=False, writable=False, present=False))
            self.fixed.append(Region(start, end))
        anchor = block + 0x800
        far = self.row.tls_arena < -0x1000
        pointer = anchor + 0x7000 if far else anchor
        # what else is there: locale tables in libc, and on x86 the block's own address
        nearest = pointer + min(self.row.tls_arena, self.row.tls_tcache)
        for place in (3, 4):
            self.space.put(nearest - place * self.row.word, self.addresses["mp_"] - 0x100 * place)
        if self.row.arch in ("x86-64", "i386", "x32"):
            self.space.put(pointer, pointer)
            self.space.put(pointer + 2 * self.row.word, pointer)
        return end - 0x3000, pointer

    # what a target is told

    def regions(self, rodata: bool) -> list[Region]:
        page = self.row.page_size
        found = list(self.fixed)
        if not rodata:
            found = [r._replace(present=False) if r.start == self.rodata else r for r in found]
        brks = [s.end for s in self.main.segments if s.source == "brk" and s.end is not None]
        brk = max(brks, default=self.first_brk)
        if brk > self.heap_start:
            found.append(Region(self.heap_start, up(brk, page), path="[heap]"))
        for segment in (segment for arena in self.thread_arenas for segment in arena.segments):
            usable = segment.end + segment.spare
            found.append(Region(segment.address, usable))
            if usable < segment.limit:
                found.append(Region(usable, segment.limit, readable=False, writable=False, present=False))
        return self._without_cuts(merged(found))

    def _without_cuts(self, regions: list[Region]) -> list[Region]:
        for start, end in self.cuts:
            parts = []
            for region in regions:
                edges = sorted({region.start, *(e for e in (start, end) if region.start < e < region.end), region.end})
                for low, high in zip(edges, edges[1:]):
                    present = region.present and not start <= low < end
                    offset = region.offset + low - region.start if region.path else 0
                    parts.append(region._replace(start=low, end=high, present=present, offset=offset))
            regions = parts
        return regions

    def symbols(self, kind: Union[bool, str]) -> dict[str, int]:
        """True: all that this release has; "exported": what a stripped libc.so.6 still tells."""
        number = self.row.number
        missing = {"__malloc_hook"} if number > (2, 33) else set()
        missing |= {"global_max_fast"} if not self.row.has_fastbins else set()
        missing |= {"tcache_key"} if number < (2, 34) else set()
        missing |= {"__tcache_dummy"} if not self.row.tcache_lazy else set()
        wanted = {"__curbrk", "__malloc_hook"} if kind == "exported" else set(self.addresses if kind else ())
        return {name: self.addresses[name] for name in wanted - missing}

    def thread_locals(self) -> dict[str, int]:
        names = {"thread_arena" if self.row.number >= (2, 23) else "__libc_tsd_MALLOC": self.row.tls_arena}
        if self.row.has_tcache:
            names["tcache"] = self.row.tls_tcache
        return names

    # mp_

    def default_mp(self) -> dict[str, int]:
        """As read from untouched processes."""
        defaults = {
            "trim_threshold": 131072,
            "top_pad": 131072,
            "mmap_threshold": 131072,
            "arena_test": 8 if self.row.word == 8 else 2,
            "thp_mode": 3 if self.row.number < (2, 44) else 0,
            "n_mmaps_max": 65536,
            "tcache_bins": 64,
            "tcache_max_bytes": self.row.tcache_max_bytes,
            "tcache_count": self.row.tcache_count,
        }
        return {name: defaults.get(name, 0) for name in self.row.par if name != "sizeof"}

    def mp_values(self) -> dict[str, int]:
        """Settings, and what follows from the blocks that were laid."""
        count = len(self.mmapped_blocks)
        mapped = sum(block.total for block in self.mmapped_blocks)
        if self.row.new_mmap_form:
            mapped += self.mremaps * self.row.header
        values = {
            "n_mmaps": count,
            "max_n_mmaps": count,
            "mmapped_mem": mapped,
            "max_mmapped_mem": mapped,
            "sbrk_base": self.main.segments[0].address if self.main.segments else 0,
        }
        return {**self.mp, **{name: value for name, value in values.items() if not self.mp[name]}}


def merged(regions: list[Region]) -> list[Region]:
    """In address order; the kernel shows neighbours that are anonymous and alike as one mapping."""
    found: list[Region] = []
    for region in sorted(regions, key=lambda region: region.start):
        last = found[-1] if found else None
        touches = last is not None and last.end == region.start and not region.path
        if last is not None and touches and region._replace(start=last.start, end=last.end) == last:
            found[-1] = last._replace(end=region.end)
        else:
            found.append(region)
    return found
