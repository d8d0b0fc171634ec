"""The truth about declared types, by itself: every live block of every fixture has one, and the debug information
agrees with what was asked for. And names are compared with it rightly."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Callable, Mapping, Sequence

import pytest
from sites import OR, PROGRAMS, Expected, Sited, compare, described, judge, names_of, sizes_of
from spelling import canonical, rust

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


@pytest.mark.full
def test_levels_agree_but_for_what_clang_inlines(truth: Callable[[str], Truth]) -> None:
    """Of some inlined calls neither function nor line is known then: the truth has less, and nothing else."""
    told = [
        Counter((canonical(each.type), each.size) for each in truth(f"idioms.libc++.{level}")[0].values() if each.type)
        for level in LEVELS
    ]
    for less in told[1:]:
        assert not less - told[0]
        assert sum((told[0] - less).values()) < UNKNOWN_AT_MOST * sum(told[0].values())


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in ARGUMENTS if name != "idioms.libc++"])
def test_levels_agree(truth: Callable[[str], Truth], name: str) -> None:
    """What a program allocates does not depend on how it was compiled: nor does the truth."""
    told = [
        Counter(
            # which calls are inlined decides whether the container is seen
            (canonical(each.type), each._replace(type="", container=""))
            for each in truth(f"{name}.{level}")[0].values()
        )
        for level in LEVELS
    ]
    assert told[0] == told[1] == told[2]


def test_the_daemons_counts_are_its_own(truth: Callable[[str], Truth]) -> None:
    """500 sessions and one for each of its four workers; of what is closed everything stays."""
    blocks, _ = truth("daemon.O2")
    count = Counter(described(each) for each in blocks.values())
    assert count["struct session"] == 504
    assert count["struct header"] == 3 * count["struct request"]
    texts = sum(1 for each in blocks.values() if each.fields == ("request.url",))
    assert texts == count["struct request"]


def test_planted_leaks_are_marked(truth: Callable[[str], Truth]) -> None:
    blocks, _ = truth("server.O2")
    lost = Counter(described(each).partition(" of ")[0] for each in blocks.values() if each.leak)
    assert lost == {"Lost": 200, "std::string": 100, "double[]": 100, "char[]": 100}


@pytest.mark.full
def test_rusts_blocks(truth: Callable[[str], Truth]) -> None:
    """Of 4 x 30 keys a tree has leaves of up to eleven, and other nodes above them."""
    blocks, _ = truth("idioms.rs.O2")
    count = Counter(described(each) for each in blocks.values() if not each.foreign)
    leaves, nodes = (
        count[f"alloc::collections::btree::node::{kind}Node<u32, idioms::Record> of BTreeMap<u32, idioms::Record>"]
        for kind in ("Leaf", "Internal")
    )
    assert leaves >= 120 / 12
    assert leaves > nodes > 0
    assert count["alloc::collections::linked_list::Node<idioms::Record>"] == 30
    assert count["idioms::Link"] == count["idioms::Tree"] == count["idioms::boxes::{closure_env#0}"] == 30


def test_orders_are_kept_by_the_second_index(truth: Callable[[str], Truth]) -> None:
    """Of 800 orders 8 are open; the index by symbol keeps the rest alive."""
    blocks, _ = truth("orders.O2")
    count = Counter(canonical(each.type) for each in blocks.values())
    assert count["std::_Sp_counted_ptr_inplace<Order,std::allocator<void>,2>"] == 800
    assert sum("Order" in each and each.startswith("std::__detail::_Hash_node<") for each in count.elements()) == 8 + 5


@pytest.mark.parametrize(
    ("mode", "waiting", "cached"),
    [
        ("queue", 300, 0),
        pytest.param("cache", 0, 300, marks=pytest.mark.full),
        pytest.param("plain", 0, 50, marks=pytest.mark.full),
    ],
)
def test_the_pools_faults(tmp_path: Path, mode: str, waiting: int, cached: int) -> None:
    sited = Sited(PROGRAMS / "pool.O2", tmp_path, "300", mode)
    try:
        blocks = sited.expected().values()
    finally:
        sited.end()
    assert sum("lambda" in each.type for each in blocks) == waiting
    assert sum(each.type.startswith("std::_Sp_counted_ptr_inplace") for each in blocks) == cached


@pytest.mark.parametrize("level", LEVELS)
def test_split_debug_information_leaves_the_code_alone(level: str, tmp_path: Path) -> None:
    if not shutil.which("objcopy"):
        pytest.skip("objcopy is not installed")
    codes = []
    for name in ("pool", "pool.split"):
        # into a file of its own: of root it replaces /dev/stdout itself
        code = tmp_path / name
        subprocess.run(["objcopy", "-O", "binary", "-j", ".text", PROGRAMS / f"{name}.{level}", code], check=True)
        codes.append(code.read_bytes())
    assert codes[0] == codes[1] != b""


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


@pytest.mark.parametrize(
    ("spellings", "others"),
    [
        (("unsigned long", "long unsigned int", "unsigned long int"), ("long", "unsigned long long", "unsigned")),
        (("char const *", "const char*"), ("char*", "char* const")),
        (
            ("std::string", LONG_STRING),
            ("std::wstring",),
        ),
        (("struct node *[]", "node*[]"), ("node[]", "node**[]")),
        (
            ("std::vector<int, std::allocator<int> >", "std::vector<int>"),
            ("std::vector<int, Pool<int>>", "std::vector<int, std::allocator<long>>", "vector<int>"),
        ),
        (
            ("std::map<int, A, std::less<int>, std::allocator<std::pair<int const, A> > >", "class std::map<int,A>"),
            ("std::map<int, A, std::greater<int> >", "std::map<int, B>"),
        ),
        (("Call<int (std::string const&)>", f"Call<int({LONG_STRING} const &)>"), ("Call<int()>", "Call<int>")),
        (("Fixed<5ul>", "Fixed<5>"), ("Fixed<6>", "Fixed")),
        (
            ("Held<A*, (__gnu_cxx::_Lock_policy)2>", "Held<A *, std::_S_atomic>"),
            ("Held<A*, (__gnu_cxx::_Lock_policy)1>",),
        ),
        (
            ("Outer<char const*>::Inner<long int>*", "Outer<const char *>::Inner<long> *"),
            ("Outer<char*>::Inner<long>*",),
        ),
    ],
)
def test_spellings(spellings: Sequence[str], others: Sequence[str]) -> None:
    assert len({canonical(each) for each in spellings}) == 1
    assert canonical(spellings[0]) not in {canonical(each) for each in others}


@pytest.mark.parametrize(
    ("spellings", "others"),
    [
        (("alloc::vec::Vec<idioms::Record, alloc::alloc::Global>", "Vec<Record>"), ("Vec<Point>", "VecDeque<Record>")),
        (("idioms::boxes::{closure_env#0}", "boxes::{{closure}}"), ("tables::{{closure}}",)),
        (
            ("std::collections::hash::map::HashMap<u64, (u8,)>", "HashMap<u64,(u8,)>"),
            ("HashMap<u64,u8>", "HashSet<u64>"),
        ),
    ],
)
def test_rusts_spellings(spellings: Sequence[str], others: Sequence[str]) -> None:
    assert len({rust(each) for each in spellings}) == 1
    assert rust(spellings[0]) not in {rust(each) for each in others}


def test_fixtures_have_logs_of_their_own(tmp_path: Path) -> None:
    """After "tick" the log has what came, and nothing of what went."""
    sited = Sited(PROGRAMS / "daemon.O1", tmp_path, "100")
    try:
        before = sited.expected()
        sited.tick()
        after = sited.expected()
    finally:
        sited.end()
    sessions = [sum(each.type == "struct session" for each in some.values()) for some in (before, after)]
    assert sessions == [104, 105]
