"""Which size a class has, by the blocks that begin with its vtable."""

from __future__ import annotations

import pytest

from arenascope.blocks.recognise.all_recognisers import true_sizes


@pytest.mark.parametrize(
    ("blocks", "own"),
    [
        ({40: 100, 104: 3}, [40]),
        # a rest too small to be a block of its own is handed out, too
        ({40: 10, 56: 10}, [40]),
        # with room for more after it
        ({40: 10, 104: 10, 600: 2}, [40, 104]),
        # one of them may be what was left behind
        ({40: 1, 104: 1}, []),
    ],
)
def test_a_class_has_the_size_that_most_of_its_blocks_have(blocks: dict[int, int], own: list[int]) -> None:
    assert list(true_sizes(blocks)) == own
