"""The names of blocks, and the steps that lead to them, each once: of blocks only their numbers are kept."""

from __future__ import annotations

from typing import NamedTuple, Optional

from .claims import Claim
from .layouts import Layouts, Slot
from .named_blocks import UNNUMBERED, BlockName, Form

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


new_claimed = tuple.__new__
"""new_claimed(Claimed, (LEVEL, BLOCK, ...)): twice as fast as Claimed(LEVEL, BLOCK, ...), for loops over millions."""


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
