"""What an image itself tells of words that hold no pointer: the rows of stale_words.py, each from one who knows."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import Callable, Iterable, Iterator, Literal, Mapping, NamedTuple, Optional, Sequence

from ...glibc.find.libc_file import LIBC_NAME
from ...sources.memory import Memory
from ...sources.target import RegionIndex, Runs, Span
from ...sources.type_source import TypeFacts
from ..declared.claims import CONTAINER, VTABLE
from ..declared.contents import Contents
from ..declared.named_blocks import BlockName, NamedBlocks
from ..declared.once_per_image import declared_in
from ..declared.type_table import DEEPEST, NUMBERS
from ..recognise.container_words import LOCAL, STDIO, STREAM_WORDS, TABLE_WORDS, table_in
from ..recognise.module_memory import fits, ground_of
from ..recognise.postgres import LINKS, ContextLinks, Postgres
from .blocks import ALIGNED, DEEP, EDGE_SHIFT, FRONT, INSIDE, LOW, LiveBlocks, edge_to
from .destroyed_objects import destroyed_objects
from .pointers_to import ImageSearch, Seed, root_pointers
from .roots import Ref, Root
from .stale_words import MAY_HOLD, NEVER_HOLDS, NO_BLOCK, UNUSED, PointerWords, StaleWords

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
    if named.contents is None:
        return
    types = _Types(named.contents, named.blocks, memory)
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

    def __init__(self, contents: Contents, blocks: LiveBlocks, memory: Memory) -> None:
        self._contents, self._blocks, self._memory, self._word = contents, blocks, memory, memory.pointer_size

    def size(self, type: int) -> int:
        return self._contents.types.facts(type).size

    def words(self, name: BlockName, objects: _Objects, exact: bool) -> Optional[PointerWords]:
        """`exact`: what lies behind the object, or the last element in use, is known to be unused. None: all words
        may hold pointers."""
        if name.type is None:
            return None
        facts, word, is_array = self._contents.types.facts(name.type), self._word, name.form == "array"
        if not 0 < facts.size <= MOST_BYTES:
            return None
        # objects that `new` makes are as large as their type; a C program may keep more behind a struct
        if not is_array and facts.language in ("c++", "rust"):
            exact = not self._contents.nature(name.type).is_flexible
        beyond, begins = BEYOND if exact else None, name.front % facts.size if is_array else name.front
        sure = UNUSED if exact and is_array else MAY_HOLD
        if is_array and not name.words and name.text.endswith(" body"):
            # a string's letters, and its room
            return PointerWords(TEXT, word, (), beyond=TEXT, beyond_sure=sure)
        parts = self._parts(name.type)
        if parts is None:
            return None
        samples = [*self._samples(objects, begins, facts.size if is_array else 0)]
        dead = [] if is_array and _is_raw(facts) else [each for each in parts if self._holds_no_pointer(each, samples)]
        if is_array and dead == parts and sum(each.size for each in parts) == facts.size:
            # numbers or letters alone: so is the room for more of them
            return PointerWords(NO_POINTER, word, (), beyond=beyond or NO_POINTER, beyond_sure=sure)
        if is_array and (facts.size % word or _is_raw(facts)):
            return PointerWords(NO_POINTER, word, (0,), beyond=beyond, beyond_sure=sure) if exact else None
        excluded: set[int] = set()
        for each in dead:
            excluded.update(self._touched(each))
        for each in parts:
            if each not in dead:
                excluded.difference_update(self._touched(each))
        if not excluded and beyond is None:
            return None
        offsets = [at for at in range(0, facts.size, word) if at not in excluded]
        size = -(-facts.size // word) * word
        return PointerWords(NO_POINTER, size, offsets, begins=begins, beyond=beyond, beyond_sure=sure)

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
        facts = self._contents.types.facts(type)
        if facts.form == "struct" and facts.fields and depth < DEEPEST:
            # the letters of a short string, or the room of a long one
            in_text = in_text or self._contents.nature(type).is_of_numbers
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
        element, count = self._contents.types.facts(target), facts.length or 0
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


MOST_STREAMS = 1 << 16
USERS = 1
"""A stream's flag: the program gave the buffer (_IO_USER_BUF)."""
NEXT_STREAM = 13
"""Which word of struct _IO_FILE has the next one (_chain)."""
OLD_OFFSET, CODECVT, WIDE_DATA, FREED_BUFFER, BEFORE, STREAM_MODE, STREAM_VTABLE = (15, 17), 19, 20, 22, 23, 24, 27
"""Words of struct _IO_FILE_plus on 64-bit machines: where its file was, with columns; what wide streams use; what is
freed at the end, where there is a list of such in front of it; since 2.40 where the pointer to this one is
(_prevchain); whether it is wide; the last one."""
VECTOR_WORDS, STRING_WORDS = 3, 4
SEGMENT, OBJECT = 4, {"i386": 5}
"""Words of struct dlfo_mappings_segment in front of its entries (elf/dl-find_object.c): the segment before, what free()
wants, how many there are, and for how many there is room; of struct dl_find_object_internal, four elsewhere."""


class Contexts(NamedTuple):
    """PostgreSQL's memory contexts that begin a block, as their parents do."""

    family: Mapping[int, ContextLinks]
    """All of them, by address."""
    edges: Mapping[int, int]
    """To each of these."""


def contexts_of(search: ImageSearch) -> Contexts:
    """Found once."""
    if search.contexts is None:
        search.contexts = _contexts_of(search)
    return search.contexts


def _contexts_of(search: ImageSearch) -> Contexts:
    memory, blocks = search.session.memory, search.blocks
    if memory.pointer_size != 8 or memory.byte_order != "little":
        return Contexts({}, {})
    family = Postgres(ground_of(search.session)).family(len(blocks))
    numbers = {address: blocks.find(address) for address in family}
    begins = {address for address, number in numbers.items() if number >= 0 and blocks.starts[number] == address}
    edges = {each: edge_to(numbers[each], 0) for each in begins if {family[each].parent, each} - {0} <= begins}
    return Contexts(family, edges)


def stale_words(search: ImageSearch) -> StaleWords:
    """The table for an image, made once."""
    if search.stale_words is None:
        search.stale_words = _made(search)
    return search.stale_words


def _made(search: ImageSearch) -> StaleWords:
    table = StaleWords(search.engine, search.session.memory.pointer_size)
    for source in SOURCES if len(search.blocks) else ():
        source(search, table)
    table.tell()
    return table


def _links(search: ImageSearch, table: StaleWords) -> None:
    """Of a memory context those to its parent and siblings: its parent leads to it (edges.py)."""
    family, edges = contexts_of(search)
    for address in edges:
        for link, offset in LINKS.items():
            if getattr(family[address], link) in edges:
                table.exclude(address + offset, address + offset + 8, "family-link")


def _streams(search: ImageSearch, table: StaleWords) -> None:
    """Buffers of stdio's streams: what a program writes and reads there it does not follow."""
    session, blocks = search.session, search.blocks
    modules = ground_of(session).modules
    libcs = [each for each in modules.all if LIBC_NAME.search(each.path)]
    for head in [address for each in libcs for address in modules.exported(each, ["_IO_list_all"]).values()]:
        for start, end, is_users in buffers(session.memory, head):
            # what a damaged stream says may be anything
            block = blocks.find(start)
            if block != blocks.find(end - 1):
                continue
            if block >= 0 and blocks.starts[block] == start and not is_users:
                # libc asked for no more than the buffer: nor is what malloc gave besides anybody's
                end = blocks.ends[block]
            table.exclude(start, end, "stdio-buffer")
        for stream in streams(session.memory, head) if session.memory.pointer_size == 8 else ():
            block = blocks.find(stream)
            if block >= 0 and blocks.starts[block] == stream:
                unset = [*unset_words(session.memory, stream, blocks.ends[block])]
                for span in unset:
                    table.exclude(*span, "not-a-pointer")
                if unset and leads_back(session.memory, stream):
                    table.exclude(*_of_words(stream, BEFORE, BEFORE + 1), "family-link")


def leads_back(memory: Memory, stream: int) -> bool:
    """Whether a stream has a pointer to what leads to it in their list: glibc 2.40 and later. Before it is as little
    set as the words beside it."""
    before = memory.try_word(stream + BEFORE * 8)
    return before is not None and memory.try_word(before) == stream


def unset_words(memory: Memory, stream: int, end: int) -> Iterator[Span]:
    """Of a stream that fopen() made those that it leaves as they were, and that lead nowhere. On 64-bit machines these
    words are the same in every release but for one; the program's own (fopencookie's, popen's) lie behind them."""
    words = memory.try_words(stream, STREAM_VTABLE + 1)
    if words is None or stream + (STREAM_VTABLE + 1) * 8 > end:
        return
    yield _of_words(stream, *OLD_OFFSET)
    mode = (words[STREAM_MODE] >> (32 if memory.byte_order == "big" else 0)) & 0xFFFFFFFF
    is_wide = 0 < mode < 1 << 31
    yield _of_words(stream, CODECVT, CODECVT + (not is_wide))
    yield _of_words(stream, FREED_BUFFER + (words[FREED_BUFFER - 1] != 0), BEFORE)
    yield _of_words(stream, BEFORE + leads_back(memory, stream), STREAM_VTABLE)
    wide = words[WIDE_DATA]
    if not is_wide and stream + STREAM_VTABLE * 8 < wide < end:
        # the last part of it
        yield Span(wide, end)


def _of_words(start: int, first: int, behind: int) -> Span:
    return Span(start + first * 8, start + behind * 8)


def buffers(memory: Memory, head: int) -> Iterator[tuple[int, int, bool]]:
    """(start, end, whether the program gave it by setvbuf) of the buffer of each stream in a list. `head`: where the
    first one's address lies."""
    for stream in streams(memory, head):
        words = memory.words(stream, STREAM_WORDS + 1)
        start, end = words[STREAM_WORDS - 1 :]
        if start < end:
            yield start, end, bool(_flags(memory, words[0]) & USERS)


def streams(memory: Memory, head: int) -> Iterator[int]:
    stream, met = memory.try_word(head), set[int]()
    while stream and stream not in met and len(met) < MOST_STREAMS:
        met.add(stream)
        words = memory.try_words(stream, NEXT_STREAM + 1)
        if words is None or _flags(memory, words[0]) >> 16 != STDIO:
            return
        yield stream
        stream = words[NEXT_STREAM]


def _flags(memory: Memory, word: int) -> int:
    return word >> 32 if memory.byte_order == "big" and memory.pointer_size == 8 else word & 0xFFFFFFFF


def _popped(search: ImageSearch, table: StaleWords) -> None:
    for each in search.roots.popped:
        table.exclude(each.start, each.end, "popped-stack")


def _in_variables(search: ImageSearch, table: StaleWords) -> None:
    """Blocks of which a variable tells how much is used."""
    ground, ends, machine = ground_of(search.session), search.session.bss_ends, search.session.target.machine
    loader = next((each for each in ground.modules.all if each.name.startswith("ld") and ".so" in each.name), None)
    last = loader.regions[-1].end if loader is not None else 0
    of_loader = Span(loader.base if loader is not None else 0, ends.get(last, last))
    memory = search.session.memory
    unused = set[Span]()
    for seed in root_pointers(search):
        root = search.roots.of(seed.root)
        if isinstance(root, Ref) or root.kind != "global":
            continue
        is_loaders = of_loader.start <= root.start < of_loader.end
        value = memory.try_word(seed.address) if is_loaders or ground.has_cplusplus else None
        if value is None:
            continue
        if is_loaders:
            unused.update(unused_entries(memory, machine, search.blocks, value))
        else:
            _container(search, table, seed.address, value, seed.edge >> EDGE_SHIFT)
    for span in unused:
        table.exclude(*span, "loader-table")


def _container(search: ImageSearch, table: StaleWords, address: int, value: int, number: int) -> None:
    """What the words of a variable at this address tell of the block to which its first one, the value, leads.
    std::vector: where it is, where its elements end, where its room ends. libstdc++'s std::string: where it is, how
    long, how much room. Such a variable has these words alone: what is longer may be something else."""
    memory, blocks = search.session.memory, search.blocks
    start, size = blocks.starts[number], blocks.ends[number] - blocks.starts[number]
    if value != start:
        return
    _, second, third = memory.try_words(address, VECTOR_WORDS) or (0, 0, 0)
    is_vector = start <= second <= third and fits(third - start, size)
    is_string = third > LOCAL and second <= third and fits(third + 1, size)
    if is_vector and _is_variable(search, address, VECTOR_WORDS):
        used = PointerWords("beyond-end", memory.pointer_size, [0], beyond="beyond-end")
        table.declare([start], used, second - start)
    elif is_string and memory.try_read(start + second, 1) == b"\0" and _is_variable(search, address, STRING_WORDS):
        table.declare([start], PointerWords("text", memory.pointer_size, []))


def _is_variable(search: ImageSearch, address: int, words: int) -> bool:
    """Whether a symbol begins there and takes so many words."""
    size, describe = words * search.session.memory.pointer_size, search.session.target.describe
    first, last, behind = (describe(address + at) for at in (0, size - 1, size))
    if first is None or first.in_file or first.offset or last is None:
        return False
    return last.name == first.name and (behind is None or behind.name != first.name)


def unused_entries(memory: Memory, machine: str, blocks: LiveBlocks, segment: int) -> Iterator[Span]:
    """What ld.so has mapped, for unwinders: what lies behind the last entry of each segment is from before, and what
    lies in front of one, which begins at a multiple of 64. Nothing where `segment` is something else."""
    word, entry = memory.pointer_size, OBJECT.get(machine, 4) * memory.pointer_size
    met = set[int]()
    while segment and segment not in met:
        met.add(segment)
        block = blocks.find(segment)
        previous, begin, count, room = memory.try_words(segment, SEGMENT) or (0, 0, 0, 0)
        first, end = segment + SEGMENT * word, blocks.ends[block]
        if block < 0 or begin != blocks.starts[block] or count > room or first + room * entry > end:
            return
        yield Span(begin, segment)
        yield Span(first + count * entry, end // word * word)
        segment = previous


TABLE = " table"
"""At the end of the name of a hash table's block."""
MOST_PLACES = 1 << 22
"""So many places of hash tables are looked at in all."""


def _free_slots(search: ImageSearch, table: StaleWords) -> None:
    """Of Rust's hash tables the places that are empty, of which the control bytes tell, and these bytes."""
    if not ground_of(search.session).has_rust:
        return
    memory, blocks, left = search.session.memory, search.blocks, MOST_PLACES
    met, named = set[int](), declared_in(search)
    for address, edge in _pointers_inside(search):
        found = table_in(memory.try_words(address, TABLE_WORDS) or (), 0)
        if found is None or found.control in met or found.places > left:
            continue
        number = edge >> EDGE_SHIFT
        block = Span(blocks.starts[number], blocks.ends[number])
        control = memory.try_read(found.control, found.control_bytes)
        left -= found.places
        if control is None or not found.fills(block, control):
            continue
        met.add(found.control)
        # what looks like a table may be something else, but not where types lead to one
        is_table = (
            named is not None and named.is_certain(number) and named.names[named.name[number]].text.endswith(TABLE)
        )
        sure = NEVER_HOLDS if is_table else MAY_HOLD
        word, at = memory.pointer_size, block.start
        for start, end in sorted(found.runs(block, control)):
            table.exclude(-(-at // word) * word, (block.start + start) // word * word, "free-slot", sure)
            at = block.start + end
        table.exclude(-(-at // word) * word, block.end // word * word, "free-slot", sure)


def _pointers_inside(search: ImageSearch) -> Iterator[tuple[int, int]]:
    """(where it lies, its edge) of each pointer to a block's inside."""
    for seed in root_pointers(search):
        if seed.address and seed.edge & INSIDE:
            yield seed.address, seed.edge
    with search.meter("looking for hash tables", search.heap_spans) as meter:
        for address, _, edge, _ in search.engine.pointers(search.heap_spans, meter):
            if edge & INSIDE:
                yield address, edge


AROUND = 8
"""So many words on each side of a variable's tell whether it is one of an array of numbers."""
COUNT = 1 << 16
"""Smaller numbers, alone or two in a word, and negative ones of 32 bits are as likely beside pointers as beside
numbers."""
LIKE_NUMBERS, BESIDE_STARTS = 2, 5
"""So many numbers have to lie there, and more where the word leads to the start of a block, which chance does less."""


def _numbers_in_variables(search: ImageSearch, table: StaleWords) -> None:
    """Where a program's heap lies below 4 GiB, arrays of codes, flags, hashes and instructions have words that are
    addresses in it by chance."""
    blocks = search.blocks
    if search.session.memory.pointer_size != ALIGNED or not len(blocks) or blocks.starts[0] >= LOW:
        return
    numbers = _LowNumbers(search)
    told = [*table.ranges()]
    starts = [each.start for each in told]
    for seed in root_pointers(search):
        root = search.roots.of(seed.root)
        if isinstance(root, Ref) or root.kind != "global" or blocks.starts[seed.edge >> EDGE_SHIFT] >= LOW:
            continue
        at = bisect_right(starts, seed.address) - 1
        if (at < 0 or told[at].end <= seed.address) and numbers.has(root, seed):
            table.exclude(seed.address, seed.address + ALIGNED, "low-number")


class _LowNumbers:
    """Those in variables of one image."""

    def __init__(self, search: ImageSearch) -> None:
        self._memory, self._blocks, self._heaps = search.session.memory, search.blocks, Runs(search.heap_spans)
        self._region = RegionIndex(search.session.regions).find

    def has(self, root: Root, seed: Seed) -> bool:
        """Whether a word of a range may be one: it leads far into a block, to which no word beside it leads, as the
        first of three in a std::vector does; or more of the words beside it are numbers than lead to blocks."""
        first = max(root.start, seed.address - AROUND * ALIGNED)
        count = (min(root.end, seed.address + (AROUND + 1) * ALIGNED) - first) // ALIGNED
        words = [*(self._memory.try_words(first, count) or ())]
        led = [self._leads(each) for each in words]
        near = {to for to, past in led if to >= 0 and past <= FRONT and not past % ALIGNED}
        if seed.edge & DEEP and seed.edge >> EDGE_SHIFT not in near:
            return True
        like_numbers = like_starts = 0
        for value, (to, past) in zip(words, led):
            if to >= 0:
                like_numbers += to not in near
                like_starts += past <= FRONT and not past % ALIGNED
            elif max(divmod(value, LOW)) >= COUNT and value <= self._memory.top - LOW:
                like_numbers += self._region(value) is None or self._heaps.bytes_in(value, value + 1) > 0
        least = LIKE_NUMBERS if seed.edge & INSIDE else BESIDE_STARTS
        return like_numbers >= max(least, like_starts)

    def _leads(self, value: int) -> tuple[int, int]:
        """To which block, and how far inside; NO_BLOCK where it leads to none."""
        to = self._blocks.find(value)
        return (to, value - self._blocks.starts[to]) if to >= 0 else (NO_BLOCK, 0)


def _declared(search: ImageSearch, table: StaleWords) -> None:
    """Of typed blocks only pointers lead anywhere."""
    named = declared_in(search)
    if named is not None:
        declare(named, table, search.session.memory)


def _destroyed(search: ImageSearch, table: StaleWords) -> None:
    """What is left of objects whose owners are gone, while weak pointers keep their memory."""
    word, starts = search.session.memory.pointer_size, search.blocks.starts
    counts = PointerWords("destroyed", word, (0,), beyond="destroyed", beyond_sure=NEVER_HOLDS)
    for numbers, front in destroyed_objects(search, declared_in(search)):
        table.declare(array("Q", (starts[each] for each in numbers)), counts, front)


SOURCES: Sequence[Callable[[ImageSearch, StaleWords], None]] = (
    _streams,
    _popped,
    _links,
    _in_variables,
    _numbers_in_variables,
    _free_slots,
    _declared,
    _destroyed,
)
"""Who tells of an image, in this order."""
