"""Damages to arenas and heaps, and parts that an image lacks, each by a name."""

from __future__ import annotations

from typing import Callable, Optional

from heapbuilder import HeapImage
from wounds import Hurt, Wound, truth_of, victim


def state(name: str, value: Callable[[HeapImage], int]) -> Wound:
    def wound(image: HeapImage) -> Hurt:
        image.corrupt.state(victim(image), name, value(image))
        return Hurt({2})

    return wound


def top_of(arena: int, how: str) -> Wound:
    def wound(image: HeapImage) -> Hurt:
        truth = image.truth.arenas[arena]
        assert truth.top is not None
        if how == "nowhere":
            image.corrupt.wrong_top(truth)
            return Hurt({arena}, image.nowhere)
        if how == "zero":
            image.corrupt.state(truth, "top", 0)
            return Hurt({arena})
        if how == "misaligned":
            image.corrupt.state(truth, "top", truth.top.address + 4)
            return Hurt({arena}, truth.top.address + 4)
        if how == "earlier":
            image.corrupt.state(truth, "top", truth.used[0].address)
            return Hurt({arena}, truth.used[0].address)
        if how == "overrun":
            # the classic: a block's owner wrote past its end
            image.poke(truth.top.address + image.row.word, 0x4141414141414141 & ((1 << 8 * image.row.word) - 1))
        else:
            image.corrupt.size(truth.top, {"small": truth.top.size - 0x100, "large": truth.top.size + 0x10000}[how])
        return Hurt({arena})

    return wound


def system_of_main(image: HeapImage) -> Hurt:
    image.corrupt.state(image.main, "system_mem", image.truth.main.system_mem - 0x8000)
    return Hurt({0})


def heaps_of(how: str) -> Wound:
    """Of arena 3, which has two."""

    def wound(image: HeapImage) -> Hurt:
        arena = image.thread(1).arena
        heaps = truth_of(image, arena).heaps
        if how == "loop":
            image.corrupt.loop_heaps(arena)
            return Hurt({3}, heaps[-1].address)
        if how == "break":
            image.corrupt.break_heaps(arena)
            return Hurt({3}, image.nowhere)
        if how == "owner of the newest":
            image.corrupt.wrong_ar_ptr(arena)
            return Hurt({3}, heaps[-1].address)
        if how == "size":
            image.corrupt.heap(arena, "size", heaps[-1].size + 0x1000)
            return Hurt({3})
        image.corrupt.heap(arena, "size", 1 << 62 if image.row.word == 8 else 1 << 30)
        return Hurt({3}, heaps[-1].address)

    return wound


def ring_of(how: str) -> Wound:
    def wound(image: HeapImage) -> Hurt:
        if how == "main":
            image.corrupt.break_ring()
            return Hurt(address=image.nowhere, lost={1, 2, 3})
        if how == "middle":
            image.corrupt.break_ring(image.thread(2).arena)
            return Hurt(address=image.nowhere, lost={3})
        if how == "loop":
            image.corrupt.loop_ring()
            return Hurt({3}, image.truth.arenas[1].address)
        image.corrupt.state(image.main, "next", image.truth.arenas[1].address + 0x40)
        return Hurt(address=image.truth.arenas[1].address + 0x40, lost={1, 2, 3})

    return wound


def owner_of_a_first_heap(image: HeapImage) -> Hurt:
    """heap_info lies in front of malloc_state: what overwrote the one may have spared the other."""
    image.corrupt.wrong_ar_ptr(victim(image), heap=0)
    return Hurt({2}, truth_of(image, victim(image)).heaps[0].address)


# parts that the image lacks


def without(what: str) -> Wound:
    def wound(image: HeapImage) -> Optional[Hurt]:
        page = 4096
        arena = truth_of(image, victim(image))
        if what == "a free chunk":
            start = arena.bins[1][0].address & -page
            image.corrupt.cut(start, start + page)
            cached = [chunk.address for thread in image.truth.threads for chunk in thread.cached]
            return Hurt({2}, caches=any(start <= chunk < start + page for chunk in cached))
        if what == "the end of a heap":
            assert arena.top is not None
            image.corrupt.cut(arena.top.address & -page, arena.heaps[-1].end)
            return Hurt({2})
        if what == "a thread's arena":
            image.corrupt.cut(arena.heaps[0].address, arena.heaps[0].end)
            return Hurt(address=arena.address, lost={2, 3})
        heaps = truth_of(image, image.thread(1).arena).heaps
        image.corrupt.cut(heaps[-1].address, heaps[-1].end)
        # what a cache holds that lies in there, whatever arena's it is, is not known
        caches = [thread.tcache for thread in image.threads.values() if thread.tcache is not None]
        return Hurt({3}, caches=any(heaps[-1].address <= each.address < heaps[-1].end for each in caches))

    return wound


ARENAS: dict[str, Wound] = {
    **{
        f"top of arena {arena}: {how}": top_of(arena, how)
        for arena in (0, 2)
        for how in ("nowhere", "zero", "misaligned", "earlier", "overrun", "small", "large")
    },
    "system_mem of a thread's arena": state("system_mem", lambda image: 1 << 40 if image.row.word == 8 else 1 << 28),
    "system_mem of main_arena": system_of_main,
    **{f"heaps: {how}": heaps_of(how) for how in ("loop", "break", "owner of the newest", "size", "huge size")},
    **{f"ring: {how}": ring_of(how) for how in ("main", "middle", "loop", "astray")},
    "owner of a first heap": owner_of_a_first_heap,
    **{
        f"without {what}": without(what)
        for what in ("a free chunk", "the end of a heap", "a thread's arena", "a newest heap")
    },
}
