"""Which words of typed blocks can hold pointers: what declared types tell of edges (graph/stale_words.py).

Only blocks that are certain have rows. A word is left out where numbers or letters cover it. All else stays: unions,
what no member covers (bit-fields, virtual bases), addresses of functions, raw storage (arrays of bytes that are not
`char`, and any in a class template: objects are made in these). What a type calls a number as long as a pointer, or an
array of char, programs also keep pointers in; there the blocks themselves have to agree.
"""

from __future__ import annotations

from array import array
from typing import Iterable, Iterator, Literal, NamedTuple, Optional

from ...sources.debug_info_types import TypeFacts
from ...sources.memory import Memory
from ..graph.blocks import LiveBlocks
from ..graph.stale_words import PointerWords as Words
from ..graph.stale_words import StaleWords
from .claims import CONTAINER, VTABLE
from .containers.forms import OfBody
from .layouts import DEEPEST, NUMBERS, Layouts
from .named_blocks import BlockName, NamedBlocks

MOST_BYTES = 1 << 19
"""Of one object. What is larger has no row: all of its words count."""
MOST_MEMBERS = 1 << 12
SAMPLES, IN_EACH = 64, 8
"""So many objects of a type are looked at, so many elements of each array, so many words of each member."""
HANDLES = 8
"""Where one of so many numbers leads to a block, the program keeps pointers in them."""
TEXT, NO_POINTER, BEYOND = "text", "not-a-pointer", "beyond-end"

Sort = Literal["pointer", "number", "letters"]


class _Part(NamedTuple):
    """A member, or several alike beside each other."""

    offset: int
    size: int
    sort: Sort
    each: int = 0
    """Of numbers: how long one of them is."""


class _Objects(NamedTuple):
    """The blocks that have a name, or those of them of which a container tells how much is used."""

    blocks: array[int]
    used: array[int]
    """How many elements each has; 0: it is no array."""


def declare(named: NamedBlocks, table: StaleWords, memory: Memory) -> None:
    """A row for each type, with all blocks that are certainly of it."""
    if named.layouts is None:
        return
    types = _Types(named.layouts, named.blocks, memory)
    found: dict[tuple[int, bool], _Objects] = {}
    for block in named.typed():
        key = named.name[block], named.level[block] in (CONTAINER, VTABLE)
        objects = found.get(key) or found.setdefault(key, _Objects(array("I"), array("I")))
        objects.blocks.append(block)
        objects.used.append(named.elements[block])
    starts = named.blocks.starts
    for (number, exact), objects in found.items():
        name = named.names[number]
        words = types.words(name, objects, exact)
        if words is None or name.type is None:
            continue
        size, front = types.size(name.type), name.front
        is_array = name.form == "array"
        used = array("Q", (front + size * (each if is_array else 1) for each in objects.used))
        table.declare(array("Q", (starts[each] for each in objects.blocks)), words, used)


class _Types:
    """Those of one program, with the blocks that are of them."""

    def __init__(self, layouts: Layouts, blocks: LiveBlocks, memory: Memory) -> None:
        self._layouts, self._blocks, self._memory, self._word = layouts, blocks, memory, memory.pointer_size

    def size(self, type: int) -> int:
        return self._layouts.types.facts(type).size

    def words(self, name: BlockName, objects: _Objects, exact: bool) -> Optional[Words]:
        """`exact`: what lies behind the object, or the last element in use, is known to be unused. None: all words
        may hold pointers."""
        if name.type is None:
            return None
        facts, word, is_array = self._layouts.types.facts(name.type), self._word, name.form == "array"
        if not 0 < facts.size <= MOST_BYTES:
            return None
        # objects that `new` makes are as large as their type; a C program may keep more behind a struct
        if not is_array and facts.language in ("c++", "rust"):
            exact = self._layouts.of(name.type).flexible is None
        beyond, begins = BEYOND if exact else None, name.front % facts.size if is_array else name.front
        if is_array and not name.words and name.text.endswith(" body"):
            # a string's letters, and its room
            return Words(TEXT, word, (), beyond=TEXT)
        parts = self._parts(name.type)
        if parts is None:
            return None
        samples = [*self._samples(objects, begins, facts.size if is_array else 0)]
        dead = [] if is_array and _is_raw(facts) else [each for each in parts if self._holds_no_pointer(each, samples)]
        if is_array and dead == parts and sum(each.size for each in parts) == facts.size:
            # numbers or letters alone: so is the room for more of them
            return Words(NO_POINTER, word, (), beyond=beyond or NO_POINTER)
        if is_array and (facts.size % word or _is_raw(facts)):
            return Words(NO_POINTER, word, (0,), beyond=beyond) if exact else None
        excluded: set[int] = set()
        for each in dead:
            excluded.update(self._touched(each))
        for each in parts:
            if each not in dead:
                excluded.difference_update(self._touched(each))
        if not excluded and beyond is None:
            return None
        offsets = [at for at in range(0, facts.size, word) if at not in excluded]
        return Words(NO_POINTER, -(-facts.size // word) * word, offsets, begins=begins, beyond=beyond)

    def _touched(self, part: _Part) -> range:
        """The words that it has bytes of."""
        word = self._word
        return range(part.offset // word * word, part.offset + part.size, word)

    def _samples(self, objects: _Objects, begins: int, size: int) -> Iterator[int]:
        """Where some of them lie. `size`: of an element; 0: each block is one object."""
        step = -(-len(objects.blocks) // SAMPLES)
        for block, used in zip(objects.blocks[::step], objects.used[::step]):
            first, count = self._blocks.starts[block] + begins, used if size else 1
            for number in range(0, count, -(-count // IN_EACH) or 1):
                yield first + number * size

    def _holds_no_pointer(self, part: _Part, samples: Iterable[int]) -> bool:
        if part.sort == "letters":
            return self._is_text(part, samples)
        return part.sort == "number" and (part.each < self._word or not self._has_handles(part, samples))

    def _has_handles(self, part: _Part, samples: Iterable[int]) -> bool:
        """Whether a program keeps pointers in these numbers, as in a uintptr_t."""
        asked = right = 0
        for at in samples:
            values = self._memory.try_words(at + part.offset, min(part.size // self._word, IN_EACH)) or ()
            for value in filter(None, values):
                asked += 1
                right += self._blocks.find(value) >= 0
        return right * HANDLES >= asked and right > 0

    def _is_text(self, part: _Part, samples: Iterable[int]) -> bool:
        """Whether it begins as text does, up to its zero byte: an object that was made in it hardly does."""
        texts = [self._memory.try_read(at + part.offset, part.size) for at in samples]
        return sum(each is None or not _is_readable(each) for each in texts) * HANDLES < len(texts)

    def _parts(self, type: int) -> Optional[list[_Part]]:
        """None where it is not known, or there are too many."""
        found: list[_Part] = []
        for each in self._members(type, 0, 0, in_template=False):
            if len(found) >= MOST_MEMBERS or each.offset < 0 or each.offset + each.size > self.size(type):
                return None
            found.append(each)
        return found

    def _members(self, type: int, at: int, depth: int, *, in_template: bool, in_text: bool = False) -> Iterator[_Part]:
        facts = self._layouts.types.facts(type)
        if facts.form == "struct" and facts.fields and depth < DEEPEST:
            container = self._layouts.container(type)
            # the letters of a short string, or the room of a long one
            in_text = in_text or (isinstance(container, OfBody) and not container.words)
            # the innermost that has a name
            in_template = "<" in facts.name if facts.name else in_template
            for field in facts.fields:
                inner = at + field.offset
                yield from self._members(field.type, inner, depth + 1, in_template=in_template, in_text=in_text)
        elif facts.form == "array" and facts.target is not None and depth < DEEPEST:
            yield from self._elements(facts, facts.target, at, depth, in_template=in_template)
        elif facts.form in NUMBERS or facts.form == "character" or (facts.form == "union" and in_text):
            yield _Part(at, facts.size, "number", facts.size if facts.form == "integer" else 0)
        else:
            yield _Part(at, facts.size, "pointer")

    def _elements(self, facts: TypeFacts, target: int, at: int, depth: int, *, in_template: bool) -> Iterator[_Part]:
        element, count = self._layouts.types.facts(target), facts.length or 0
        size = element.size * count
        if element.form == "character" and element.name == "char" and not in_template:
            yield _Part(at, size, "letters")
        elif _is_raw(element):
            yield _Part(at, size, "pointer")
        elif element.form in NUMBERS:
            yield _Part(at, size, "number", element.size if element.form == "integer" else 0)
        elif element.form != "struct":
            yield _Part(at, size, "pointer")
        else:
            for number in range(min(count, MOST_MEMBERS)):
                yield from self._members(target, at + number * element.size, depth + 1, in_template=in_template)


def _is_raw(facts: TypeFacts) -> bool:
    """Whether arrays of it are also used for other objects. Rust has other types for that."""
    return facts.size == 1 and facts.form != "boolean" and facts.name != "u8"


def _is_readable(data: bytes) -> bool:
    try:
        text = data.partition(b"\0")[0].decode()
    except UnicodeDecodeError:
        return False
    return text.isprintable() or all(each.isprintable() or each.isspace() for each in text)
