"""What is resident: against the kernel's own smaps, and the same from the kernel's core."""

from __future__ import annotations

from album import Album, Sight
from scenarios import View, seen

HERE = ("hoard", "workers-30MB", "pinned-main", "pinned-thread", "arenas14", "many_heaps", "many_heaps-spread", "bins",
        "bins-static", "full_heap", "full_heap-retired", "foreign_sbrk", "random-1", "random-2", "random-3")


def rss_of(sight: Sight, start: int, end: int) -> int:
    """The Rss of the mappings within; of what a mapping straddles, a test cannot know."""
    return sum(rss for (low, high), rss in sight.smaps.items() if start <= low and high <= end)


def straddled(sight: Sight, edge: int) -> bool:
    return any(low < edge < high for low, high in sight.smaps)


@seen(only=HERE, images=("live", "kernel"))
def test_a_thread_arenas_heaps_hold_what_smaps_says(sight: Sight) -> None:
    checked, heap_max = 0, sight.platform.heap_max
    for heap in sight.json("heaps")["heaps"]:
        start = int(heap["address"], 16)
        if heap["arena"] == 0 or straddled(sight, start) or straddled(sight, start + heap_max):
            continue  # neighbours that are full to the last page share a mapping
        assert heap["resident_bytes"] == rss_of(sight, start, start + heap_max), heap
        checked += 1
    if len(sight.json("arenas")["arenas"]) > 1:
        assert checked


@seen(only=HERE, images=("live", "kernel"))
def test_an_arena_holds_what_its_heaps_hold(sight: Sight) -> None:
    heaps = sight.json("heaps")["heaps"]
    for arena in sight.json("arenas")["arenas"]:
        parts = [heap["resident_bytes"] for heap in heaps if heap["arena"] == arena["index"]]
        assert arena["resident_bytes"] == sum(parts)


@seen(only=("hoard", "pinned-main", "bins", "random-1"), images=("live", "kernel"))
def test_the_main_arena_holds_what_the_break_holds(sight: Sight) -> None:
    """One region, [heap] whole: nobody else moved the break."""
    region, = (heap for heap in sight.json("heaps")["heaps"] if heap["arena"] == 0)
    assert region["resident_bytes"] == sight.smaps[int(region["address"], 16), int(region["end"], 16)]


@seen(only=HERE, images=("kernel",))
def test_a_kernel_core_tells_the_same_as_the_living_process(sight: Sight, album: Album) -> None:
    live = album.sight(View(sight.view.scenario, sight.view.door, "live", sight.view.symbols))
    for command, key in (("arenas", "arenas"), ("heaps", "heaps"), ("mmapped", "blocks")):
        assert [row["resident_bytes"] for row in sight.json(command)[key]] == [
            row["resident_bytes"] for row in live.json(command)[key]]


@seen(only=HERE, images=("gcore",))
def test_gdbs_core_tells_nothing(sight: Sight) -> None:
    for command, key in (("arenas", "arenas"), ("heaps", "heaps"), ("mmapped", "blocks")):
        assert all(row["resident_bytes"] is None for row in sight.json(command)[key])
    assert sight.json("arenas")["totals"]["resident_bytes"] is None
