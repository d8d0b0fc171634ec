"""Where struct pthread says that its stack lies, among words that look nearly like it."""

from __future__ import annotations

from typing import cast

import pytest

from arenascope.glibc.find.thread_pointers import PthreadLists, _stack_of
from arenascope.sources.memory import Memory
from arenascope.sources.target import Span

STACK, SIZE, BLOCK = 0x7FB9D44BD000, 0x801000, 0x7FB9D4CBD6C0
WORDS = 0x940 // 8
PLACE = 210
GUARD = 5
"""Where the header has the stack protector's word, with a zero in front of it."""


class OneBlock:
    pointer_size = 8

    def __init__(self, **words: int) -> None:
        self._words = [0] * WORDS
        self._words[PLACE : PLACE + 4] = [STACK, SIZE, 0x1000, 0x1000]
        self._words[GUARD] = words.get("guard", 0)

    def words(self, address: int, count: int) -> list[int]:
        assert (address, count) == (BLOCK, WORDS)
        return self._words


@pytest.mark.parametrize("guard", [0, 0x443E5A3A970F7100, 0x443E5A3A970F7000, 0xD2309FE8D8A2C000, 0x7FFF00000000F000])
def test_a_random_word_is_no_size(guard: int) -> None:
    lists = PthreadLists(used=0, user=0, next=0, link=704, tid=720, size=8 * WORDS)
    assert _stack_of(cast(Memory, OneBlock(guard=guard)), lists, BLOCK) == Span(STACK, STACK + SIZE)
