"""What only stale words lead to: by the members, arrays and variables that these words are."""

from __future__ import annotations

import re
from typing import Iterator, NamedTuple, Optional, Sequence

from ...analysis.held_back import SAMPLES
from .blocks import FLAGS, STALE
from .edges import Graph, Spread, build
from .leaks import without_stale_words
from .pointer_facts import RefDetails
from .refs import BLOCK, ImageSearch, Ref, of_word
from .stale_words import NO_BLOCK, why_text

INDEX = re.compile(r"\[\d+\]")


class StaleRow(NamedTuple):
    """Words alike."""

    name: Optional[str]
    """"Session.note", "double[]", "std::string body", a variable; None: not known."""
    why: str
    """One of base/model.py's STALE."""
    blocks: int
    """With what hangs on those to which the words lead."""
    bytes: int
    samples: Sequence[int]
    """What malloc returned for some to which the words lead."""


class _Word(NamedTuple):
    ref: Ref
    why: str
    block: int
    """Where it leads."""


def stale_rows(search: ImageSearch) -> list[StaleRow]:
    """What holds most comes first."""
    graph, blocks = build(search), search.blocks
    met = without_stale_words(graph)
    spread = Spread(graph, met)
    words, hanging = [], []
    for word in [*_words(search, graph, bytes(met))]:
        if not met[word.block]:
            words.append(word)
            hanging.append(spread.mark([word.block], 1))
    told = RefDetails(search, [each.ref for each in words], None)
    rows: dict[tuple[Optional[str], str], StaleRow] = {}
    for word, below in zip(words, hanging):
        name = _name(told, word.ref)
        row = rows.get((name, word.why), StaleRow(name, word.why, blocks=0, bytes=0, samples=()))
        rows[name, word.why] = row._replace(
            blocks=row.blocks + len(below),
            bytes=row.bytes + blocks.bytes_of(below),
            samples=[*row.samples, blocks.starts[word.block]][:SAMPLES],
        )
    return sorted(rows.values(), key=lambda each: (-each.bytes, each.name or "", each.why))


def _words(search: ImageSearch, graph: Graph, sure: bytes) -> Iterator[_Word]:
    """Those of roots, and of blocks that something else leads to, to others."""
    ranges, stale, starts = search.roots.ranges, graph.stale, search.blocks.starts
    for seed in graph.seeds:
        to = seed.edge >> FLAGS
        if not seed.edge & STALE or sure[to]:
            continue
        if seed.root >= len(ranges):
            ref = of_word(search.roots.words[seed.root - len(ranges)])
            why = ref.stale
        else:
            ref = search.named(ranges[seed.root], seed.address, starts[to])
            why = why_text(stale.why(seed.address))
        if why is not None:
            yield _Word(ref, why, to)
    for address, source, edge, number in zip(stale.addresses, stale.sources, stale.edges, stale.whys):
        to, why = edge >> FLAGS, why_text(number)
        if source != NO_BLOCK and sure[source] and not sure[to] and why is not None:
            yield _Word(Ref(BLOCK, address, starts[to], block=source, offset=address - starts[source]), why, to)


def _name(told: RefDetails, ref: Ref) -> Optional[str]:
    """Without the numbers of elements."""
    if ref.block is None:
        return ref.name
    name = told.member(ref) or told.type_of(ref.block)
    if name is None:
        return None
    plain = INDEX.sub("[]", name)
    # a member that is an array stands for its elements; an array without members does not
    return plain.removesuffix("[]") if "." in plain else plain
