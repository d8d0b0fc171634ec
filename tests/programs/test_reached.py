"""The three largest holders of each real program, proved without arenascope's search: the blocks are ledger.py's, the
pointers are read from memory here. Of a row only its claim is arenascope's: whose words these are, and what they hold.

Of each row it is proved that

- the variable is where its file's own symbols have it, and the stack where the kernel says;
- from its words alone, by nothing but blocks that it is said to hold, pointers lead to what it holds;
- no variable of the program or of its libraries leads there by fewer insides or steps, or to a row of a worse rank at
  all.
"""

from __future__ import annotations

import re
import struct
import subprocess
from pathlib import Path
from typing import Iterator, NamedTuple, Optional, Sequence

import numpy
import pytest
from ledger import NOWHERE, PIECE, RED_ZONE, WORD, Ledger, Span, Spans, kernel_words
from programs import PROGRAMS, SINGLE
from running import Running
from shell_door import look
from waiting import standing

from arenascope.base.heap_model import Owner
from arenascope.blocks.graph.blocks import live_blocks
from arenascope.blocks.graph.main_holders import UNREACHED, find_owners, held
from arenascope.cli.shell import How, ShellDoor
from arenascope.commands.framework.live_copy import search_of
from arenascope.session.session import Session

NAMES = [each.name for each in (*PROGRAMS, *SINGLE)]
LARGEST, PROVED = 3, 0.99
FRONT, INSIDE, FAR = 32, 1 << 32, 1 << 62
"""docs/owners.md: so far past a block's start a pointer counts as one to the start. One to the inside costs more than
any number of steps."""
RULED = ("ngx_cycle", "CacheMemoryContext", "TopMemoryContext", '("Portal hash")')
"""Here a rule decides that the pointers alone do not tell: into nginx's pools all count as pointers to the start, and a
context of PostgreSQL leads to its children alone, though they point to it (that of a query that runs is held by its
portal as well). test_named.py holds contexts against PostgreSQL's own figures."""
LOCALS = (("stack", "lighttpd"),)
"""main() has the server, to which the kernel's words lead back: it ranks with variables."""
AMID = ("TopMemoryContext",)
"""It leads to some children by others that have variables of their own."""
SYSTEM = re.compile(r"(libc|ld-linux.*|libstdc\+\+|libgcc_s|libm)[-.].*")
UNNAMED = "unnamed variables of "


class Claim(NamedTuple):
    """A row of `owners`."""

    owner: Owner
    words: Sequence[Span]
    """Where its pointers lie."""
    values: Sequence[int]
    """Those that lie nowhere."""
    blocks: numpy.ndarray
    bytes: int


def claims_of(core: Path) -> list[Claim]:
    session = Session(ShellDoor(str(core), How("none")).target())
    search = search_of(session, live_blocks(session))
    rows, found = find_owners(search), held(search)
    ranges, whose = search.roots.ranges, numpy.array(rows.whose)
    starts = numpy.array(search.blocks.starts, dtype="u8")
    claims = []
    for row in rows.holdings[:LARGEST]:
        assert row.owner.kind != UNREACHED
        seeds = [seed for lead, seed in zip(found.leads, found.graph.seeds) if lead.owner == row.number]
        at = [each.address for each in seeds if each.root < len(ranges)]
        if row.owner.kind in ("global", "tls"):
            words = [Span(each, each + WORD) for each in sorted(at)]
        else:
            whole = {ranges[each.root] for each in seeds if each.root < len(ranges)}
            words = sorted((Span(each.start, each.end) for each in whole), key=lambda each: each.start)
        values = {search.roots.words[each.root - len(ranges)].value for each in seeds if each.root >= len(ranges)}
        mine = starts[whose == row.number]
        claims.append(Claim(row.owner, words, sorted(values), mine, row.bytes))
    return claims


class Pointers(Ledger):
    """The same blocks. Pointers are words at even places that lead to a block's start or inside."""

    def _find_ways(self) -> None:
        found = [
            some
            for each in self._maps
            for span in self._pages(each)
            for first in range(span.start, span.end, PIECE)
            for some in self._whole_words(first, min(span.end, first + PIECE) - first)
        ]
        places, words = (numpy.concatenate(each) for each in zip(*found))
        targets, sources = self._blocks_at(words), self._blocks_at(places)
        sources = numpy.where(places + numpy.uint64(WORD) <= self.ends[sources], sources, NOWHERE)
        # libc's bins have headers of free chunks: such a header begins at the last word of the block in front
        heads = (words + numpy.uint64(WORD) == self.ends[targets]) & Spans(self._libc()).have(places)
        counts = (targets != NOWHERE) & ~heads & (sources != targets)
        order = numpy.flatnonzero(counts)[numpy.argsort(sources[counts], kind="stable")]
        self._places, self._sources, self._targets = places[order], sources[order], targets[order]
        self._deep = words[order] - self.starts[self._targets] > FRONT
        self._past = words[order] == self.ends[self._targets]
        self._firsts = numpy.searchsorted(self._sources, numpy.arange(len(self.starts) + 1))
        self.sizes = (self.ends - self.starts).astype("i8")
        self.given = set(kernel_words(self.pid))
        self.program, self.system = self._variables(False), self._variables(True)
        self.stacks = dict(self._stacks())

    def _whole_words(self, address: int, size: int) -> Iterator[tuple[numpy.ndarray, numpy.ndarray]]:
        yield from list(self._words(address, size))[:1]

    def _stacks(self) -> Iterator[tuple[int, Span]]:
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            words = (task / "syscall").read_text().split()
            # the kernel's workers for io_uring have none, nor has a thread that has just ended
            pointer = int(words[-2], 16) if len(words) > 1 else 0
            for each in self._maps:
                if each.start <= pointer < each.end:
                    yield int(task.name), Span(pointer - RED_ZONE, each.end)

    def _variables(self, system: bool) -> list[Span]:
        """What files have loaded for writing, zeroed variables and RELRO among them."""
        found = []
        for path in {each.path for each in self._maps if "x" in each.flags and each.path.startswith("/")}:
            if (SYSTEM.fullmatch(Path(path).name) is not None) == system:
                base = self.base(path)
                found += [Span(base + start, base + start + size) for start, size in writable(path)]
        return found

    def start_of(self, path: str) -> int:
        return next(each.start for each in self._maps if each.path == path)

    def base(self, path: str) -> int:
        return self.start_of(path) if is_placed_anywhere(path) else 0

    def file_at(self, address: int) -> str:
        """Whose variable that is."""
        (path,) = (
            path
            for path in {each.path for each in self._maps if "x" in each.flags and each.path.startswith("/")}
            if any(start <= address - self.base(path) < start + size for start, size in writable(path))
        )
        return path

    def costs(
        self,
        spans: Sequence[Span],
        values: Sequence[int] = (),
        *,
        but: Sequence[Span] = (),
        through: Optional[numpy.ndarray] = None,
        past: bool = False,
    ) -> numpy.ndarray:
        """Of each block how many insides and steps it is away from words in these spans; FAR: nothing leads there.
        `through`: by these blocks alone. `past`: a pointer to one past a block's end counts. An array may end there, or
        what lies behind may begin: such a pointer can prove a claim, but not that another owner is nearer."""
        there = numpy.full(len(self.starts), True) if through is None else through
        cost, done = numpy.full(len(self.starts), FAR), ~there
        insides = self._deep * INSIDE + (0 if past else self._past * FAR)
        mine = (self._sources == NOWHERE) & Spans(iter(spans)).have(self._places) & ~Spans(iter(but)).have(self._places)
        numpy.minimum.at(cost, self._targets[mine], insides[mine])
        apart = self._blocks_at(numpy.array(values, dtype="u8"))
        cost[apart[apart != NOWHERE]] = 0
        while (waiting := numpy.flatnonzero(~done & (cost < FAR))).size:
            least = cost[waiting].min()
            now = waiting[cost[waiting] == least]
            done[now] = True
            for block in now.tolist():
                beyond = slice(self._firsts[block], self._firsts[block + 1])
                numpy.minimum.at(cost, self._targets[beyond], least + 1 + insides[beyond])
        return numpy.where(there, cost, FAR)


def segments(path: str) -> Iterator[tuple[int, int, int, int]]:
    """(type, flags, where, size) of an ELF file of 64 bits."""
    with open(path, "rb") as file:
        head = file.read(64)
        first, size, count = struct.unpack_from("Q", head, 32)[0], *struct.unpack_from("2H", head, 54)
        file.seek(first)
        for _ in range(count):
            kind, flags, _, where, _, _, in_memory = struct.unpack_from("2I5Q", file.read(size))
            yield kind, flags, where, in_memory


def writable(path: str) -> list[tuple[int, int]]:
    load, write = 1, 2
    return [(where, size) for kind, flags, where, size in segments(path) if kind == load and flags & write]


def is_placed_anywhere(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(18)[16:] == b"\3\0"


def debug_file(path: str) -> Optional[str]:
    """Where a package for debuggers has its symbols."""
    said = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=True).stdout
    number = re.search(r"Build ID: ([0-9a-f]{2})([0-9a-f]+)", said)
    beside = f"/usr/lib/debug/.build-id/{number[1]}/{number[2]}.debug" if number is not None else ""
    return beside if Path(beside).is_file() else None


def symbols(path: str, name: str) -> list[tuple[int, int]]:
    """(address, size) of those that are called that."""
    found = set()
    beside = debug_file(path)
    for option, file in (("-CS", path), ("-DCS", path), *([("-CS", beside)] if beside is not None else ())):
        said = subprocess.run(["nm", "--defined-only", option, file], capture_output=True, text=True, check=True).stdout
        for line in said.splitlines():
            words = line.split(maxsplit=3)
            if len(words) == 4 and words[3].partition("@")[0] == name:
                found.add((int(words[0], 16), int(words[1], 16)))
    return sorted(found)


def is_where_it_says(truth: Pointers, claim: Claim) -> bool:
    kind, name = claim.owner.kind, claim.owner.name or ""
    if kind == "global":
        if name.startswith(UNNAMED):
            return {Path(truth.file_at(each.start)).name for each in claim.words} == {name[len(UNNAMED) :]}
        path = truth.file_at(claim.words[0].start)
        known, base = symbols(path, name), truth.base(path)
        return all(any(0 <= each.start - base - start < size for start, size in known) for each in claim.words)
    if kind == "stack":
        stack = truth.stacks[claim.owner.tid or 0]
        return any(stack.start <= each.start and each.end <= stack.end for each in claim.words)
    if kind == "kernel":
        return not claim.words and set(claim.values) <= truth.given
    files = numpy.array([each.start for each in claim.words], dtype="u8")
    return not Spans(iter([*truth.program, *truth.system])).have(files).any()


@pytest.mark.parametrize("recorded", NAMES, indirect=True)
def test_the_largest_lead_to_what_they_hold(recorded: Running, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    name, saved = request.node.callspec.params["recorded"], tmp_path / "saved.core"
    with standing(recorded.pid):
        truth = Pointers(recorded.pid)
        assert look(recorded.pid, f"save {saved}")[0] == 0
    claims = claims_of(saved)
    assert claims
    for claim in claims:
        assert is_where_it_says(truth, claim), claim.owner
        mine = numpy.isin(truth.starts, claim.blocks)
        total = int(truth.sizes[mine].sum())
        assert claim.bytes == pytest.approx(total + WORD * len(claim.blocks), rel=0.01)
        through = None if claim.owner.name in AMID else mine
        own = truth.costs(claim.words, claim.values, through=through, past=True)
        reached = int(truth.sizes[mine & (own < FAR)].sum())
        assert reached >= PROVED * total, claim.owner
        if claim.owner.kind != "global" and (claim.owner.kind, name) not in LOCALS:
            others = truth.costs([*truth.program, *truth.system])
            taken = int(truth.sizes[mine & (others < FAR)].sum())
        else:
            others = truth.costs(truth.program, but=claim.words)
            taken = int(truth.sizes[mine & (others < own)].sum())
        assert taken <= (1 - PROVED) * total or (claim.owner.name or "").endswith(RULED), claim.owner
