"""FILE's buffers are told by the words of struct _IO_FILE, all of them: one alone may be a pointer."""

from __future__ import annotations

from typing import Optional, Sequence

import pytest

from arenascope.blocks.recognise.containers import Forms
from arenascope.sources.target import Span

WORD = 8
USER, ROOM = 0x5616_0000_1010, 4096
FLAGS = 0xFBAD_2088


class OneSize:
    """Blocks of one size beside each other."""

    def __init__(self, first: int, usable: int, blocks: int = 1) -> None:
        self.chunk = usable + WORD
        self.users = range(first, first + blocks * self.chunk, self.chunk)

    def usable(self, user: int) -> Optional[int]:
        return self.chunk - WORD if user in self.users else None

    def words(self, address: int, count: int) -> Optional[Sequence[int]]:
        return None

    def around(self, address: int) -> Optional[Span]:
        return None

    def read(self, address: int, size: int) -> Optional[bytes]:
        return bytes(size)

    def function(self, address: int) -> Optional[str]:
        return None

    def is_code(self, address: int) -> bool:
        return False


def names(words: Sequence[int], blocks: OneSize, big: bool = False) -> set[str]:
    forms = Forms(blocks, WORD, big, classes=True)
    likely = [index for index, word in enumerate(words) if blocks.usable(word) is not None]
    assert likely
    return {body.name for body in forms.bodies(words, likely) if body.name}


@pytest.mark.parametrize("garbage", [0, 0x5616_0000_0000], ids=["clean", "padding as malloc left it"])
@pytest.mark.parametrize(
    "places",
    [
        pytest.param((USER,) * 6, id="new"),
        pytest.param((USER + 10, USER + 100, USER, USER, USER, USER), id="read"),
        pytest.param((USER, USER, USER, USER, USER + 7, USER + ROOM), id="written"),
        pytest.param((0, 0, 0, USER, USER + 7, USER + ROOM), id="never read"),
    ],
)
def test_a_streams_buffer(places: Sequence[int], garbage: int) -> None:
    words = [garbage | FLAGS, *places, USER, USER + ROOM, 0, 0]
    assert names(words, OneSize(USER, ROOM + WORD)) == {"stdio buffer"}


def test_a_streams_buffer_on_a_big_endian_machine() -> None:
    words = [FLAGS << 32, *(USER,) * 6, USER, USER + ROOM, 0, 0]
    assert names(words, OneSize(USER, ROOM + WORD), big=True) == {"stdio buffer"}


@pytest.mark.parametrize("letters", [0, 65512], ids=["pointers", "std::strings"])
def test_a_pointer_into_a_large_heap_is_no_magic_number(letters: int) -> None:
    """In each 4 GiB there are 64 KiB whose addresses look like the flags."""
    blocks = OneSize(0x5615_FBAC_0010, 65512 + WORD, 64)
    assert any(user >> 16 & 0xFFFF == FLAGS >> 16 for user in blocks.users)
    words = [word for user in blocks.users for word in ([user, letters, letters, 0] if letters else [user])]
    assert names(words, blocks) == ({"std::string body"} if letters else set())
