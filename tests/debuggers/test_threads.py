"""Thread, arena and cache: against where each thread's own blocks lie, against /proc, and against GDB's own word."""

from __future__ import annotations

import pytest
from album import Sight
from doors import DOORS, Core
from looks import give_up
from platforms import ELSEWHERE, HOST, Platform
from scenarios import seen
from schemas import problem_ids
from subjects import Subject

MANY_THREADS = (
    "hoard",
    "workers-30MB-ended",
    "arenas60",
    "arenas14",
    "bins",
    "bins-static",
    "bins-static-pie",
    "fastbins",
    "tcache",
    "tcache-tls",
    "dlmopen",
    "random-1",
    "asked-by-variables",
    "asked-by-tunables",
)
# with fewer arenas than threads, a probe may have come from an arena that its thread has since left
OWN_ARENA = tuple(name for name in MANY_THREADS if not name.startswith("asked"))


def arena_of(sight: Sight, probe: int) -> int:
    """heap_for_ptr, for those who only know the rule: so much address space at a time, else the main arena."""
    mask = -sight.platform.heap_max
    owners = {int(heap["address"], 16): heap["arena"] for heap in sight.json("heaps")["heaps"] if heap["arena"]}
    heaps = {start & mask: arena for start, arena in owners.items()}
    return heaps.get(probe & mask, 0)


@seen(only=OWN_ARENA)
def test_each_thread_has_the_arena_that_its_blocks_come_from(sight: Sight) -> None:
    expected = {
        thread["tid"]: arena_of(sight, int(thread["probe"], 16))
        for thread in sight.truth["threads"]
        if thread["probe"] and not thread["exited"]
    }
    document = sight.json("threads")
    found = {thread["tid"]: thread["arena"] for thread in document["threads"]}
    assert found == expected
    arenas = sight.json("arenas")["arenas"]
    assert {thread["tid"]: each["index"] for each in arenas for thread in each["threads"]} == expected
    unattached = [each["index"] for each in arenas if each["attached_threads"] == 0]
    assert document["unattached_arenas"] == unattached
    assert all(len(each["threads"]) == each["attached_threads"] for each in arenas)


@seen(only=MANY_THREADS)
def test_names_are_the_kernels(sight: Sight) -> None:
    found = {thread["tid"]: thread["name"] for thread in sight.json("threads")["threads"]}
    assert list(found) == sorted(sight.thread_names)
    for tid, name in sight.thread_names.items():
        # a core keeps one name, and only the kernel writes the main thread's; what is not known is null
        kept = sight.live or (sight.view.image == "kernel" and tid == sight.pid)
        assert found[tid] == name or (not kept and found[tid] is None)


@seen(only=MANY_THREADS)
def test_arena_and_cache_are_what_gdb_reads_by_symbol(sight: Sight) -> None:
    if not any(words["arena"] for words in sight.glibc_threads.values()):
        pytest.skip("no debug information tells GDB of thread_arena and tcache here")
    addresses = {each["index"]: int(each["address"], 16) for each in sight.json("arenas")["arenas"]}
    for thread in sight.json("threads")["threads"]:
        words = sight.glibc_threads[thread["tid"]]
        assert addresses[thread["arena"]] == words["arena"]
        found = thread["tcache"]["address"]
        assert found == (f"{words['tcache']:#x}" if has_cache(words) else None)


def has_cache(words: dict) -> bool:
    first, end = words["dummy"], words["dummy_end"]
    if first is not None and end is None:
        end = first + 1  # no debug information has its size
    return words["tcache"] != 0 and not (first is not None and first <= words["tcache"] < end)


def counts_of(words: dict, most: int) -> list[int]:
    if words["counts"]:
        return words["counts"]
    return [most - left for left in words["slots"]] if has_cache(words) else []


@seen(only=MANY_THREADS)
def test_cached_chunks_are_what_glibc_counts(sight: Sight) -> None:
    if not any(words["counts"] or words["slots"] for words in sight.glibc_threads.values()):
        pytest.skip("no debug information tells GDB of tcache_perthread_struct here")
    expected = {
        (tid, index): count
        for tid, words in sight.glibc_threads.items()
        for index, count in enumerate(counts_of(words, sight.glibc_params["tcache_count"]))
        if count
    }
    rows = [row for row in sight.json("bins")["bins"] if row["kind"] == "tcache"]
    assert {(row["tid"], row["index"]): row["chunks"] for row in rows} == expected
    for row in rows:
        # csize2tidx: 16 bytes apart, MINSIZE first
        assert row["bytes"] == row["chunks"] * (4 * sight.platform.pointer_bytes + 16 * row["index"])


@seen(only=("tcache", "tcache-tls"))
def test_a_cache_keeps_chunks_of_other_threads_arenas(sight: Sight) -> None:
    """Every thread freed its neighbour's blocks: what its cache holds is free in the neighbour's arena."""
    by_thread = {thread["tid"]: thread for thread in sight.json("threads")["threads"]}
    arenas = sight.json("arenas")["arenas"]
    cached = {each["index"]: each["tcache"]["chunks"] for each in arenas}
    owned = {thread["arena"]: thread["tcache"]["chunks"] for thread in by_thread.values()}
    assert sum(cached.values()) == sum(owned.values())
    orphan = sight.json("threads")["unattached_arenas"]
    assert len(orphan) == 1
    assert cached[orphan[0]] > 0
    assert any(cached[index] != count for index, count in owned.items())


@seen(only=("arenas60", "arenas14"))
def test_arenas_outnumber_threads(sight: Sight) -> None:
    arenas = sight.json("arenas")["arenas"]
    assert len(arenas) == sight.truth["notes"]["arenas"]
    ended = sum(thread["exited"] for thread in sight.truth["threads"])
    assert len(sight.json("threads")["unattached_arenas"]) == ended


@pytest.mark.full
@pytest.mark.xdist_group("without stacks")
@pytest.mark.parametrize(
    "platform", [each for each in ELSEWHERE if each.machine == HOST.machine], ids=lambda each: each.id
)
def test_a_core_without_stacks_is_called_partial(platform: Platform) -> None:
    """What GDB's gcore leaves of a thread's stack where it meets guard pages in it: nothing. Its TLS is gone too."""
    with Subject("tcache", platform=platform) as subject:
        core = Core(subject.gcore(whole=False), subject.program)
        lost = subject.left_out
        for door in DOORS.values():
            if door.available():
                give_up(door.available())
            arenas, threads, info = door.run(core, ["arenas --json", "threads --json", "info"])
            assert info.text == subject.info_xml
            document = arenas.json()
            assert document["complete"] is not lost
            assert (document["totals"]["used_bytes"] is None) is lost
            assert (document["totals"]["tcache"] == {"chunks": None, "bytes": None}) is lost
            held = [thread["arena"] for thread in threads.json()["threads"]]
            assert (None in held) is lost
            assert ("stacks-empty" in problem_ids(document)) is lost
