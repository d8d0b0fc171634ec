"""What is resident: against the kernel's own page tables, and the same from the kernel's core."""

from __future__ import annotations

from album import Album, Sight
from scenarios import seen

HERE = (
    "hoard",
    "workers-30MB",
    "pinned-main",
    "pinned-thread",
    "arenas14",
    "many_heaps",
    "many_heaps-spread",
    "bins",
    "bins-static",
    "full_heap",
    "full_heap-retired",
    "foreign_sbrk",
    "random-1",
    "random-2",
    "random-3",
)


@seen(only=HERE, images=("live", "kernel"))
def test_a_thread_arenas_heaps_hold_what_the_page_tables_say(sight: Sight) -> None:
    """Page by page, as a heap that is full to its last page shares a mapping with its neighbour."""
    for heap in sight.json("heaps")["heaps"]:
        if heap["arena"]:
            start = int(heap["address"], 16)
            assert heap["resident_bytes"] == sight.present.within(start, start + sight.platform.heap_max), heap


@seen(only=HERE, images=("live", "kernel"))
def test_an_arena_holds_what_its_heaps_hold(sight: Sight) -> None:
    heaps = sight.json("heaps")["heaps"]
    for arena in sight.json("arenas")["arenas"]:
        parts = [heap["resident_bytes"] for heap in heaps if heap["arena"] == arena["index"]]
        assert arena["resident_bytes"] == sum(parts)


@seen(only=("hoard", "pinned-main", "bins", "random-1"), images=("live", "kernel"))
def test_the_main_arena_holds_what_the_break_holds(sight: Sight) -> None:
    """One region, [heap] whole: nobody else moved the break."""
    (region,) = (heap for heap in sight.json("heaps")["heaps"] if heap["arena"] == 0)
    assert region["resident_bytes"] == sight.present.within(int(region["address"], 16), int(region["end"], 16))


@seen(only=HERE, images=("kernel",))
def test_a_kernel_core_tells_the_same_as_the_living_process(sight: Sight, album: Album) -> None:
    live = album.alive(sight)
    for command, key in (("arenas", "arenas"), ("heaps", "heaps"), ("mmapped", "blocks")):
        assert [row["resident_bytes"] for row in sight.json(command)[key]] == [
            row["resident_bytes"] for row in live.json(command)[key]
        ]


@seen(only=HERE, images=("gcore",))
def test_gdbs_core_tells_nothing(sight: Sight) -> None:
    for command, key in (("arenas", "arenas"), ("heaps", "heaps"), ("mmapped", "blocks")):
        assert all(row["resident_bytes"] is None for row in sight.json(command)[key])
    assert sight.json("arenas")["totals"]["resident_bytes"] is None
