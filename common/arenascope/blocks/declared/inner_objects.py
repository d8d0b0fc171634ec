"""Containers and unions within objects: what they claim about other blocks."""

from __future__ import annotations

from collections import Counter
from typing import Callable, Literal, Optional, Protocol

from .claims import CONTAINER, EXACT, WEAK, Claim, Container
from .containers.forms import NOWHERE, OfBody, OfNodes
from .layouts import Alternatives, Embedded, FlatType, Layouts, Slot, Vtables
from .memory_reader import MemoryReader
from .named_blocks import ANY, ELEMENT, NOBODY, STARTS, TYPED, UNNUMBERED, At, Claimed, NameNumbers, new_claimed
from .ruled_words import RuledWords

DEEPEST = 16
"""So often what a container holds inline may hold such a container."""
Fit = Literal["proven", "possible", "too large"]
"""How what a union's member leads to agrees with its type: what is there shows it; nothing contradicts it; nothing but
that the block is larger, by what malloc could not split off or as what extends the type."""


_Open = Callable[[Embedded, int, At, "list[Claimed]", int], int]


class Words(Protocol):
    """ObjectWords: each reads what lies within the other."""

    layouts: Layouts
    ruled: RuledWords
    damaged: Counter[str]

    def scan(self, layout: FlatType, at: int, where: At, depth: int = 0) -> tuple[list[Claimed], int]: ...

    def is_proven(self, type: int, at: int, proof: int = TYPED) -> bool: ...

    def claim(
        self, level: int, block: int, name: int, where: At, step: str, *, elements: int = 0, plain: bool = True
    ) -> Claimed: ...

    def field(self, block: int, slot: Slot, where: At) -> Claimed: ...


class InnerObjects:
    """Of one image, for the words that hold them."""

    def __init__(self, words: Words, reader: MemoryReader, names: NameNumbers, vtables: Vtables) -> None:
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
                new_claimed(Claimed, (level, block_at(node), name, 0, parent, step, number, False))
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
