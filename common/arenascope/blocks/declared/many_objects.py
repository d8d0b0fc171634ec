"""What objects of one type claim, many at a time: the same as ObjectWords.scan for each, with less ado where a pointer
leads to just what its type says."""

from __future__ import annotations

from itertools import count, repeat
from typing import Iterable, NamedTuple, Optional, Sequence

from .claims import ARRAY, EXACT, FIELD, new_record
from .containers.forms import OfBody
from .layouts import Embedded, FlatType, Layouts, Repeat, Slot
from .memory_reader import MemoryReader
from .named_blocks import ELEMENT, NONE, UNNUMBERED, At, BlockName, Claimed, NameNumbers
from .object_words import PIECE, ObjectWords

UNKNOWN = -1


class Found(NamedTuple):
    """What an object, or all elements of an array, claim."""

    claims: list[Claimed]
    bad: int
    """So many words contradict the type."""

    @property
    def is_wrong(self) -> bool:
        """Whether more contradicts the type than agrees with it."""
        return self.bad > sum(each.level <= ARRAY for each in self.claims)


class Pointer:
    """A member that is a pointer, and what is claimed where it leads to what its type says, once that was met."""

    __slots__ = ("chunk", "field", "name", "slot", "step")

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.chunk, self.name = UNKNOWN, NONE
        """The block that it leads to is as large, and called this."""
        self.field = NONE
        """Or what a block of any size is called."""
        self.step = 0


class Body:
    """A container in it whose elements lie beside each other, and what is claimed of these."""

    __slots__ = ("after", "container", "each", "name", "number", "offset", "read", "step")

    def __init__(self, each: Embedded, container: OfBody, number: Optional[int]) -> None:
        self.each, self.container = each, container
        self.read, self.offset, self.after = container.body, each.offset, container.after
        self.name, self.step, self.number = NONE, 0, number
        """`number`: of each that is claimed; None: that of the object."""


class Plan:
    """How objects of a type are looked at."""

    def __init__(self, layout: FlatType, label: str, prefix: str, word: int) -> None:
        self.layout, self.label, self.prefix = layout, label, prefix
        self.pointers = [Pointer(each) for each in layout.slots]
        self.places = [each.offset // word for each in layout.slots]
        """Of pointers, in words."""
        self.span = max(self.places, default=-1) + 1
        self.is_plain = not any(each.offset % word for each in layout.slots)
        self.bodies: list[Body] = []
        self.containers: list[Embedded] = []
        """The others."""
        for inner in layout.containers:
            container = inner.container
            # elements of an element are numbered twice
            if isinstance(container, OfBody) and not (container.words and prefix):
                self.bodies.append(Body(inner, container, 0 if container.words else None))
            else:
                self.containers.append(inner)
        self.is_of_pointers = bool(prefix == "[]" and layout.parts == 1 and layout.slots and layout.size == word)
        """They are the elements of an array."""
        self.has_more = bool(self.containers or layout.unions or (layout.repeats and prefix))
        self.repeated: dict[int, Plan] = {}
        """Of elements of arrays in it, by where these begin."""


class ManyObjects:
    """Of one image."""

    def __init__(self, words: ObjectWords, reader: MemoryReader, layouts: Layouts, names: NameNumbers) -> None:
        self._words, self._reader, self._layouts, self._names = words, reader, layouts, names
        self._starts, self._sizes = reader.blocks.starts, reader.blocks.sizes
        self._low, self._high = words.low, words.high
        self._plans: dict[tuple[int, str, str], Plan] = {}

    def scan(self, name: BlockName, layout: FlatType, claims: Sequence[Claimed]) -> list[Found]:
        """Of each of these blocks, which are of this name."""
        if name.form == "array":
            plan = self.plan(layout, name.label, "[]")
            look = self._array_of_pointers if plan.is_of_pointers else self._array
            return [look(plan, each, self._starts[each.block] + name.front) for each in claims]
        plan = self.plan(layout, name.label, "")
        return [self._single(plan, each, self._starts[each.block] + name.front) for each in claims]

    def plan(self, layout: FlatType, label: str, prefix: str) -> Plan:
        key = layout.type, label, prefix
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = Plan(layout, label, prefix, self._reader.word_size)
        return plan

    def _single(self, plan: Plan, claimed: Claimed, at: int) -> Found:
        found: list[Claimed] = []
        bad = self._object(plan, at, claimed, UNNUMBERED, found)
        if plan.layout.flexible is not None:
            where = At(claimed.block, claimed.level, max(claimed.level, EXACT), plan.label)
            found += self._words.flexible_elements(plan.layout, at, claimed.block, where)
        return new_record(Found, (found, bad))

    def _array(self, plan: Plan, claimed: Claimed, at: int) -> Found:
        found: list[Claimed] = []
        bad, size = 0, plan.layout.size
        for number in range(claimed.elements):
            bad += self._object(plan, at + number * size, claimed, number, found)
        return new_record(Found, (found, bad))

    def _object(self, plan: Plan, at: int, claimed: Claimed, number: int, found: list[Claimed]) -> int:
        """One object; how many of its words contradict its type."""
        parent, level = claimed.block, claimed.level
        own = self._reader.words(at, plan.span) if plan.is_plain and plan.span else ()
        if own is None or not plan.is_plain:
            where = At(parent, level, max(level, EXACT), plan.label, prefix=plan.prefix, number=number)
            more, bad = self._words.scan(plan.layout, at, where)
            found += more
            return bad
        bad = 0
        if plan.span:
            values = map(own.__getitem__, plan.places)
            bad = self._pointers(plan, zip(plan.pointers, values, repeat(number)), claimed, at, found)
        for body in plan.bodies:
            bad += self.body(plan, body, at, claimed, number, found)
        if plan.has_more:
            where = At(parent, level, max(level, EXACT), plan.label, prefix=plan.prefix, number=number)
            for each in plan.containers:
                bad += self._words.inner.open(each, at + each.offset, where, found, 0)
            self._words.scan_unions(plan.layout, at, where, found)
            if number != UNNUMBERED:
                return bad + self._words.scan_repeats(plan.layout, at, where, found)
        for array in plan.layout.repeats:
            inner, begin, size = self._repeated(plan, array), at + array.offset, array.layout.size
            for place in range(self._reader.most(begin, size, array.count)):
                bad += self._object(inner, begin + place * size, claimed, place, found)
        return bad

    def _repeated(self, plan: Plan, array: Repeat) -> Plan:
        """How its elements are looked at."""
        inner = plan.repeated.get(array.offset)
        if inner is None:
            inner = plan.repeated[array.offset] = self.plan(array.layout, plan.label, plan.prefix + array.step)
        return inner

    def body(self, plan: Plan, each: Body, at: int, claimed: Claimed, number: int, found: list[Claimed]) -> int:
        body = each.read(self._reader, at + each.offset)
        if body is None:
            self._words.damaged[each.each.name] += 1
            return 1
        start, used, room = body
        block = self._reader.before(start) if start else -1
        if block >= 0 and self._starts[block] == start and used <= room:
            if each.name == NONE:
                self.learn_body(plan, each)
            own = number if each.number is None else each.number
            used += each.after
            claim = claimed.level, block, each.name, used, claimed.block, each.step, own, False
            found.append(new_record(Claimed, claim))
        return 0

    def learn_body(self, plan: Plan, each: Body) -> None:
        each.name = self._words.inner.body_name(each.container, plan.label)
        each.step = self._names.step(plan.prefix + each.each.step + ELEMENT * each.container.words)

    def _array_of_pointers(self, plan: Plan, claimed: Claimed, at: int) -> Found:
        found: list[Claimed] = []
        bad, word, one = 0, self._reader.word_size, repeat(plan.pointers[0])
        for first in range(0, claimed.elements, PIECE):
            words = self._reader.words(at + first * word, min(PIECE, claimed.elements - first)) or ()
            bad += self._pointers(plan, zip(one, words, count(first)), claimed, None, found)
        return new_record(Found, (found, bad))

    def _pointers(
        self,
        plan: Plan,
        values: Iterable[tuple[Pointer, int, int]],
        claimed: Claimed,
        at: Optional[int],
        found: list[Claimed],
    ) -> int:
        """Of pointers, their values and their numbers. `at`: where the object is that has them."""
        starts, sizes, low, high, add = self._starts, self._sizes, self._low, self._high, found.append
        parent, level, before = claimed.block, claimed.level, self._reader.before
        plain, new = max(level, EXACT), new_record
        bad = 0
        for pointer, value, number in values:
            if not value:
                continue
            if not low <= value <= high:
                bad += self._reader.leads_nowhere(value, pointer.slot.is_void)
                continue
            block = before(value)
            if starts[block] == value:
                if sizes[block] == pointer.chunk:
                    add(new(Claimed, (plain, block, pointer.name, 0, parent, pointer.step, number, True)))
                    continue
                if pointer.field != NONE:
                    add(new(Claimed, (FIELD, block, pointer.field, 0, parent, pointer.step, number, True)))
                    continue
                self.learn(pointer, plan, block)
            where = At(parent, level, plain, plan.label, prefix=plan.prefix, number=number)
            bad += self._words.follow(pointer.slot, value, where, plan.layout, at, found)
        return bad

    def learn(self, pointer: Pointer, plan: Plan, block: int) -> None:
        """What ObjectWords.follow claims of it without looking any further."""
        slot, names = pointer.slot, self._names
        if slot.is_ruled:
            return
        if slot.to == "object" and slot.target is not None:
            chunk = self._words.chunk(slot.target)
            if chunk == self._sizes[block]:
                pointer.chunk, pointer.name = chunk, names.object(slot.target)
        elif slot.to in ("text", "anything"):
            pointer.field = names.field(slot, plan.label)
        pointer.step = names.step(plan.prefix + slot.step)
