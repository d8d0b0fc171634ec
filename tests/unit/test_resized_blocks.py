"""Aligned blocks served by mmap that realloc() resized: the header at the mapping's start still tells the old size."""

from __future__ import annotations

import pytest
from glibc_rows import up
from heapbuilder import HeapImage
from test_split_mappings import ROWS, SIZE, found, image_of, laid, relaid

from arenascope.session.session import Session

ALIGNMENTS = (64, 4096, 1 << 16, 1 << 20)
PAGES = 4096
NEIGHBOUR = 50 * PAGES


def is_stale(image: HeapImage, chunk: int, base: int) -> bool:
    return chunk != base + up(image.row.header, image.row.alignment) - image.row.header


@pytest.mark.parametrize("by", [0, 3 * PAGES, 77 * PAGES])
@pytest.mark.parametrize("resized", [0.6, 1, 3])
@pytest.mark.parametrize("align", ALIGNMENTS)
@pytest.mark.parametrize("name", ROWS)
def test_among_neighbours(name: str, align: int, resized: float, by: int) -> None:
    image = image_of(name)
    blocks = [image.mmapped(NEIGHBOUR) for _ in range(9)]
    request = 4 * align + SIZE
    blocks.append(image.mmapped(request, align=align, resized=int(request * resized), by=by))
    image.mremapped()
    blocks += [image.mmapped(NEIGHBOUR) for _ in range(3)]
    blocks.append(image.mmapped(request, align=align, resized=int(2 * request * resized), by=by))
    image.mremapped()
    assert found(image.target()) == laid(*blocks)
    assert any(is_stale(image, each.chunk, each.base) for each in blocks)


@pytest.mark.parametrize("by", [0, 77 * PAGES])
@pytest.mark.parametrize("name", ROWS)
def test_split_too(name: str, by: int) -> None:
    image = image_of(name)
    blocks = [image.mmapped(SIZE)]
    blocks.append(image.mmapped(SIZE, align=1 << 20, resized=9 << 20, by=by))
    image.mremapped()
    blocks.append(image.mmapped(SIZE))
    amid = blocks[1].base + (5 << 20)
    # 2.43 counts a header too many at each realloc(): its sum does not tell that the rest behind a hole is missing
    ways: list[dict[str, bool]] = [{"writable": False}, {"executable": True}]
    for flags in ways if image.row.new_mmap_form else [*ways, {}]:
        assert found(relaid(image.target(), amid, amid + 16 * PAGES, **flags)) == laid(*blocks)


# of 2.43's sum it cannot be told that blocks are too small
@pytest.mark.parametrize(("name", "many"), [(name, many) for name in ROWS for many in (1, 3)][:-1])
def test_data_that_looks_like_such_a_header(name: str, many: int) -> None:
    """glibc's counts tell: with it another block would be larger, or take its neighbour."""
    image = image_of(name)
    row = image.row
    blocks = [image.mmapped(SIZE) for _ in range(2 + many)]
    for each in blocks[2:]:
        start = each.base
        place = up(start + row.minsize + row.header, 4096) - row.header
        whole = each.total + NEIGHBOUR if many == 1 else each.total - PAGES
        image.space.put(place, place - start)
        image.space.put(place + row.word, whole - (place - start) - (row.header if row.new_mmap_form else 0) | 2)
    blocks.append(image.mmapped(SIZE, align=1 << 16, resized=2 * SIZE))
    image.mremapped()
    assert found(image.target()) == laid(*blocks)


def test_where_counts_are_not_known() -> None:
    image = image_of("2.36-64")
    blocks = [image.mmapped(SIZE), image.mmapped(SIZE, align=4096, resized=2 * SIZE), image.mmapped(SIZE)]
    session = Session(image.target())
    session.__dict__["_mp"] = None
    assert sorted(tuple(each) for each in session.mmapped) == laid(*blocks)


def test_little_is_read_where_the_counts_are_not_met() -> None:
    """A block that nothing recognises, and a large one of the plain shape: the process stands still meanwhile."""
    image = image_of("2.36-64")
    large = image.mmapped(32 << 20)
    unknown = image.mmapped(SIZE)
    image.space.put(unknown.chunk + image.row.word, 0)
    target = image.target()
    read, sizes = target.read, list[int]()

    def counted(address: int, size: int) -> bytes:
        sizes.append(size)
        return read(address, size)

    target.read = counted  # type: ignore[method-assign]
    assert found(target) == laid(large)
    assert sum(sizes) < 24 << 20
