"""Damages to lists of free chunks: bins, fastbins and thread caches, each by a name."""

from __future__ import annotations

from typing import Optional

from heapbuilder import HeapImage
from wounds import Hurt, Wound, victim


def cached_bin(image: HeapImage) -> int:
    """A bin of thread 1's cache that has three entries."""
    return next(index for index, chunks in image.thread(1).bins.items() if len(chunks) == 3)


def large_bin(image: HeapImage) -> int:
    return max(index for index, chunks in victim(image).bins.items() if len(chunks) == 2)


# bins


def size_of(how: str, which: str) -> Wound:
    def wound(image: HeapImage) -> Hurt:
        arena = victim(image)
        index = {"unsorted": 1, "small": min(i for i in arena.bins if i > 1), "large": large_bin(image)}[which]
        chunk = arena.bins[index][-1]
        getattr(image.corrupt, how)(chunk)
        return Hurt({2}, chunk.address)

    return wound


def another_bins_size(image: HeapImage) -> Hurt:
    arena = victim(image)
    chunk = arena.bins[large_bin(image)][-1]
    image.corrupt.size(chunk, 2 * chunk.size)
    return Hurt({2}, chunk.address)


def flags_of_a_free_chunk(flags: int) -> Wound:
    def wound(image: HeapImage) -> Hurt:
        chunk = victim(image).bins[1][0]
        image.corrupt.flags(chunk, flags)
        return Hurt({2}, chunk.address)

    return wound


def list_of(how: str, index: int, place: str = "last") -> Wound:
    def wound(image: HeapImage) -> Hurt:
        arena = victim(image)
        getattr(image.corrupt, how)(arena, index)
        chunks = arena.bins[index]
        named = {
            "first": chunks[0].address,
            "last": chunks[-1].address,
            "nowhere": image.nowhere,
            "odd": chunks[0].address + 4,
        }
        return Hurt({2}, named[place])

    return wound


def half_linked(which: str) -> Wound:
    """Stopped between the two stores that link a chunk in or out."""

    def wound(image: HeapImage) -> Hurt:
        arena, row = victim(image), image.row
        word = row.word
        first, second = arena.bins[1][0].address, arena.bins[1][1].address
        header = arena.address + row.state["bins"] - 2 * word
        if which == "free: bck->fd set, fwd->bk not":
            image.poke(second + 3 * word, header)
            return Hurt({2}, second)
        if which == "unlink_chunk: fd->bk set, bk->fd not":
            image.poke(second + 3 * word, header)
            return Hurt({2}, second)
        if which == "unsorted removal: bin->bk set, bck->fd not":
            image.poke(header + 3 * word, first)
            return Hurt({2}, header)
        # a remainder that is linked, its size word not written yet
        image.poke(first + word, 0)
        return Hurt({2}, first)

    return wound


HALF = (
    "free: bck->fd set, fwd->bk not",
    "unlink_chunk: fd->bk set, bk->fd not",
    "unsorted removal: bin->bk set, bck->fd not",
    "remainder: linked, no size yet",
)


# fastbins and thread caches


def fast(how: str) -> Wound:
    def wound(image: HeapImage) -> Optional[Hurt]:
        if not image.row.has_fastbins:
            return None
        arena = victim(image)
        index = max(arena.fastbins, key=lambda index: len(arena.fastbins[index]))
        getattr(image.corrupt, f"{how}_fast")(arena, index)
        return Hurt({2}, {"dangle": image.nowhere, "misalign": arena.fastbins[index][0].address + 4}.get(how))

    return wound


def fast_size(image: HeapImage) -> Optional[Hurt]:
    if not image.row.has_fastbins:
        return None
    chunk = next(iter(victim(image).fastbins.values()))[0]
    image.corrupt.size(chunk, 2 * chunk.size)
    return Hurt({2}, chunk.address)


def cache(how: str) -> Wound:
    def wound(image: HeapImage) -> Optional[Hurt]:
        if not image.row.has_tcache:
            return None
        thread, index = image.thread(1), cached_bin(image)
        getattr(image.corrupt, f"{how}_tcache")(thread, index)
        first = image.row.user(thread.bins[index][0].address)
        return Hurt(caches=True, address={"dangle": image.nowhere, "misalign": first + 4, "cycle": first}[how])

    return wound


def cache_size(image: HeapImage) -> Optional[Hurt]:
    if not image.row.has_tcache:
        return None
    chunk = image.thread(1).bins[cached_bin(image)][0]
    image.corrupt.size(chunk, 2 * chunk.size)
    return Hurt(caches=True, address=image.row.user(chunk.address))


def cache_count(image: HeapImage) -> Optional[Hurt]:
    """The count says much more than the list holds: entries were lost."""
    if not image.row.has_tcache:
        return None
    thread, index = image.thread(1), cached_bin(image)
    assert thread.tcache is not None
    image.corrupt.tcache_count(thread, index, 0 if image.row.counts_free_slots else 7)
    return Hurt(caches=True, address=image.row.user(thread.tcache.address))


def cache_head(value: int) -> Wound:
    def wound(image: HeapImage) -> Optional[Hurt]:
        if not image.row.has_tcache:
            return None
        thread, form = image.thread(1), image.row.tcache
        assert thread.tcache is not None
        at = image.row.user(thread.tcache.address) + form["entries"] + cached_bin(image) * image.row.word
        image.poke(at, image.peek(at) + 4 if value else 0)
        return Hurt(caches=True, address=image.peek(at) or None)

    return wound


LISTS: dict[str, Wound] = {
    **{
        f"{how} of a chunk in a {which} bin": size_of(how, which)
        for how in ("oversize", "zero_size", "misalign_size")
        for which in ("unsorted", "small", "large")
    },
    "size of another bin": another_bins_size,
    **{f"flags {flags} on a free chunk": flags_of_a_free_chunk(flags) for flags in (0, 3, 5, 7)},
    "bin loops": list_of("loop_bin", 1, "first"),
    "fd leads nowhere": list_of("dangle_fd", 1, "nowhere"),
    "fd is no chunk's": list_of("misalign_fd", 1, "odd"),
    "bk is wrong": list_of("break_bk", 1),
    "bin's header leads nowhere": list_of("dangle_bin", 1, "nowhere"),
    **{f"half linked: {which}": half_linked(which) for which in HALF},
    **{f"fastbin: {how}": fast(how) for how in ("cycle", "misalign", "dangle")},
    "fastbin: size": fast_size,
    **{f"thread cache: {how}": cache(how) for how in ("cycle", "misalign", "dangle")},
    "thread cache: size": cache_size,
    "thread cache: count": cache_count,
    "thread cache: head is no block's": cache_head(4),
    "thread cache: head is 0": cache_head(0),
}
