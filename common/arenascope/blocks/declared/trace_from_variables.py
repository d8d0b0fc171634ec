"""Where types are followed from: variables whose words lead to blocks, threads' own, and locals of frames.

A debugger is asked only for what lies at words that lead to blocks: a large program has a hundred times as many.
"""

from __future__ import annotations

import gc
from bisect import bisect_right
from contextlib import contextmanager
from typing import Iterator, Sequence

from ...base.count_work import Meter
from ...glibc.find.thread_pointers import STATIC
from ...sources.debug_info_types import TypedVariable, TypeSource, VariableFrame
from ...sources.elf.address_names import modules_of
from ...sources.elf.modules import Modules
from ...sources.target import Span
from ..graph.refs import ImageSearch
from ..graph.root_pointers import root_pointers
from ..recognise.module_memory import LoadedModules
from .claims import Library
from .containers import LIBRARIES
from .layouts import Layouts, TypeTable
from .memory_reader import MemoryReader
from .named_blocks import NamedBlocks, StartVariable
from .rules import doubts, made, rules_of
from .tracer import Tracer

ASKED_AT_ONCE = 4096
"""Words: of a large array of pointers only the first is asked for, as its answer covers the rest."""
MOST_WORDS = 1 << 20
FRAMES, MOST_OF_FRAME = 256, 1 << 12
"""In so many frames variables that were optimised out are looked for, by so many words of each."""


def named_blocks(
    search: ImageSearch, source: TypeSource, ground: LoadedModules, libraries: Sequence[Library] = LIBRARIES
) -> NamedBlocks:
    """What the live blocks are by the program's own types. KeyboardInterrupt; UsageError for rules of the user's."""
    session, blocks = search.session, search.blocks
    types = TypeTable(source, session.memory.pointer_size)
    reader = MemoryReader(session, blocks, ground)
    text = rules_of(session)
    rules = made(types, text)
    layouts = Layouts(types, libraries, rules.pointers.keys())
    tracer = Tracer(reader, layouts, ground, rules, numpy=search.numpy if len(blocks) else None)
    with session.meter("following types", blocks.bytes) as meter, _nothing_collected():
        found = tracer.trace([*_starts(search, source, types, meter)], meter)
    found.layouts, found.main_thread = layouts, session.target.pid
    session.rules.read = [text.path] if text is not None else []
    session.rules.doubts = [*doubts(rules, text, found.contradicted)]
    return found


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Millions of claims are made, none of them in a circle: to look for these would take a quarter of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _starts(search: ImageSearch, source: TypeSource, types: TypeTable, meter: Meter) -> Iterator[StartVariable]:
    variables = [*_variables(search, source, types), *source.thread_variables(), *_of_threads(search, source)]
    for each in dict.fromkeys(variables):
        yield StartVariable(each.name, each.type, each.address, tid=each.tid)
    words: dict[VariableFrame, tuple[int, ...]] = {}
    for local in source.locals():
        start = StartVariable(local.name, local.type, local.address, local.data, tid=local.tid)
        start = start._replace(frame=local.frame, function=local.function, within=local.within)
        if local.address is not None or local.data is not None:
            yield start
        elif local.within is not None and len(words) < FRAMES:
            if local.within not in words:
                words[local.within] = _leading(search, local.within)
            if words[local.within]:
                yield start._replace(words=words[local.within])


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
    ranges = search.roots.ranges
    words = (
        each.address for each in root_pointers(search) if each.root < len(ranges) and ranges[each.root].kind == "global"
    )
    return sorted(words)[:MOST_WORDS]
