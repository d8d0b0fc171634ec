"""Writes what the builders laid into memory, byte for byte as glibc leaves it, and says what was written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional, Sequence

from glibc_tables import INTS
from heap_arenas import MainArena
from heap_chunks import ArenaBuilder, Segment
from heap_threads import ThreadBuilder
from heap_truth import ArenaTruth, Chunk, ThreadTruth, Truth

if TYPE_CHECKING:
    from heapbuilder import HeapImage

PREV_INUSE, NON_MAIN = 1, 4
NONCONTIGUOUS = 2
FASTCHUNKS_BIT = 1
STALE_BIN = 40
FREE_KINDS = ("used", "free", "fast", "cached")


def bin_header(word: int, bins: int, index: int) -> int:
    """bin_at: bins[2 * (index - 1)] stands where the fd of a chunk would."""
    return bins + 2 * (index - 1) * word - 2 * word


class Writer:
    def __init__(self, image: HeapImage) -> None:
        self.image = image
        self.row = image.row
        self.space = image.space

    def write(self) -> Truth:
        newest_first = [self.image.main, *reversed(self.image.thread_arenas)]
        tops = [arena.close() for arena in newest_first]
        arenas = [self._truth(index, arena, tops[index]) for index, arena in enumerate(newest_first)]
        for arena, truth in zip(newest_first, arenas):
            self._chunks(arena, truth)
            self._lists(arena)
            self._state(arena, truth, arenas[(truth.index + 1) % len(arenas)].address)
            if not arena.main:
                self._heap_infos(arena)
        self._free_list([truth for truth in arenas if truth.attached_threads == 0])
        threads = [self._thread(thread) for thread in self.image.threads.values()]
        curbrk = self._brk()
        self.space.put(self.image.addresses["__curbrk"], curbrk)
        return Truth(arenas, threads, self.image.mmapped_blocks, self._par(), curbrk)

    # what is true

    def _truth(self, index: int, arena: ArenaBuilder, top: Optional[Chunk]) -> ArenaTruth:
        system_mem = self._system_mem(arena)
        truth = ArenaTruth(
            index=index,
            address=arena.address,
            system_mem=system_mem,
            max_system_mem=max(system_mem, arena.peak),
            attached_threads=arena.attached,
            contiguous=isinstance(arena, MainArena) and arena.contiguous,
            top=top,
            heaps=arena.segments,
            bins={index: list(chunks) for index, chunks in sorted(arena.bins.items())},
            fastbins={index: list(chunks) for index, chunks in sorted(arena.fastbins.items())},
        )
        lists = {"used": truth.used, "free": truth.free, "fast": truth.fast, "cached": truth.cached}
        for segment in arena.segments:
            for piece in segment.pieces:
                lists.get(piece.kind, truth.fences).append(Chunk(piece.address, piece.size))
        for chunks in (*lists.values(), truth.fences):
            chunks.sort()
        return truth

    def _system_mem(self, arena: ArenaBuilder) -> int:
        """While contiguous, main counts foreign bytes in the brk heap too (sysmalloc: brk - old_end)."""
        total, contiguous, reached = 0, True, 0
        for number, segment in enumerate(arena.segments):
            contiguous = contiguous and segment.source == "brk"
            total += segment.end - (reached if contiguous and number else segment.address)
            reached = segment.end
        return total

    def _brk(self) -> int:
        main = self.image.main
        ends = [segment.end for segment in main.segments if segment.source == "brk" and segment.end]
        return max(ends, default=main.brk)

    # chunks and the lists that join them

    def _chunks(self, arena: ArenaBuilder, truth: ArenaTruth) -> None:
        for segment in arena.segments:
            for piece in segment.pieces:
                if piece.kind in FREE_KINDS:
                    self._stale(piece.address, piece.size)
            self._headers(arena, segment)
        if truth.top is not None:
            self.space.put(truth.top.address + self.row.word, truth.top.size | PREV_INUSE)

    def _headers(self, arena: ArenaBuilder, segment: Segment) -> None:
        word, before = self.row.word, None
        for piece in segment.pieces:
            flags = PREV_INUSE
            if before is not None and before.kind == "free":
                flags = 0
            if before is not None and (before.kind == "free" or piece.kind == "final"):
                self.space.put(piece.address, before.size)
            if not arena.main and piece.kind in ("used", "fast", "cached"):
                flags |= NON_MAIN
            self.space.put(piece.address + word, piece.size | flags)
            before = piece

    def _stale(self, chunk: int, size: int) -> None:
        """What a program left behind: odd words, which are no pointers, also in the successor's prev_size."""
        word = self.row.word
        for place in {*range(2, min(6, size // word + 1)), size // word}:
            self.space.put(chunk + place * word, (chunk + place) * 0x9E3779B97F4A7C15 >> 5 | 1)

    def _ring(self, nodes: Sequence[int], forward: int, backward: int) -> None:
        for node, following in zip(nodes, [*nodes[1:], nodes[0]]):
            self.space.put(node + forward * self.row.word, following)
            self.space.put(following + backward * self.row.word, node)

    def _lists(self, arena: ArenaBuilder) -> None:
        row, state = self.row, self.row.state
        if not arena.segments and row.number < (2, 42):
            return
        for index in range(1, 128):
            chunks = arena.bins.get(index, [])
            self._ring([arena.address + bin_header(row.word, state["bins"], index), *(c.address for c in chunks)], 2, 3)
            large = [chunk for chunk in chunks if chunk.size >= row.min_large]
            for chunk in large:
                self.space.put(chunk.address + 4 * row.word, 0)
                self.space.put(chunk.address + 5 * row.word, 0)
            if index > 1 and chunks:
                self._binmap(arena, index)
            if index > 1 and large:
                # fd_nextsize and bk_nextsize join the first chunk of each size
                firsts: dict[int, int] = {}
                for chunk in large:
                    firsts.setdefault(chunk.size, chunk.address)
                self._ring([*firsts.values()], 4, 5)
        if arena.segments:
            # malloc clears a bit only when it comes across the empty bin
            self._binmap(arena, STALE_BIN)
        for index, chunks in arena.fastbins.items():
            self.space.put(arena.address + state["fastbinsY"] + index * row.word, chunks[0].address)
            self._singly([chunk.address for chunk in chunks], 2 * row.word)

    def _binmap(self, arena: ArenaBuilder, index: int) -> None:
        address = arena.address + self.row.state["binmap"] + index // 32 * 4
        self.space.put(address, self.space.get(address, 4) | 1 << index % 32, 4)

    def _singly(self, nodes: Sequence[int], offset: int) -> None:
        for node, following in zip(nodes, [*nodes[1:], 0]):
            mask = (node + offset) >> 12 if self.row.safe_linking else 0
            self.space.put(node + offset, following ^ mask)

    # arenas, heaps, mp_

    def _state(self, arena: ArenaBuilder, truth: ArenaTruth, following: int) -> None:
        row, state, has_heap = self.row, self.row.state, bool(arena.segments)
        values = {
            "mutex": arena.mutex,
            "flags": 0 if truth.contiguous or not has_heap else NONCONTIGUOUS,
            "have_fastchunks": int(bool(arena.fastbins)),
            "top": truth.top.address if truth.top else 0,
            "last_remainder": truth.free[0].address if truth.free else 0,
            "next": following,
            "attached_threads": arena.attached,
            "system_mem": truth.system_mem,
            "max_system_mem": truth.max_system_mem,
        }
        if truth.top is None and row.number >= (2, 42):
            # initial_top: the header of bin 1, as __ptmalloc_init leaves it at startup
            values["top"] = arena.address + state["bins"] - 2 * row.word
        if "have_fastchunks" not in state and row.has_fastbins and has_heap and not arena.fastbins:
            values["flags"] |= FASTCHUNKS_BIT
        for name, value in values.items():
            if name in state:
                self.space.put(arena.address + state[name], value, 4 if name in INTS else row.word)

    def _heap_infos(self, arena: ArenaBuilder) -> None:
        fields, before = self.row.heap_info, 0
        for segment in arena.segments:
            values = {
                "ar_ptr": arena.address,
                "prev": before,
                "size": segment.size,
                "mprotect_size": segment.mprotect_size,
                "pagesize": self.image.grain,
            }
            for name, value in values.items():
                if name in fields:
                    self.space.put(segment.address + fields[name], value)
            before = segment.address

    def _free_list(self, idle: Sequence[ArenaTruth]) -> None:
        addresses = [truth.address for truth in idle if truth.index > 0]
        self.space.put(self.image.addresses["free_list"], addresses[0] if addresses else 0)
        for address, following in zip(addresses, [*addresses[1:], 0]):
            self.space.put(address + self.row.state["next_free"], following)

    def _par(self) -> dict[str, int]:
        values = {name: value for name, value in self.image.mp_values().items() if name in self.row.par}
        for name, value in values.items():
            address = self.image.addresses["mp_"] + self.row.par[name]
            self.space.put(address, value, 4 if name in INTS else self.row.word)
        return values

    # threads

    def _thread(self, thread: ThreadBuilder) -> ThreadTruth:
        row, tp = self.row, thread.thread_pointer
        arena = thread.arena.address if thread.arena else None
        tcache = row.user(thread.tcache.address) if thread.tcache else None
        self.space.put(tp + row.tls_arena, arena or 0)
        if row.has_tcache:
            dummy = self.image.addresses["__tcache_dummy"] if row.tcache_lazy else 0
            self.space.put(tp + row.tls_tcache, tcache or dummy)
        if tcache is not None:
            self._tcache(tcache, thread)
        return ThreadTruth(thread.tid, arena, tcache, {i: list(chunks) for i, chunks in sorted(thread.bins.items())})

    def _tcache(self, address: int, thread: ThreadBuilder) -> None:
        row, form = self.row, self.row.tcache
        self.space.write(address, bytes(form["sizeof"]))
        for index in range(form["slots"]):
            count = len(thread.bins.get(index, ()))
            if row.counts_free_slots:
                count = self.image.mp["tcache_count"] - count
            self.space.put(address + form["counts"] + index * form["count_size"], count, form["count_size"])
        key = address if row.tcache_key == "pointer" else self.image.tcache_key
        for index, chunks in thread.bins.items():
            users = [row.user(chunk.address) for chunk in chunks]
            self.space.put(address + form["entries"] + index * row.word, users[0])
            self._singly(users, 0)
            for user in users if row.tcache_key else []:
                self.space.put(user + row.word, key)
