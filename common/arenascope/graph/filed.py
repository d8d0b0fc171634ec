"""A graph beside its core: where blocks lie, and who points to whom, so that the next question need not look again.

Addresses, sizes and numbers of blocks: no byte of the program's data. After a line that names the format stands one of
JSON, then arrays as they lie in memory.
"""

from __future__ import annotations

import json
import sys
import zlib
from array import array
from hashlib import sha256
from mmap import mmap
from operator import le, lt
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from ..errors import ArenascopeError
from ..gather.finder import library
from ..records import NamedTuple
from ..session import Session
from ..target import Span
from .blocks import LiveBlocks
from .edges import Graph, Seed
from .encodings import NAMES
from .kept import NOBODY
from .leaks import ROOT, Disguised, Marked
from .owned import Owned, read, written
from .reach import DEFINITE
from .refs import Search
from .roots import Roots

MAGIC = b"arenascope graph 4\n"
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


def identity_of(session: Session, file: Sequence[int]) -> str:
    """Of an image at its moment: by its arenas and what its `file` is like; where that is not known by its mappings and
    registers."""
    digest = sha256(repr((*file, session.target.pid, session.located.main_arena)).encode())
    digest.update((session.located.libc.build_id or "").encode())
    if not file:
        for region in session.regions:
            digest.update(repr((region.start, region.end, region.path)).encode())
        for thread in session.target.register_sets():
            digest.update(thread.general)
    for header in session.headers:
        digest.update(session.memory.try_read(header.address, session.layout.arena.size) or b"")
    return digest.hexdigest()


def roots_digest(roots: Roots) -> str:
    return sha256(repr((roots.ranges, roots.words)).encode()).hexdigest()


def packed(search: Search, identity: str) -> bytes:
    """Once all was looked at, a second time where that was called for, and owners are known."""
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
        "identity": identity,
        "roots": roots_digest(search.roots),
        "order": sys.byteorder,
        "lengths": {name: len(parts[name]) for name in PARTS},
        "sum": total,
    }
    return b"".join((MAGIC, json.dumps(head).encode(), b"\n", *data))


def _as_array(code: str, numbers: Sequence[int]) -> array[int]:
    return numbers if isinstance(numbers, array) and numbers.typecode == code else array(code, numbers)


def unpacked(data: Union[bytes, mmap], path: str, identity: str) -> Filed:
    """ArenascopeError where it is not of this image, or not as it was written. Its arrays stay where they are."""
    if data[: len(MAGIC)] != MAGIC:
        raise ArenascopeError(f"{path} is no graph that this release keeps", AGAIN)
    end = data.find(b"\n", len(MAGIC), len(MAGIC) + LONGEST_HEAD) + 1
    try:
        head = json.loads(data[len(MAGIC) : end])
        known = head["identity"], head["order"]
        lengths, body = head["lengths"], memoryview(data)[end:]
        whole = zlib.crc32(body) == head["sum"] and [*lengths] == [*PARTS]
        kept = _parts(body, lengths) if whole else None
        roots = str(head["roots"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _damaged(path) from None
    if known != (identity, sys.byteorder):
        raise ArenascopeError(f"{path} is of another core, or of another moment of this one", AGAIN)
    if kept is None or not _is_sound(kept):
        raise _damaged(path)
    try:
        owners = read(kept["owners"].tobytes(), kept["whose"], kept["above"])
    except (ValueError, TypeError, RecursionError):
        raise _damaged(path) from None
    seeds = list(map(Seed, kept["seed_roots"], kept["seed_addresses"], kept["seed_edges"]))
    blocks = _blocks(kept)
    encodings = [NAMES[each] for each in kept["again_encodings"]]
    again = list(map(Disguised, kept["again_sources"], kept["again_suspects"], encodings))
    saved: dict[str, list[int]] = {}
    for encoding, block in zip(kept["saved_encodings"], kept["saved"]):
        saved.setdefault(NAMES[encoding], []).append(block)
    numpy = library(kept["edges"].nbytes)
    graph = Graph(blocks, kept["offsets"], kept["edges"], seeds, numpy=numpy)
    return Filed(blocks, graph, again, Marked(bytearray(kept["marks"]), saved), owned=owners, roots=roots)


AGAIN = "name another file, or remove it: --graph writes it then"


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


def _is_sound(parts: Mapping[str, Part]) -> bool:
    """Whether numbers are those of blocks: what has the right sum need not have been written here."""
    count, edges = len(parts["starts"]), parts["edges"]
    numpy = library(edges.nbytes)
    of_blocks = ("starts", "ends", "sizes", "marks", "whose", "above")
    least, most = (_least, _most) if numpy is None else _ends_of(numpy)
    holds = _all if numpy is None else _all_of(numpy)
    last = max(count, 1) - 1
    return (
        all(len(parts[name]) == count for name in of_blocks)
        and holds(lt, parts["starts"][:-1], parts["starts"][1:])
        and holds(le, parts["starts"], parts["ends"])
        and sum(parts["counts"]) == count
        and 0 not in parts["counts"]
        and len(parts["strangers"]) % 2 == 0
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
        and NOBODY <= least(parts["above"]) <= most(parts["above"]) <= last
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


def _blocks(parts: Mapping[str, Part]) -> LiveBlocks:
    places = parts["strangers"]
    strangers = [Span(*each) for each in zip(places[::2], places[1::2])]
    return LiveBlocks(parts["starts"], parts["ends"], parts["sizes"], parts["counts"], strangers=strangers)
