"""The truth about declared types, by itself: every live block of every fixture has one, and the debug information
agrees with what was asked for. And names are compared with it rightly."""

from __future__ import annotations

from collections import Counter
from typing import Callable, Mapping, Sequence

import pytest
from sites import OR, PROGRAMS, Expected, Sited, compare, described, judge, names_of, sizes_of

LEVELS = ("O0", "O1", "O2")
ARGUMENTS: dict[str, Sequence[str]] = {
    "daemon": ("500", "closed"),
    "idioms": (),
    "idioms.cc": (),
    "idioms.libc++": (),
    "idioms.rs": (),
    "orders": ("800", "index"),
    "pool": ("300", "queue"),
    "pool.split": ("300", "queue"),
    "server": ("600", "400"),
}
UNKNOWN_AT_MOST = 0.02
WITHOUT_NAME = ("lambda", "std::_Bind<", "alloc::string::String", "table")
"""Types that GDB does not find by their name."""
COUNT_IN_FRONT = 8
pytestmark = pytest.mark.xdist_group("declared truth")
Truth = tuple[Mapping[int, Expected], Mapping[str, int]]


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Truth]:
    """truth("daemon.O2"): the blocks that it has, and the sizes of their types."""
    found: dict[str, Truth] = {}

    def look(name: str) -> Truth:
        if name not in found:
            sited = Sited(PROGRAMS / name, tmp_path_factory.mktemp("sites"), *ARGUMENTS[name.rpartition(".")[0]])
            try:
                blocks = sited.expected()
            finally:
                sited.end()
            found[name] = (
                blocks,
                sizes_of(sited.program, {kind for each in blocks.values() for kind in each.type.split(OR) if kind}),
            )
        return found[name]

    return look


SHORTENED = ("struct host",)
"""Allocated without all of their last member."""
LATER = ("idioms.libc++", "idioms.rs", "pool.split")
EACH = [
    pytest.param(f"{name}.{level}", marks=pytest.mark.full if name in LATER or level != "O2" else ())
    for name in ARGUMENTS
    for level in LEVELS
]


@pytest.mark.parametrize("name", EACH)
def test_every_block_has_a_truth(truth: Callable[[str], Truth], name: str) -> None:
    blocks, _ = truth(name)
    own = [each for each in blocks.values() if not each.foreign]
    assert [each.site for each in own if not each.type] == []
    assert len(blocks) - len(own) <= UNKNOWN_AT_MOST * len(blocks)
    assert len(own) > 500


@pytest.mark.parametrize("name", [each for each in EACH if "libc++" not in str(each)])
def test_sizes_are_those_of_the_debug_information(truth: Callable[[str], Truth], name: str) -> None:
    """Not of libc++'s nodes, which the truth calls as libstdc++ does."""
    blocks, sizes = truth(name)
    types = {kind for each in blocks.values() for kind in each.type.split(OR) if kind}
    assert [each for each in types - set(sizes) if not any(part in each for part in WITHOUT_NAME)] == []
    odd = Counter(
        (each.site, described(each), each.size)
        for each in blocks.values()
        if not any(fits(each, sizes[kind]) for kind in each.type.split(OR) if kind in sizes)
        and any(kind in sizes for kind in each.type.split(OR))
    )
    assert not odd


def fits(block: Expected, size: int) -> bool:
    if block.flexible:
        return block.size > size
    if block.array:
        return not block.size % size or not (block.size - COUNT_IN_FRONT) % size
    return block.size == size or (block.type in SHORTENED and block.size < size)


@pytest.mark.parametrize("name", EACH)
def test_right_answers_are_right(truth: Callable[[str], Truth], name: str) -> None:
    blocks, sizes = truth(name)
    answers = {address: right(each, sizes) for address, each in blocks.items() if each.type}
    said = compare(answers, blocks, sizes)
    assert (said.typed, said.typed_bytes, said.typed_bytes_without_leaks, said.by_field, said.wrong) == (1, 1, 1, 0, [])
    assert compare({}, blocks, sizes)[:4] == (0, 0, 0, 0)


def right(block: Expected, sizes: Mapping[str, int]) -> str:
    kind = block.type.split(OR)[-1]
    return next(names_of(block._replace(type=kind), sizes.get(kind)))


def test_wrong_answers_are_wrong(truth: Callable[[str], Truth]) -> None:
    blocks, sizes = truth("idioms.O2")
    for wrong in ("struct nobody", "struct nobody[]", "char[] of nobody.name", "one of struct nobody, struct none"):
        answers = dict.fromkeys(blocks, wrong)
        assert len(compare(answers, blocks, sizes).wrong) == len(blocks), wrong


LONG_STRING = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >"
MAP = f"std::map<int, {LONG_STRING} >"
NODE = "std::_Rb_tree_node<std::pair<int const, std::string> >"


def expected(
    kind: str,
    size: int,
    array: bool = False,
    container: str = "",
    bases: tuple[str, ...] = (),
    fields: tuple[str, ...] = (),
) -> Expected:
    return Expected(kind, array, size, container, bases, fields, False, False, False, "daemon.c:1")


@pytest.mark.parametrize(
    ("name", "block", "size", "verdict"),
    [
        ("point", expected("struct point", 24), 24, "type"),
        ("struct point[]", expected("struct point", 24), 24, "wrong"),
        ("struct point", expected("struct point", 48, array=True), 24, "wrong"),
        ("struct point and a tail", expected("struct point", 48, array=True), 24, "type"),
        ("struct point[2]", expected("struct point", 48, array=True), 24, "type"),
        ("struct point[1]", expected("struct point", 48, array=True), 24, "wrong"),
        ("Point[1]", expected("Point", 48, array=True, container="std::vector<Point>"), 24, "type"),
        ("Point[3]", expected("Point", 48, array=True, container="std::vector<Point>"), 24, "wrong"),
        ("std::vector<Point> body", expected("Point", 48, array=True, container="std::vector<Point>"), 24, "type"),
        ("std::vector<Pair> body", expected("Point", 48, array=True, container="std::vector<Point>"), 24, "wrong"),
        ("struct shape and a tail", expected("struct circle", 32, bases=("struct shape",)), 32, "type"),
        ("struct shape", expected("struct circle", 32, bases=("struct shape",)), 32, "wrong"),
        ("char[] of header.name", expected("char", 16, array=True, fields=("header.name",)), 1, "type"),
        ("char[] of header.value", expected("char", 16, array=True, fields=("header.name",)), 1, "wrong"),
        ("unsigned int[4]", expected("uint32_t | unsigned int", 16, array=True), 4, "type"),
        ("void at task.payload", expected("struct resize", 16, fields=("task.payload",)), 16, "field"),
        ("void at task.next", expected("struct resize", 16, fields=("task.payload",)), 16, "wrong"),
        ("struct upload at task.payload", expected("struct resize", 16, fields=("task.payload",)), 16, "wrong"),
        ("one of pair or point", expected("struct point", 24), 24, "type"),
        ("std::map<int, std::string> node", expected(NODE, 72), 72, "type"),
        ("std::multimap<int, std::string> node", expected(NODE, 72), 72, "type"),
        ("std::multimap<int, std::string> node", expected(NODE, 72, container=MAP), 72, "wrong"),
        ("std::map<unsigned, std::string> node", expected(NODE, 72), 72, "wrong"),
        ("std::map<int, std::wstring> node", expected(NODE, 72, container=MAP), 72, "wrong"),
    ],
)
def test_judging(name: str, block: Expected, size: int, verdict: str) -> None:
    assert judge(name, block, size) == verdict
