"""Heaps of other machines, from the guest's core and over the emulator's stub, checked against glibc's own figures."""

from __future__ import annotations

from figures import mallinfo
from machine_album import Sight
from machine_table import CORE, STUB, looked_at


@looked_at()
def test_malloc_info_byte_for_byte(sight: Sight) -> None:
    assert sight.text("info") == sight.witness.info_xml


@looked_at()
def test_malloc_stats_byte_for_byte(sight: Sight) -> None:
    assert sight.text("stats") == sight.witness.stats_text


@looked_at()
def test_mallinfo_from_arenas(sight: Sight) -> None:
    assert sight.witness.truth["mallinfo"] == mallinfo(sight.json("arenas"))


@looked_at()
def test_envelope(sight: Sight) -> None:
    machine = sight.view.on
    for name in ("arenas", "heaps", "threads"):
        document = sight.json(name)
        assert document["door"] == sight.view.door.split("-")[0]
        assert (document["complete"], document["problems"]) == (True, []), name
        assert document["target"] == {
            "kind": "core" if sight.view.image == CORE else "live",
            # the stub numbers its one process 1
            "pid": sight.witness.pid if sight.view.image == CORE else None,
            "pointer_bytes": machine.pointer_bytes,
            "page_bytes": machine.page,
        }
        assert document["glibc"]["located_by"] == ("symbols" if sight.view.symbols else "scan")
        # a core without libc's first page does not tell the release
        assert document["glibc"]["version"] in (sight.witness.truth["glibc"], None)


@looked_at(images=(STUB,))
def test_the_stub_tells_the_release(sight: Sight) -> None:
    if not sight.view.on.static:
        assert sight.json("version")["glibc"]["version"] == sight.witness.truth["glibc"]


@looked_at()
def test_threads_are_attached_to_the_arenas_that_they_use(sight: Sight) -> None:
    """Each living thread's probe is a block that it got from its own arena."""
    document = sight.json("threads")
    attached = {thread["tid"]: thread["arena"] for thread in document["threads"]}
    heaps = [(int(heap["address"], 16), int(heap["end"], 16), heap["arena"]) for heap in sight.json("heaps")["heaps"]]
    alive = {thread["tid"]: thread["probe"] for thread in sight.witness.truth["threads"] if not thread["exited"]}
    assert set(attached) == set(alive)
    for tid, probe in alive.items():
        if probe is not None:
            block = int(probe, 16)
            assert [arena for start, end, arena in heaps if start <= block < end] == [attached[tid]], tid


@looked_at(only=("tcache", "tcache-tls"))
def test_thread_caches_hold_what_was_freed_into_them(sight: Sight) -> None:
    """By fixtures/tcache.c: sizes of which twenty were freed fill their lists, others got two to five."""
    machine = sight.view.on
    slots = 16 if machine.release == "2.43" else 7
    # 32-bit: chunks above 520 bytes are not cached, and 24 bytes share a list with 25
    of_worker, of_main = (6 * slots + 2 + 3 + 4 + 5, 3) if machine.pointer_bytes == 8 else (4 * slots + 2 + 3, 0)
    names = {thread["tid"]: thread["name"] for thread in sight.witness.truth["threads"]}
    threads = sight.json("threads")["threads"]
    assert len(threads) == 4
    for thread in threads:
        expected = of_worker if names[thread["tid"]].startswith("worker") else of_main
        assert thread["tcache"]["chunks"] == expected


@looked_at()
def test_heaps_sum_up(sight: Sight) -> None:
    arenas = sight.json("arenas")["arenas"]
    heaps = sight.json("heaps")["heaps"]
    for arena in arenas:
        assert sum(heap["bytes"] for heap in heaps if heap["arena"] == arena["index"]) == arena["system_bytes"]
    if sight.view.on.pointer_bytes == 4 and sight.view.scenario.name == "hoard":
        # heaps of 1 MiB
        assert max(arena["heaps"] for arena in arenas) > 2


@looked_at(images=(CORE,))
def test_every_mmapped_block_is_found(sight: Sight) -> None:
    document = sight.json("mmapped")
    assert document["match"]
    assert document["complete"], document["problems"]


@looked_at(images=(STUB,), only=("mmapped",))
def test_the_stub_does_not_tell_mappings(sight: Sight) -> None:
    """QEMU 7.2 has no table of them to offer, and nothing else leads to mmapped blocks: then that is said."""
    document = sight.json("mmapped")
    assert document["expected"]["chunks"] == sight.witness.truth["mallinfo"]["hblks"] > 0
    assert (document["match"], document["complete"]) == (False, False)
