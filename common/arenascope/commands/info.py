"""heap info: malloc_info's XML."""

from __future__ import annotations

from typing import Iterator, Mapping, Optional, Sequence

from ..base import optional_libraries
from ..base.errors import RefusedError
from ..base.heap_model import Arena, Bin, Params
from ..glibc.process_layout import Layout
from ..present.json_documents.record import Document
from ..present.shared_text.lines_and_tables import Painted, Part
from ..present.shared_text.problem_sentences import sentence
from ..session.problems import inexact, problems_of, unknown_release
from .framework.command import Answer, Context, always, command


class InfoDocument(Document, command="info"):
    """The answer of info."""

    xml: Optional[str]
    """malloc_info's; null where not all of it can be read."""


def malloc_info(arenas: Sequence[Arena], params: Optional[Params], layout: Layout) -> str:
    """The XML of arenas that were read completely: it cannot express what is not known."""
    return "\n".join(_document(arenas, params, layout)) + "\n"


def _document(arenas: Sequence[Arena], params: Optional[Params], layout: Layout) -> Iterator[str]:
    rules = layout.behaviour
    sums = _Totals()
    yield '<malloc version="1">'
    for arena in arenas:
        yield from _arena(arena, layout, sums)
    if rules.info_fast_lines:
        yield f'<total type="fast" count="{sums.fast_chunks}" size="{sums.fast_bytes}"/>'
    yield f'<total type="rest" count="{sums.rest_chunks}" size="{sums.rest_bytes}"/>'
    if rules.info_mmap_line:
        n_mmaps = params.values["n_mmaps"] if params else 0
        mmapped = params.values["mmapped_mem"] if params else 0
        yield f'<total type="mmap" count="{n_mmaps}" size="{mmapped}"/>'
    yield f'<system type="current" size="{sums.system}"/>'
    yield f'<system type="max" size="{sums.max_system}"/>'
    yield f'<aspace type="total" size="{sums.aspace}"/>'
    yield f'<aspace type="mprotect" size="{sums.mprotect}"/>'
    yield "</malloc>"


class _Totals:
    """The totals over all arenas."""

    def __init__(self) -> None:
        self.fast_chunks = self.fast_bytes = self.rest_chunks = self.rest_bytes = 0
        self.system = self.max_system = self.aspace = self.mprotect = 0


def _arena(arena: Arena, layout: Layout, sums: _Totals) -> Iterator[str]:
    rules, header = layout.behaviour, arena.header
    yield f'<heap nr="{header.index}">'
    yield "<sizes>"
    for each in arena.fastbins:
        yield rules.info_size_indent + _fast_line(each, layout)
    for each in arena.bins:
        if each.kind != "unsorted":
            yield rules.info_size_indent + _line("size", each)
    for each in arena.bins:
        if each.kind == "unsorted":
            yield rules.info_unsorted_indent + _line("unsorted", each)
    yield "</sizes>"
    fast, binned, top_bytes = arena.fast, arena.binned, header.top_bytes
    assert fast is not None
    assert binned is not None
    assert top_bytes is not None
    # glibc adds size words with their flag bits, but top's without
    rest_bytes = binned.bytes + sum(each.raw_flags for each in arena.bins)
    rest_chunks = binned.chunks
    if rules.info_top_in_rest:
        rest_chunks, rest_bytes = rest_chunks + 1, rest_bytes + top_bytes
    if rules.info_fast_lines:
        yield f'<total type="fast" count="{fast.chunks}" size="{fast.bytes}"/>'
    yield f'<total type="rest" count="{rest_chunks}" size="{rest_bytes}"/>'
    yield f'<system type="current" size="{header.system_mem}"/>'
    yield f'<system type="max" size="{header.max_system_mem}"/>'
    heaps = arena.heaps
    if not header.main and not rules.info_subheaps_line:
        # up to 2.26 glibc counts only the heap that holds top
        heaps = tuple(heap for heap in heaps if heap.last)
    aspace = header.system_mem if header.main else sum(heap.bytes for heap in heaps)
    mprotect = header.system_mem if header.main else sum(heap.mprotect_bytes or 0 for heap in heaps)
    yield f'<aspace type="total" size="{aspace}"/>'
    yield f'<aspace type="mprotect" size="{mprotect}"/>'
    if not header.main and rules.info_subheaps_line:
        yield f'<aspace type="subheaps" size="{len(heaps)}"/>'
    yield "</heap>"
    sums.fast_chunks += fast.chunks
    sums.fast_bytes += fast.bytes
    sums.rest_chunks += rest_chunks
    sums.rest_bytes += rest_bytes
    sums.system += header.system_mem
    sums.max_system += header.max_system_mem
    sums.aspace += aspace
    sums.mprotect += mprotect


def _fast_line(each: Bin, layout: Layout) -> str:
    size = each.sizes[0]
    return f'<size from="{size - layout.mask}" to="{size}" total="{each.chunks * size}" count="{each.chunks}"/>'


def _line(tag: str, each: Bin) -> str:
    """Every chunk in a bin has exactly one flag set, PREV_INUSE, so that glibc's smallest and largest have one each."""
    flag = each.raw_flags // each.chunks
    least, most, total = min(each.sizes) + flag, max(each.sizes) + flag, each.bytes + each.raw_flags
    return f'<{tag} from="{least}" to="{most}" total="{total}" count="{each.chunks}"/>'


COLOURS: Mapping[str, str] = {"Token.Name.Tag": "94", "Token.Name.Attribute": "36", "Token.Literal.String": "33"}


def highlighted(xml: str) -> Sequence[str]:
    """The XML's lines, highlighted if pygments is installed."""
    if optional_libraries.load("pygments") is None:
        return xml.split("\n")
    from pygments.lexers import get_lexer_by_name

    lines: list[list[Part]] = [[]]
    for token, text in get_lexer_by_name("xml", stripnl=False, ensurenl=False).get_tokens(xml):
        for number, piece in enumerate(text.split("\n")):
            if number:
                lines.append([])
            lines[-1].append(Part(piece, COLOURS.get(str(token), "")))
    return [Painted(*parts) for parts in lines]


@command(
    "as glibc prints it",
    "info",
    lists=always,
)
def info_command(context: Context) -> Answer:
    """Print the XML of malloc_info(0), byte for byte, without calling it.

    glibc's own oddities are kept: sizes of binned chunks carry a flag bit each. `arenas` tells the true sizes. Where
    not all of it can be read nothing is printed, as the XML has no word for what is not known.
    """
    session = context.session
    xml = None
    if may_be_written(context, "malloc_info's XML"):
        xml = malloc_info(session.arenas, session.params, session.layout)
    text = (xml or "").rstrip("\n")
    lines = highlighted(text) if text and context.style.colour else text.split("\n")
    problems = problems_of(session) + unknown_release(session)
    return Answer(InfoDocument(xml=xml), lines, problems, exact=True)


def may_be_written(context: Context, what: str) -> bool:
    """Whether glibc's own text can be written. If not, and the document has no field to say so, RefusedError."""
    gap = inexact(context.session)
    if gap is not None and not context.options.json:
        why = f"{what} cannot be written: {sentence(gap)}"
        raise RefusedError("text-incomplete", why, "`arenas` shows what can be read")
    return gap is None
