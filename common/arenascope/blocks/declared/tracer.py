"""Follows the pointers of typed variables from block to block, the strongest claims first.

A claim leads to none that is stronger than itself. So the first that is taken for a block is the strongest there is,
and none has to be taken back, but where two equally strong ones contradict each other: then neither counts, and all is
followed once more without that block. What keeps wrong names away:

- A pointer leads to a block's start, and the chunk is what malloc gives for just that size.
- A `T *` to a larger block is no array of T: C structs begin with the struct they extend. Elements beyond the first
  have to have pointers that are right, or a number beside the pointer has to count them.
- Where a word that should be a pointer leads nowhere, the block is not of that type.
- A polymorphic object's vtable tells its type and its start.
"""

from __future__ import annotations

from collections import deque
from itertools import chain
from typing import Iterable, Iterator, NamedTuple, Optional, Sequence

from ...base.meter import Meter, Unseen
from ..recognise.module_memory import LoadedModules
from .claims import ARRAY, CONTAINER, EXACT, FIELD, LOCAL, RULE, VTABLE, WEAK
from .containers.forms import OfNodes
from .containers.libstdcxx import Owned
from .layouts import FlatType, Layouts, Slot, TypeTable, Vtables
from .many_objects import Found, ManyObjects
from .memory_reader import MemoryReader
from .named_blocks import (
    ANY,
    NO_LEVEL,
    NOBODY,
    NONE,
    TYPED,
    UNNUMBERED,
    At,
    Claimed,
    NamedBlocks,
    NameNumbers,
    StartVariable,
)
from .object_words import CONTESTED, ObjectWords
from .rules import ProgramRules

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


DEEPEST = 8
MOST_MEMBERS = 1 << 20


class Enclosing:
    def __init__(self, types: TypeTable, structs: Iterable[int]) -> None:
        self._types = types
        self._by_member: dict[tuple[int, int], list[int]] = {}
        """Structs by the type of a member that is a struct, and where it lies."""
        self._left = MOST_MEMBERS
        for each in structs:
            self._add(each, each, 0, 0)
            if self._left < 0:
                # what is not seen might fit as well
                self._by_member.clear()
                break

    def _add(self, whole: int, type: int, offset: int, depth: int) -> None:
        for field in self._types.facts(type).fields if depth < DEEPEST else ():
            inner = self._types.facts(field.type)
            if inner.form == "struct":
                self._left -= 1
                known = self._by_member.setdefault((field.type, offset + field.offset), [])
                if whole not in known:
                    known.append(whole)
                self._add(whole, field.type, offset + field.offset, depth=depth + 1)

    def only(self, member: int, offset: int, block: int, reader: MemoryReader) -> Optional[int]:
        """The one type that has such a member there, and for which malloc gives such a block."""
        fitting = [
            each
            for each in self._by_member.get((member, offset), ())
            if reader.fits(block, self._types.facts(each).size)
        ]
        return fitting[0] if len(fitting) == 1 else None


FEW_INTERIOR = 2
"""Pointers into blocks that are worth asking for all structs of a program."""
ROUNDS = 3
"""So often all is followed without blocks that were contested."""
AT_ONCE = 1 << 13
"""Claims that are looked at together."""
CHAIN = 256
"""So far the way to a block is looked at for contested ones."""


class Tracer:
    """Names the live blocks of one image."""

    def __init__(
        self,
        reader: MemoryReader,
        layouts: Layouts,
        ground: LoadedModules,
        rules: ProgramRules,
    ) -> None:
        self._reader, self._layouts, self._types = reader, layouts, layouts.types
        self._blocks, self._module_pages = reader.blocks, ground.page_spans
        self._vtables = Vtables(reader, layouts.types, ground.pages)
        self._names = NameNumbers(layouts)
        self._words = ObjectWords(reader, layouts, self._names, self._vtables, rules=rules)
        self._many = ManyObjects(self._words, reader, layouts, self._names)
        self._lost = LostLocals(reader, layouts, self._words, self._names)
        self._banned: set[int] = set()
        self._before: dict[int, Claimed] = {}
        """What blocks that are looked into were called by a member."""
        self._enclosing: Optional[Enclosing] = None

    def trace(self, starts: Sequence[StartVariable], meter: Meter) -> NamedBlocks:
        for _ in range(ROUNDS):
            found = self._round(starts, meter)
            if CONTESTED not in found.name:
                break
            named = zip(found.name, found.parent)
            again = {
                parent for name, parent in named if name != NONE and parent >= 0 and found.name[parent] == CONTESTED
            }
            self._banned |= {at for at, name in enumerate(found.name) if name == CONTESTED}
            if not again:
                break
        self._drop_what_was_contested(found)
        self._doubt_what_may_be_more(found)
        found.contradicted = self._words.ruled.contradicted(found)
        return found

    def _round(self, starts: Sequence[StartVariable], meter: Meter) -> NamedBlocks:
        begun, hiding = self._claimed_by_vtables()
        self._found = found = NamedBlocks(self._blocks, has_names=bool(starts or begun or hiding))
        found.names, found.steps, found.starts = self._names.names, self._names.steps, starts
        found.damaged = self._words.damaged
        self._words.damaged.clear()
        self._words.interior.clear()
        self._words.ruled.clear()
        self._left: list[deque[Claimed]] = [deque() for _ in range(FIELD + 1)]
        self._refused: set[tuple[int, int]] = set()
        for number, start in enumerate(starts):
            self._begin(number, start)
        self._left[VTABLE].extend(begun)
        self._drain(meter)
        self._push(self._lost.claims(found, FIELD))
        self._drain(meter)
        # what no container has told
        self._left[VTABLE].extend(each for each in hiding if found.level[each.block] > RULE)
        self._drain(meter)
        while self._name_by_members():
            self._drain(meter)
        return found

    def _drain(self, meter: Meter) -> None:
        done, mean = 0, self._blocks.bytes // max(1, len(self._blocks))
        for queue in self._left:
            # nothing that is found from here is stronger
            while queue:
                some = [queue.popleft() for _ in range(min(len(queue), AT_ONCE))]
                self._take_many(some)
                done += len(some) * mean
                if done >= 1 << 20:
                    meter.advance(done)
                    done = 0

    def _name_by_members(self) -> bool:
        """Blocks that have no type, and into which pointers to a member lead; whether there were any."""
        found, interior = self._found, self._words.interior
        asked, again = dict(interior), False
        interior.clear()
        for (block, offset), (type, claimed) in asked.items():
            # to ask for all structs takes long, of C++ above all, where containers have the links
            if self._types.facts(type).language == "c++" or (self._enclosing is None and len(asked) < FEW_INTERIOR):
                continue
            if found.level[block] < FIELD or found.name[block] == CONTESTED:
                continue
            if self._enclosing is None:
                self._enclosing = Enclosing(self._types, self._types.structs())
            whole = self._enclosing.only(type, offset, block, self._reader)
            if whole is not None and self._words.is_proven(whole, self._blocks.starts[block], ANY):
                found.level[block], found.name[block] = NO_LEVEL, NONE
                self._left[WEAK].append(claimed._replace(name=self._names.object(whole)))
                if offset:
                    found.enclosing.add(block)
                again = True
        return again

    # starts

    def _begin(self, number: int, start: StartVariable) -> None:
        plain = EXACT if start.frame is None else LOCAL
        where = At(-1 - number, CONTAINER, plain, start.label, may_be_unset=plain == LOCAL)
        layout = self._layouts.of(start.type)
        if start.address is not None:
            found, _ = self._words.scan(layout, start.address, where)
            self._push(found)
        elif start.data is not None and len(start.data) == self._reader.word_size:
            slot = pointer_of(layout)
            if slot is not None:
                found, value = [], int.from_bytes(start.data, self._reader.byte_order)
                self._words.follow(slot, value, where, layout, None, found)
                self._push(found)

    def _claimed_by_vtables(self) -> tuple[list[Claimed], list[Claimed]]:
        """Blocks that begin with the vtable of a class, whether anything leads to them or not. The second ones wait,
        since a container that leads there knows which object is in it."""
        begun, hiding = list[Claimed](), list[Claimed]()
        for table, block, _ in self._blocks.engine.beginning_with(self._module_pages, Unseen()):
            of = self._vtables.class_of(table)
            if of is not None and not of.top and self._reader.fits(block, of.size, self._reader.slack):
                claimed = Claimed(VTABLE, block, self._names.object(of.type), 0, NOBODY, 0, UNNUMBERED, False)
                (hiding if of.hides_object else begun).append(claimed)
        return begun, hiding

    def _push(self, claims: Iterable[Claimed]) -> None:
        found, left, banned = self._found, self._left, self._banned
        level, name = found.level, found.name
        # as _put does, but without a call: most claims are of members
        elements, parent, step, number = found.elements, found.parent, found.step, found.number
        for each in claims:
            rank, block, told, _, whose, way, place, _ = each
            before = level[block]
            if rank == FIELD:
                # whatever names a type takes its place
                if before == NO_LEVEL and block not in banned:
                    level[block], name[block], elements[block] = FIELD, told, 0
                    parent[block], step[block], number[block] = whose, way, place
            # what is told already, most often by the link back
            elif before > rank or (before == rank and name[block] != told):
                left[rank].append(each)

    # claims

    def _take_many(self, claims: Iterable[Claimed]) -> None:
        """Of one level, in their order. What the blocks hold is looked at together, of blocks of one name at once."""
        level, name = self._found.level, self._found.name
        banned, refused = self._banned, self._refused
        waiting: list[Claimed] = []
        for claimed in claims:
            block = claimed.block
            before = level[block]
            if before < FIELD:
                if before == claimed.level and name[block] != claimed.name:
                    # unless what it holds shows that it is not what was said first
                    self._look_into(waiting)
                    waiting = []
                    self._take(claimed)
            elif block not in banned and (not refused or (block, claimed.name) not in refused):
                if before == FIELD:
                    self._before[block] = self._as_it_is(block)
                self._put(claimed)
                waiting.append(claimed)
        self._look_into(waiting)

    def _take(self, claimed: Claimed) -> None:
        if self._found.level[claimed.block] < FIELD:
            if claimed.block not in self._banned and (claimed.block, claimed.name) not in self._refused:
                self._contest(claimed)
        else:
            self._take_many([claimed])

    def _as_it_is(self, block: int) -> Claimed:
        found = self._found
        step, number = found.step[block], found.number[block]
        return Claimed(
            found.level[block], block, found.name[block], found.elements[block], found.parent[block], step, number, True
        )

    def _put(self, claimed: Claimed) -> None:
        found = self._found
        level, block, name, elements, parent, step, number, _ = claimed
        found.level[block], found.name[block] = level, name
        found.parent[block], found.step[block], found.number[block] = parent, step, number
        found.elements[block] = elements if elements < UNNUMBERED else UNNUMBERED

    def _look_into(self, claims: Sequence[Claimed]) -> None:
        """Follows what blocks hold. Where that shows that one is something else, it has the name that it had before."""
        found, names = self._found, self._names.names
        groups: dict[int, list[int]] = {}
        for number, claimed in enumerate(claims):
            groups.setdefault(claimed.name, []).append(number)
        held: list[Optional[Found]] = [None] * len(claims)
        for each, numbers in groups.items():
            name = names[each]
            layout = self._layouts.of(name.type) if name.words and name.type is not None else None
            if layout is not None and layout.leads_on:
                looked = self._many.scan(name, layout, [claims[number] for number in numbers])
                for number, seen in zip(numbers, looked):
                    held[number] = seen
        for number, claimed in enumerate(claims):
            one = held[number]
            if one is None or not (claimed.plain and one.bad and one.is_wrong):
                continue
            held[number] = None
            block = claimed.block
            found.level[block], found.name[block], found.parent[block] = NO_LEVEL, NONE, NOBODY
            if block in self._before:
                self._put(self._before[block])
            self._refused.add((block, claimed.name))
        self._before.clear()
        self._push(chain.from_iterable(one.claims for one in held if one is not None))

    def _contest(self, claimed: Claimed) -> None:
        """Another name for a block that has one by as strong a claim."""
        found, block = self._found, claimed.block
        if found.name[block] == CONTESTED or self._is_tainted(claimed.parent):
            return
        before, now = self._names.names[found.name[block]], self._names.names[claimed.name]
        if before.text == now.text:
            return
        if self._is_tainted(found.parent[block]):
            self._put(claimed)
            self._look_into([claimed])
            return
        if before.type is not None and now.type is not None and before.form != "union" and now.form != "union":
            if self._types.begins_with(before.type, now.type):
                # a pointer to the base or first member; or the array of which it is to the first
                if before.type != now.type or before.form == "array":
                    return
            elif self._types.begins_with(now.type, before.type):
                # the way to it stays: what leads here now may have been reached from it
                found.name[block], found.elements[block] = claimed.name, min(claimed.elements, UNNUMBERED)
                kept = claimed._replace(parent=found.parent[block])
                self._look_into([kept._replace(plain=False)])
                return
            if before.type == now.type and now.form == "array":
                found.name[block], found.elements[block] = claimed.name, min(claimed.elements, UNNUMBERED)
                self._look_into([claimed._replace(parent=found.parent[block], plain=False)])
                return
        found.name[block] = CONTESTED

    def _is_tainted(self, block: int) -> bool:
        """Whether the way there leads through a block that is contested."""
        found = self._found
        for _ in range(CHAIN):
            if block < 0:
                return False
            if found.name[block] == CONTESTED:
                return True
            block = found.parent[block]
        return False

    def _drop_what_was_contested(self, found: NamedBlocks) -> None:
        """And what is known only by that."""
        if CONTESTED not in found.name:
            return
        wrong = {at for at, name in enumerate(found.name) if name == CONTESTED}
        if wrong:
            known: dict[int, bool] = {}
            for block in range(len(found.name)):
                way: list[int] = []
                at = block
                while at >= 0 and at not in known and at not in wrong:
                    way.append(at)
                    known[at] = False
                    at = found.parent[at]
                is_wrong = at >= 0 and (at in wrong or known[at])
                for each in way:
                    known[each] = is_wrong
            wrong |= {block for block, is_wrong in known.items() if is_wrong}
        for block in wrong:
            found.name[block], found.level[block], found.parent[block] = NONE, NO_LEVEL, NOBODY

    def _doubt_what_may_be_more(self, found: NamedBlocks) -> None:
        """A struct that another one begins with, where a block of either is as large: a pointer to the first does not
        tell which it is."""
        doubtful: dict[int, int] = {}
        for number, name in enumerate(list(self._names.names)):
            if name.form == "object" and name.type is not None and not self._layouts.of(name.type).polymorphic:
                size = self._layouts.of(name.type).size
                chunk = self._reader.chunk_for(size)
                room = next((each for each in self._types.enclosing(name.type, chunk - self._reader.word_size)), None)
                if room is not None:
                    doubtful[number] = self._names.tail(name.type)
        if doubtful:
            for block, number in enumerate(found.name):
                if number in doubtful and found.level[block] in (EXACT, ARRAY, LOCAL, RULE):
                    found.name[block] = doubtful[number]
                    found.level[block] = WEAK
