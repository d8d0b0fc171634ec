"""What blocks are by the program's types: arrays by the numbers of live blocks, as there are millions of them."""

from __future__ import annotations

from array import array
from collections import Counter
from typing import Iterator, Literal, Mapping, NamedTuple, Optional, Sequence

from ...base.model import Kind
from ...sources.debug_info_types import VariableFrame
from ..block_index import WEAK
from ..graph.blocks import LiveBlocks
from .claims import LOCAL, RULE
from .layouts import Layouts
from .rule_lines import Rule

Form = Literal["object", "array", "tail", "union", "field"]
"""One object; several; an object with more behind it; what one alternative of a union leads to; what a member leads to
whose type tells nothing."""
ELEMENT = "[#]"
"""At the end of a step: the block has an element of a container, or several from this one on."""
HOW = "debug information"
NONE = -1
UNNUMBERED = (1 << 32) - 1
NO_LEVEL = 255
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


class StartVariable(NamedTuple):
    """A variable from which types are followed."""

    name: str
    type: int
    address: Optional[int]
    data: Optional[bytes] = None
    """Its value, where it is in registers."""
    tid: Optional[int] = None
    frame: Optional[int] = None
    """Of a local: which of the thread's, 0 the innermost."""
    function: str = ""
    within: Optional[VariableFrame] = None
    """Of a local that was optimised out: where it may be."""
    words: tuple[int, ...] = ()
    """The words there that lead to blocks' starts."""

    @property
    def label(self) -> str:
        name = f"{self.name} (place unknown)" if self.within is not None else self.name
        return f"{self.function.partition('(')[0]}(): {name}" if self.function else name


class NamedBlocks:
    """Of each live block, by its number: its name, how strong the claim is, and the way to it."""

    def __init__(self, blocks: LiveBlocks) -> None:
        count = len(blocks)
        self.blocks = blocks
        self.names: list[BlockName] = []
        self.steps: list[str] = []
        self.starts: Sequence[StartVariable] = ()
        self.main_thread: Optional[int] = None
        self.layouts: Optional[Layouts] = None
        """Of the types that have numbers in `names`."""
        self.name = array("i", [NONE]) * count
        self.level = bytearray([NO_LEVEL]) * count
        self.parent = array("i", [NOBODY]) * count
        """Another block, or of a variable -1 - its number among `starts`."""
        self.step = array("I", [0]) * count
        """Of `steps`: the way from the parent; "[]" in it stands for the block's `number`, and so does ELEMENT."""
        self.number = array("I", [UNNUMBERED]) * count
        self.elements = array("I", [0]) * count
        """Of an array: how many are in use."""
        self.enclosing: set[int] = set()
        """Structs to which no pointer leads, but to a member further on (container_of)."""
        self.damaged: Counter[str] = Counter()
        """Containers that did not prove themselves, by type."""
        self.contradicted: Mapping[Rule, int] = {}
        """Rules of the user's, and how many blocks each says something wrong of."""

    def name_of(self, block: int) -> Optional[BlockName]:
        return self.names[self.name[block]] if self.name[block] >= 0 else None

    def kind(self, block: int) -> Optional[Kind]:
        name = self.name_of(block)
        return Kind(name.text, "declared", certain=self.is_certain(block), how=HOW) if name is not None else None

    def is_better(self, block: int, before: Optional[Kind]) -> bool:
        """Whether what it is says more than what was known: of an uncertain type, more than a guess; of the member that
        leads there, more than how large it is, and how it looks."""
        name = self.name_of(block)
        if name is None:
            return False
        if self.is_certain(block) or before is None or before.kind in WEAK:
            return True
        return name.form != "field" and not before.certain

    def is_certain(self, block: int) -> bool:
        name = self.name_of(block)
        return name is not None and self.level[block] <= RULE and name.form in ("object", "array")

    def way(self, block: int) -> list[str]:
        """The steps to a block, from the variable on; of a block that nothing leads to, none."""
        steps: list[str] = []
        for _ in range(len(self.blocks)):
            number = self.number[block]
            step = self.steps[self.step[block]]
            steps.append(step if number == UNNUMBERED else step.replace(ELEMENT, "[]").replace("[]", f"[{number}]", 1))
            parent = self.parent[block]
            if parent == NOBODY:
                break
            if parent < 0:
                steps.append(self.starts[-1 - parent].label)
                break
            block = parent
        return steps[::-1]

    def certain(self, most: int = RULE) -> Iterator[int]:
        """The blocks of which it is certain what they are, by claims that are no weaker than `most`."""
        sure = [each.form in ("object", "array") for each in self.names]
        for block, (name, level) in enumerate(zip(self.name, self.level)):
            if name >= 0 and level <= most and sure[name]:
                yield block

    def typed(self) -> Iterator[int]:
        """The blocks of which debug information alone makes certain what they are."""
        return self.certain(LOCAL)
