"""What objects of one type claim, many at a time: the same as ObjectWords.scan for each, with less ado where a pointer
leads to just what its type says."""

from __future__ import annotations

import sys
from itertools import count, repeat
from types import ModuleType
from typing import TYPE_CHECKING, Iterable, NamedTuple, Optional, Sequence, Union

from ..recognise.module_memory import PAGE_SHIFT
from .claims import ARRAY, EXACT, FIELD, LOCAL, VTABLE
from .containers.forms import OfBody
from .layouts import Embedded, FlatType, Layouts, Repeat, Slot
from .memory_reader import MOST_ELEMENTS, SHIFT, MemoryReader
from .named_blocks import ELEMENT, NONE, UNNUMBERED, At, BlockName, Claimed, NameNumbers, new_claimed
from .object_words import PIECE, ObjectWords

if TYPE_CHECKING:
    from ...base.array_types import Flags, Numbers

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
        self.has_more = bool(self.containers or layout.unions or layout.repeats)


class ManyObjects:
    """Of one image."""

    def __init__(self, words: ObjectWords, reader: MemoryReader, layouts: Layouts, names: NameNumbers) -> None:
        self._words, self._reader, self._layouts, self._names = words, reader, layouts, names
        self._starts, self._sizes = reader.blocks.starts, reader.blocks.sizes
        self._low, self._high = words.low, words.high
        self._plans: dict[tuple[int, str, str], Plan] = {}

    def in_pages(self, pages: set[int]) -> Iterable[tuple[int, int]]:
        """The blocks whose first word leads into such a page, and that word."""
        word = self._reader.word
        for block, start in enumerate(self._starts):
            first = word(start)
            if first and first >> PAGE_SHIFT in pages:
                yield block, first

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
        return Found(found, bad)

    def _array(self, plan: Plan, claimed: Claimed, at: int) -> Found:
        found: list[Claimed] = []
        bad, size = 0, plan.layout.size
        for number in range(claimed.elements):
            bad += self._object(plan, at + number * size, claimed, number, found)
        return Found(found, bad)

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
            bad += self._words.scan_unions(plan.layout, at, where, found)
        return bad

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
            found.append(new_claimed(Claimed, claim))
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
        return Found(found, bad)

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
        plain, new = max(level, EXACT), new_claimed
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


class Rows:
    """The objects of some blocks: of one each, or all elements of arrays."""

    def __init__(
        self, claims: Sequence[Claimed], parents: Numbers, of: Numbers, at: Numbers, numbers: Optional[Numbers]
    ) -> None:
        self.claims, self.parents, self.of, self.at, self.numbers = claims, parents, of, at, numbers
        """`of`: whose each row is, among the claims; `parents`: the block of that."""
        self.every = 1
        """So many members each has."""
        self.keys: list[Numbers] = []
        """Of what is claimed: by row, then by member."""
        self.found: list[Claimed] = []

    def number(self, row: int) -> int:
        return int(self.numbers[row]) if self.numbers is not None else UNNUMBERED

    def add(self, numpy: ModuleType, row: int, member: int, found: Sequence[Claimed]) -> None:
        if found:
            self.keys.append(numpy.full(len(found), row * self.every + member))
            self.found += found

    def in_order(self, numpy: ModuleType, bad: Numbers) -> list[Found]:
        """What each block claims. `bad`: so many words of each row contradict its type."""
        count = len(self.claims)
        wrong = numpy.bincount(self.of, weights=bad, minlength=count).astype(numpy.int64).tolist()
        if not self.keys:
            return [Found([], each) for each in wrong]
        keys = numpy.concatenate(self.keys)
        order = numpy.argsort(keys, kind="stable")
        found = list(map(self.found.__getitem__, order.tolist()))
        whose = self.of[keys[order] // self.every]
        ends = numpy.searchsorted(whose, numpy.arange(count + 1)).tolist()
        return [Found(found[ends[each] : ends[each + 1]], wrong[each]) for each in range(count)]


class Hits(NamedTuple):
    rows: Numbers
    blocks: Numbers


class Elements(NamedTuple):
    """Those of all arrays that are the same member of some objects."""

    plan: Plan
    rows: Rows
    of: Numbers
    """The row of the object that has it."""
    columns: Sequence[Numbers]
    """Its pointers."""


FEW, MANY = 64, 1 << 20
"""Objects for which it is not worth while; and at most so many at once."""
AT_ONCE = 20
"""First words of blocks are read a mebibyte at a time: so many low bits of addresses."""
MOST_WINDOWS = 4096
"""So many windows of the heaps are kept. Objects that lie in more are looked at one by one."""


class ManyObjectsWithNumpy(ManyObjects):
    def __init__(
        self, numpy: ModuleType, words: ObjectWords, reader: MemoryReader, layouts: Layouts, names: NameNumbers
    ) -> None:
        super().__init__(words, reader, layouts, names)
        self._numpy, blocks = numpy, reader.blocks
        self._firsts, self._ends, self._chunks = (
            numpy.frombuffer(each, dtype=numpy.uint64) for each in (blocks.starts, blocks.ends, blocks.sizes)
        )
        self._windows = self._all_windows()
        self._is_native = reader.word_size == 8 and reader.byte_order == sys.byteorder
        self._room = numpy.empty((min(len(self._windows), MOST_WINDOWS), 1 << SHIFT - 3), dtype=numpy.uint64)
        self._held, self._kept = numpy.full(len(self._windows), NONE), 0
        """Where in the room each window is, or NONE; and how many are there."""
        self._is_readable = numpy.ones(len(self._windows), dtype=bool)
        if self._is_native and len(self._windows) <= MOST_WINDOWS:
            # at once: what was read before would be kept twice
            self._keep(numpy.arange(len(self._windows)))
            for place in numpy.flatnonzero(self._is_readable).tolist():
                reader.share(int(self._windows[place]), memoryview(self._room[self._held[place]]))

    def _all_windows(self) -> Numbers:
        """Those in which blocks lie."""
        numpy = self._numpy
        first, last = self._firsts >> numpy.uint64(SHIFT), (self._ends - numpy.uint64(1)) >> numpy.uint64(SHIFT)
        apart = (last - first).astype(numpy.int64)
        if int(apart.sum()) > MOST_WINDOWS + len(first):
            # or they are damaged
            none: Numbers = numpy.zeros(0, dtype=numpy.uint64)
            return none
        within = [
            numpy.arange(first[each] + 1, last[each], dtype=numpy.uint64) for each in numpy.flatnonzero(apart > 1)
        ]
        # of what is in order, those that follow another one
        firsts, lasts = (each[numpy.append(True, each[1:] != each[:-1])] for each in (first, last))
        windows: Numbers = numpy.unique(numpy.concatenate([firsts, lasts, *within]))
        return windows

    def in_pages(self, pages: set[int]) -> Iterable[tuple[int, int]]:
        numpy, starts = self._numpy, self._firsts
        if not len(starts):
            return
        wanted = numpy.array(sorted(pages), dtype=numpy.uint64)
        pieces = starts >> numpy.uint64(AT_ONCE)
        ends = [*numpy.flatnonzero(pieces[1:] != pieces[:-1]) + 1, len(starts)]
        for first, last in zip([0, *ends], ends):
            words = self._first_words(starts[first:last])
            there = numpy.flatnonzero(numpy.isin(words >> numpy.uint64(PAGE_SHIFT), wanted))
            yield from zip((there + first).tolist(), words[there].tolist())

    def _first_words(self, starts: Numbers) -> Numbers:
        """Of blocks close together; 0 where it cannot be read."""
        numpy = self._numpy
        low, word = int(starts[0]), self._reader.word_size
        data = self._reader.stretch(low, int(starts[-1]) + word) if self._is_native else None
        if data is None or (starts - starts[0] & numpy.uint64(word - 1)).any():
            words: Numbers = numpy.array([self._reader.word(each) or 0 for each in starts.tolist()], dtype=numpy.uint64)
            return words
        words = numpy.frombuffer(data, dtype=numpy.uint64)[(starts - starts[0]) // numpy.uint64(word)]
        return words

    def scan(self, name: BlockName, layout: FlatType, claims: Sequence[Claimed]) -> list[Found]:
        is_array = name.form == "array"
        rows = sum(each.elements for each in claims) if is_array else len(claims)
        is_like = not (layout.flexible or layout.unions or (is_array and layout.repeats))
        if not (rows >= FEW and is_like and self._is_native):
            return super().scan(name, layout, claims)
        most = MANY // max([each.count for each in layout.repeats], default=1)
        if rows > most:
            if is_array or most < FEW:
                return super().scan(name, layout, claims)
            pieces = (claims[first : first + most] for first in range(0, rows, most))
            return [found for piece in pieces for found in self.scan(name, layout, piece)]
        plan = self.plan(layout, name.label, "[]" if is_array else "")
        found = self._at_once(plan, self._rows(name, layout, claims)) if plan.is_plain else None
        return super().scan(name, layout, claims) if found is None else found

    def _rows(self, name: BlockName, layout: FlatType, claims: Sequence[Claimed]) -> Rows:
        numpy = self._numpy
        parents = numpy.array([each.block for each in claims])
        at = self._firsts[parents] + numpy.uint64(name.front)
        of = numpy.arange(len(claims))
        if name.form != "array":
            return Rows(claims, parents, of, at, numbers=None)
        counts = numpy.array([each.elements for each in claims])
        of = numpy.repeat(of, counts)
        numbers = numpy.arange(len(of)) - numpy.repeat(numpy.cumsum(counts) - counts, counts)
        at = at[of] + (numbers * layout.size).astype(numpy.uint64)
        return Rows(claims, parents[of], of, at, numbers=numbers)

    def _at_once(self, plan: Plan, rows: Rows) -> Optional[list[Found]]:
        """None where not all can be read."""
        numpy = self._numpy
        columns, arrays = self._columns(plan, rows), self._arrays(plan, rows)
        if columns is None or arrays is None:
            return None
        bad = numpy.zeros(len(rows.at), dtype=numpy.int64)
        rows.every = len(plan.pointers) + len(plan.layout.containers) + len(arrays)
        self._pointers_of(plan, rows, columns, bad)
        for member, each in enumerate(plan.bodies, len(plan.pointers)):
            self._body(plan, each, rows, bad=bad, member=member)
        first = len(plan.pointers) + len(plan.bodies)
        if plan.containers:
            for row in range(len(rows.at)):
                self._containers(plan, rows, row, bad=bad, member=first)
        for member, array in enumerate(arrays, first + len(plan.containers)):
            self._array_in_each(array, rows, bad, member)
        return rows.in_order(numpy, bad)

    def _columns(self, plan: Plan, rows: Rows) -> Optional[list[Numbers]]:
        """Each pointer of all rows."""
        columns = [self._read(rows.at + self._numpy.uint64(each.slot.offset)) for each in plan.pointers]
        read = [each for each in columns if each is not None]
        return read if len(read) == len(columns) else None

    def _pointers_of(self, plan: Plan, rows: Rows, columns: Sequence[Numbers], bad: Numbers) -> None:
        for member, (pointer, values) in enumerate(zip(plan.pointers, columns)):
            self._pointer(plan, pointer, values, rows, bad=bad, member=member)

    def _arrays(self, plan: Plan, rows: Rows) -> Optional[list[Elements]]:
        """Members that are arrays of what has pointers alone; None where there are others, or not all can be read."""
        arrays = []
        for each in plan.layout.repeats:
            layout = each.layout
            if layout.parts > len(layout.slots) or each.count > MOST_ELEMENTS:
                return None
            array = self._elements(plan, each, rows)
            if array is None:
                return None
            arrays.append(array)
        return arrays

    def _elements(self, outer: Plan, repeated: Repeat, rows: Rows) -> Optional[Elements]:
        numpy, size, total = self._numpy, repeated.layout.size, len(rows.at)
        plan = self.plan(repeated.layout, outer.label, repeated.step)
        of = numpy.repeat(numpy.arange(total), repeated.count)
        numbers = numpy.tile(numpy.arange(repeated.count), total)
        at = rows.at[of] + (numbers * size + repeated.offset).astype(numpy.uint64)
        parents = rows.parents[of]
        if not plan.is_plain or (at + numpy.uint64(size) > self._ends[parents]).any():
            return None
        elements = Rows(rows.claims, parents, rows.of[of], at, numbers=numbers)
        elements.every = len(plan.pointers)
        columns = self._columns(plan, elements)
        return Elements(plan, elements, of, columns) if columns is not None else None

    def _array_in_each(self, array: Elements, rows: Rows, bad: Numbers, member: int) -> None:
        """As one member of each object: what its elements claim, one after the other."""
        numpy, elements = self._numpy, array.rows
        wrong = numpy.zeros(len(elements.at), dtype=numpy.int64)
        self._pointers_of(array.plan, elements, array.columns, wrong)
        bad += numpy.bincount(array.of, weights=wrong, minlength=len(bad)).astype(numpy.int64)
        if elements.keys:
            keys = numpy.concatenate(elements.keys)
            order = numpy.argsort(keys, kind="stable")
            rows.keys.append(array.of[keys[order] // elements.every] * rows.every + member)
            rows.found += map(elements.found.__getitem__, order.tolist())

    def _containers(self, plan: Plan, rows: Rows, row: int, *, bad: Numbers, member: int) -> None:
        found: list[Claimed] = []
        where, at = self._where(plan, rows, row), int(rows.at[row])
        for each in plan.containers:
            bad[row] += self._words.inner.open(each, at + each.offset, where, found, 0)
        rows.add(self._numpy, row, member, found)

    def _where(self, plan: Plan, rows: Rows, row: int) -> At:
        claimed = rows.claims[rows.of[row]]
        plain = max(claimed.level, EXACT)
        return At(claimed.block, claimed.level, plain, plan.label, prefix=plan.prefix, number=rows.number(row))

    # members

    def _pointer(self, plan: Plan, pointer: Pointer, values: Numbers, rows: Rows, *, bad: Numbers, member: int) -> None:
        numpy = self._numpy
        used = numpy.flatnonzero(values)
        values = values[used]
        inside = (values >= self._low) & (values <= self._high)
        for value in numpy.unique(values[~inside]).tolist():
            if self._reader.leads_nowhere(value, pointer.slot.is_void):
                bad[used[values == value]] += 1
        used, values = used[inside], values[inside]
        blocks = numpy.searchsorted(self._firsts, values, side="right") - 1
        exact = self._firsts[blocks] == values
        self._know(plan, pointer, blocks[exact])
        hits = exact & (self._chunks[blocks] == max(pointer.chunk, 0)) if pointer.field == NONE else exact
        if pointer.field != NONE:
            self._claim(
                rows, Hits(used[hits], blocks[hits]), pointer.field, level=FIELD, step=pointer.step, member=member
            )
        elif pointer.chunk != UNKNOWN:
            level = max(rows.claims[0].level, EXACT)
            self._claim(
                rows, Hits(used[hits], blocks[hits]), pointer.name, level=level, step=pointer.step, member=member
            )
        used, values = used[~hits], values[~hits]
        left = self._objects_by_vtables(plan, pointer, used, values=values, rows=rows, member=member)
        is_array = plan.is_of_pointers
        for row, value in zip(used[left].tolist(), values[left].tolist()):
            found: list[Claimed] = []
            at = None if is_array else int(rows.at[row])
            where = self._where(plan, rows, row)
            bad[row] += self._words.follow(pointer.slot, value, where, plan.layout, at, found)
            rows.add(self._numpy, row, member, found)

    def _objects_by_vtables(
        self, plan: Plan, pointer: Pointer, used: Numbers, *, values: Numbers, rows: Rows, member: int
    ) -> Flags:
        """Of pointers to objects that have one, all at once; which of them are left to be followed one by one."""
        numpy, slot = self._numpy, pointer.slot
        left: Flags = numpy.ones(len(values), dtype=bool)
        if slot.to != "object" or slot.target is None or slot.is_ruled or self._words.ruled.leads_into(slot.target):
            return left
        static = self._layouts.of(slot.target)
        words = self._read(values) if static.polymorphic and len(values) else None
        if words is None:
            return left
        tables, which = numpy.unique(words, return_inverse=True)
        classes = [self._words.vtables.class_of(table, static) if table else None for table in tables.tolist()]
        tops, sizes = (
            numpy.array([0 if of is None else getattr(of, each) for of in classes])[which] for each in ("top", "size")
        )
        starts = values + tops.astype(numpy.uint64)
        blocks = numpy.searchsorted(self._firsts, starts, side="right") - 1
        right = numpy.array([of is not None for of in classes], dtype=bool)[which] & (blocks >= 0)
        right &= self._firsts[blocks] == starts
        left = right & ~self._is_ordinary(blocks)
        right &= self._fits(blocks, sizes)
        if not right.any():
            return left
        names = [NONE if of is None else self._names.object(of.type) for of in classes]
        level = rows.claims[0].level
        self._claim(
            rows,
            Hits(used[right], blocks[right]),
            numpy.array(names)[which[right]].tolist(),
            level=max(level if max(level, EXACT) != LOCAL else LOCAL, VTABLE),
            step=self._names.step(plan.prefix + slot.step),
            member=member,
            plain=False,
        )
        return left

    def _know(self, plan: Plan, pointer: Pointer, blocks: Numbers) -> None:
        if pointer.chunk != UNKNOWN or pointer.field != NONE or not len(blocks):
            return
        slot = pointer.slot
        if slot.to == "object" and slot.target is not None:
            blocks = blocks[self._chunks[blocks] == self._words.chunk(slot.target)]
        if len(blocks):
            self.learn(pointer, plan, int(blocks[0]))

    def _claim(
        self,
        rows: Rows,
        hits: Hits,
        name: Union[int, Sequence[int]],
        *,
        level: int,
        step: int,
        member: int,
        elements: Optional[Numbers] = None,
        number: Optional[int] = None,
        plain: bool = True,
    ) -> None:
        """Of each row that one block has this name, or its own of these."""
        count = len(hits.rows)
        parents = rows.parents[hits.rows].tolist()
        names = repeat(name) if isinstance(name, int) else name
        many = elements.tolist() if elements is not None else [0] * count
        numbers = [UNNUMBERED if number is None else number] * count
        if number is None and rows.numbers is not None:
            numbers = rows.numbers[hits.rows].tolist()
        columns = hits.blocks.tolist(), names, many, parents, numbers
        new = new_claimed
        rows.keys.append(hits.rows * rows.every + member)
        rows.found += [
            new(Claimed, (level, block, told, used, parent, step, own, plain))
            for block, told, used, parent, own in zip(*columns)
        ]

    def _body(self, plan: Plan, each: Body, rows: Rows, *, bad: Numbers, member: int) -> None:
        numpy, container = self._numpy, each.container
        told = container.many(numpy, self._read, rows.at + numpy.uint64(each.offset))
        left = numpy.arange(len(rows.at))
        if told is not None:
            sure = numpy.flatnonzero(told.sure)
            blocks = numpy.searchsorted(self._firsts, told.start[sure], side="right") - 1
            right = blocks >= 0
            right &= self._firsts[blocks] == told.start[sure]
            right &= self._fits(blocks, container.front + (told.room[sure] + container.after) * container.size)
            sure, blocks = sure[right], blocks[right]
            if len(sure):
                if each.name == NONE:
                    self.learn_body(plan, each)
                used = told.used[sure] + container.after
                hits, level = Hits(sure, blocks), rows.claims[0].level
                self._claim(
                    rows,
                    hits,
                    each.name,
                    level=level,
                    step=each.step,
                    member=member,
                    elements=used,
                    number=each.number,
                    plain=False,
                )
            settled = told.empty
            settled[sure] = True
            left = numpy.flatnonzero(~settled)
        for row in left.tolist():
            found: list[Claimed] = []
            claimed = rows.claims[rows.of[row]]
            bad[row] += self.body(plan, each, int(rows.at[row]), claimed, rows.number(row), found)
            rows.add(self._numpy, row, member, found)

    def _fits(self, blocks: Numbers, sizes: Numbers) -> Flags:
        """MemoryReader.fits, of blocks that are no mappings: these are looked at one by one."""
        numpy, reader = self._numpy, self._reader
        chunks = self._chunks[blocks].astype(numpy.int64)
        spare = chunks - numpy.maximum((sizes + reader.rounded) & reader.grain, reader.slack)
        fitting: Flags = self._is_ordinary(blocks) & (spare >= 0) & (spare < reader.slack)
        return fitting

    def _is_ordinary(self, blocks: Numbers) -> Flags:
        word = self._numpy.uint64(self._reader.word_size)
        ordinary: Flags = self._ends[blocks] - self._firsts[blocks] == self._chunks[blocks] - word
        return ordinary

    # memory

    def _read(self, addresses: Numbers) -> Optional[Numbers]:
        """The words there; None where not all of them are in what heaps have."""
        numpy = self._numpy
        if (addresses & numpy.uint64(7)).any():
            return None
        numbers = addresses >> numpy.uint64(SHIFT)
        place = numpy.searchsorted(self._windows, numbers)
        if (place >= len(self._windows)).any() or (self._windows[place] != numbers).any():
            return None
        rows = self._held[place]
        if (rows == NONE).any():
            if not self._keep(numpy.unique(place)):
                return None
            rows = self._held[place]
        index = (addresses & numpy.uint64((1 << SHIFT) - 1)) >> numpy.uint64(3)
        found: Numbers = self._room[rows, index.astype(numpy.int64)]
        return found

    def _keep(self, places: Numbers) -> bool:
        """Reads these windows, those that are not here; whether all of them are then. Where there is no room for
        them beside what was read before, that goes."""
        if len(places) > len(self._room) or not self._is_readable[places].all():
            return False
        if self._kept + int((self._held[places] == NONE).sum()) > len(self._room):
            self._held[:], self._kept = NONE, 0
        for place in places[self._held[places] == NONE].tolist():
            start = int(self._windows[place]) << SHIFT
            data = self._reader.stretch(start, start + (1 << SHIFT))
            if data is None:
                self._is_readable[place] = False
                continue
            self._room[self._kept] = self._numpy.frombuffer(data, dtype=self._numpy.uint64)
            self._held[place], self._kept = self._kept, self._kept + 1
        return bool(self._is_readable[places].all())
