"""The same as many_objects.py with numpy: each pointer, string and vector of all objects of a type at once.

What leads to just what its type says is claimed here. All else is asked of the plain form, word by word, and so the
claims are the same, in the same order.
"""

from __future__ import annotations

import sys
from itertools import repeat
from types import ModuleType
from typing import TYPE_CHECKING, Iterable, NamedTuple, Optional, Sequence, Union

from ..recognise.module_memory import PAGE_SHIFT
from .claims import EXACT, FIELD, LOCAL, VTABLE
from .layouts import FlatType, Layouts, Repeat
from .many_objects import UNKNOWN, Body, Found, ManyObjects, Plan, Pointer
from .memory_reader import MOST_ELEMENTS, SHIFT, MemoryReader
from .named_blocks import NONE, UNNUMBERED, At, BlockName, Claimed, NameNumbers, new_claimed
from .object_words import ObjectWords

if TYPE_CHECKING:
    from ...base.array_types import Flags, Numbers


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
