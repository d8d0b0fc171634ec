"""Blocks that variables lead to which were optimised out, in heaps built in memory: what proves itself has a name."""

from __future__ import annotations

from typing import Optional, Sequence

import pytest
from test_declared import Program

from arenascope.blocks.declared.claims import Container, Reader, Types
from arenascope.blocks.declared.container_rows import path_text
from arenascope.blocks.declared.containers.forms import Node, OfNodes, one_way
from arenascope.sources.debug_info_types import Local, StructField, VariableFrame

NAME = "chain"
BOOK, NODE, LEAF = 56, 24, 40


class Chain(OfNodes):
    """Its first node, and how many there are."""

    def nodes(self, reader: Reader, address: int) -> Optional[Sequence[int]]:
        words = reader.words(address, 2)
        found = one_way(reader, words[0], self.node.size, words[1]) if words is not None else None
        return None if found is None else [node[0] for node in found]


class Chains:
    """A library of these, whose nodes lead to leaves."""

    def __init__(self, leaf: int) -> None:
        self._leaf = leaf

    def container(self, types: Types, type: int) -> Optional[Container]:
        if types.facts(type).name != NAME:
            return None
        made = types.made_up("chain node", NODE, [StructField("leaf", 8, types.pointer_to(self._leaf))])
        return Chain(Node(made, NODE, NODE))


class Lost:
    """A program that has books, and a variable of main's that leads to one."""

    def __init__(self) -> None:
        self.program = Program()
        self.types = self.program.types
        leaf = self.types.struct("leaf", LEAF)
        self.chain = self.types.struct(NAME, 16)
        self.library = Chains(leaf)
        self.pointer = self.types.to(self.book_type("book"))

    def book_type(self, name: str) -> int:
        return self.types.struct(name, BOOK, ("chain", 0, self.chain), ("pages", 16, self.types.long))

    def book(self, name: str, nodes: int = 3, counted: int = 3) -> int:
        """A block, with as many nodes, and as many of which it says that it has them."""
        program, next = self.program, 0
        for at in range(nodes):
            leaf, node = program.malloc(f"{name} leaf {at}", LEAF), program.malloc(f"{name} node {at}", NODE)
            program.put(node, next, leaf)
            next = node
        book = program.malloc(name, BOOK)
        program.put(book, next, counted)
        return book

    def local(self, name: str, *registers: int, stack: Sequence[int] = (), type: Optional[int] = None) -> None:
        low = self.program.variable(f"words of {name}", self.types.array(self.types.long, len(stack)), *stack)
        place = VariableFrame(0x1234, low, low + 8 * len(stack), registers)
        pointer = self.pointer if type is None else type
        self.types.of_frames.append(Local(name, pointer, 4000, 2, "main(int)", within=place))

    def named(self, block: str) -> Optional[str]:
        self.program.named([self.library])
        return self.program.name(block)


@pytest.fixture
def lost() -> Lost:
    return Lost()


@pytest.mark.parametrize("on_stack", [False, True])
def test_where_its_frame_has_the_pointer(lost: Lost, on_stack: bool) -> None:
    book = lost.book("mine")
    lost.local("mine", *([0x10, book] * (not on_stack)), stack=[7, book] * on_stack)
    assert lost.named("mine") == "book"
    program = lost.program
    assert program.sure("mine") == "book"
    assert {program.name(f"mine node {at}") for at in range(3)} == {"chain node"}
    assert {program.name(f"mine leaf {at}") for at in range(3)} == {"leaf"}
    path = path_text(program.found, program.number("mine leaf 0"))
    assert path is not None
    assert path.startswith("main(): mine (place unknown)")


@pytest.mark.parametrize(("nodes", "counted"), [(0, 0), (3, 4), (3, 2)])
def test_what_does_not_prove_itself_has_no_name(lost: Lost, nodes: int, counted: int) -> None:
    lost.local("mine", lost.book("mine", nodes, counted))
    assert lost.named("mine") is None


def test_elements_that_contradict_their_type(lost: Lost) -> None:
    book = lost.book("mine")
    lost.program.put(lost.program.ours["mine node 1"] + 8, 0x0123_4567_89AB_CDE0)
    lost.local("mine", book)
    assert lost.named("mine") is None


def test_one_of_two_blocks(lost: Lost) -> None:
    lost.local("mine", lost.book("mine"), lost.book("other"))
    assert (lost.named("mine"), lost.program.name("other")) == (None, None)


def test_one_that_is_another_variables(lost: Lost) -> None:
    """And no other: what is known stays as it is."""
    book = lost.book("mine")
    lost.program.variable("known", lost.pointer, book)
    lost.local("mine", book)
    assert lost.named("mine") == "book"
    assert lost.program.found.way(lost.program.number("mine"))[0] == "known"


@pytest.mark.parametrize("size", [BOOK, BOOK - 8])
def test_one_of_two_types(lost: Lost, size: int) -> None:
    """The other one is known to the function's source file alone."""
    twin = lost.types.struct("twin", size, ("list", 0, lost.chain), ("years", 16, lost.types.long))
    lost.types.beside.append(twin)
    lost.local("mine", lost.book("mine"))
    assert lost.named("mine") is None
    assert set(lost.types.asked_beside) == {0x1234}


def test_two_variables_of_two_types(lost: Lost) -> None:
    book = lost.book("mine")
    lost.local("mine", book)
    lost.local("twin", book, type=lost.types.to(lost.book_type("twin")))
    assert lost.named("mine") is None
