"""Where thread caches are looked for: at any distance from thread_arena, and what is said where none is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fake_door import run_json, run_text
from glibc_rows import BY_NAME
from heap_pictures import laid, seen
from heapbuilder import HeapImage, Row
from marks import full_after
from schemas import problem_ids

from arenascope.session.session import Session

BASES = ["2.31-64", "2.36-64", "2.31-i386", "2.42-64", "2.43-64", "2.43-i386", "2.43-arm", "2.43-s390x"]
TLS_FOLLOWS = ("arm", "aarch64", "ppc64le", "ppc32", "riscv64")


def apart(base: str, words: int, before: bool) -> Row:
    """A libc whose `tcache` stands so many words before or after thread_arena."""
    row = BY_NAME[base]
    if row.arch in TLS_FOLLOWS:
        low = min(row.tls_arena, row.tls_tcache)
        high = low + words * row.word
    else:
        high = max(row.tls_arena, row.tls_tcache)
        low = high - words * row.word
    return replace(row, tls_tcache=low if before else high, tls_arena=high if before else low)


def cached(row: Row, threads: int = 3) -> HeapImage:
    image = HeapImage(row)
    image.main.mix(5)
    for number in range(threads):
        for request in (1, 1, 200, 300):
            image.thread(number).cached(row.request2size(request))
    return image


def is_right(image: HeapImage, symbols: bool = False, rodata: bool = True) -> bool:
    session = Session(image.target(symbols=symbols, rodata=rodata))
    return seen(session) == laid(image) and not session.findings


@pytest.mark.parametrize("base", full_after(3, BASES))
@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("words", [1, 5, 9, 40])
def test_distance(base: str, words: int, before: bool) -> None:
    """2.43 has them 6 words apart, 9 and 10 where its objects are linked in another order."""
    image = cached(apart(base, words, before))
    assert is_right(image)


@pytest.mark.parametrize("base", ["2.36-64", "2.43-64", "2.43-arm"])
@pytest.mark.parametrize("words", [9, 40])
def test_one_thread(base: str, words: int) -> None:
    image = cached(apart(base, words, True), 1)
    assert is_right(image)


@pytest.mark.parametrize("base", ["2.36-64", "2.43-64", "2.43-i386"])
@pytest.mark.parametrize("lone", [True, False])
def test_a_block_of_a_caches_size(base: str, lone: bool) -> None:
    """A thread-local pointer of libc's nearer to thread_arena, to a block of zeros as long as a cache."""
    row = apart(base, 9, True)
    image = HeapImage(row)
    image.main.mix(5)
    blocks = [image.thread(number).arena.used(row.tcache["chunk"]) for number in range(1 if lone else 3)]
    for number in range(1 if lone else 3):
        image.thread(number).cached(row.request2size(200))
    for thread, block in zip(list(image.threads.values()), blocks):
        image.space.write(row.user(block.address), bytes(row.tcache["sizeof"]))
        image.poke(thread.thread_pointer + row.tls_arena - 2 * row.word, row.user(block.address))
    assert is_right(image)


@pytest.mark.parametrize("base", ["2.36-64", "2.43-64", "2.43-i386"])
@pytest.mark.parametrize("view", [{"symbols": True}, {"symbols": False}])
def test_no_word_fits(base: str, view: dict[str, Any]) -> None:
    """Each thread's word leads to a block that is no cache: what they hold is not known, and not 0."""
    image = cached(BY_NAME[base])
    for thread in image.threads.values():
        assert thread.tcache is not None
        image.poke(thread.thread_pointer + image.row.tls_tcache, image.row.user(thread.tcache.address) + 0x20)
    document = run_json(image.target(**view), "arenas")
    assert not document["complete"]
    assert "caches-not-found" in problem_ids(document)
    assert all(arena["tcache"]["bytes"] is None and arena["used_bytes"] is None for arena in document["arenas"])
    threads = run_json(image.target(**view), "threads")["threads"]
    assert [each["tcache"]["chunks"] for each in threads] == [None] * 3
    assert "incomplete" in run_text(image.target(**view), "arenas")


@pytest.mark.parametrize("base", ["2.36-64", "2.31-i386"])
def test_nowhere(base: str) -> None:
    """Words that are 0 cannot be told from other words that are 0."""
    image = cached(BY_NAME[base])
    for thread in image.threads.values():
        image.poke(thread.thread_pointer + image.row.tls_tcache, 0)
    assert run_json(image.target(symbols=False), "arenas")["totals"]["used_bytes"] is None
    # the symbol says which of them it is
    threads = run_json(image.target(), "threads")["threads"]
    assert [each["tcache"]["chunks"] for each in threads] == [0, 0, 0]


@pytest.mark.parametrize("base", ["2.43-64", "2.43-i386"])
@pytest.mark.parametrize("words", [2, 9])
def test_nobody_has_one(base: str, words: int) -> None:
    """2.43 makes a cache at the first free(): until then all threads point to one dummy, which is a true 0."""
    image = HeapImage(apart(base, words, True))
    image.main.mix(5)
    for number in (1, 2):
        block = image.thread(number).arena.used(0x400)
    for view in ({"symbols": True}, {"symbols": False}):
        assert is_right(image, **view)
    # without libc's constants the dummy cannot be told from other words that lead there; yet none leads to a block
    without = image.target(symbols=False, rodata=False)
    assert is_right(image, symbols=False, rodata=False)
    # one that does may be the pointer to a cache that is damaged
    at = image.thread(1).thread_pointer + image.row.tls_tcache + image.row.word
    image.space.put(at, image.row.user(block.address))
    assert run_json(without, "arenas")["totals"]["used_bytes"] is None


@pytest.mark.parametrize("base", ["2.43-64", "2.43-i386"])
def test_some_have_none(base: str) -> None:
    """What the others' words are shows which word it is; the dummy itself need not be in the core."""
    image = cached(BY_NAME[base], 2)
    image.thread(2).arena.used(0x400)
    for rodata in (True, False):
        document = run_json(image.target(symbols=False, rodata=rodata), "threads")
        assert [each["tcache"]["chunks"] for each in document["threads"]] == [4, 4, 0]
