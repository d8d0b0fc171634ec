"""What pointers lead to by rules of the user's: only where the block is of that size, and its words agree.

Where no line fits, each that was tried is contradicted. Then, and where several fit, the block is named as without
rules.
"""

from __future__ import annotations

from typing import Iterable, Mapping, Optional, Protocol

from .claims import CONTAINER, EXACT, RULE, WEAK
from .layouts import FlatType, Layouts, Slot
from .memory_reader import MemoryReader
from .named_blocks import ANY, NOBODY, At, Claimed, NamedBlocks, NameNumbers
from .rules import MemberRule, PointerRule, ProgramRules, Rule


class Words(Protocol):
    """ObjectWords."""

    layouts: Layouts

    def scan(self, layout: FlatType, at: int, where: At, depth: int = 0) -> tuple[list[Claimed], int]: ...

    def follow(
        self, slot: Slot, value: int, where: At, layout: FlatType, at: Optional[int], found: list[Claimed]
    ) -> int: ...

    def claim(
        self, level: int, block: int, name: int, where: At, step: str, *, elements: int = 0, plain: bool = True
    ) -> Claimed: ...


class RuledWords:
    """Of one image."""

    def __init__(self, words: Words, rules: ProgramRules, reader: MemoryReader, names: NameNumbers) -> None:
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
