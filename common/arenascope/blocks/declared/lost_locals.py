"""Where local variables lead that were optimised out.

Of such a variable debug information has the type and no place: GCC takes a unique_ptr apart, and then tells of none of
its parts. But the function keeps the pointer, in its frame or in a register that the functions it calls save for it.

A word there that leads to a block of the right size may as well be another variable's, or from an earlier call. So only
what nothing else names is looked at, once all else has been followed, and a block has to prove its type: by a container
of nodes whose links and count agree, that is not empty, and whose elements have pointers of their own that are right.
Where another block proves it as well, or the same block another type, there is no name.
"""

from __future__ import annotations

from typing import Iterator, NamedTuple, Optional, Sequence

from .claims import CONTAINER, EXACT, LOCAL
from .containers.forms import OfNodes
from .containers.libstdcxx_pointers import Owned
from .layouts import FlatType, Layouts, Slot
from .memory_reader import MemoryReader
from .named_blocks import NOBODY, TYPED, At, Claimed, NamedBlocks, NameNumbers, StartVariable
from .object_words import ObjectWords

FEW_NODES = 64
"""Of a container so many elements are looked at for proof."""
PROOF = At(NOBODY, CONTAINER, EXACT, "", proof=TYPED)


class _Lost(NamedTuple):
    """A variable that may lead to a block."""

    number: int
    """Among the starts."""
    start: StartVariable
    slot: Slot
    type: int
    """Of what it leads to."""


def pointer_of(layout: FlatType) -> Optional[Slot]:
    """Of a variable that is a pointer or a reference, or has one that owns and nothing else."""
    if len(layout.slots) == layout.parts == 1:
        return layout.slots[0]
    if len(layout.containers) == layout.parts == 1:
        owned = layout.containers[0].container
        if isinstance(owned, Owned) and owned.target is not None:
            return Slot(layout.containers[0].offset, "object", owned.target, "", member="")
    return None


class LostLocals:
    """Of one image."""

    def __init__(self, reader: MemoryReader, layouts: Layouts, words: ObjectWords, names: NameNumbers) -> None:
        self._reader, self._layouts, self._types = reader, layouts, layouts.types
        self._words, self._names = words, names

    def claims(self, found: NamedBlocks, nothing: int) -> list[Claimed]:
        """`nothing`: the weakest level; blocks that have no stronger name are looked at."""
        by_block: dict[int, list[_Lost]] = {}
        for lost in self._variables(found.starts):
            block = self._only(lost, found, nothing)
            if block is not None:
                by_block.setdefault(block, []).append(lost)
        claims = []
        for block, those in by_block.items():
            # of functions that are inlined into another the outermost has it
            lost = max(those, key=lambda each: (each.start.tid == found.main_thread, each.start.frame or 0))
            if not any(self._proves(other, block) for other in self._others(lost, those)):
                where = At(-1 - lost.number, LOCAL, LOCAL, lost.start.label)
                name = self._names.object(lost.type)
                claims.append(self._words.claim(LOCAL, block, name, where, lost.slot.step))
        return claims

    def _variables(self, starts: Sequence[StartVariable]) -> Iterator[_Lost]:
        for number, start in enumerate(starts):
            slot = pointer_of(self._layouts.of(start.type)) if start.words else None
            if slot is not None and slot.to == "object" and slot.target is not None:
                facts = self._types.facts(slot.target)
                # of what has a vtable this tells the type
                if facts.form == "struct" and facts.size and not facts.polymorphic:
                    yield _Lost(number, start, slot, slot.target)

    def _only(self, lost: _Lost, found: NamedBlocks, nothing: int) -> Optional[int]:
        """The one block that it can lead to."""
        blocks = {self._reader.at(word) for word in lost.start.words}
        proven = [each for each in blocks if each >= 0 and self._proves(lost.type, each)]
        return proven[0] if len(proven) == 1 and found.level[proven[0]] >= nothing else None

    def _others(self, lost: _Lost, those: Sequence[_Lost]) -> Iterator[int]:
        """Types besides the variable's that the block may be of: those that were met, and those that its function
        knows. The members that it begins with are proven with it."""
        yield from {each.type for each in those if each.type != lost.type}
        size, slack = self._types.facts(lost.type).size, self._reader.slack
        beside = (
            self._types.structs_of_source_file(each.start.within.code, max(1, size - slack), size + slack)
            for each in those
            if each.start.within is not None
        )
        met = (type for type, facts in self._types.known() if facts.form == "struct" and type >= 0)
        for type in dict.fromkeys([*met, *(type for types in beside for type in types)]):
            if type != lost.type and not self._types.begins_with(lost.type, type):
                yield type

    def _proves(self, type: int, block: int) -> bool:
        """Whether what a block holds shows that it is of this type."""
        facts, at = self._types.facts(type), self._reader.blocks.starts[block]
        if not facts.size or not self._reader.fits(block, facts.size):
            return False
        layout = self._layouts.of(type)
        _, bad = self._words.scan(layout, at, PROOF)
        if bad:
            return False
        proven = False
        for each in layout.containers:
            container = each.container
            if isinstance(container, OfNodes) and container.strength == CONTAINER:
                for node in (container.nodes(self._reader, at + each.offset) or ())[:FEW_NODES]:
                    right, bad = self._words.scan(self._layouts.of(container.node.type), node, PROOF)
                    if bad:
                        return False
                    proven = proven or bool(right)
        return proven
