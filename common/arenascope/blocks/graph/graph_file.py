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
from typing import Iterator, Mapping, NamedTuple, Optional, Sequence, Union

from ...base.errors import ArenascopeError
from ...session.session import Session
from ...sources.target import Span
from ..declared.once_per_image import is_typed
from ..pointer_finder import library
from .blocks import LiveBlocks
from .core_identity import Identity
from .edge import FLAGS
from .edges import ROOT, Disguised, Graph, SecondLook, build
from .encodings import NAMES
from .file_check import Part, adds_up, fits, is_sound
from .leaks import Marked, marks_of
from .owners import Owners
from .refs import Search
from .root_pointers import Seed
from .roots import Roots, find_roots
from .saved_owners import WRONG, owned, read, written
from .stale_words import StaleEdges

MAGIC = b"arenascope graph 12\n"
LONGEST_HEAD = 1 << 16
MOST_OF_ROOT, MOST_OF_ROOTS, PIECE = 1 << 20, 32 << 20, 1 << 16
"""Bytes of one root and of all of them that tell a core from another moment of it, so many at once."""
PARTS = {
    **dict.fromkeys(("starts", "ends", "sizes", "counts", "strangers", "offsets"), "Q"),
    **dict.fromkeys(("seed_addresses", "again_addresses"), "Q"),
    **dict.fromkeys(("edges", "seed_roots", "seed_edges", "saved", "whose", "again_roots"), "I"),
    "above": "i",
    **dict.fromkeys(("again_sources", "again_suspects"), "q"),
    **dict.fromkeys(("again_encodings", "saved_encodings", "marks", "lead", "owners"), "B"),
    "stale_addresses": "Q",
    "stale_sources": "q",
    "stale_edges": "I",
    "stale_whys": "B",
}
"""What stands in a file, in this order. One part more, such as the blocks' declared types, is a row here, a check in
file_check.py, and the next number in MAGIC: files without it are refused."""


class _Head(NamedTuple):
    """The line of JSON: what the file is of, and how much of each part stands in it."""

    arenas: str
    file: Sequence[int]
    bytes: str
    roots: str
    """What the seeds' numbers stand for, and what is there."""
    types: bool
    """Whether declared types told which words hold no pointers: these are among the stale words then."""
    order: str
    lengths: Mapping[str, int]
    sum: int
    """Of all that follows."""


def roots_digest(roots: Roots, session: Session) -> str:
    """Where they are, and what stands there, as far as that is soon read."""
    found = sha256(repr((roots.ranges, roots.words)).encode())
    left = MOST_OF_ROOTS
    for each in roots.ranges:
        end = min(each.end, each.start + MOST_OF_ROOT, each.start + left)
        left -= end - each.start
        for at in range(each.start, end, PIECE):
            found.update(session.memory.try_read(at, min(PIECE, end - at)) or b"")
    return found.hexdigest()


def packed(search: Search, identity: Identity) -> bytes:
    """Once all was looked at, a second time where that was called for, and owners are known. `identity`: of the core
    before that."""
    blocks, graph = search.blocks, build(search)
    marks, saved = marks_of(search)
    found = owned(search)
    owners = found.owners
    looked = search.memo.get(SecondLook)
    again = looked.pointers if looked is not None else ()
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
        # of a root's alone
        "again_roots": [each.seed.root if each.seed is not None else 0 for each in again],
        "again_addresses": [each.seed.address if each.seed is not None else 0 for each in again],
        "again_encodings": [NAMES.index(each.encoding) for each in again],
        "saved": [block for each in saved.values() for block in each],
        "saved_encodings": [NAMES.index(encoding) for encoding, each in saved.items() for _ in each],
        "marks": marks,
        "whose": owners.whose,
        "above": owners.above,
        "lead": owners.lead,
        "owners": written(found),
        "stale_addresses": graph.stale.addresses,
        "stale_sources": graph.stale.sources,
        "stale_edges": graph.stale.edges,
        "stale_whys": graph.stale.whys,
    }
    data = [memoryview(_as_array(code, parts[name])).cast("B") for name, code in PARTS.items()]
    total = 0
    for each in data:
        total = zlib.crc32(each, total)
    head = _Head(
        arenas=identity.arenas,
        file=identity.file,
        bytes=identity.digest(),
        roots=roots_digest(search.roots, search.session),
        types=is_typed(search),
        order=sys.byteorder,
        lengths={name: len(parts[name]) for name in PARTS},
        sum=total,
    )
    return b"".join((MAGIC, json.dumps(head._asdict()).encode(), b"\n", *data))


def _as_array(code: str, numbers: Sequence[int]) -> array[int]:
    return numbers if isinstance(numbers, array) and numbers.typecode == code else array(code, numbers)


def unpacked(data: Union[bytes, mmap], path: str, session: Session, identity: Identity) -> Search:
    """What was kept, with the roots that it was made with. ArenascopeError where it is not of this image, or not as it
    was written. Its arrays stay where they are."""
    if data[: len(MAGIC)] != MAGIC:
        raise ArenascopeError(f"{path} is no graph that this release keeps", AGAIN)
    end = data.find(b"\n", len(MAGIC), len(MAGIC) + LONGEST_HEAD) + 1
    head, body = _head(data[len(MAGIC) : end]), memoryview(data)[end:]
    if head is None:
        raise _damaged(path)
    kept = _parts(body, head.lengths) if zlib.crc32(body) == head.sum else None
    same_file = bool(identity.file) and head.file == [*identity.file]
    same_core = (head.arenas, head.order) == (identity.arenas, sys.byteorder)
    if not same_core or not (same_file or head.bytes == identity.digest()):
        raise _others(path)
    if kept is None or not is_sound(kept, session):
        raise _damaged(path)
    blocks, numpy = _blocks(kept), library(kept["edges"].nbytes)
    try:
        found = read(kept["owners"].tobytes(), blocks, session, Owners((), kept["whose"], kept["above"], kept["lead"]))
    except WRONG:
        raise _damaged(path) from None
    seeds = list(map(Seed, kept["seed_roots"], kept["seed_addresses"], kept["seed_edges"]))
    again = list(_again(kept))
    search = Search(session, blocks, find_roots(session, blocks))
    if roots_digest(search.roots, session) != head.roots:
        raise _others(path)
    every_seed = [*seeds, *(each.seed for each in again if each.seed is not None)]
    if not (adds_up(found, blocks.sizes, numpy) and fits(every_seed, found, search)):
        raise _damaged(path)
    if not head.types and is_typed(search):
        raise ArenascopeError(f"{path} was made without the program's types, which are here", AGAIN)
    stale = StaleEdges(*(kept[name] for name in ("stale_addresses", "stale_sources", "stale_edges", "stale_whys")))
    search.memo.keep(Graph(blocks, kept["offsets"], kept["edges"], seeds, numpy=numpy, stale=stale))
    search.memo.keep(SecondLook(again))
    saved: dict[str, list[int]] = {}
    for encoding, block in zip(kept["saved_encodings"], kept["saved"]):
        saved.setdefault(NAMES[encoding], []).append(block)
    search.memo.keep(Marked(bytearray(kept["marks"]), saved))
    search.memo.keep(found)
    search.memo.keep(found.owners)
    return search


def _again(parts: Mapping[str, Part]) -> Iterator[Disguised]:
    """What the second search found."""
    names = ("again_sources", "again_suspects", "again_encodings", "again_roots", "again_addresses")
    for source, suspect, encoding, root, address in zip(*(parts[name] for name in names)):
        seed = Seed(root, address, suspect << FLAGS) if source == ROOT else None
        yield Disguised(source, suspect, NAMES[encoding], seed)


AGAIN = "name another file, or remove it: --graph writes it then"


def _others(path: str) -> ArenascopeError:
    return ArenascopeError(f"{path} is of another core, or of another moment of this one", AGAIN)


def _damaged(path: str) -> ArenascopeError:
    return ArenascopeError(f"{path} is damaged: it is not as it was written", AGAIN)


def _head(data: bytes) -> Optional[_Head]:
    try:
        told = json.loads(data)
        head = _Head(*map(told.pop, _Head._fields))
    except (*WRONG, AttributeError):
        return None
    texts = (head.arenas, head.bytes, head.roots, head.order)
    right = (
        not told
        and all(isinstance(each, str) for each in texts)
        and isinstance(head.file, list)
        and all(type(each) is int for each in head.file)
        and type(head.sum) is int
        and type(head.types) is bool
        and isinstance(head.lengths, dict)
        and [*head.lengths] == [*PARTS]
        and all(type(each) is int and each >= 0 for each in head.lengths.values())
    )
    return head if right else None


def _parts(body: memoryview, lengths: Mapping[str, int]) -> Optional[dict[str, Part]]:
    kept: dict[str, Part] = {}
    at = 0
    for name, code in PARTS.items():
        size = lengths[name] * array(code).itemsize
        if at + size > len(body):
            return None
        kept[name] = body[at : at + size].cast(code)  # type: ignore[call-overload]
        at += size
    return kept if at == len(body) else None


def _blocks(parts: Mapping[str, Part]) -> LiveBlocks:
    places = parts["strangers"]
    strangers = [Span(*each) for each in zip(places[::2], places[1::2])]
    return LiveBlocks(
        parts["starts"], parts["ends"], parts["sizes"], parts["counts"], strangers=strangers, besides=None
    )
