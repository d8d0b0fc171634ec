"""What blocks are by the program's types: arrays by the numbers of live blocks, as there are millions of them."""

from __future__ import annotations

from array import array
from collections import Counter
from typing import Iterator, Literal, Mapping, NamedTuple, Optional, Sequence, Union

from ...base.heap_model import Kind
from ...engine import TracedBlocks, places_of
from ...sources.type_source import StartVariable
from ..block_index import WEAK_EVIDENCE
from ..graph.blocks import LiveBlocks
from .claims import ALIKE, LOCAL, RULE, WORDS
from .contents import Contents
from .rules import Rule
from .type_table import TypeTable

Form = Literal["object", "array", "tail", "union", "field"]
"""One object; several; an object with more behind it; what one alternative of a union leads to; what a member leads to
whose type tells nothing."""
ELEMENT = "[#]"
"""At the end of a step: the block has an element of a container, or several from this one on."""
HOW = "debug information"
BY_WORDS = f"{HOW}, and what the blocks hold"
BY_OTHERS = f"{HOW}, as others of the type hold the same"
NONE = -1
NOBODY = -(1 << 31)
"""In place of a parent: the block's own vtable told what it is."""


class BlockName(NamedTuple):
    """What some blocks are."""

    text: str
    """"Session", "Session[]", "Session and a tail", "one of Shape", "void at dictEntry.v.val"."""
    form: Form
    type: Optional[int] = None
    """Of one element, where it is an array; None: not known."""
    front: int = 0
    """So many bytes lie before the (first) object."""
    words: bool = True
    """Whether it holds anything that leads to other blocks."""
    label: str = ""
    """What members' names follow: "Session", "server.names[]"."""


Numbers = Union["array[int]", memoryview]


class NamedBlocks:
    """Of each live block, by its number: its name, how strong the claim is, and the way to it."""

    def __init__(self, blocks: LiveBlocks, types: TypeTable) -> None:
        """`types`: those that have numbers in `names`. If no block has a name all tables are empty."""
        self.blocks, self.types = blocks, types
        self.names: list[BlockName] = []
        self.sure: list[int] = []
        """How many blocks surely are what each of the names says."""
        self.steps: list[str] = []
        self.starts: Sequence[StartVariable] = ()
        self.main_thread: Optional[int] = None
        self.name: Numbers = array("i")
        self.level: Numbers = array("B")
        self.parent: Numbers = array("i")
        """Another block, or of a variable -1 - its number among `starts`."""
        self.step: Numbers = array("H")
        """Of `steps`: the way from the parent; "[]" in it stands for the block's `number`, and so does ELEMENT."""
        self.number: Numbers = array("I")
        self.elements: Numbers = array("I")
        """Of an array: how many are in use."""
        self.enclosing: set[int] = set()
        """Structs to which no pointer leads, but to a member further on (container_of)."""
        self.damaged: Counter[str] = Counter()
        """Containers that did not prove themselves, by type."""
        self.contradicted: Mapping[Rule, int] = {}
        """Rules of the user's, and how many blocks each says something wrong of."""
        self.traced: Optional[TracedBlocks] = None
        """What the engine has, if it named them."""
        self.contents: Optional[Contents] = None
        """What objects of these types hold."""

    def name_of(self, block: int) -> Optional[BlockName]:
        return self.names[self.name[block]] if len(self.name) and self.name[block] >= 0 else None

    def kind(self, block: int) -> Optional[Kind]:
        name = self.name_of(block)
        if name is None:
            return None
        if self.level[block] == ALIKE:
            return Kind(name.text, "declared", certain=False, how=BY_OTHERS)
        by_words = self.level[block] == WORDS or (self.level[block] <= RULE and name.form == "union")
        return Kind(name.text, "declared", certain=self.is_certain(block), how=BY_WORDS if by_words else HOW)

    def is_better(self, block: int, before: Optional[Kind]) -> bool:
        """Whether what it is says more than what was known: of an uncertain type, more than a guess; of the member that
        leads there, more than how large it is, and how it looks."""
        name = self.name_of(block)
        if name is None:
            return False
        if self.is_certain(block) or before is None or before.kind in WEAK_EVIDENCE:
            return True
        return name.form != "field" and not before.certain

    def alike(self, block: int) -> Optional[int]:
        """How many blocks surely are of the type that a block is called, if it is only as these are."""
        return self.sure[self.name[block]] or None if self.level[block] == ALIKE else None

    def is_certain(self, block: int) -> bool:
        name = self.name_of(block)
        return name is not None and self.level[block] <= RULE and name.form in ("object", "array")

    def certain(self, most: int = RULE) -> Iterator[int]:
        """The blocks of which it is certain what they are, by claims that are no weaker than `most`."""
        sure = [each.form in ("object", "array") for each in self.names]
        # of millions of blocks few may have a name
        is_strong = bytes(level <= most for level in range(256))
        for block in places_of(1, bytearray(self.level).translate(is_strong)):
            name = self.name[block]
            if name >= 0 and sure[name]:
                yield block

    def typed(self) -> Iterator[int]:
        """The blocks of which debug information alone makes certain what they are."""
        return self.certain(LOCAL)
