"""A graph beside its core: where blocks lie, and who points to whom, so that the next question need not look again.

Addresses, sizes and numbers of blocks: no byte of the program's data. Behind a line that names the format stands one of
JSON, then arrays as they lie in memory.
"""

from __future__ import annotations

import json
import sys
import zlib
from array import array
from hashlib import sha256
from itertools import islice
from operator import le, lt
from typing import Any, Callable, Mapping, Optional, Sequence

from ..errors import ArenascopeError
from ..gather.finder import library
from ..records import NamedTuple
from ..session import Session
from ..target import Span
from .blocks import LiveBlocks, Stretch
from .edges import Graph, Seed
from .encodings import NAMES
from .leaks import ROOT, Found
from .refs import Search
from .roots import Roots

MAGIC = b"arenascope graph 1\n"
LONGEST_HEAD = 1 << 16
PARTS = {
    **dict.fromkeys(("starts", "ends", "sizes", "counts", "strangers", "offsets", "seed_addresses"), "Q"),
    **dict.fromkeys(("edges", "seed_roots", "seed_edges"), "I"),
    **dict.fromkeys(("again_sources", "again_suspects"), "q"),
    "again_encodings": "B",
}


class Filed(NamedTuple):
    """What was kept."""

    blocks: LiveBlocks
    graph: Graph
    again: Sequence[Found]
    """By the second look."""
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
    """Once all was looked at, a second time where that was called for."""
    blocks, graph = search.blocks, search.graph
    again: Sequence[Found] = search.again or ()
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
    }
    data = b"".join(array(code, parts[name]).tobytes() for name, code in PARTS.items())
    head = {
        "identity": identity,
        "roots": roots_digest(search.roots),
        "order": sys.byteorder,
        "lengths": {name: len(parts[name]) for name in PARTS},
        "sum": zlib.crc32(data),
    }
    return MAGIC + json.dumps(head).encode() + b"\n" + data


def unpacked(data: bytes, path: str, identity: str) -> Filed:
    """ArenascopeError where it is not of this image, or not as it was written."""
    if not data.startswith(MAGIC):
        raise ArenascopeError(f"{path} is no graph that this release keeps", AGAIN)
    end = data.find(b"\n", len(MAGIC), len(MAGIC) + LONGEST_HEAD) + 1
    try:
        head = json.loads(data[len(MAGIC) : end])
        known = head["identity"], head["order"]
        lengths, body = head["lengths"], memoryview(data)[end:]
        whole = zlib.crc32(body) == head["sum"] and [*lengths] == [*PARTS]
        found = _arrays(body, lengths) if whole else None
        roots = str(head["roots"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _damaged(path) from None
    if known != (identity, sys.byteorder):
        raise ArenascopeError(f"{path} is of another core, or of another moment of this one", AGAIN)
    if found is None or not _is_sound(found):
        raise _damaged(path)
    seeds = list(map(Seed, found["seed_roots"], found["seed_addresses"], found["seed_edges"]))
    blocks = _blocks(found)
    encodings = [NAMES[each] for each in found["again_encodings"]]
    again = list(map(Found, found["again_sources"], found["again_suspects"], encodings))
    numpy = library(blocks.bytes) if len(blocks) else None
    return Filed(blocks, Graph(blocks, found["offsets"], found["edges"], seeds, numpy=numpy), again, roots)


AGAIN = "name another file, or remove it: --graph writes it then"


def _damaged(path: str) -> ArenascopeError:
    return ArenascopeError(f"{path} is damaged: it is not as it was written", AGAIN)


def _arrays(body: memoryview, lengths: Mapping[str, int]) -> Optional[dict[str, array[int]]]:
    found: dict[str, array[int]] = {}
    at = 0
    for name, code in PARTS.items():
        made: array[int] = array(code)
        size = lengths[name] * made.itemsize
        if size < 0 or at + size > len(body):
            return None
        made.frombytes(body[at : at + size])
        found[name] = made
        at += size
    return found if at == len(body) else None


def _is_sound(parts: Mapping[str, array[int]]) -> bool:
    """Whether numbers are those of blocks: what has the right sum need not have been written here."""
    count, edges = len(parts["starts"]), parts["edges"]
    blocks = ("starts", "ends", "sizes")
    return (
        all(len(parts[name]) == count for name in blocks)
        and _all(lt, parts["starts"])
        and all(map(le, parts["starts"], parts["ends"]))
        and sum(parts["counts"]) == count
        and 0 not in parts["counts"]
        and len(parts["strangers"]) % 2 == 0
        and len(parts["offsets"]) == count + 1
        and parts["offsets"][0] == 0
        and parts["offsets"][-1] == len(edges)
        and _all(le, parts["offsets"])
        and max(edges, default=0) >> 1 < max(count, 1)
        and len(parts["seed_roots"]) == len(parts["seed_addresses"]) == len(parts["seed_edges"])
        and max(parts["seed_edges"], default=0) >> 1 < max(count, 1)
        and len(parts["again_sources"]) == len(parts["again_suspects"]) == len(parts["again_encodings"])
        and ROOT <= min(parts["again_sources"], default=0) <= max(parts["again_sources"], default=0) < max(count, 1)
        and 0 <= min(parts["again_suspects"], default=0) <= max(parts["again_suspects"], default=0) < max(count, 1)
        and max(parts["again_encodings"], default=0) < len(NAMES)
    )


def _all(holds: Callable[[Any, Any], bool], numbers: Sequence[int]) -> bool:
    return all(map(holds, numbers, islice(numbers, 1, None)))


def _blocks(parts: Mapping[str, array[int]]) -> LiveBlocks:
    stretches = []
    at = 0
    for count in parts["counts"]:
        each = Stretch()
        each.starts, each.ends, each.sizes = (parts[name][at : at + count] for name in ("starts", "ends", "sizes"))
        stretches.append(each)
        at += count
    places = parts["strangers"]
    return LiveBlocks(stretches, [Span(*each) for each in zip(places[::2], places[1::2])])
