"""What the words of an object claim about other blocks, by the layout of its type."""

from __future__ import annotations

from collections import Counter
from typing import Callable, Iterable, Literal, Mapping, Optional

from .claims import ARRAY, CONTAINER, EXACT, FIELD, LOCAL, RULE, VTABLE, WEAK, Claim, Container, new_record
from .container_rows import Counts
from .containers.forms import NOWHERE, OfBody, OfNodes
from .layouts import Alternatives, Embedded, FlatType, Layouts, Slot, Vtables
from .memory_reader import MemoryReader
from .named_blocks import (
    ANY,
    ELEMENT,
    NOBODY,
    NONE,
    STARTS,
    TYPED,
    UNNUMBERED,
    At,
    Claimed,
    NamedBlocks,
    NameNumbers,
)
from .rules import MemberRule, PointerRule, ProgramRules, Rule

DEEPEST = 16
"""So often what a container holds inline may hold such a container."""
Fit = Literal["proven", "possible", "too large"]
"""How what a union's member leads to agrees with its type: what is there shows it; nothing contradicts it; nothing but
that the block is larger, by what malloc could not split off or as what extends the type."""


_Open = Callable[[Embedded, int, At, "list[Claimed]", int], int]


class InnerObjects:
    """Of one image, for the words that hold them."""

    def __init__(self, words: ObjectWords, reader: MemoryReader, names: NameNumbers, vtables: Vtables) -> None:
        self._words, self._reader, self._names, self._vtables = words, reader, names, vtables
        self._layouts, self._types = words.layouts, words.layouts.types
        self._ways: dict[Container, _Open] = {}
        """How each container is opened."""
        self._bodies: dict[tuple[OfBody, str], int] = {}
        """What bodies are called."""

    def open(self, each: Embedded, at: int, where: At, found: list[Claimed], depth: int) -> int:
        """What a container claims; 1 where it did not prove itself."""
        container = each.container
        open = self._ways.get(container)
        if open is None:
            by_form = {OfBody: self._open_body, OfNodes: self._open_nodes}
            open = next((way for form, way in by_form.items() if isinstance(container, form)), self._open_claims)
            self._ways[container] = open
        return open(each, at, where, found, depth)

    def _open_claims(self, each: Embedded, at: int, where: At, found: list[Claimed], depth: int) -> int:
        claims = each.container.claims(self._reader, at)
        if claims is None:
            return self._damaged(each, where)
        bad = 0
        for claim in claims:
            if claim.inline:
                if depth < DEEPEST:
                    inner = where._replace(prefix=where.prefix + each.step + claim.step)
                    more, worse = self._words.scan(self._layouts.of(claim.type), claim.address, inner, depth + 1)
                    found += more
                    bad += worse
            else:
                self._take_claim(claim, each, where, found)
            if where.proof and found:
                break
        return bad

    # what most containers claim, with less ado than claim by claim: they asked for blocks of just these sizes

    def body_name(self, container: OfBody, label: str) -> int:
        key = container, label
        name = self._bodies.get(key)
        if name is None:
            claim = container.claim(NOWHERE)
            name = self._bodies[key] = self._names.claimed(claim, self._label(claim, label))
        return name

    def _open_body(self, each: Embedded, at: int, where: At, found: list[Claimed], depth: int) -> int:
        container = each.container
        assert isinstance(container, OfBody)
        body = container.body(self._reader, at)
        if body is None:
            return self._damaged(each, where)
        block = self._reader.at(body.start) if body.start else -1
        if block >= 0 and body.used <= body.room:
            step, number = where.prefix + each.step, where.number
            if container.words:
                step, number = self._numbered(where) + each.step + ELEMENT, 0
            name, level = self.body_name(container, where.label), max(CONTAINER, where.level)
            used = body.used + container.after
            found.append(Claimed(level, block, name, used, where.parent, self._names.step(step), number, False))
        return 0

    def _open_nodes(self, each: Embedded, at: int, where: At, found: list[Claimed], depth: int) -> int:
        container = each.container
        assert isinstance(container, OfNodes)
        opened = container.nodes_and_more(self._reader, at)
        if opened is None:
            return self._damaged(each, where)
        nodes, more = opened
        if nodes:
            claim = container.claim(nodes[0], 0)
            level = max(container.strength, where.level)
            name = self._names.claimed(claim, self._label(claim, where.label))
            step = self._names.step(self._numbered(where) + each.step + ELEMENT)
            parent, block_at = where.parent, self._reader.at
            found += [
                new_record(Claimed, (level, block_at(node), name, 0, parent, step, number, False))
                for number, node in enumerate(nodes)
            ]
        for claim in more:
            self._take_claim(claim, each, where, found)
        return 0

    def _damaged(self, each: Embedded, where: At) -> int:
        # a local may not be set yet
        if not where.proof and not where.may_be_unset:
            self._words.damaged[each.name] += 1
        return 1

    def _numbered(self, where: At) -> str:
        """In front of steps that have numbers of their own."""
        return where.prefix if where.number == UNNUMBERED else where.prefix.replace("[]", f"[{where.number}]", 1)

    def _label(self, claim: Claim, label: str) -> str:
        facts = self._types.facts(claim.type)
        return label if facts.form == "pointer" else facts.name or claim.name

    def _take_claim(self, claim: Claim, each: Embedded, where: At, found: list[Claimed]) -> None:
        step = each.step + claim.step
        if claim.number is not None:
            step += ELEMENT
            where = where._replace(prefix=self._numbered(where), number=claim.number)
        level = max(claim.strength, where.level)
        facts = self._types.facts(claim.type)
        if claim.elements is None and facts.polymorphic:
            told = self._vtables.dynamic(claim.address, self._layouts.of(claim.type))
            if told is not None:
                found.append(
                    self._words.claim(level, told[1], self._names.object(told[0].type), where, step, plain=False)
                )
                return
        block = self._reader.at(claim.address)
        if block < 0 or not facts.size:
            return
        name = self._names.claimed(claim, self._label(claim, where.label))
        elements = claim.elements or 0
        capacity = 1 if claim.elements is None else claim.capacity if claim.capacity is not None else elements
        size = claim.front + capacity * facts.size
        if self._reader.fits(block, size, self._reader.slack) and elements <= capacity:
            found.append(self._words.claim(level, block, name, where, step, elements=elements, plain=False))
        elif (
            claim.elements is None
            and not where.proof
            and self._reader.room(block) >= size
            and self._words.is_proven(claim.type, claim.address + claim.front)
        ):
            tail = self._names.tail(claim.type)
            found.append(self._words.claim(WEAK, block, tail, where, step))

    def choose(self, union: Alternatives, at: int, where: At, found: list[Claimed], *, depth: int) -> None:
        """Names what a union's member leads to, only where one alternative alone fits: pointers to characters and to
        anything fit always, so that the others have to be proven by what is there."""
        fits: dict[int, list[tuple[Slot, Fit]]] = {}
        """By block the members that may lead there."""
        for layout in union.layouts:
            if layout.containers or layout.unions or layout.repeats:
                return
            for slot in layout.slots:
                value = self._reader.word(at + slot.offset)
                if not value:
                    continue
                if slot.is_ruled and not where.proof:
                    told = self._words.ruled.pointer(slot, value, where, layout, at)
                    if told:
                        found += told
                        return
                block = self._reader.at(value)
                if block < 0 and slot.fits_all and not where.proof:
                    block = self._reader.behind_header(value)
                if block >= 0:
                    fit = self._fits(slot, value, block, depth)
                    if fit is not None and all(each.target != slot.target for each, _ in fits.get(block, ())):
                        fits.setdefault(block, []).append((slot, fit))
        for block, members in fits.items():
            proven = [slot for slot, fit in members if fit == "proven"]
            slot = proven[0] if len(proven) == 1 else members[0][0]
            if where.proof or (len(proven) != 1 and (len(members) > 1 or members[0][1] == "too large")):
                if where.proof == ANY or (where.proof == STARTS and members[0][1] != "too large"):
                    found.append(self._words.field(block, slot, where))
            elif slot.to == "object" and slot.target is not None:
                name = self._names.one_of_a_union(self._names.object(slot.target))
                found.append(self._words.claim(WEAK, block, name, where, slot.step))
            else:
                found.append(self._words.field(block, slot, where))

    def _fits(self, slot: Slot, value: int, block: int, depth: int) -> Optional[Fit]:
        """Whether what a union's member leads to can be what it says; None: it cannot."""
        if slot.to != "object" or slot.target is None:
            return "possible"
        size = self._types.facts(slot.target).size
        if self._reader.room(block) < size:
            return None
        where = At(NOBODY, CONTAINER, EXACT, "", proof=ANY)
        right, bad = self._words.scan(self._layouts.of(slot.target), value, where, depth + 1)
        if bad or not self._reader.fits(block, size):
            return None if bad else "too large"
        return "proven" if right else "possible"


CONTESTED = -2
"""In place of a name: two claims contradict each other."""
FEW_ELEMENTS = 64
"""So many elements of an array are looked at for proof."""
PROOFS = 2
"""So many elements beyond the first have to have a pointer that is right."""
DEEPEST_UNION = 4
"""Likewise of unions, as in Rust's lists: each node would prove itself by all that follow."""
MOST_INTERIOR = 1 << 20
PIECE = 1 << 13
"""Words of an array of pointers that are read at once."""


class ObjectWords:
    """Reads objects of one image, and tells where their words lead."""

    def __init__(
        self, reader: MemoryReader, layouts: Layouts, names: NameNumbers, vtables: Vtables, rules: ProgramRules
    ) -> None:
        self._reader, self.layouts, self._types = reader, layouts, layouts.types
        self._names, self.vtables, self._counts = names, vtables, Counts(reader, layouts.types)
        blocks = reader.blocks
        self._block_starts, self._sizes = blocks.starts, blocks.sizes
        self.low = blocks.starts[0] if len(blocks) else 1
        self.high = max(blocks.ends[-1], blocks.starts[-1]) if len(blocks) else 0
        self._word = reader.word_size
        self._chunks: dict[int, int] = {}
        """Of one object of each type."""
        self.damaged: Counter[str] = Counter()
        """Containers that did not prove themselves, by type."""
        self.interior: dict[tuple[int, int], tuple[int, Claimed]] = {}
        """Pointers into blocks, by block and offset: the type that they are to, and the way."""
        self.inner = InnerObjects(self, reader, names, vtables)
        self.ruled = RuledWords(self, rules, reader, names)

    # words

    def scan(self, layout: FlatType, at: int, where: At, depth: int = 0) -> tuple[list[Claimed], int]:
        """What an object there claims, and how many of its words contradict its type."""
        found: list[Claimed] = []
        bad = 0
        word, low, high = self._reader.word, self.low, self.high
        for slot in layout.slots:
            value = word(at + slot.offset)
            if not value:
                continue
            if low <= value <= high:
                bad += self.follow(slot, value, where, layout, at, found)
            elif self._reader.leads_nowhere(value, slot.is_void):
                bad += 1
        if where.proof:
            for offset, size, mask in layout.bits:
                bad += ((self._reader.number(at + offset, size) or 0) & ~mask) != 0
        return found, bad + self.scan_inner(layout, at, where, found, depth=depth)

    def scan_inner(self, layout: FlatType, at: int, where: At, found: list[Claimed], depth: int = 0) -> int:
        """The same of what is no plain pointer: how many contradict."""
        bad = 0
        for each in layout.containers:
            bad += self.inner.open(each, at + each.offset, where, found, depth)
        self.scan_unions(layout, at, where, found, depth=depth)
        return bad + self.scan_repeats(layout, at, where, found, depth=depth)

    def scan_unions(self, layout: FlatType, at: int, where: At, found: list[Claimed], depth: int = 0) -> None:
        for union in layout.unions:
            if not where.may_be_unset and depth < DEEPEST_UNION:
                self.inner.choose(union, at + union.offset, where, found, depth=depth)

    def scan_repeats(self, layout: FlatType, at: int, where: At, found: list[Claimed], depth: int = 0) -> int:
        bad = 0
        for repeat in layout.repeats:
            if where.proof:
                continue
            size, inner = repeat.layout.size, where
            for number in range(self._reader.most(at + repeat.offset, size, repeat.count)):
                if where.number == UNNUMBERED:
                    inner = where._replace(prefix=where.prefix + repeat.step, number=number)
                else:
                    outer = where.prefix.replace("[]", f"[{where.number}]", 1)
                    inner = where._replace(prefix=outer + repeat.step, number=number)
                more, worse = self.scan(repeat.layout, at + repeat.offset + number * size, inner, depth)
                found += more
                bad += worse
        return bad

    def scan_array(self, layout: FlatType, at: int, elements: int, where: At) -> tuple[list[Claimed], int]:
        where = where._replace(prefix="[]")
        if layout.parts == 1 and layout.slots and layout.size == self._word:
            return self._scan_pointers(layout, at, elements, where)
        found: list[Claimed] = []
        bad = 0
        for number in range(elements):
            more, worse = self.scan(layout, at + number * layout.size, where._replace(number=number))
            found += more
            bad += worse
        return found, bad

    def _scan_pointers(self, layout: FlatType, at: int, elements: int, where: At) -> tuple[list[Claimed], int]:
        """An array of pointers, many at a time."""
        found: list[Claimed] = []
        bad = 0
        low, high, slot = self.low, self.high, layout.slots[0]
        for first in range(0, elements, PIECE):
            begin = at + first * self._word
            words = self._reader.words(begin, min(PIECE, elements - first)) or ()
            for number, value in enumerate(words, first):
                if not value:
                    continue
                if low <= value <= high:
                    bad += self.follow(slot, value, where._replace(number=number), layout, None, found)
                elif self._reader.leads_nowhere(value, slot.is_void):
                    bad += 1
        return found, bad

    def claim(
        self, level: int, block: int, name: int, where: At, step: str, *, elements: int = 0, plain: bool = True
    ) -> Claimed:
        step_number = self._names.step(where.prefix + step)
        return Claimed(level, block, name, elements, where.parent, step_number, where.number, plain)

    def field(self, block: int, slot: Slot, where: At) -> Claimed:
        """By what member or variable leads there."""
        return self.claim(FIELD, block, self._names.field(slot, where.label), where, slot.step)

    # pointers

    def follow(
        self, slot: Slot, value: int, where: At, layout: FlatType, at: Optional[int], found: list[Claimed]
    ) -> int:
        """Where a pointer leads; 1 where it cannot lead there. `at`: where the object is that has it."""
        starts = self._block_starts
        block = self._reader.before(value)
        target = slot.target
        if block < 0:
            return 0
        if slot.is_ruled and not where.proof:
            told = self.ruled.pointer(slot, value, where, layout, at)
            if told:
                found += told
                return 0
        if slot.to == "object" and target is not None:
            if self.chunk(target) == self._sizes[block] and starts[block] == value:
                if not where.may_be_unset or self.is_proven(target, value):
                    found.append(self.claim(where.plain, block, self._names.object(target), where, slot.step))
                return 0
            return self._follow_object(slot, value, block, where, layout, at, found)
        if starts[block] != value:
            if where.proof:
                is_right = where.proof == ANY and self._is_in_own_tail(value, block, layout, at)
            else:
                is_right = not where.may_be_unset and slot.fits_all and self._reader.behind_header(value) >= 0
            if is_right:
                found.append(self.field(block, slot, where))
            return 0
        if where.may_be_unset:
            return 0
        if where.proof:
            if where.proof >= STARTS:
                found.append(self.field(block, slot, where))
            return 0
        if slot.to == "pointers" and target is not None:
            found.append(self._pointers(slot, block, where, layout=layout, at=at))
        elif slot.to == "numbers" and target is not None:
            size = self._types.facts(target).size
            count = self._counts.beside(layout, at, size, block)
            if count:
                name = self._names.array(target)
                found.append(self.claim(max(ARRAY, where.plain), block, name, where, slot.step, elements=count))
            else:
                found.append(self.field(block, slot, where))
        else:
            found.append(self.field(block, slot, where))
        return 0

    def _is_in_own_tail(self, value: int, block: int, layout: FlatType, at: Optional[int]) -> bool:
        """Whether an object that begins a block has a pointer to what lies behind it there."""
        start = self._block_starts[block]
        return at == start and start + layout.size <= value < start + self._reader.room(block)

    def _follow_object(
        self, slot: Slot, value: int, block: int, where: At, layout: FlatType, at: Optional[int], found: list[Claimed]
    ) -> int:
        """A pointer to a block that is not just as large as its type, to an object with a vtable, or into a block."""
        target = slot.target or 0
        reader, inner = self._reader, self.layouts.of(target)
        start, size = self._block_starts[block], inner.size
        if self.ruled.leads_into(target) and not where.proof and value < start + reader.room(block):
            told_inside = self.ruled.into(target, value, block, where, slot.step)
            if told_inside:
                found += told_inside
                return 0
        if inner.polymorphic:
            told = self.vtables.dynamic(value, inner)
            if told is not None:
                of, begins = told
                level = max(where.level if where.plain != LOCAL else LOCAL, VTABLE)
                found.append(self.claim(level, begins, self._names.object(of.type), where, slot.step, plain=False))
            return 0
        if start != value:
            cookie = self._counts.in_front(value, block, size)
            if cookie and not where.proof:
                name = self._names.array(target, front=value - start)
                found.append(self.claim(where.plain, block, name, where, slot.step, elements=cookie))
            elif not where.proof and value < start + reader.room(block):
                self._note_interior(value - start, target, self.claim(WEAK, block, NONE, where, slot.step))
            return 0
        if reader.room(block) < size:
            return 1
        if where.proof:
            if where.proof == ANY:
                found.append(self.field(block, slot, where))
            return 0
        if where.may_be_unset and not self.is_proven(target, value):
            return 0
        if reader.has_mapping(block) and reader.fits(block, size):
            found.append(self.claim(where.plain, block, self._names.object(target), where, slot.step))
        elif inner.flexible is not None:
            name = self._names.object(target)
            counted = self._counts.flexible(inner, value, block)
            found.append(self.claim(where.plain if counted else WEAK, block, name, where, slot.step))
        else:
            found.append(self._larger(slot, value, block, where, layout=layout, at=at))
        return 0

    def _larger(self, slot: Slot, value: int, block: int, where: At, *, layout: FlatType, at: Optional[int]) -> Claimed:
        """T[], where something proves it; else T and a tail."""
        target = slot.target or 0
        inner = self.layouts.of(target)
        count = self._counts.by_ends(layout, at, slot, block) or self._counts.beside(layout, at, inner.size, block)
        room = count or self._counts.least(block, inner.size)
        if self._is_array(inner, value, room, counted=bool(count)):
            name = self._names.array(target)
            return self.claim(max(ARRAY, where.plain), block, name, where, slot.step, elements=room)
        if self.is_proven(target, value, ANY):
            return self.claim(WEAK, block, self._names.tail(target), where, slot.step)
        return self.field(block, slot, where)

    def _pointers(self, slot: Slot, block: int, where: At, *, layout: FlatType, at: Optional[int]) -> Claimed:
        """A `T **`: an array of pointers, where a number beside it counts them, or all of its words are right."""
        target = slot.target or 0
        pointed = self._types.facts(target).target
        if pointed is not None and slot.member.startswith(f"{self._types.text(pointed)}."):
            # a list's link back, to whatever has a pointer to this element
            return self.field(block, slot._replace(to="anything", target=None), where)
        count = (
            self._counts.by_ends(layout, at, slot, block)
            or self._counts.beside(layout, at, self._word, block)
            or self._counts.by_exponent(layout, at, self._word, block)
        )
        room = count or self._counts.least(block, self._word)
        right = self._right_pointers(self.layouts.of(target), self._block_starts[block], room)
        if right is not None and (right > PROOFS or (count and right)):
            name = self._names.array(target, label=slot.member or where.label)
            return self.claim(max(ARRAY, where.plain), block, name, where, slot.step, elements=room)
        return self.field(block, slot if right else slot._replace(to="anything", target=None), where)

    def _is_array(self, layout: FlatType, at: int, count: int, *, counted: bool) -> bool:
        """Whether the elements beyond the first have pointers that are right, and none has one that is wrong."""
        typed = self._right_elements(layout, at, count, TYPED)
        if typed is None or typed >= PROOFS:
            return typed is not None
        if counted and not layout.leads_on:
            return True
        # a pointer to a larger block proves nothing: what extends T in C links to others that do
        right = self._right_elements(layout, at, count, STARTS) or 0
        return right > PROOFS or (counted and right > 0)

    def _right_elements(self, layout: FlatType, at: int, count: int, proof: int) -> Optional[int]:
        """In how many elements beyond the first a pointer is right; None where one is wrong."""
        right = 0
        where = At(NOBODY, CONTAINER, EXACT, "", proof=proof)
        for number in range(min(count, FEW_ELEMENTS)):
            found, bad = self.scan(layout, at + number * layout.size, where)
            if bad:
                return None
            right += bool(number and found)
        return right

    def _right_pointers(self, element: FlatType, at: int, count: int) -> Optional[int]:
        """How many pointers of an array lead to objects of just their type's size; None where one is wrong."""
        words = self._reader.words(at, min(count, PIECE))
        if words is None or not element.slots:
            return None
        right, slot = 0, element.slots[0]
        where = At(NOBODY, CONTAINER, EXACT, "", proof=TYPED)
        for value in words:
            if not value:
                continue
            found: list[Claimed] = []
            if not self.low <= value <= self.high:
                if self._reader.leads_nowhere(value):
                    return None
            elif slot.to == "object":
                if self.follow(slot, value, where, element, None, found):
                    return None
                right += bool(found)
            elif self._reader.at(value) < 0:
                return None
            else:
                right += 1
        return right

    def is_proven(self, type: int, at: int, proof: int = TYPED) -> bool:
        """Whether what an object there holds shows that it is of that type."""
        found, bad = self.scan(self.layouts.of(type), at, At(NOBODY, CONTAINER, EXACT, "", proof=proof))
        return bool(found) and not bad

    def flexible_elements(self, layout: FlatType, at: int, block: int, where: At) -> list[Claimed]:
        """What the elements of a T[] at the end of a struct claim, where these are proven."""
        if layout.flexible is None:
            return []
        element, offset = self.layouts.of(layout.flexible[0]), layout.flexible[1]
        count = self._counts.flexible(layout, at, block)
        if not element.leads_on or not element.size:
            return []
        room = count or max(0, self._reader.room(block) - offset - self._word) // element.size
        if not self._is_array(element, at + offset, room, counted=bool(count)):
            return []
        return self.scan_array(element, at + offset, room, where._replace(label=layout.flexible_label))[0]

    def _note_interior(self, offset: int, type: int, claimed: Claimed) -> None:
        if len(self.interior) < MOST_INTERIOR:
            self.interior.setdefault((claimed.block, offset), (type, claimed))

    # names

    def chunk(self, type: int) -> int:
        """The size of a block for one object; 0 where such a block may hold several, or where more than the size has to
        be looked at."""
        known = self._chunks.get(type)
        if known is None:
            layout = self.layouts.of(type)
            known = self._reader.chunk_for(layout.size)
            sure = not layout.polymorphic and self._reader.chunk_for(2 * layout.size) != known
            self._chunks[type] = known = known if sure else 0
        return known


class RuledWords:
    """Of one image."""

    def __init__(self, words: ObjectWords, rules: ProgramRules, reader: MemoryReader, names: NameNumbers) -> None:
        self._words, self._rules, self._reader, self._names = words, rules, reader, names
        self._against: dict[Rule, set[int]] = {}
        """The blocks that a line says something wrong of."""

    def pointer(self, slot: Slot, value: int, where: At, layout: FlatType, at: Optional[int]) -> list[Claimed]:
        """By the lines about a member; empty where none fits, or several do."""
        block = self._reader.blocks.find(value)
        if block < 0:
            # a number, or what somebody else has
            return []
        where = where._replace(plain=max(where.plain, RULE), level=max(where.level, RULE))
        tried = [each for each in self._rules.pointers[slot.member] if self._applies(each, slot, value, at)]
        fits = [claims for claims in (self._claims(each, slot, value, where, layout, at) for each in tried) if claims]
        if not fits:
            self._note((each.rule for each in tried), block)
        return fits[0] if len(fits) == 1 else []

    def _applies(self, rule: PointerRule, slot: Slot, value: int, at: Optional[int]) -> bool:
        """Whether its conditions hold."""
        if rule.tags and at is None:
            return False
        holder = (at or 0) + slot.offset - rule.offset
        return all(each.is_there(self._reader, holder) for each in rule.tags) and all(
            each.is_there(self._reader, value - rule.back) for each in rule.told
        )

    def _claims(
        self, rule: PointerRule, slot: Slot, value: int, where: At, layout: FlatType, at: Optional[int]
    ) -> list[Claimed]:
        found: list[Claimed] = []
        if rule.target is None:
            self._words.follow(slot._replace(to="text", is_ruled=False), value, where, layout, at, found)
            return found
        if rule.is_array:
            return self._array(rule.target, slot, value, where)
        start = value - rule.back
        if not self._agrees(rule.target, start):
            return []
        if rule.and_more:
            return self._with_more(rule.target, slot, start, where)
        pointed = slot._replace(to="object", target=rule.target, is_void=False, is_ruled=False)
        self._words.follow(pointed, start, where, layout, at, found)
        return [each for each in found if self._names.names[each.name].form in ("object", "array")]

    def _with_more(self, target: int, slot: Slot, start: int, where: At) -> list[Claimed]:
        block = self._reader.at(start)
        if block < 0 or self._reader.room(block) <= self._words.layouts.of(target).size:
            return []
        return [self._words.claim(WEAK, block, self._names.tail(target), where, step=slot.step)]

    def _array(self, target: int, slot: Slot, value: int, where: At) -> list[Claimed]:
        block, element = self._reader.at(value), self._words.layouts.of(target)
        count = self._reader.room(block) // element.size if block >= 0 else 0
        # the last word may be there for the chunk's alignment alone
        if count and not self._reader.fits(block, count * element.size):
            count = (self._reader.room(block) - self._reader.word_size) // element.size
        if not count or any(not self._agrees(target, value + number * element.size) for number in range(count)):
            return []
        name = self._names.array(target)
        return [self._words.claim(where.plain, block, name, where, step=slot.step, elements=count)]

    def into(self, type: int, value: int, block: int, where: At, step: str) -> list[Claimed]:
        """By the lines about objects that have a member of this type: of a pointer to such a member."""
        start = self._reader.blocks.starts[block]
        tried = self._rules.inside[type]
        fits = [each for each in tried if self._is_in(each, start, value, block)]
        if not fits:
            self._note((each.rule for each in tried), block)
        if len(fits) != 1:
            return []
        name = self._names.object(fits[0].whole)
        return [self._words.claim(max(where.plain, RULE), block, name, where, step=step)]

    def _is_in(self, rule: MemberRule, start: int, value: int, block: int) -> bool:
        size = self._words.layouts.of(rule.whole).size
        return value - start == rule.offset and self._reader.fits(block, size) and self._agrees(rule.whole, start)

    def leads_into(self, type: int) -> bool:
        return type in self._rules.inside

    def _agrees(self, type: int, at: int) -> bool:
        """Whether no word there contradicts the type."""
        proof = At(NOBODY, CONTAINER, EXACT, "", proof=ANY)
        return not self._words.scan(self._words.layouts.of(type), at, proof)[1]

    def _note(self, rules: Iterable[Rule], block: int) -> None:
        for each in rules:
            self._against.setdefault(each, set()).add(block)

    def clear(self) -> None:
        self._against.clear()

    def contradicted(self, found: NamedBlocks) -> Mapping[Rule, int]:
        """How many blocks each line says something wrong of. Where a list begins is a member, too, but of none of the
        objects that are in it: what is sure to be something else is no contradiction."""
        counts = {}
        for rule, blocks in self._against.items():
            known = sum(map(found.is_certain, blocks)) if rule.kind == "lies in" else 0
            if len(blocks) > known:
                counts[rule] = len(blocks) - known
        return counts
