"""What blocks are by the program's types: arrays by the numbers of live blocks, as there are millions of them."""

from __future__ import annotations

from array import array
from collections import Counter
from mmap import mmap
from typing import Iterator, Literal, Mapping, NamedTuple, Optional, Sequence, Union

from ...base.model import Kind
from ...engine import TracedBlocks, places_of
from ...sources.debug_info_types import VariableFrame
from ..block_index import WEAK
from ..graph.blocks import LiveBlocks
from .claims import LOCAL, RULE, Claim
from .contents import Contents
from .layouts import Layouts, Slot
from .rules import Rule

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


Numbers = Union["array[int]", memoryview]


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


def _zeros(count: int) -> memoryview:
    """Numbers of 32 bits, in pages that are not there before something is written."""
    return memoryview(mmap(-1, 4 * count or 1))[: 4 * count].cast("I")


class NamedBlocks:
    """Of each live block, by its number: its name, how strong the claim is, and the way to it."""

    def __init__(self, blocks: LiveBlocks, has_names: bool = True) -> None:
        """Without names the arrays are empty: there may be millions of blocks."""
        count = len(blocks) if has_names else 0
        self.blocks = blocks
        self.names: list[BlockName] = []
        self.steps: list[str] = []
        self.starts: Sequence[StartVariable] = ()
        self.main_thread: Optional[int] = None
        self.layouts: Optional[Layouts] = None
        """Of the types that have numbers in `names`."""
        self.name: Numbers = array("i", [NONE]) * count
        self.level: Union[bytearray, memoryview] = bytearray([NO_LEVEL]) * count
        # of blocks without a name nobody asks what follows: it takes no memory
        self.parent = _zeros(count).cast("B").cast("i")
        """Another block, or of a variable -1 - its number among `starts`."""
        self.step = _zeros(count)
        """Of `steps`: the way from the parent; "[]" in it stands for the block's `number`, and so does ELEMENT."""
        self.number = _zeros(count)
        self.elements = _zeros(count)
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
        # of millions of blocks few may have a name
        is_strong = bytes(level <= most for level in range(256))
        for block in places_of(1, bytearray(self.level).translate(is_strong)):
            name = self.name[block]
            if name >= 0 and sure[name]:
                yield block

    def typed(self) -> Iterator[int]:
        """The blocks of which debug information alone makes certain what they are."""
        return self.certain(LOCAL)


MOST_STEPS = 1 << 16
TYPED, STARTS, ANY = 1, 2, 3
"""What proves a type: pointers to blocks of just the size of theirs; to blocks' starts as well, where what they lead to
has no size (characters, void); or whatever leads to blocks' starts."""


class Claimed(NamedTuple):
    """That a block has a name."""

    level: int
    block: int
    name: int
    elements: int
    parent: int
    step: int
    number: int
    plain: bool
    """A pointer alone says so: what the block holds must agree."""


class At(NamedTuple):
    """Where words are looked at, and what they are called."""

    parent: int
    level: int
    """What is found here is no stronger."""
    plain: int
    """The same of plain pointers."""
    label: str
    prefix: str = ""
    """In front of the steps from here; "[]" in it stands for `number`."""
    number: int = UNNUMBERED
    may_be_unset: bool = False
    """A local: what it leads to has to be proven."""
    proof: int = 0
    """TYPED, STARTS or ANY: only what proves a type is looked for, at this object alone."""


class NameNumbers:
    """Of one image."""

    def __init__(self, layouts: Layouts) -> None:
        self._layouts, self._types = layouts, layouts.types
        self.names: list[BlockName] = []
        self.steps: list[str] = [""]
        self._numbers: dict[BlockName, int] = {}
        self._step_numbers: dict[str, int] = {"": 0}
        self._objects: dict[int, int] = {}
        self._fields: dict[tuple[str, Optional[int], str], int] = {}
        self._of_claims: dict[tuple[int, bool, int, bool, str], int] = {}

    def number(self, name: BlockName) -> int:
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self.names)
            self.names.append(name)
        return number

    def step(self, text: str) -> int:
        number = self._step_numbers.get(text)
        if number is None:
            if len(self.steps) >= MOST_STEPS:
                text = "..."
            number = self._step_numbers.setdefault(text, len(self.steps))
            if number == len(self.steps):
                self.steps.append(text)
        return number

    def object(self, type: int) -> int:
        number = self._objects.get(type)
        if number is None:
            name = self._types.text(type)
            number = self._objects[type] = self.number(BlockName(name, "object", type, label=name))
        return number

    def array(self, type: int, *, front: int = 0, label: str = "") -> int:
        name, words = self._types.text(type), self._layouts.of(type).leads_on
        return self.number(BlockName(f"{name}[]", "array", type, front, words=words, label=label or name))

    def tail(self, type: int) -> int:
        name = self._types.text(type)
        return self.number(BlockName(f"{name} and a tail", "tail", type, label=name))

    def one_of_a_union(self, object: int) -> int:
        name = self.names[object]
        return self.number(BlockName(f"one of {name.text}", "union", name.type, label=name.label))

    def field(self, slot: Slot, label: str) -> int:
        """Named by the member that leads there, or by `label` where a variable or an element does."""
        label = slot.member or label
        number = self._fields.get((slot.to, slot.target, label))
        if number is None:
            text = f"void at {label}"
            if slot.to == "text":
                text = f"char[] of {label}"
            elif slot.to in ("numbers", "pointers"):
                text = f"{self._types.text(slot.target)}[] of {label}"
            number = self._fields[slot.to, slot.target, label] = self.number(BlockName(text, "field", words=False))
        return number

    def claimed(self, claim: Claim, label: str) -> int:
        key = claim.type, claim.elements is None, claim.front, claim.words, claim.name or label
        number = self._of_claims.get(key)
        if number is None:
            form: Form = "object" if claim.elements is None else "array"
            name = self._types.text(claim.type)
            text = claim.name or (name if claim.elements is None else f"{name}[]")
            number = self.number(BlockName(text, form, claim.type, claim.front, words=claim.words, label=label))
            self._of_claims[key] = number
        return number
