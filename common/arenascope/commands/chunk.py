"""heap chunk: which chunk holds an address, and what it is."""

from __future__ import annotations

import math
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Iterator, NamedTuple, Optional, Sequence, Union

from ..analysis.chunk_sums import WITH_TOP
from ..base.class_names import named
from ..base.errors import ArenascopeError, MemoryReadError, UsageError
from ..base.heap_model import KINDS, ArenaHeader, Gap, Heap, Kind, MmappedBlock, Statement
from ..base.printable import UserData
from ..blocks.declared.values import value_text
from ..blocks.graph.asked_address import Goal, asked_for
from ..blocks.graph.holders import Paths
from ..blocks.graph.pointer_facts import RefDetails
from ..blocks.graph.roots import Ref
from ..blocks.single_blocks import describe_block
from ..glibc.regular_bins import bin_kind, fastbin_index, find_bin
from ..glibc.sweep import Placed, find_blocks
from ..glibc.tcache import tcache_index
from ..present.json_documents.record import Address, Document, Record, Size, StatementRecord, statement_record
from ..present.json_documents.shared_records import ArenaOrNone
from ..present.screens.pointer_lines import STATE_WORDS, PointerRecord, RefsScreen
from ..present.screens.type_lines import short_name
from ..present.shared_text.lines_and_tables import Style, count, next_lines
from ..present.shared_text.problem_sentences import sentence
from ..session.problems import problems_of
from ..session.session import Session
from ..sources.target import text_of
from .framework.arguments import RULES
from .framework.command import WITH_VALUES, Answer, Context, argument, command
from .framework.live_copy import look_at_small_copy, search_in

if TYPE_CHECKING:
    from ..blocks.declared.named_blocks import NamedBlocks
    from ..blocks.declared.once_per_image import BlockMember


class WordRecord(Record):
    """A word of a block."""

    offset: int
    """From the user address."""
    value: Address
    """What it holds."""
    symbol: Optional[str]
    """What that points to, by name."""


class MemberRecord(Record):
    """A part of a block, according to debug information."""

    name: str
    """As it is reached from the object: peer.port, [3].name; "": the whole."""
    offset: int
    """From the user address."""
    type: str
    """Its type."""
    value: Optional[float]
    """Of a number, a character, a boolean, an enum; null: it is none, or not known."""
    enumerator: Optional[str]
    """Of an enum, the name of its value; null: it has none."""
    text: Optional[str]
    """With --with-values: of a string, or of what leads to one; else null."""
    target: Optional[Address]
    """Where a pointer leads; null: it is none."""
    leads_to: Optional[str]
    """What is there, or in the first block of a container: the type of a block, a symbol; null: not known."""
    place: Annotated[Optional[str], ("enum", ("block", "freed", "elsewhere", "nowhere"))]
    """Where a pointer leads: to a live block, to memory of malloc's that is in none, to somebody else's, or to what is
    not mapped; null: it is none, or null."""
    target_elements: Optional[Size]
    """Of a block there that is an array: how many are in use; null: it is none."""
    first_block: Optional[Address]
    """Of a container: where the first of its blocks begins; null: it is none, or has none."""
    elements: Optional[Size]
    """How many a container has; null: it is none, or damaged."""
    left_out: Size
    """Of an array: how many elements more there are, which have no rows of their own."""


class Chunk(Record):
    """A chunk, with all that is known of it."""

    address: Address
    """Its header."""
    user_address: Address
    """What malloc returned."""
    bytes: Size
    """Its size."""
    state: Annotated[Optional[str], ("enum", (*WITH_TOP, "mmapped"))]
    """What it is; null: not known."""
    arena: ArenaOrNone
    heap: Optional[Address]
    """The heap that it lies in."""
    bin: Optional[str]
    """The list that it is in."""
    tid: Optional[int]
    """The thread whose cache keeps it."""
    previous: Optional[Address]
    """The previous chunk in memory."""
    next: Optional[Address]
    """The next chunk in memory."""
    type: Optional[str]
    """What it is; null: not in use, malloc's own, or not known."""
    kind: Annotated[Optional[str], ("enum", tuple(KINDS))]
    """Of which sort."""
    module: Optional[str]
    """The file that it is of."""
    certain: Optional[bool]
    """False for a guess, by what it holds."""
    how: Optional[str]
    """By what it was known."""
    members: Optional[Sequence[MemberRecord]]
    """What it has in it; null: no debug information tells its type."""
    pointers: Optional[Sequence[PointerRecord]]
    """Who points to it, as refs has it, the first ones; null: its members are not known."""
    pointers_left_out: Optional[Size]
    """How many more pointers lead to it; null: its members are not known."""
    words: Sequence[WordRecord]
    """Its first words."""

    def without_contents(self) -> Chunk:
        """Neither words nor what members are."""
        unknown = dict.fromkeys(("value", "enumerator", "text", "target", "leads_to", "elements"))
        members = None if self.members is None else [MemberRecord.of(each, **unknown) for each in self.members]
        return Chunk.of(self, members=members, words=[])


class AskedAddress(Record):
    """An address that was asked for."""

    asked: Address
    """As it was asked for."""
    chunk: Optional[Chunk]
    """The chunk that holds it; null: none does."""
    problem: Optional[StatementRecord]
    """Where it lies then."""


class ChunkDocument(Document, command="chunk"):
    """The answer of chunk."""

    chunk: Optional[Chunk]
    """The chunk that holds the (first) address; null: none does, and a problem says what is there."""
    answers: Sequence[AskedAddress] = ()
    """Of several addresses: one for each, in their order."""

    def without_contents(self) -> ChunkDocument:
        """See Chunk."""

        def bare(chunk: Optional[Chunk]) -> Optional[Chunk]:
            return None if chunk is None else chunk.without_contents()

        found = ChunkDocument(chunk=bare(self.chunk))
        if self.answers:
            found = ChunkDocument.of(
                found, answers=[AskedAddress.of(each, chunk=bare(each.chunk)) for each in self.answers]
            )
        found.within(self.envelope)
        return found


def member_lines(members: Sequence[BlockMember]) -> Iterator[str]:
    """A line for each member with its value, as the user's own screen may show it."""
    names = [each.member.name or each.type for each in members]
    width = max(map(len, names), default=0)
    for name, each in zip(names, members):
        more = each.member.more
        said = f"... {more:,} more" if more else value_text(each.member.value)
        at = f" at {each.first_block:#x}" if each.first_block is not None else ""
        leads_to = _short(each.leads_to) if each.leads_to is not None else ELSEWHERE.get(each.place or "", "")
        if each.elements is not None:
            leads_to = leads_to.replace("[]", f"[{each.elements:,}]")
        yield f"{name:{width}}  {said}{at}{f' ({leads_to})' if leads_to else ''}"


ELSEWHERE = {"freed": "freed", "elsewhere": "not a block", "nowhere": "not mapped"}


def _short(leads_to: str) -> str:
    """A type's name as people write it, with the offset into it."""
    name, plus, into = leads_to.rpartition(" +")
    return f"{named(name).name}{plus}{into}" if into.isdecimal() and plus else named(leads_to).name


def member_record(each: BlockMember, user_data: UserData) -> MemberRecord:
    value = each.member.value
    is_pointer, number = value.form == "pointer", value.number
    has_text = value.form == "text" or (is_pointer and bool(value.name))
    plain: Optional[float] = number
    if value.form in ("pointer", "elements") or (isinstance(number, float) and not math.isfinite(number)):
        plain = None
    return MemberRecord.of(
        each,
        name=each.member.name,
        value=plain,
        enumerator=value.name or None if value.form == "enum" else None,
        text=value.data.decode("utf-8", "backslashreplace") if has_text and user_data.in_documents else None,
        target=number if is_pointer and isinstance(number, int) else None,
        target_elements=each.elements,
        elements=int(number) if value.form == "elements" and number is not None else None,
        left_out=each.member.more,
    )


DEBUGGERS = ("gdb", "lldb")
MOST_POINTERS, FEW_POINTERS, FEW_TARGETS = 40, 6, 3
"""How many pointers to a block are in documents, and on the screen; how many blocks are suggested to go to."""
MAX_WORDS = 1 << 16
"""The most words on a screen: a debugger's own dump serves for more."""
PIECE = 512
"""How many words are read at a time. Of a block that a core has cut, what can be read is shown."""
TAG_BITS = 56
"""On aarch64 the top byte of a pointer may hold a tag (MTE, or the program's). malloc's own pointers have none."""


class ChunkWord(NamedTuple):
    offset: int
    """From the user pointer."""
    value: int
    symbol: Optional[str]


class PointedBlock(NamedTuple):
    """A block, and who points to it."""

    shown: RefsScreen
    goal: Goal
    refs: Sequence[Ref]


class TypedObject(NamedTuple):
    """The object, or the first of several, that a block has."""

    address: int
    type: str


class Described(NamedTuple):
    """A chunk, and where it belongs."""

    block: Placed
    words: Sequence[ChunkWord]
    heap: Optional[Heap] = None
    bin: Optional[str] = None
    tid: Optional[int] = None
    own: Optional[str] = None
    """The structure of glibc's that it holds."""
    kind: Optional[Kind] = None
    """Its kind, if it is in use and not glibc's own."""
    members: Optional[Sequence[BlockMember]] = None
    """Its members, if debug information has its type."""
    pointed: Optional[PointedBlock] = None
    """Who points to it, if its members are known."""
    object: Optional[TypedObject] = None


Found = Union[Described, Statement]
"""What is at an address: a chunk, or something else."""


@command(
    "chunk by chunk",
    "chunk 0x55d2c0709e50\nchunk p->name p->next --words 32",
    arguments=(
        argument("address", nargs="+", help="an address, or an expression"),
        argument("--words", type=int, default=8, metavar="N", help="show the block's first N words (8)"),
        WITH_VALUES,
        RULES,
    ),
)
def chunk_command(context: Context) -> Answer:
    """Tell which chunk holds an address: state, size, arena, bin or thread cache, neighbours, first words.

    Give any address inside a block, or any expression that the debugger understands; several are answered in their
    order. For a block in use its type is shown, and how that is known (see types). Words that point into a program or
    library are shown with the symbol there. If debug information has the block's type, each member is shown with its
    value and where it leads: the type of a block and how many elements it has, "freed", "not a block"; then who points
    to the block, so that one can go from block to block. For that the shell copies a live process of up to 256 MiB,
    which runs on.
    """
    look_at_small_copy(context)
    session, words = context.session, context.options.words
    if not 0 <= words <= MAX_WORDS:
        raise UsageError(f"--words {words}: from 0 to {MAX_WORDS:,}")
    places = [_place(context, each) for each in context.options.address]
    by_place = _find(session, places, words)
    for place, each in by_place.items():
        if isinstance(each, Described) and each.block.state in ("used", "mmapped"):
            # a block with a mapping of its own cannot use the next chunk's prev_size
            beside = session.layout.word if each.block.state == "mmapped" else 0
            told_us = describe_block(session, each.block.chunk, each.block.bytes - beside)
            described = each._replace(kind=told_us.kind, members=told_us.members)
            if told_us.named is not None:
                user = each.block.chunk + session.layout.header
                pointed = _pointed_to(session, user, context.user_data)
                described = described._replace(pointed=pointed, object=_object(told_us.named, user))
            by_place[place] = described
    elsewhere = [said for said in map(by_place.__getitem__, dict.fromkeys(places)) if isinstance(said, Statement)]
    answers = [(place, by_place[place]) for place in places]
    user_data = context.user_data
    found = ChunkDocument(chunk=_chunk(session, by_place[places[0]], user_data))
    if len(places) > 1:
        found = ChunkDocument.of(found, answers=[_answer(session, place, each, user_data) for place, each in answers])
    lines = _all_lines(context.style, session, answers)
    if len(places) == 1:
        lines = chain(lines, _next_of(context, by_place[places[0]]))
    said = problems_of(session)
    doubtful = not session.caches_known and any(
        isinstance(each, Described) and each.block.state == "used" for each in by_place.values()
    )
    problems = [*elsewhere, *([Statement("perhaps-cached")] if doubtful else [])]
    if not context.options.json:
        # the text has a line for each address that is in no chunk
        problems = problems[len(elsewhere) :]
    return Answer(found, lines, [*problems, *said])


def _pointed_to(session: Session, user: int, user_data: UserData) -> Optional[PointedBlock]:
    search = search_in(session)
    goal, refs = asked_for(search, user)
    if goal is None:
        return None
    return PointedBlock(RefsScreen(RefDetails(search, refs, goal), Paths(search, user_data)), goal, refs)


def _object(named: NamedBlocks, user: int) -> Optional[TypedObject]:
    """None of what a container has made."""
    name = named.name_of(named.blocks.find(user))
    if name is None or name.type is None or name.type < 0:
        return None
    return TypedObject(user + name.front, named.types.text(name.type))


def _place(context: Context, expression: str) -> int:
    place = context.target.evaluate(expression)
    return place & ((1 << TAG_BITS) - 1) if context.target.machine == "aarch64" else place


def _find(session: Session, places: Sequence[int], count: int) -> dict[int, Found]:
    """Finds the block at each address, with its first `count` words."""
    by_place: dict[int, Found] = {}
    for header in session.headers if session.started else ():
        for part in session.heaps[header.index]:
            here = [place for place in places if part.address <= place < part.end]
            blocks = find_blocks(session.sweep(header, part), session.listed, here) if here else {}
            for place in here:
                block = blocks.get(place)
                if isinstance(block, Placed):
                    by_place[place] = _describe(session, block, header, part, count=count)
                else:
                    by_place[place] = in_heap(session, place, part, block)
    for place in places:
        if place not in by_place:
            mmapped = _mmapped(session, place, count) if session.started else None
            by_place[place] = mmapped or where_else(session, place)
    return by_place


def _describe(session: Session, block: Placed, header: ArenaHeader, part: Heap, count: int) -> Described:
    user = block.chunk + session.layout.header
    name, tid = None, None
    if block.state == "tcache":
        name, tid = f"tcache {tcache_index(session.layout, block.bytes)}", _holder(session, block.chunk)
    elif block.state == "fast":
        name = f"fast {fastbin_index(session.layout, block.bytes)}"
    elif block.state == "free":
        index = find_bin(session.memory, session.layout, header, block.chunk)
        kind = bin_kind(session.layout, index) if index is not None else None
        name = None if kind is None else kind if kind == "unsorted" else f"{kind} {index}"
    owners = [cache.tid for cache in session.thread_caches if cache.address == user]
    own = f"glibc's own: the thread cache of thread {owners[0]}" if owners else None
    end = block.chunk + block.bytes + (session.layout.word if block.state != "top" else 0)
    words = _words(session, user, end, count)
    return Described(block, words, part, name, tid, own=own)


def _holder(session: Session, chunk: int) -> Optional[int]:
    """The thread whose cache has the chunk."""
    return next(
        (cache.tid for cache in session.thread_caches if any(chunk in each.addresses for each in cache.bins)), None
    )


def _mmapped(session: Session, place: int, count: int) -> Optional[Described]:
    block: Optional[MmappedBlock] = next(
        (each for each in session.mmapped if each.base <= place < each.base + each.bytes), None
    )
    if block is None:
        return None
    size = block.base + block.bytes - block.chunk
    tid = _holder(session, block.chunk)
    state = "mmapped" if tid is None else "tcache"
    words = _words(session, block.chunk + session.layout.header, block.base + block.bytes, count)
    placed = Placed(block.chunk, size, state=state, previous=None, next=None)
    return Described(placed, words, tid=tid)


def _words(session: Session, user: int, end: int, count: int) -> list[ChunkWord]:
    """The first words of a block, as far as they can be read."""
    word = session.layout.word
    values: list[int] = []
    count = max(0, min(count, (end - user) // word))
    while len(values) < count:
        try:
            values += session.memory.words(user + len(values) * word, min(PIECE, count - len(values)))
        except MemoryReadError:
            break
    return [
        ChunkWord(index * word, value, text_of(session.target.describe(value)) if value else None)
        for index, value in enumerate(values)
    ]


def _answer(session: Session, place: int, answer: Found, user_data: UserData) -> AskedAddress:
    problem = statement_record(answer, sentence(answer)) if isinstance(answer, Statement) else None
    return AskedAddress.of(None, asked=place, chunk=_chunk(session, answer, user_data), problem=problem)


def _chunk(session: Session, answer: Found, user_data: UserData) -> Optional[Chunk]:
    if isinstance(answer, Statement):
        return None
    block, kind = answer.block, answer.kind
    return Chunk.of(
        block,
        kind,
        address=block.chunk,
        user_address=block.chunk + session.layout.header,
        arena=answer.heap.arena if answer.heap else None,
        heap=answer.heap.address if answer.heap else None,
        bin=answer.bin,
        tid=answer.tid,
        type=kind.name if kind else None,
        members=None if answer.members is None else [member_record(each, user_data) for each in answer.members],
        pointers=None
        if answer.pointed is None
        else [answer.pointed.shown.pointer(each, answer.pointed.goal) for each in answer.pointed.refs[:MOST_POINTERS]],
        pointers_left_out=None if answer.pointed is None else len(answer.pointed.refs[MOST_POINTERS:]),
        words=[WordRecord.of(each) for each in answer.words],
    )


def _all_lines(style: Style, session: Session, answers: Sequence[tuple[int, Found]]) -> Iterator[str]:
    for number, (place, answer) in enumerate(answers):
        if number:
            yield ""
        if isinstance(answer, Statement):
            yield sentence(answer)
        else:
            yield from _lines(style, session, answer, place)


def _lines(style: Style, session: Session, described: Described, place: int) -> Iterator[str]:
    block, user = described.block, described.block.chunk + session.layout.header
    yield style.bold(f"block {user:#x}, {style.size(block.bytes)}: {STATE_WORDS[block.state]}")
    yield ""
    rows = [] if place == user else [("asked for", f"{place:#x}, {_distance(place, user, session.layout.header)}")]
    if described.heap is not None:
        rows.append(("arena", str(described.heap.arena) if described.heap.arena else "0 main"))
        rows.append(("heap", f"{described.heap.address:#x} to {described.heap.end:#x}"))
    if described.bin or described.tid is not None:
        whose = f" of thread {described.tid}" if described.tid is not None else ""
        rows.append(("list", f"{described.bin or 'cache'}{whose}"))
    if described.own:
        rows.append(("holds", described.own))
    if described.kind:
        kind, where = described.kind, f" of {described.kind.module}" if described.kind.module else ""
        rows.append(("type", f"{short_name(kind)}{where} ({'' if kind.certain else 'a guess, '}by {kind.how})"))
    for name, neighbour in (("previous", block.previous), ("next", block.next)):
        rows.append((name, "none" if neighbour is None else f"{neighbour + session.layout.header:#x}"))
    for name, text in rows:
        yield f"{name:13} {text}"
    yield ""
    if described.members:
        yield from member_lines(described.members)
        yield ""
    if described.pointed is not None:
        yield from _pointer_lines(style, described.pointed)
        yield ""
    yield from _dump(session, described)


def _pointer_lines(style: Style, pointed: PointedBlock) -> Iterator[str]:
    """Who points to the block."""
    shown, goal, refs = pointed
    yield f"{count(len(refs), 'pointer')} to it{':' if refs else ''}"
    for ref in refs[:FEW_POINTERS]:
        who, _, past, sure = shown.cells(ref, goal)
        at = f" in {ref.address:#x}" if ref.address is not None and f"{ref.address:#x}" not in who else ""
        yield f"  {who}{at}{f', to {past}' if past != 'its start' else ''}{f' ({sure})' if sure else ''}"
    if len(refs) > FEW_POINTERS:
        yield style.dim(f"  and {len(refs) - FEW_POINTERS:,} more: {style.typed(f'refs {goal.span.start:#x}')}")


def _next_of(context: Context, answer: Found) -> Iterator[str]:
    commands = [*_next(context, answer)] if isinstance(answer, Described) and answer.members is not None else []
    if commands:
        yield ""
        yield from next_lines(context.style, *commands)


def _next(context: Context, described: Described) -> Iterator[str]:
    """Commands that go on from a block of which the members are known."""
    style = context.style
    for place in _targets(described.members or ())[:FEW_TARGETS]:
        yield style.typed(f"chunk {place:#x}")
    if described.pointed is not None and described.pointed.refs:
        yield style.typed(f"owner {described.pointed.goal.span.start:#x}")
    cast = _cast(context, described.object) if described.object is not None else None
    if cast is not None:
        yield f"p *{cast}"


def _targets(members: Sequence[BlockMember]) -> list[int]:
    """Blocks to which members lead."""
    places = (each.first_block or (each.member.value.number if each.place == "block" else None) for each in members)
    return [*dict.fromkeys(int(place) for place in places if place)]


def _cast(context: Context, typed: TypedObject) -> Optional[str]:
    """A pointer to the object as the debugger takes it, if it knows the type by this name."""
    for name in (typed.type, f"struct {typed.type}") if context.door.name in DEBUGGERS else ():
        with suppress(ArenascopeError):
            pointer = f"({name} *){typed.address:#x}"
            context.target.evaluate(pointer)
            return pointer
    return None


def _distance(place: int, user: int, header: int) -> str:
    if place == user - header:
        return "its chunk's header"
    return f"{abs(place - user):,} bytes {'into it' if place > user else 'before it'}"


def _dump(session: Session, described: Described) -> Iterator[str]:
    word = session.layout.word
    for each in described.words:
        data = each.value.to_bytes(word, session.target.byte_order)
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in data)
        yield f"{each.offset:+5}  {each.value:#0{2 + 2 * word}x}  {text}  {each.symbol or ''}".rstrip()


GAP_IDS = {
    "header": "in-heap-header",
    "fencepost": "in-fencepost",
    "foreign": "in-foreign-sbrk",
    "damage": "in-damage",
}


def in_heap(session: Session, place: int, heap: Heap, gap: Optional[Gap]) -> Statement:
    kind = gap.kind if gap is not None else "damage"
    return Statement(GAP_IDS[kind], {"arena": heap.arena}, {"address": f"{place:#x}", "heap": f"{heap.address:#x}"})


def where_else(session: Session, place: int) -> Statement:
    said = _symbol_or_file(session, place)
    return said._replace(names={"address": f"{place:#x}", **said.names})


def _symbol_or_file(session: Session, place: int) -> Statement:
    for parts in session.heaps.values() if session.started else ():
        for part in parts:
            if part.mprotect_bytes and part.end <= place < part.address + part.mprotect_bytes:
                return Statement("behind-heap-end", {"arena": part.arena}, {"heap": f"{part.address:#x}"})
    region = next((each for each in session.regions if each.contains(place)), None)
    if region is None:
        return Statement("not-mapped" if session.regions else "mappings-unknown")
    for thread in session.target_threads:
        if thread.stack_pointer is not None and region.contains(thread.stack_pointer) and not region.is_file:
            return Statement("in-stack", {"tid": thread.tid}, {"name": thread.name or ""})
    named = session.target.describe(place)
    if named is not None:
        return Statement("in-file", names={"name": named.text, "path": region.path})
    if region.path == "[heap]":
        return Statement("in-break")
    extent = {"start": f"{region.start:#x}", "end": f"{region.end:#x}"}
    return Statement("in-mapping", names={**extent, "path": region.path})
