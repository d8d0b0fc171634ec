"""Blocks served by mmap: against the program's own list, and glibc's count."""

from __future__ import annotations

from album import Sight
from scenarios import seen

PAGE = 4096
COUNTS_TOO_MUCH = (2, 43)
"""Since then mremap_chunk adds a header too many to mmapped_mem, and malloc_usable_size leaves two words out."""


@seen()
def test_as_many_as_glibc_counts(sight: Sight) -> None:
    document = sight.json("mmapped")
    expected = {"chunks": sight.truth["mallinfo"]["hblks"], "bytes": sight.truth["mallinfo"]["hblkhd"]}
    assert document["expected"] == expected
    if sight.platform.since(*COUNTS_TOO_MUCH):
        surplus = expected["bytes"] % PAGE  # mmap gives whole pages
        assert surplus % sight.platform.header == 0
        expected["bytes"] -= surplus
    assert document["match"] is True
    assert {"chunks": len(document["blocks"]), "bytes": sum(block["bytes"] for block in document["blocks"])} == expected


@seen(only=("mmapped",))
def test_the_programs_own_list(sight: Sight) -> None:
    named = {name: int(user, 16) for name, user in sight.truth["blocks"].items()}
    header, word = sight.platform.header, sight.platform.pointer_bytes
    # from 2.43 on a size leaves out the header, of which an arena's chunk would lend one word to the block
    overhead = header + (word if sight.platform.since(*COUNTS_TOO_MUCH) else 0)
    before = -header % 16  # so that a block is aligned to 16 bytes
    blocks = {int(block["address"], 16) + header: block for block in sight.json("mmapped")["blocks"]}
    assert sorted(blocks) == sorted(named.values())
    for name, user in named.items():
        chunk_bytes = sight.live_blocks[user] + overhead
        assert (user - header + chunk_bytes) % PAGE == 0
        assert blocks[user]["bytes"] % PAGE == 0
        if name.startswith("aligned"):
            assert blocks[user]["bytes"] >= chunk_bytes  # memalign may leave pages before the chunk
        else:
            assert blocks[user]["bytes"] == before + chunk_bytes


@seen(only=("mmapped",), images=("live", "kernel"))
def test_what_was_never_written_is_not_resident(sight: Sight) -> None:
    lazy = int(sight.truth["blocks"]["lazy_64m"], 16)
    (block,) = (
        each for each in sight.json("mmapped")["blocks"] if int(each["address"], 16) + sight.platform.header == lazy
    )
    # 100 KiB were written, from after the header on
    assert block["resident_bytes"] == (100 * 1024 // PAGE + 1) * PAGE
