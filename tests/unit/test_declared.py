"""What blocks are by types that were declared: in heaps built in memory, where it is known what each block is."""

from __future__ import annotations

from typing import Iterable, Optional, Sequence

import pytest
from declared_types import DeclaredTypes
from heap_places import APP
from heapbuilder import HeapImage

from arenascope.blocks.declared.claims import CONTAINER, Claim, Container, Library, Reader, Types
from arenascope.blocks.declared.container_rows import path_text
from arenascope.blocks.declared.named_blocks import NamedBlocks
from arenascope.blocks.declared.once_per_image import named_blocks
from arenascope.blocks.graph.blocks import live_blocks
from arenascope.blocks.graph.refs import ImageSearch
from arenascope.blocks.graph.roots import find_roots
from arenascope.blocks.graph.stale_rows import declare
from arenascope.blocks.graph.stale_words import COUNTS, StaleWords
from arenascope.blocks.recognise.module_memory import ground_of
from arenascope.session.session import Session, UsersRules
from arenascope.sources.debug_info_types import Local

GARBAGE = 0x0123_4567_89AB_CDE0
"""Nothing is mapped there."""


class Program:
    """A heap, a page of variables, and types."""

    def __init__(self) -> None:
        self.image = HeapImage("2.36-64")
        self.types = DeclaredTypes()
        self.ours: dict[str, int] = {}
        """What malloc returned for each block, by the name that the test gave it."""
        data = [each for each in self.image.fixed if each.path == APP and each.present]
        self._variables = data[0].start
        self._later: list[tuple[int, int, int]] = []

    def malloc(self, name: str, size: int, larger: int = 0) -> int:
        """A block for so many bytes; `larger`: what malloc could not split off."""
        chunk = self.image.main.used(self.image.row.request2size(size) + larger)
        self.ours[name] = self.image.row.user(chunk.address)
        self.put(self.ours[name], *[0] * (size // 8))
        return self.ours[name]

    def put(self, address: int, *words: int, size: int = 8) -> None:
        self._later += [(address + at * size, word, size) for at, word in enumerate(words)]

    def variable(self, name: str, type: int, *words: int) -> int:
        address = self._variables
        self._variables += max(len(words) * 8, self.types.all[type].size)
        self.types.variable(name, address, type)
        self.put(address, *words)
        return address

    def named(self, libraries: Sequence[Library] = (), rules: str = "") -> NamedBlocks:
        """`rules`: a file of the user's."""
        target = self.image.target()
        for address, word, size in self._later:
            self.image.space.put(address, word, size)
        self.session = session = Session(target)
        self.rules = session.rules = UsersRules(rules)
        blocks = live_blocks(session)
        search = ImageSearch(session, blocks, find_roots(session, blocks))
        self.found = named_blocks(search, self.types, ground_of(session), libraries)
        return self.found

    def number(self, name: str) -> int:
        return self.found.blocks.find(self.ours[name])

    def name(self, name: str) -> Optional[str]:
        told = self.found.name_of(self.number(name))
        return told.text if told is not None else None

    def form(self, name: str) -> Optional[str]:
        told = self.found.name_of(self.number(name))
        return told.form if told is not None else None

    def sure(self, name: str) -> Optional[str]:
        return self.name(name) if self.found.is_certain(self.number(name)) else None


@pytest.fixture
def program() -> Program:
    return Program()


def node_type(types: DeclaredTypes, name: str = "node", size: int = 40) -> int:
    """A struct with a pointer to the next of its kind in front."""
    node = types.struct(name, size)
    types.set(node, ("next", 0, types.to(node)))
    return node


def test_a_list_is_followed_to_its_end(program: Program) -> None:
    types = program.types
    node = node_type(types)
    nodes = [program.malloc(f"node {at}", 40) for at in range(100)]
    for here, after in zip(nodes, [*nodes[1:], 0]):
        program.put(here, after)
    program.malloc("other", 40)
    program.variable("first", types.to(node), nodes[0])
    found = program.named()
    assert {program.sure(f"node {at}") for at in range(100)} == {"node"}
    assert program.name("other") is None
    assert found.way(program.number("node 2")) == ["first", "", ".next", ".next"]
    paths = {at: path_text(found, program.number(f"node {at}")) for at in (0, 2, 99)}
    assert paths == {0: "first", 2: "first->next->next", 99: "first->next (99 times)"}
    assert path_text(found, program.number("other")) is None


def test_only_words_that_lead_to_blocks_are_asked_for(program: Program) -> None:
    types = program.types
    node = node_type(types)
    block = program.malloc("node", 40)
    program.put(block, 0)
    program.variable("empty", types.to(node), 0)
    program.variable("number", types.long, 77)
    leads = program.variable("leads", types.to(node), block)
    program.named()
    assert types.asked == [leads]


@pytest.mark.parametrize("larger", [0, 16])
def test_a_chunk_that_is_larger_proves_nothing(program: Program, larger: int) -> None:
    """malloc may hand out 16 bytes more than it has to, and a word that is left over may lead anywhere."""
    types = program.types
    program.malloc("node", 40, larger=larger)
    program.variable("first", types.to(node_type(types)), program.ours["node"])
    program.named()
    assert program.sure("node") == (None if larger else "node")


def test_a_struct_that_another_extends(program: Program) -> None:
    """As C does it: whoever has a pointer to the first member may have any of those that extend it."""
    types = program.types
    base = node_type(types, "base", 40)
    derived = types.struct("derived", 120, ("base", 0, base), ("a", 40, types.to(base)), ("b", 80, types.to(base)))
    program.malloc("unsure", 120)
    program.malloc("sure", 120)
    program.put(program.ours["unsure"], program.ours["sure"])
    program.variable("first", types.to(base), program.ours["unsure"])
    program.variable("known", types.to(derived), program.ours["sure"])
    program.named()
    assert program.sure("unsure") is None
    assert program.sure("sure") == "derived"


def test_one_that_extends_another_by_no_more_than_the_chunk_has(program: Program) -> None:
    types = program.types
    base = node_type(types, "base", 32)
    derived = types.struct("derived", 40, ("base", 0, base), ("more", 32, types.to(base)))
    first, second = program.malloc("first", 40), program.malloc("second", 40)
    program.put(first, second)
    program.variable("bases", types.to(base), first)
    program.variable("known", types.to(derived), 0)
    program.variable("deriveds", types.to(derived), second)
    program.named()
    assert program.sure("first") is None
    assert program.sure("second") == "derived"


def test_an_array_by_its_pointers(program: Program) -> None:
    types = program.types
    node = node_type(types)
    entry = types.struct("entry", 24, ("key", 0, types.long), ("node", 8, types.to(node)))
    body = program.malloc("entries", 24 * 10)
    for at in range(10):
        each = program.malloc(f"node {at}", 40)
        program.put(each, 0)
        program.put(body + 24 * at, at, each)
    program.variable("entries", types.to(entry), body)
    found = program.named()
    assert program.sure("entries") == "entry[]"
    assert found.elements[program.number("entries")] == 10
    assert program.sure("node 7") == "node"
    assert found.way(program.number("node 7")) == ["entries", "", "[7].node"]


def test_no_array_where_an_elements_pointer_leads_nowhere(program: Program) -> None:
    types = program.types
    node = node_type(types)
    entry = types.struct("entry", 24, ("key", 0, types.long), ("node", 8, types.to(node)))
    body = program.malloc("entries", 24 * 10)
    for at in range(10):
        each = program.malloc(f"node {at}", 40)
        program.put(body + 24 * at, at, GARBAGE if at == 5 else each)
    program.variable("entries", types.to(entry), body)
    program.named()
    assert program.form("entries") in (None, "tail", "field")


def test_an_array_by_the_count_beside_it(program: Program) -> None:
    types = program.types
    samples = program.malloc("samples", 8 * 50)
    unknown = program.malloc("unknown", 8 * 50)
    table = types.struct("table", 64, ("samples", 0, types.to(types.double)), ("count", 8, types.int))
    other = types.struct("other", 64, ("samples", 0, types.to(types.double)), ("count", 8, types.int))
    first, second = program.malloc("table", 64), program.malloc("other", 64)
    program.put(first, samples, 50)
    program.put(second, unknown, 3)
    program.variable("table", types.to(table), first)
    program.variable("other", types.to(other), second)
    found = program.named()
    assert program.sure("samples") == "double[]"
    assert found.elements[program.number("samples")] == 50
    assert program.sure("unknown") is None
    assert program.name("unknown") == "double[] of other.samples"


def test_a_count_proves_nothing_of_what_extends_what_is_pointed_to(program: Program) -> None:
    """As Lua's objects begin: three times the base has room, three are counted there, and all that follows in it are
    pointers to others that extend the base."""
    types = program.types
    base = node_type(types, "base", 16)
    holder = types.struct("holder", 64, ("base", 0, types.to(base)), ("count", 8, types.int))
    at, block, others = program.malloc("holder", 64), program.malloc("block", 48), program.malloc("others", 200)
    program.put(at, block, 3)
    program.put(block, others, 0, others, 0, others)
    program.variable("holder", types.to(holder), at)
    program.named()
    assert program.form("block") == "tail"


def test_two_that_begin_with_the_same_members(program: Program) -> None:
    """As a macro in C makes them: the one that has more does not contradict the other."""
    types = program.types
    base, more = types.struct("base", 16), types.struct("more", 24)
    head = ("next", 0, types.to(base)), ("kind", 8, types.int)
    types.set(base, *head)
    types.set(more, *head, ("number", 16, types.long))
    block = program.malloc("block", 24)
    program.variable("base", types.to(base), block)
    program.variable("more", types.to(more), block)
    program.named()
    assert program.sure("block") == "more"


def test_the_link_back_of_a_list(program: Program) -> None:
    """It leads to whatever has the pointer to an element: that is no array of pointers."""
    types = program.types
    element = types.struct("element", 40)
    types.set(element, ("next", 0, types.to(element)), ("back", 8, types.to(types.to(element))))
    first, head = program.malloc("first", 40), program.malloc("head", 40)
    program.put(head, first)
    program.put(first, 0, head)
    program.variable("first", types.to(element), first)
    program.named()
    assert program.sure("first") == "element"
    assert program.name("head") == "void at element.back"


def test_buckets(program: Program) -> None:
    types = program.types
    node = node_type(types)
    buckets = program.malloc("buckets", 8 * 64)
    for at in (3, 17, 40, 60):
        each = program.malloc(f"node {at}", 40)
        program.put(each, 0)
        program.put(buckets + 8 * at, each)
    program.variable("buckets", types.to(types.to(node)), buckets)
    found = program.named()
    assert program.sure("buckets") == "node *[]"
    assert found.way(program.number("node 40")) == ["buckets", "", "[40]"]


@pytest.mark.parametrize(("power", "sure"), [(6, "node *[]"), (5, None)])
def test_buckets_counted_by_a_power_of_two(program: Program, power: int, sure: Optional[str]) -> None:
    """One node proves nothing, but where a number beside the pointer says how many places there are."""
    types = program.types
    node = node_type(types)
    powers = types.array(types.char, 2)
    table = types.struct("table", 40, ("rows", 0, types.array(types.to(types.to(node)), 2)), ("powers", 16, powers))
    at, buckets, only = program.malloc("table", 40), program.malloc("buckets", 8 * 64), program.malloc("node", 40)
    program.put(at, buckets)
    program.put(at + 16, power, size=1)
    program.put(buckets + 8 * 17, only)
    program.variable("table", types.to(table), at)
    program.named()
    assert program.sure("buckets") == sure
    assert program.sure("node") == ("node" if sure else None)


@pytest.mark.parametrize(("number", "sure"), [(9999, "value"), (-9999, "value"), (GARBAGE, None)])
def test_a_number_in_a_pointer_to_anything(program: Program, number: int, sure: Optional[str]) -> None:
    types = program.types
    value = types.struct("value", 40, ("count", 0, types.long), ("any", 8, types.to(types.void)))
    at = program.malloc("value", 40)
    program.put(at, 1, number % (1 << 64))
    program.variable("first", types.to(value), at)
    program.named()
    assert program.sure("value") == sure


def test_an_array_that_is_a_variable(program: Program) -> None:
    types = program.types
    node = node_type(types)
    nodes = [program.malloc(f"node {at}", 40) for at in range(50)]
    slots = types.array(types.to(node), 50)
    program.variable("slots", slots, *nodes)
    found = program.named()
    assert {program.sure(f"node {at}") for at in range(50)} == {"node"}
    assert found.way(program.number("node 31")) == ["slots", "[31]"]
    assert len(types.asked) == 50


def test_arrays_in_each_of_several_objects(program: Program) -> None:
    """Of pointers, and of structs of such: what is no pointer of its type, leads amid a block or nowhere counts against
    the object in which it lies."""
    types = program.types
    node = node_type(types)
    pair = types.struct("pair", 16, ("key", 0, types.to(types.char)), ("value", 8, types.to(node)))
    piece = types.struct("piece", 8 + 20 * 8 + 10 * 16)
    types.set(
        piece,
        ("amid", 0, types.to(types.void)),
        ("to", 8, types.array(types.to(node), 20)),
        ("pairs", 168, types.array(pair, 10)),
    )
    pieces = [program.malloc(f"piece {at}", 328) for at in range(6)]
    nodes = [program.malloc(f"node {at}", 40) for at in range(60)]
    texts = [program.malloc(f"text {at}", 24 + 16 * (at % 3)) for at in range(60)]
    for at, here in enumerate(pieces):
        to = [nodes[10 * at + each] if each < 5 else 0 for each in range(15)]
        pairs = [word for each in range(5) for word in (texts[10 * at + each], nodes[10 * at + 5 + each])]
        program.put(here, nodes[0] + 8, *to, *[0x0101_0101_0101_0101] * 5, *pairs)
    # this one has nothing of what its type says
    program.put(pieces[5] + 8, *(0x0101_0101_0101_0101 + each for each in range(30)))
    program.variable("all", types.array(types.to(piece), 6), *pieces)
    found = program.named()
    assert {program.sure(f"node {at}") for at in range(50)} == {"node"}
    assert path_text(found, program.number("node 12")) == "all[1]->to[2]"
    assert path_text(found, program.number("node 28")) == "all[2]->pairs[3].value"
    assert path_text(found, program.number("text 43")) == "all[4]->pairs[3].key"
    assert (program.name("node 52"), program.sure("piece 5")) == (None, None)


def test_a_flexible_array(program: Program) -> None:
    types = program.types
    packet = types.struct("packet", 16, ("used", 0, types.long), ("count", 8, types.int))
    types.set(packet, ("used", 0, types.long), ("count", 8, types.int), ("data", 12, types.array(types.char, None)))
    counted, uncounted = program.malloc("counted", 12 + 100), program.malloc("uncounted", 12 + 100)
    program.put(counted, 1, 100)
    program.put(uncounted, 1, 5)
    program.variable("counted", types.to(packet), counted)
    program.variable("uncounted", types.to(packet), uncounted)
    program.named()
    assert program.sure("counted") == "packet"
    assert program.name("uncounted") == "packet"


def test_a_flexible_array_without_elements(program: Program) -> None:
    """What is as large as the struct alone is as sure as any struct; so are pointers to it that fill an array."""
    types = program.types
    entry = types.struct("entry", 40)
    rest = types.array(types.to(types.void), None)
    types.set(entry, ("key", 0, types.long), ("next", 32, types.to(entry)), ("rest", 40, rest))
    buckets = program.malloc("buckets", 8 * 64)
    for at in (3, 17, 40, 60):
        program.put(buckets + 8 * at, program.malloc(f"entry {at}", 40))
    program.put(program.ours["entry 3"] + 32, program.malloc("next", 40))
    program.variable("buckets", types.to(types.to(entry)), buckets)
    program.named()
    assert program.sure("buckets") == "entry *[]"
    assert program.sure("entry 40") == program.sure("next") == "entry"


def test_members_that_tell_no_type(program: Program) -> None:
    types = program.types
    holder = types.struct("holder", 40, ("text", 0, types.to(types.char)), ("any", 8, types.to(types.void)))
    at = program.malloc("holder", 40)
    program.put(at, program.malloc("text", 100), program.malloc("any", 200))
    program.variable("holder", types.to(holder), at)
    program.named()
    assert program.sure("holder") == "holder"
    assert (program.name("text"), program.name("any")) == ("char[] of holder.text", "void at holder.any")
    assert program.sure("text") is program.sure("any") is None


@pytest.mark.parametrize(("header", "names"), [(3, True), (17, True), (8, False), (19, False)])
def test_characters_behind_a_header(program: Program, header: int, names: bool) -> None:
    """A string's length lies in front of it, where it has one. At an even offset may be a member of any struct."""
    types = program.types
    holder = types.struct("holder", 40, ("text", 0, types.to(types.char)), ("any", 8, types.to(types.void)))
    at = program.malloc("holder", 40)
    program.put(at, program.malloc("text", 100) + header, program.malloc("any", 200) + header)
    program.variable("holder", types.to(holder), at)
    program.named()
    found = (program.name("text"), program.name("any"))
    assert found == (("char[] of holder.text", "void at holder.any") if names else (None, None))
    assert program.sure("text") is program.sure("any") is None


@pytest.mark.parametrize("within", [True, False])
def test_a_struct_with_its_own_text_behind_it(program: Program, within: bool) -> None:
    types = program.types
    value = types.struct("value", 16, ("count", 0, types.long), ("any", 8, types.to(types.void)))
    at = program.malloc("value", 100)
    program.put(at, 1, at + (19 if within else 3))
    program.variable("first", types.to(value), at)
    program.named()
    assert program.form("value") == ("tail" if within else "field")
    assert program.sure("value") is None


@pytest.mark.parametrize("second_fits", [False, True])
def test_a_union_names_only_where_one_alternative_fits(program: Program, second_fits: bool) -> None:
    types = program.types
    first, second = node_type(types, "first", 40), node_type(types, "second", 36 if second_fits else 100)
    either = types.struct("", 8, ("a", 0, types.to(first)), ("b", 0, types.to(second)), form="union")
    holder = types.struct("holder", 48, ("kind", 0, types.long), ("", 8, either))
    at, block = program.malloc("holder", 48), program.malloc("block", 40)
    program.put(at, 1, block)
    program.variable("holder", types.to(holder), at)
    program.named()
    assert program.sure("block") is None
    assert program.form("block") == (None if second_fits else "union")


@pytest.mark.parametrize("larger", [0, 16])
def test_characters_in_a_union_have_to_be_the_only_ones(program: Program, larger: int) -> None:
    """What is larger than malloc makes it may be either."""
    types = program.types
    node = node_type(types)
    either = types.struct("", 8, ("text", 0, types.to(types.char)), ("node", 0, types.to(node)), form="union")
    holder = types.struct("holder", 48, ("kind", 0, types.long), ("", 8, either))
    at, block, text = (
        program.malloc("holder", 48),
        program.malloc("block", 40, larger=larger),
        program.malloc("text", 8),
    )
    program.put(at, 1, block)
    program.put(block, program.malloc("next", 40))
    other = program.malloc("other", 48)
    program.put(other, 2, text)
    program.variable("holders", types.array(types.to(holder), 2), at, other)
    program.named()
    assert program.form("block") == (None if larger else "union")
    assert program.name("text") == "char[] of holder.text"


def test_a_long_list_whose_links_are_in_unions(program: Program) -> None:
    """As Rust's Option has them: a node is not proven by all that follow it."""
    types = program.types
    node = types.struct("node", 40)
    link = types.struct("", 8, ("next", 0, types.to(node)), form="union")
    types.set(node, ("number", 0, types.long), ("", 8, link))
    nodes = [program.malloc(f"node {number}", 40) for number in range(2000)]
    for at, following in zip(nodes, [*nodes[1:], 0]):
        program.put(at, 1, following)
    program.variable("first", types.to(node), nodes[0])
    program.named()
    assert program.sure("node 0") == "node"
    assert program.form("node 1") == "union"


def test_two_that_contradict_each_other(program: Program) -> None:
    """Neither counts, nor what was named by either."""
    types = program.types
    leaf = node_type(types, "leaf", 72)
    one = types.struct("one", 40, ("leaf", 0, types.to(leaf)))
    other = types.struct("other", 40, ("leaf", 8, types.to(leaf)))
    block, below = program.malloc("block", 40), program.malloc("leaf", 72)
    program.put(block, below)
    program.variable("one", types.to(one), block)
    program.variable("other", types.to(other), block)
    program.named()
    assert program.name("block") is None
    assert program.name("leaf") is None


def test_words_that_lead_nowhere(program: Program) -> None:
    """A pointer that was left over leads to what is something else by now."""
    types = program.types
    node = types.struct("node", 40)
    types.set(node, ("next", 0, types.to(node)), ("data", 8, types.to(node)))
    block = program.malloc("block", 40)
    program.put(block, GARBAGE, GARBAGE + 16)
    program.variable("stale", types.to(node), block)
    program.named()
    assert program.name("block") is None


def test_a_local_has_to_be_proven(program: Program) -> None:
    """It may not be set yet: what is on the stack is from another call."""
    types = program.types
    node = node_type(types)
    lone, first, second = (program.malloc(each, 40) for each in ("lone", "first", "second"))
    program.put(first, second)
    pointer = types.to(node)
    for name, block in (("unset", lone), ("list", first)):
        types.of_frames.append(Local(name, pointer, 4000, 0, "main", data=block.to_bytes(8, "little")))
    found = program.named()
    assert program.sure("lone") is None
    assert program.sure("first") == program.sure("second") == "node"
    assert found.way(program.number("second")) == ["main(): list", "", ".next"]


def test_a_count_from_new(program: Program) -> None:
    types = program.types
    node = node_type(types)
    block = program.malloc("objects", 8 + 40 * 7)
    program.put(block, 7)
    program.variable("objects", types.to(node), block + 8)
    found = program.named()
    assert program.sure("objects") == "node[]"
    assert found.elements[program.number("objects")] == 7


def test_an_incomplete_type_names_nothing(program: Program) -> None:
    types = program.types
    hidden = types.struct("hidden", 0)
    program.malloc("block", 40)
    program.variable("hidden", types.to(hidden), program.ours["block"])
    program.named()
    assert program.sure("block") is None


def test_what_holds_itself_ends(program: Program) -> None:
    """Types that contain themselves, arrays longer than memory, links in circles."""
    types = program.types
    circle = types.struct("circle", 40)
    types.set(circle, ("self", 0, circle), ("next", 8, types.to(circle)))
    huge = types.struct("huge", 48, ("all", 0, types.array(circle, 1 << 40)))
    blocks = [program.malloc(f"block {at}", 40) for at in range(3)]
    for here, after in zip(blocks, [*blocks[1:], blocks[0]]):
        program.put(here, after, after)
    program.variable("circle", types.to(circle), blocks[0])
    program.variable("huge", types.to(huge), program.malloc("huge", 48))
    program.named()


@pytest.mark.parametrize("others", [0, 1])
def test_a_pointer_to_a_member(program: Program, others: int) -> None:
    """Names the struct that has it there, if it is the only one."""
    types = program.types
    link = types.struct("link", 16)
    types.set(link, ("next", 0, types.to(link)), ("before", 8, types.to(link)))
    for number in range(1 + others):
        types.struct(f"job{number}", 48, ("text", 0, types.to(types.char)), ("link", 24, link))
    first, second = program.malloc("first", 48), program.malloc("second", 48)
    head = program.variable("jobs", link, first + 24, second + 24)
    program.put(first + 24, second + 24, head)
    program.put(second + 24, head, first + 24)
    for each in (first, second):
        program.put(each, program.malloc(f"text of {each}", 100))
    program.named()
    expected = None if others else "job0"
    assert (program.name("first"), program.name("second")) == (expected, expected)
    assert program.sure("first") is None


class Pairs:
    """A library with one container: a pointer, a count, and its objects in one block."""

    def __init__(self, template: int, element: int, front: int = 0) -> None:
        self._template, self._element, self._front = template, element, front

    def container(self, types: Types, type: int) -> Optional[Container]:
        return self if type == self._template else None

    def claims(self, reader: Reader, address: int) -> Optional[Iterable[Claim]]:
        words = reader.words(address, 2)
        if words is None or not 0 < words[1] < 1000:
            return None
        return [Claim(words[0], self._element, CONTAINER, "", elements=words[1], capacity=12, front=self._front)]

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        return None


def test_containers_stop_the_descent(program: Program) -> None:
    """What lies behind the last element in use leads nowhere, and a damaged one is counted."""
    types = program.types
    node = node_type(types)
    pairs = types.struct("pairs<node *>", 16, ("first", 0, types.to(node)), ("count", 8, types.long))
    body = program.malloc("body", 12 * 8)
    nodes = [program.malloc(f"node {at}", 40) for at in range(12)]
    program.put(body, *nodes)
    program.variable("all", pairs, body, 10)
    program.variable("broken", pairs, nodes[11], 5000)
    found = program.named([Pairs(pairs, types.to(node))])
    assert program.sure("body") == "node *[]"
    assert program.sure("node 9") == "node"
    assert program.name("node 10") is program.name("node 11") is None
    assert found.damaged == {"pairs<node *>": 1}


def test_which_words_of_typed_blocks_hold_pointers(program: Program) -> None:
    """Numbers and letters hold none, nor does what lies behind the elements in use; where numbers are pointers, and
    where letters are no text, they count."""
    types = program.types
    node = node_type(types)
    fields = (("real", 0, types.double), ("node", 8, types.to(node)), ("long", 16, types.long), ("int", 24, types.int))
    holder = types.struct("holder", 40, *fields)
    pairs = types.struct("pairs<node *>", 16, ("first", 0, types.to(node)), ("count", 8, types.long))
    types.set(holder, *fields, ("letters", 32, types.array(types.char, 8)))
    hider = types.struct("hider", 40, *fields[:2], fields[2], ("letters", 24, types.array(types.char, 16)))
    at, body, loose = program.malloc("holder", 40), program.malloc("body", 12 * 8), program.malloc("loose", 40)
    held, hidden = program.malloc("held", 40), program.malloc("hidden", 40)
    program.put(at, 0, held, 5, 0, int.from_bytes(b"a text\0\0", "little"))
    program.put(hidden, 0, held, held | 1, 0xE0FF, held)
    program.put(body, *[held] * 12)
    program.variable("holder", types.to(holder), at)
    program.variable("hider", types.to(hider), hidden)
    program.variable("all", pairs, body, 10)
    found = program.named([Pairs(pairs, types.to(node))])
    table = StaleWords(found.blocks.engine, 8)
    declare(found, table, Session(program.image.target()).memory)

    def counts(name: str, offset: int) -> bool:
        return table.why(program.ours[name] + offset, program.number(name)) == COUNTS

    assert [counts("holder", offset) for offset in range(0, 40, 8)] == [False, True, False, False, False]
    assert [counts("hidden", offset) for offset in range(0, 40, 8)] == [False, True, True, True, True]
    assert [counts("body", 8 * place) for place in range(12)] == [True] * 10 + [False] * 2
    assert counts("loose", 0)
    assert loose


def test_elements_may_lie_in_front_of_the_first(program: Program) -> None:
    """A ring goes on at the start of its block."""
    types = program.types
    node = node_type(types)
    pairs = types.struct("pairs<node *>", 16, ("first", 0, types.to(node)), ("count", 8, types.long))
    body, held = program.malloc("body", 14 * 8), program.malloc("held", 40)
    program.put(body, *[held] * 14)
    program.variable("all", pairs, body, 12)
    found = program.named([Pairs(pairs, types.to(node), front=16)])
    assert program.sure("body") == "node *[]"
    table = StaleWords(found.blocks.engine, 8)
    declare(found, table, Session(program.image.target()).memory)
    assert table.why(body, program.number("body")) == COUNTS
