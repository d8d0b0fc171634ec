"""Damaged heaps: what can be read is shown and marked as partial, every walk ends, no wrong figure passes for right."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import cycle
from typing import Any, Callable, Optional

import pytest
from fake_door import run_json, run_text
from fake_target import FakeTarget
from heap_chunks import ArenaBuilder
from heap_mixtures import everything
from heap_pictures import tally, used_bytes
from heap_truth import ArenaTruth
from heapbuilder import HeapImage

from arenascope.base.errors import ArenascopeError
from arenascope.commands.framework.find_command import COMMAND_NAMES
from arenascope.session.session import Session


@dataclass
class Hurt:
    """What was damaged, and what has to be said of it."""

    arenas: set[int] = field(default_factory=set)
    """Whose figures can not be known any more."""
    address: Optional[int] = None
    """What a problem must name."""
    lost: set[int] = field(default_factory=set)
    """Arenas that nothing leads to any more."""
    caches: bool = False
    """A thread's cache: whose chunks it holds can not be told, so no arena's use is known."""


Wound = Callable[[HeapImage], Optional[Hurt]]
"""Damages the image; None where this release has nothing of the kind."""


def victim(image: HeapImage) -> ArenaBuilder:
    """Arena 2 of 3: one that has its neighbours in the ring."""
    return image.thread(2).arena


def truth_of(image: HeapImage, arena: ArenaBuilder) -> ArenaTruth:
    return image.truth.arena(arena.address)


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
        chunks = arena.bins[index]
        if how in ("break_bk", "dangle_bin"):
            getattr(image.corrupt, how)(arena, index)
        else:
            image.corrupt.link(chunks, how)
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
        image.corrupt.link(arena.fastbins[index], how, "fast")
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
        image.corrupt.link(thread.bins[index], how, "cache")
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
    "bin loops": list_of("cycle", 1, "first"),
    "fd leads nowhere": list_of("dangle", 1, "nowhere"),
    "fd is no chunk's": list_of("misalign", 1, "odd"),
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


READS = 20_000
"""What all of one command may read: an undamaged image takes a tenth of it."""
ROWS = ["2.17-64", "2.26-i386", "2.31-64", "2.36-s390x", "2.43-64"]
rows = pytest.mark.parametrize("row", ROWS)
WOUNDS = {**LISTS, **ARENAS}


@pytest.mark.parametrize(("name", "row"), [*zip(WOUNDS, cycle(ROWS))])
def test_a_wound_shows_and_stays_where_it_is(row: str, name: str) -> None:
    image = everything(row)
    hurt = WOUNDS[name](image)
    if hurt is None:
        return
    target = image.target()
    document = run_json(target, "arenas")
    assert target.reads < READS
    assert document["complete"] is False
    assert document["problems"]
    if hurt.address is not None:
        named = {name for each in document["problem_records"] for name in each["names"].values()}
        assert f"{hurt.address:#x}" in named, document["problems"]
    found = {arena["index"]: arena for arena in document["arenas"]}
    assert set(found) == {0, 1, 2, 3} - hurt.lost
    check_figures(image, found, hurt)
    totals = document["totals"]["used_bytes"]
    if hurt.arenas or hurt.caches:
        assert totals is None


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.full if at % 12 else ()) for at, name in enumerate(WOUNDS)]
)
def test_a_wound_ends_no_command(name: str) -> None:
    image = everything("2.43-64")
    if WOUNDS[name](image) is not None:
        run_everything(image.target())


def check_figures(image: HeapImage, found: dict[int, Any], hurt: Hurt) -> None:
    """What is not hurt is right; what is hurt is not derived from."""
    for index, arena in found.items():
        truth = image.truth.arenas[index]
        if hurt.caches:
            assert arena["used_bytes"] is None
            assert arena["tcache"] == {"chunks": None, "bytes": None}
        if index in hurt.arenas:
            assert arena["used_bytes"] is None
            continue
        for key, chunks in (("bins", truth.free), ("fast", truth.fast)):
            expected = tally(chunks)
            assert arena[key] == {"chunks": expected.chunks, "bytes": expected.bytes}
        assert truth.top is not None
        assert (arena["system_bytes"], arena["top_bytes"]) == (truth.system_mem, truth.top.size)
        if not hurt.caches:
            # a cached chunk may lie in what is hurt; of this arena all are known
            assert arena["used_bytes"] in (used_bytes(truth), None if hurt.lost else used_bytes(truth))


def run_everything(target: FakeTarget) -> None:
    """Every command, as text and as JSON: each answers, marks itself as partial, and ends."""
    for command in COMMAND_NAMES:
        target.reset_counts()
        try:
            text = run_text(target, command)
        except ArenascopeError:
            continue
        assert text.strip()
        assert target.reads < READS, command


# damages that these figures do not depend on


@rows
def test_marks_that_no_list_needs(row: str) -> None:
    """Neighbours' bits and feet are `check`'s to look at: nothing is derived from them here."""
    image = everything(row)
    chunk = victim(image).bins[1][0]
    image.corrupt.flip_prev_inuse(chunk)
    image.corrupt.prev_size(chunk)
    document = run_json(image.target(), "arenas")
    assert document["complete"] is True
    check_figures(image, {arena["index"]: arena for arena in document["arenas"]}, Hurt())


@rows
def test_a_locked_arena_is_walked_all_the_same(row: str) -> None:
    image = everything(row)
    image.corrupt.lock(victim(image))
    session = Session(image.target())
    assert [header.mutex for header in session.headers] == [0, 0, 1, 0]
    assert session.findings == []


@pytest.mark.parametrize("row", ["2.31-64", "2.36-64", "2.43-64"])
def test_a_count_that_is_one_behind(row: str) -> None:
    """tcache_put and tcache_get change the list first: the list is right, and it is said that the two differ."""
    image = everything(row)
    thread, index = image.thread(1), cached_bin(image)
    image.corrupt.tcache_count(thread, index, 12 if row == "2.43-64" else 2)
    document = run_json(image.target(), "arenas")
    check_figures(image, {arena["index"]: arena for arena in document["arenas"]}, Hurt())
    assert all(arena["used_bytes"] is not None for arena in document["arenas"])


# whatever may come
