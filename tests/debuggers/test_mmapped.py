"""Blocks served by mmap: against the program's own list, and glibc's count."""

from __future__ import annotations

from album import Sight
from scenarios import seen

HEADER = 16
PAGE = 4096


@seen()
def test_as_many_as_glibc_counts(sight: Sight) -> None:
    document = sight.json("mmapped")
    expected = {"chunks": sight.truth["mallinfo2"]["hblks"], "bytes": sight.truth["mallinfo2"]["hblkhd"]}
    assert document["expected"] == expected
    assert document["match"] is True
    assert {"chunks": len(document["blocks"]), "bytes": sum(block["bytes"] for block in document["blocks"])} == expected


@seen(only=("mmapped",))
def test_the_programs_own_list(sight: Sight) -> None:
    named = {name: int(user, 16) for name, user in sight.truth["blocks"].items()}
    blocks = {int(block["address"], 16) + HEADER: block for block in sight.json("mmapped")["blocks"]}
    assert sorted(blocks) == sorted(named.values())
    for name, user in named.items():
        chunk_bytes = sight.live_blocks[user] + HEADER
        assert (user - HEADER + chunk_bytes) % PAGE == 0
        assert blocks[user]["bytes"] % PAGE == 0
        if name.startswith("aligned"):
            assert blocks[user]["bytes"] >= chunk_bytes  # memalign may leave pages before the chunk
        else:
            assert blocks[user]["bytes"] == chunk_bytes


@seen(only=("mmapped",), images=("live", "kernel"))
def test_what_was_never_written_is_not_resident(sight: Sight) -> None:
    lazy = int(sight.truth["blocks"]["lazy_64m"], 16)
    block, = (each for each in sight.json("mmapped")["blocks"] if int(each["address"], 16) + HEADER == lazy)
    # 100 KiB were written, from behind the header on
    assert block["resident_bytes"] == -(-(100 * 1024 + HEADER) // PAGE) * PAGE
