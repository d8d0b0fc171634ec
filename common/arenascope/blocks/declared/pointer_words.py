"""Which words of typed blocks can hold pointers: what declared types tell of edges (graph/stale_words.py)."""

from __future__ import annotations

from array import array
from typing import Iterator, Optional

from ...base.records import NamedTuple
from ...sources.debug_info_types import TypeFacts
from ..graph.stale_words import Layout as Words
from ..graph.stale_words import StaleWords
from .layouts import DEEPEST, NUMBERS, TypeTable
from .named_blocks import BlockName, NamedBlocks

MOST_WORDS = 1 << 16
"""A struct of more has no row: all of its words count."""
TEXT, NO_POINTER, BEYOND = "text", "not-a-pointer", "beyond-end"


def declare(named: NamedBlocks, types: TypeTable, table: StaleWords, word: int) -> None:
    """A row for each type, with all blocks that are certainly of it."""
    starts: dict[int, array[int]] = {}
    used: dict[int, array[int]] = {}
    blocks = named.blocks
    for block in named.typed():
        number = named.name[block]
        if number not in starts:
            starts[number], used[number] = array("Q"), array("Q")
        starts[number].append(blocks.starts[block])
        used[number].append(named.elements[block])
    for number, of in starts.items():
        name = named.names[number]
        words = _words(name, types, word)
        if words is None or name.type is None:
            continue
        size = types.facts(name.type).size
        if name.form == "array":
            table.declare(of, words, array("Q", (name.front + each * size for each in used[number])))
        else:
            table.declare(of, words, None if words.beyond is None else name.front + size)


def _words(name: BlockName, types: TypeTable, word: int) -> Optional[Words]:
    """None where all words may hold pointers, or where they are at other places in each element."""
    # elements may lie in front of the first, too: a ring that goes on at the start of its block
    if name.type is None or (name.form == "array" and name.front):
        return None
    facts = types.facts(name.type)
    if not facts.size or facts.size > MOST_WORDS * word:
        return None
    if not name.words and (facts.form == "character" or facts.size == 1):
        return Words(TEXT, word, (), begins=name.front, beyond=BEYOND)
    if facts.form in NUMBERS and _is_number(facts, word):
        return Words(NO_POINTER, word, (), begins=name.front, beyond=BEYOND)
    if facts.size % word:
        return None
    dead, live = bytearray(facts.size // word), bytearray(facts.size // word)
    beyond: Optional[str] = BEYOND
    for at, size, pointer in _members(types, name.type, word):
        if size < 0:
            beyond = None
        first, last = at // word, (at + size - 1) // word
        for place in range(max(first, 0), min(last, len(dead) - 1) + 1):
            (live if pointer else dead)[place] = 1
    offsets = [at * word for at in range(len(dead)) if live[at] or not dead[at]]
    return Words(NO_POINTER, facts.size, offsets, begins=name.front, beyond=beyond)


class _Member(NamedTuple):
    offset: int
    size: int
    """-1: of an array of unknown length."""
    pointer: bool
    """It may hold one: what is written as bytes, or as a number that is as long as a pointer, may be anything."""


def _members(types: TypeTable, type: int, word: int, offset: int = 0, depth: int = 0) -> Iterator[_Member]:
    facts = types.facts(type)
    if facts.form in ("struct", "union") and facts.fields and depth < DEEPEST:
        for field in facts.fields:
            yield from _members(types, field.type, word, offset + field.offset, depth=depth + 1)
    elif facts.form == "array" and facts.target is not None and not facts.length:
        yield _Member(offset, -1, True)
    elif facts.form == "array" and facts.target is not None and facts.length and depth < DEEPEST:
        size = types.facts(facts.target).size
        for number in range(facts.length if size else 0):
            yield from _members(types, facts.target, word, offset + number * size, depth=depth + 1)
    else:
        yield _Member(offset, facts.size, not _is_number(facts, word))


def _is_number(facts: TypeFacts, word: int) -> bool:
    return facts.form in ("float", "boolean", "enum") or (facts.form == "integer" and 1 < facts.size < word)
