"""A graph beside its core: where blocks lie, and who points to whom, so that the next question need not look again.

Addresses, sizes and numbers of blocks: no byte of the program's data. After a line that names the format stands one of
JSON, then arrays as they lie in memory.
"""

from __future__ import annotations

import json
import sys
import zlib
from array import array
from bisect import bisect_right
from hashlib import sha256
from mmap import mmap
from operator import le, lt
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from ...base.errors import ArenascopeError
from ...base.records import NamedTuple
from ...session.session import Session
from ...sources.target import Span
from ..finder import library
from .blocks import LiveBlocks, heap_spans
from .edges import Graph, Seed
from .encodings import NAMES
from .identity import Identity
from .kept import NOBODY
from .leaks import ROOT, Disguised, Marked
from .owned import Owned, adds_up, read, written
from .reach import DEFINITE
from .refs import Search
from .roots import Roots

MAGIC = b"arenascope graph 5\n"
LONGEST_HEAD = 1 << 16
PARTS = {
    **dict.fromkeys(("starts", "ends", "sizes", "counts", "strangers", "offsets", "seed_addresses"), "Q"),
    **dict.fromkeys(("edges", "seed_roots", "seed_edges", "saved", "whose"), "I"),
    "above": "i",
    **dict.fromkeys(("again_sources", "again_suspects"), "q"),
    **dict.fromkeys(("again_encodings", "saved_encodings", "marks", "owners"), "B"),
}


class Filed(NamedTuple):
    """What was kept."""

    blocks: LiveBlocks
    graph: Graph
    again: Sequence[Disguised]
    """By the second look."""
    marked: Marked
    owned: Owned
    roots: str
    """What the seeds' numbers stand for."""


def roots_digest(roots: Roots) -> str:
    return sha256(repr((roots.ranges, roots.words)).encode()).hexdigest()


def packed(search: Search, identity: Identity) -> bytes:
    """Once all was looked at, a second time where that was called for, and owners are known. `identity`: of the core
    before that."""
    blocks, graph = search.blocks, search.graph
    marks, saved = search.marked
    owners = search.owned.owners
    again: Sequence[Disguised] = search.again or ()
    parts: Mapping[str, Sequence[int]] = {
        "starts": blocks.starts,
        "ends": blocks.ends,
        "sizes": blocks.sizes,
        "counts": blocks.counts,
        "strangers": [place for each in blocks.strangers for place in each],
        "offsets": graph.offsets,
        "edges": graph.edges,
        "seed_roots": [each.root for each in graph.seeds],
        "seed_addresses": [each.address for each in graph.seeds],
        "seed_edges": [each.edge for each in graph.seeds],
        "again_sources": [each.source for each in again],
        "again_suspects": [each.suspect for each in again],
        "again_encodings": [NAMES.index(each.encoding) for each in again],
        "saved": [block for each in saved.values() for block in each],
        "saved_encodings": [NAMES.index(encoding) for encoding, each in saved.items() for _ in each],
        "marks": marks,
        "whose": owners.whose,
        "above": owners.above,
        "owners": written(search.owned),
    }
    data = [memoryview(_as_array(code, parts[name])).cast("B") for name, code in PARTS.items()]
    total = 0
    for each in data:
        total = zlib.crc32(each, total)
    head = {
        "arenas": identity.arenas,
        "file": identity.file,
        "bytes": identity.digest(),
        "roots": roots_digest(search.roots),
        "order": sys.byteorder,
        "lengths": {name: len(parts[name]) for name in PARTS},
        "sum": total,
    }
    return b"".join((MAGIC, json.dumps(head).encode(), b"\n", *data))


def _as_array(code: str, numbers: Sequence[int]) -> array[int]:
    return numbers if isinstance(numbers, array) and numbers.typecode == code else array(code, numbers)


def unpacked(data: Union[bytes, mmap], path: str, session: Session, identity: Identity) -> Filed:
    """ArenascopeError where it is not of this image, or not as it was written. Its arrays stay where they are."""
    if data[: len(MAGIC)] != MAGIC:
        raise ArenascopeError(f"{path} is no graph that this release keeps", AGAIN)
    end = data.find(b"\n", len(MAGIC), len(MAGIC) + LONGEST_HEAD) + 1
    try:
        head = json.loads(data[len(MAGIC) : end])
        known = head["arenas"], head["order"]
        file, whole_core = head["file"], head["bytes"]
        lengths, body = head["lengths"], memoryview(data)[end:]
        whole = zlib.crc32(body) == head["sum"] and [*lengths] == [*PARTS]
        kept = _parts(body, lengths) if whole else None
        roots = str(head["roots"])
    except WRONG:
        raise _damaged(path) from None
    same_file = bool(identity.file) and file == [*identity.file]
    if known != (identity.arenas, sys.byteorder) or not (same_file or whole_core == identity.digest()):
        raise _others(path)
    if kept is None or not _is_sound(kept, heap_spans(session)):
        raise _damaged(path)
    try:
        owners = read(kept["owners"].tobytes(), kept["whose"], kept["above"])
    except WRONG:
        raise _damaged(path) from None
    blocks = _blocks(kept)
    if not adds_up(owners, blocks.sizes, library(kept["edges"].nbytes)):
        raise _damaged(path)
    seeds = list(map(Seed, kept["seed_roots"], kept["seed_addresses"], kept["seed_edges"]))
    encodings = [NAMES[each] for each in kept["again_encodings"]]
    again = list(map(Disguised, kept["again_sources"], kept["again_suspects"], encodings))
    saved: dict[str, list[int]] = {}
    for encoding, block in zip(kept["saved_encodings"], kept["saved"]):
        saved.setdefault(NAMES[encoding], []).append(block)
    numpy = library(kept["edges"].nbytes)
    graph = Graph(blocks, kept["offsets"], kept["edges"], seeds, numpy=numpy)
    return Filed(blocks, graph, again, Marked(bytearray(kept["marks"]), saved), owned=owners, roots=roots)


def put(filed: Filed, search: Search, path: str) -> None:
    """Into a search of its blocks, whose roots must be those that it was made with."""
    ranges = search.roots.ranges
    if roots_digest(search.roots) != filed.roots:
        raise _others(path)
    for seed in filed.graph.seeds:
        if seed.root >= len(ranges):
            known = seed.root - len(ranges) < len(search.roots.words)
        else:
            known = ranges[seed.root].start <= seed.address < ranges[seed.root].end
        if not known:
            raise _damaged(path)
    search.graph, search.again, search.marked, search.owned = filed.graph, filed.again, filed.marked, filed.owned
    search.owners = filed.owned.owners


WRONG = (ValueError, LookupError, TypeError, OverflowError, RecursionError)
"""What is raised by reading JSON that says something else."""
AGAIN = "name another file, or remove it: --graph writes it then"


def _others(path: str) -> ArenascopeError:
    return ArenascopeError(f"{path} is of another core, or of another moment of this one", AGAIN)


def _damaged(path: str) -> ArenascopeError:
    return ArenascopeError(f"{path} is damaged: it is not as it was written", AGAIN)


Part = memoryview
"""Numbers as they lie in the file."""


def _parts(body: memoryview, lengths: Mapping[str, int]) -> Optional[dict[str, Part]]:
    kept: dict[str, Part] = {}
    at = 0
    for name, code in PARTS.items():
        size = lengths[name] * array(code).itemsize
        if size < 0 or at + size > len(body):
            return None
        kept[name] = body[at : at + size].cast(code)  # type: ignore[call-overload]
        at += size
    return kept if at == len(body) else None


def _is_sound(parts: Mapping[str, Part], heaps: Sequence[Span]) -> bool:
    """Whether numbers are those of blocks, and these lie in heaps: what has the right sum need not have been written
    here."""
    count, edges = len(parts["starts"]), parts["edges"]
    numpy = library(edges.nbytes)
    of_blocks = ("starts", "ends", "sizes", "marks", "whose", "above")
    least, most = (_least, _most) if numpy is None else _ends_of(numpy)
    holds = _all if numpy is None else _all_of(numpy)
    last = max(count, 1) - 1
    lie = _lie if numpy is None else _lie_at_once(numpy)
    ends_somewhere = _ends_somewhere if numpy is None else _ends_somewhere_at_once(numpy)
    return (
        all(len(parts[name]) == count for name in of_blocks)
        and holds(le, parts["starts"], parts["ends"])
        and holds(lt, parts["ends"][:-1], parts["starts"][1:])
        and lie(parts["starts"], heaps)
        and lie(parts["ends"], heaps)
        and sum(parts["counts"]) == count
        and 0 not in parts["counts"]
        and len(parts["strangers"]) % 2 == 0
        and all(_lie(each, heaps) for each in (parts["strangers"][::2], parts["strangers"][1::2]))
        and len(parts["offsets"]) == count + 1
        and parts["offsets"][0] == 0
        and parts["offsets"][-1] == len(edges)
        and holds(le, parts["offsets"][:-1], parts["offsets"][1:])
        and most(edges) >> 1 <= last
        and len(parts["seed_roots"]) == len(parts["seed_addresses"]) == len(parts["seed_edges"])
        and most(parts["seed_edges"]) >> 1 <= last
        and len(parts["again_sources"]) == len(parts["again_suspects"]) == len(parts["again_encodings"])
        and ROOT <= least(parts["again_sources"]) <= most(parts["again_sources"]) <= last
        and 0 <= least(parts["again_suspects"]) <= most(parts["again_suspects"]) <= last
        and most(parts["again_encodings"]) < len(NAMES)
        and len(parts["saved"]) == len(parts["saved_encodings"])
        and most(parts["saved"]) <= last
        and most(parts["saved_encodings"]) < len(NAMES)
        and most(parts["marks"]) <= DEFINITE
        and most(parts["whose"]) <= count + len(parts["seed_roots"]) + len(parts["again_sources"])
        and NOBODY <= least(parts["above"]) <= most(parts["above"]) <= last
        and ends_somewhere(parts["above"])
    )


def _least(numbers: Part) -> int:
    return min(numbers, default=0)


def _most(numbers: Part) -> int:
    return max(numbers, default=0)


def _ends_of(numpy: Any) -> tuple[Callable[[Part], int], Callable[[Part], int]]:
    """The least and the most of many numbers."""

    def least(numbers: Part) -> int:
        return int(numpy.asarray(numbers).min(initial=0)) if len(numbers) else 0

    def most(numbers: Part) -> int:
        return int(numpy.asarray(numbers).max(initial=0)) if len(numbers) else 0

    return least, most


def _all(holds: Callable[[Any, Any], bool], some: Part, others: Part) -> bool:
    return all(map(holds, some, others))


def _all_of(numpy: Any) -> Callable[[Callable[[Any, Any], Any], Part, Part], bool]:
    return lambda holds, some, others: bool(holds(numpy.asarray(some), numpy.asarray(others)).all())


def _lie(addresses: Part, heaps: Sequence[Span]) -> bool:
    """In one of these each, one past its end included."""
    starts = [each.start for each in heaps]
    places = (bisect_right(starts, each) - 1 for each in addresses)
    return all(at >= 0 and each <= heaps[at].end for at, each in zip(places, addresses))


def _lie_at_once(numpy: Any) -> Callable[[Part, Sequence[Span]], bool]:
    def lie(addresses: Part, heaps: Sequence[Span]) -> bool:
        starts, ends = (numpy.array(each, dtype=numpy.uint64) for each in zip(*heaps or [Span(0, 0)]))
        places = numpy.searchsorted(starts, numpy.asarray(addresses), side="right").astype(numpy.int64) - 1
        return bool((places >= 0).all() and (addresses <= ends[places]).all())

    return lie


def _ends_somewhere(above: Part) -> bool:
    """Whoever goes from a block to the one above it comes to one that has none."""
    told = bytearray(len(above))
    for block in range(len(above)):
        way = []
        at = block
        while at != NOBODY and not told[at]:
            told[at] = 1
            way.append(at)
            at = above[at]
        if at != NOBODY and told[at] == 1:
            return False
        for each in way:
            told[each] = 2
    return True


def _ends_somewhere_at_once(numpy: Any) -> Callable[[Part], bool]:
    def ends_somewhere(above: Part) -> bool:
        up = numpy.array(above)
        left = numpy.flatnonzero(up != NOBODY)
        # each time twice as far
        for _ in range(len(above).bit_length()):
            up[left] = up[up[left]]
            left = left[up[left] != NOBODY]
        return not len(left)

    return ends_somewhere


def _blocks(parts: Mapping[str, Part]) -> LiveBlocks:
    places = parts["strangers"]
    strangers = [Span(*each) for each in zip(places[::2], places[1::2])]
    return LiveBlocks(parts["starts"], parts["ends"], parts["sizes"], parts["counts"], strangers=strangers)
