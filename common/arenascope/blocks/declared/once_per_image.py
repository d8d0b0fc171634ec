"""What blocks are by the program's debug information: found once for all that ask of one image."""

from __future__ import annotations

from bisect import bisect_right
from typing import Iterator, Literal, Mapping, NamedTuple, Optional, Sequence

from ...base.heap_model import Kind
from ...base.progress_bar import Meter
from ...engine import places_of
from ...glibc.find.thread_pointers import STATIC
from ...session.session import Session
from ...sources.elf.modules import Modules, modules_of
from ...sources.target import Span, text_of
from ...sources.type_source import StartVariable, TypedVariable, TypeSource, VariableFrame
from ..graph.blocks import live_blocks
from ..graph.pointers_to import ImageSearch, root_pointers
from ..graph.roots import find_roots
from ..python_objects import python_containers, python_waste
from ..recognise.module_memory import LoadedModules, ground_of
from .container_rows import ContainerRow
from .memory_reader import MemoryReader
from .named_blocks import ELEMENT, NamedBlocks
from .rules import doubts, made, rules_of
from .traced import name_by_engine, traced_rows
from .type_table import TypeTable
from .values import MemberValue, Values
from .waste_rows import WasteRow, traced_waste

ASKED_AT_ONCE = 4096
"""Words: of a large array of pointers only the first is asked for, as its answer covers the rest."""
MOST_WORDS = 1 << 20
FRAMES, MOST_OF_FRAME = 256, 1 << 12
"""In so many frames variables that were optimised out are looked for, by so many words of each."""


def named_blocks(search: ImageSearch, source: TypeSource, ground: LoadedModules) -> NamedBlocks:
    """What the live blocks are by the program's own types. KeyboardInterrupt; UsageError for rules of the user's."""
    session, blocks = search.session, search.blocks
    types = TypeTable(source)
    text = rules_of(session)
    rules = made(types, text)
    found = NamedBlocks(blocks, types)
    with session.meter("following types", blocks.bytes) as meter:
        if source.engine is not None:
            name_by_engine(found, search, source.engine, [*_starts(search, source, types, meter)], rules, ground, meter)
    found.main_thread = session.target.pid
    session.rules.read = [text.path] if text is not None else []
    session.rules.doubts = [*doubts(rules, text, found.contradicted)]
    return found


def _starts(search: ImageSearch, source: TypeSource, types: TypeTable, meter: Meter) -> Iterator[StartVariable]:
    variables = [*_variables(search, source, types), *_of_threads(search, source)]
    for each in dict.fromkeys(variables):
        yield StartVariable(each.name, each.type, each.address, tid=each.tid)
    words: dict[VariableFrame, tuple[int, ...]] = {}
    for local in source.locals():
        if local.address is not None or local.data is not None:
            yield local
        elif local.within is not None and len(words) < FRAMES:
            if local.within not in words:
                words[local.within] = _leading(search, local.within)
            if words[local.within]:
                yield local._replace(words=words[local.within])


def _leading(search: ImageSearch, frame: VariableFrame) -> tuple[int, ...]:
    """The words of a function's frame that lead to where blocks begin."""
    memory, blocks = search.session.memory, search.blocks
    count = min((frame.high - frame.low) // memory.pointer_size, MOST_OF_FRAME)
    words = [*frame.registers, *(memory.try_words(frame.low, count) or () if count > 0 else ())]
    found = ((word, blocks.find(word)) for word in dict.fromkeys(words))
    return tuple(word for word, block in found if block >= 0 and blocks.starts[block] == word)


def _of_threads(search: ImageSearch, source: TypeSource) -> Iterator[TypedVariable]:
    """Each thread's own, by the blocks that its vector leads to."""
    those = source.thread_locals()
    session = search.session
    modules = Modules(session.target, modules_of(session.regions)).with_tls if those else ()
    for block in (block for dtv in search.roots.dtvs for block in dtv.blocks if those):
        # of those that were loaded later the numbers may be others
        if block.freed_as in STATIC and block.module <= len(modules):
            base = modules[block.module - 1].base
            for each in (each for each in those if each.module == base):
                yield TypedVariable(each.name, block.start + each.offset, each.type, block.tid)


def _variables(search: ImageSearch, source: TypeSource, types: TypeTable) -> Iterator[TypedVariable]:
    """Those that have words which lead to blocks, each once."""
    words = _words(search)
    spans: list[Span] = []
    while words:
        asked, words = words[:ASKED_AT_ONCE], words[ASKED_AT_ONCE:]
        found = {each.address: each for each in source.variables(asked).values()}
        for address, variable in sorted(found.items()):
            yield variable
            spans.append(Span(address, address + types.facts(variable.type).size))
        spans.sort()
        # of what is left, what lies in none of these
        begins = [each.start for each in spans]
        words = [each for each in words if not _is_within(spans, begins, each)]


def _is_within(spans: Sequence[Span], begins: Sequence[int], address: int) -> bool:
    at = bisect_right(begins, address) - 1
    return at >= 0 and address < spans[at].end


def _words(search: ImageSearch) -> list[int]:
    """The addresses of words of modules' variables that lead to blocks, in order."""
    words = (each.address for each in root_pointers(search) if search.roots.of(each.root).kind == "global")
    return sorted(words)[:MOST_WORDS]


def declared_blocks(session: Session) -> Optional[NamedBlocks]:
    """Of all live blocks; None where nobody can tell types."""
    if session.target.types is None or not session.started:
        return None
    found = session.block_results.named
    if found is None:
        blocks = live_blocks(session)
        found = declared_in(ImageSearch(session, blocks, find_roots(session, blocks)))
    return found


def declared_in(search: ImageSearch) -> Optional[NamedBlocks]:
    """Of those of a search."""
    session, blocks = search.session, search.blocks
    if session.target.types is None or not len(blocks):
        return None
    found = session.block_results.named
    if found is None or found.blocks.starts != blocks.starts:
        found = session.block_results.named = named_blocks(search, session.target.types, ground_of(session))
    return found


def values_in(search: ImageSearch) -> Optional[Values]:
    """What reads keys and members of these blocks; None where nobody can tell types."""
    named = declared_in(search)
    return values_of(search.session, named) if named is not None else None


def values_of(session: Session, named: NamedBlocks) -> Optional[Values]:
    """The same of blocks that have been named."""
    found = session.block_results.values
    if found is None and named.contents is not None:
        ground = ground_of(session)
        reader = MemoryReader(session)
        found = session.block_results.values = Values(reader, ground.constants, named.contents, session.memory.mark)
    return found


def declared_kinds(search: ImageSearch, before: Mapping[int, Optional[Kind]]) -> dict[int, Kind]:
    """Of those blocks whose declaration says more than what was known before."""
    named = declared_in(search)
    kinds: dict[int, Kind] = {}
    for number, known in before.items() if named is not None else ():
        kind = named.kind(number) if named is not None and named.is_better(number, known) else None
        if kind is not None:
            kinds[number] = kind
    return kinds


def containers_in(search: ImageSearch, matching: bytes = b"") -> list[ContainerRow]:
    """By declared types and by CPython's objects, what holds most first. `matching`: of each block 1 if it matches a
    condition; or none."""
    named = declared_in(search)
    declared = containers_of(named, matching) if named is not None else []
    return sorted([*declared, *python_containers(search)], key=lambda row: -row.held_bytes)


def containers_of(named: NamedBlocks, matching: bytes = b"") -> list[ContainerRow]:
    """Of blocks that have been named."""
    return [*traced_rows(named.traced, matching)] if named.traced is not None else []


def waste_in(search: ImageSearch) -> list[WasteRow]:
    """By declared types and by CPython's objects, what wastes most first."""
    named = declared_in(search)
    declared = [*traced_waste(search.session, named.traced)] if named is not None and named.traced is not None else []
    return sorted([*declared, *python_waste(search)], key=lambda row: -row.unused)


PlaceKind = Literal["block", "freed", "elsewhere", "nowhere"]
"""A live block; memory of malloc's that is in none; memory of somebody else; nothing is mapped there."""


class BlockMember(NamedTuple):
    member: MemberValue
    offset: int
    """From the user address."""
    type: str
    leads_to: Optional[str] = None
    """What a pointer leads to, or the first block that a container has: a block's type, a symbol; None: not known, or
    it is neither."""
    place: Optional[PlaceKind] = None
    """Where a pointer leads that is not null."""
    elements: Optional[int] = None
    """Of a block there that is an array: how many are in use."""
    first_block: Optional[int] = None
    """Of a container: where the first of its blocks begins."""


class _Pointed(NamedTuple):
    """What is at an address."""

    text: Optional[str]
    place: PlaceKind
    elements: Optional[int] = None


def members_of(session: Session, named: NamedBlocks, user: int) -> Optional[Sequence[BlockMember]]:
    """Of the block that begins there; None where its type is not known."""
    number = named.blocks.find(user)
    name = named.name_of(number) if number >= 0 and named.blocks.starts[number] == user else None
    if name is None or name.type is None:
        return None
    values = values_of(session, named)
    if values is None:
        return None
    count = named.elements[number] if name.form == "array" else None
    below = _below(named, number) if name.form != "array" else {}
    found = []
    for each in values.members(name.type, user + name.front, count):
        member = BlockMember(each, each.address - user, named.types.text(each.type))
        place, first = each.value.number if each.value.form == "pointer" else None, below.get(each.name)
        if isinstance(place, int) and place:
            at = _pointed(session, named, place)
            member = member._replace(leads_to=at.text, place=at.place, elements=at.elements)
        elif each.value.form == "elements" and first is not None:
            at = _pointed(session, named, first)
            member = member._replace(leads_to=at.text, first_block=first)
        found.append(member)
    return found


def _below(named: NamedBlocks, holder: int) -> dict[str, int]:
    """By the members of a block that are containers, where the first of the blocks begins that each has."""
    found: dict[str, tuple[int, int]] = {}
    for block in places_of(holder, named.parent):
        member = named.steps[named.step[block]].removesuffix(ELEMENT).partition(" (")[0].removeprefix(".")
        first = named.number[block], named.blocks.starts[block]
        found[member] = min(first, found.get(member, first))
    return {member: start for member, (_, start) in found.items()}


def _pointed(session: Session, named: NamedBlocks, place: int) -> _Pointed:
    number = named.blocks.find(place)
    if number < 0:
        if any(start <= place < end for start, end in session.heap_ranges):
            return _Pointed(None, "freed")
        is_mapped = any(each.contains(place) for each in session.regions)
        return _Pointed(text_of(session.target.describe(place)), "elsewhere" if is_mapped else "nowhere")
    name, into = named.name_of(number), place - named.blocks.starts[number]
    text = name.text if name is not None else f"block of {named.blocks.sizes[number]:,} bytes"
    elements = named.elements[number] if name is not None and name.form == "array" else None
    return _Pointed(f"{text} +{into}" if into else text, "block", elements)
