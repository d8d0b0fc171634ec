"""heap chunks and heap chunk, through every door: against the program's own list of blocks and glibc's own counts."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from typing import Any

import pytest
from album import Album, Sight
from doors import DOORS, NEWEST, Core, Live
from looks import opened
from marks import full_after, in_full
from scenarios import BY_ID, seen
from subjects import Subject

STATES = ("used", "tcache", "fast", "free", "top")


def by_address(document: dict[str, Any]) -> list[tuple[int, int, str]]:
    """Arenas come in the order of their ring."""
    return sorted((int(each["address"], 16), each["bytes"], each["state"]) for each in document["chunks"])


@seen(images=("live", "kernel"))
def test_every_byte_has_its_place(sight: Sight) -> None:
    document = sight.json("chunks --limit 0")
    assert (document["complete"], document["problems"], document["left_out"]) == (True, [], 0)
    summary, arenas = document["summary"], sight.json("arenas")["arenas"]
    parts = sum(summary[state]["bytes"] for state in STATES)
    parts += summary["bookkeeping_bytes"] + summary["foreign_bytes"]
    assert parts == summary["system_bytes"] == sight.truth["mallinfo"]["arena"]
    assert summary["damaged_bytes"] == 0
    assert summary["top"]["bytes"] == sum(each["top_bytes"] for each in arenas)
    chunks = by_address(document)
    for state in STATES:
        sizes = [size for _, size, each in chunks if each == state]
        assert summary[state] == {"chunks": len(sizes), "bytes": sum(sizes)}


@seen(images=("live", "kernel"))
def test_free_is_what_malloc_info_counts(sight: Sight) -> None:
    """The sweep tells free chunks by the flag of their neighbours; glibc counts what hangs in its bins."""
    summary, info = sight.json("chunks --limit 0")["summary"], sight.truth["mallinfo"]
    arenas = len(sight.json("arenas")["arenas"])
    assert summary["free"]["chunks"] + arenas == info["ordblks"]
    assert summary["fast"] == {"chunks": info["smblks"], "bytes": info["fsmblks"]}
    assert summary["free"]["bytes"] + summary["fast"]["bytes"] + summary["top"]["bytes"] == info["fordblks"]


@seen(images=("live", "kernel"))
def test_every_live_block_is_one_used_chunk(sight: Sight) -> None:
    assert sight.live_blocks
    document = sight.json("chunks --limit 0")
    chunks = by_address(document)
    exact = {each["bytes"]: each["used_chunks"] for each in document["exact_sizes"]}
    word = sight.view.scenario.platform.pointer_bytes
    sizes: Counter[int] = Counter()
    starts = [address for address, _, _ in chunks]
    beside = 0
    for user, usable in sight.live_blocks.items():
        place = bisect_right(starts, user) - 1
        address, size, state = chunks[place] if place >= 0 else (0, 0, "")
        if not address <= user < address + size:
            beside += 1
            continue
        # malloc_usable_size counts the successor's prev_size
        assert (user - address, usable, state) == (2 * word, size - word, "used"), f"{user:#x}"
        sizes[usable + word] += 1
    # the C library holds blocks of its own
    assert not {size: blocks for size, blocks in sizes.items() if exact[size] < blocks}
    assert beside == sight.truth["mallinfo"]["hblks"]


@seen(images=("live",), where=lambda view: view.door != "shell")
def test_all_doors_list_the_same(sight: Sight, album: Album) -> None:
    shell = album.shell(sight).json("chunks --limit 0")
    assert in_common(sight.json("chunks --limit 0")) == in_common(shell)


def in_common(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "door": "", "held_seconds": None, "glibc": {**document["glibc"], "located_by": ""}}


@pytest.mark.parametrize("name", ["tcache", *in_full("pinned-main", "mmapped", "foreign_sbrk", "full_heap")])
@pytest.mark.parametrize("door", full_after(1, NEWEST[::-1]))
def test_a_block_is_found_from_within(name: str, door: str) -> None:
    opened(DOORS[door])
    scenario = BY_ID[name]
    with Subject(scenario.fixture, *scenario.arguments, env=scenario.env) as subject:
        blocks = list(subject.live_blocks.items())
        chosen = blocks[:: max(1, len(blocks) // 6)]
        assert chosen
        asked = [user + usable // 2 for user, usable in chosen]
        commands = [f"chunk {asked[0]:#x} --json", f"chunk {' '.join(f'{each:#x}' for each in asked)} --json"]
        first, every = (each.json() for each in DOORS[door].run(Live(subject.pid, subject.program), commands))
        answers = every.pop("answers") if len(asked) > 1 else [{"asked": f"{asked[0]:#x}", "chunk": every["chunk"]}]
        held = [each.pop("held_seconds") for each in (first, every)]
        assert all((seconds is not None and seconds > 0) == (door == "shell") for seconds in held)
        assert (first["complete"], every["complete"], every) == (True, True, first)
        assert [each["asked"] for each in answers] == [f"{each:#x}" for each in asked]
        for (user, usable), answer in zip(chosen, answers):
            found = answer["chunk"]
            assert found["user_address"] == f"{user:#x}"
            assert found["state"] in ("used", "mmapped")
            # what is mmapped ends at a page's end, a header after what is usable since 2.43
            end = user + usable - 8 if found["state"] == "used" else -(-(user + usable) // 4096) * 4096
            assert found["bytes"] == end - (user - 16)


@pytest.mark.parametrize("door", full_after(1, NEWEST[:2]))
def test_one_core_one_answer(door: str) -> None:
    """The words of a block, with the symbols they point to, are the same whoever looks."""
    opened(DOORS[door])
    with Subject("pinned", "main", "40") as subject:
        pin = subject.truth["blocks"]["pin"]
        commands = [f"chunk {pin} --json", "chunks --summary --json", "chunk 0x10 --json"]
        core = Core(subject.kernel_core(), subject.program)
        ours, theirs = (
            [{**each.json(), "door": ""} for each in DOORS[name].run(core, commands)] for name in (door, "shell")
        )
        assert ours == theirs
        assert ours[0]["chunk"]["state"] == "used"
        assert ours[2]["chunk"] is None
