"""What nothing leads to, found without arenascope: fixtures/library/ledger.c says which blocks a process has, and every
word of its memory and registers is looked at, at each byte.

**What counts as a truth here.** A block is *reached* if some word has an address from its start to one past its end,
both included, and that word lies in one of these:

- a register of a thread, or what epoll or a timer keeps for the process (as /proc tells);
- any page of the process that it has written to or shares, but for what follows;
- a block that is reached itself.

No holder is a word that nobody can use any more, or that malloc alone does:

- in a block that is not reached: of a ring that was dropped each block is pointed to;
- in malloc's own memory outside of blocks: free and cached chunks still have what was in them, and their headers;
- in libc's variables, a pointer to the header of a chunk: main_arena's bins, its top, and what it split last, which may
  be in use by now. Such a header lies in what the block in front of it may use;
- below a thread's stack pointer, less the red zone;
- in a page of a file that is mapped privately and was not changed, or can only be read, and was last written before
  there was a process: what is there was written before there was a block;
- in the ledger itself, which masks what it has.

So whatever is not reached is lost for good, whatever the program does, unless it calculates an address (XOR, a tag).
What is reached may be lost all the same: a word that nobody will read leads to it. Where words lie at odd addresses,
pieces of two neighbours may look like one: these, too, count as reached. So do words on stacks of threads that have
ended, as nothing here knows which these are.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
from pathlib import Path
from typing import Iterator, NamedTuple, Optional

import numpy
import pytest
from looks import ROOT
from waiting import Mapping, await_that, mappings

LIBRARY = ROOT / "fixtures" / "build" / "libledger.so"
MASK, GONE, HEADER, DROPS = 0x5BD1E995C3A5F00F, 1, 32, 1 << 14
"""As in ledger.c."""
PAGE, PIECE, WORD, RED_ZONE = 4096, 1 << 24, 8, 128
PRESENT, SWAPPED, OF_A_FILE = 1 << 63, 1 << 62, 1 << 61
MMAPPED, NOT_MAIN, FLAGS = 2, 4, 7
HEAP, ITS_HEADER = 64 << 20, 256
"""A thread's heap begins with where its arena is, the heap before it, and its size; the first one has its arena right
behind. (A chunk of PHP's is aligned, too, and begins with an address near by.)"""
PTRACE_DETACH, PTRACE_GETREGSET, PTRACE_SEIZE, PTRACE_INTERRUPT, WALL = 17, 0x4204, 0x4206, 0x4207, 0x40000000
REGISTER_SETS = (1, 2, 0x202)
"""General, floating, and what x86 has besides."""
NOWHERE = -1


class Span(NamedTuple):
    start: int
    end: int


def environment() -> dict[str, str]:
    """With which a program has a ledger."""
    if not LIBRARY.exists():
        pytest.skip("fixtures/build/libledger.so is not built: make fixtures")
    return {"LD_PRELOAD": str(LIBRARY)}


class Ledger:
    """Of a process that stands still: its blocks, and what leads to them. Look at it, then let go of the process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._maps = list(mappings(pid))
        self._via: dict[int, tuple[int, int]] = {}
        """Of each block that is reached: where the first word lies that was found to lead there, and in which block."""
        self._memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
        try:
            self._own = its_mapping(pid)
            _, _, dropped, places = struct.unpack("4Q", self._read(self._own.start, HEADER))
            table = numpy.frombuffer(self._read(self._own.start + HEADER, WORD * (DROPS + places)), dtype="u8")
            # one may be counted and not yet be noted
            self.dropped = [each ^ MASK for each in table[:dropped].tolist() if each]
            self.starts = numpy.sort(table[DROPS:][table[DROPS:] > GONE] ^ numpy.uint64(MASK))
            heads = b"".join(self._read(start - WORD, WORD) for start in self.starts.tolist())
            self._heads = numpy.frombuffer(heads, dtype="u8")
            behind = numpy.where(self._heads & numpy.uint64(MMAPPED), 2 * WORD, WORD).astype("u8")
            self.ends = self.starts + (self._heads & ~numpy.uint64(FLAGS)) - behind
            """One past the last byte that it may use."""
            self._find_ways()
        finally:
            os.close(self._memory)

    def is_reached(self, block: int) -> bool:
        return self.number(block) in self._via

    def lost(self) -> set[int]:
        return {block for number, block in enumerate(self.starts.tolist()) if number not in self._via}

    def number(self, block: int) -> int:
        """Of what malloc returned; it must be in use."""
        place = int(numpy.searchsorted(self.starts, numpy.uint64(block)))
        assert place < len(self.starts), hex(block)
        assert int(self.starts[place]) == block, f"{block:#x} is no block"
        return place

    def way(self, block: int) -> list[str]:
        """How it is reached, for who reads why a test failed."""
        said, number = [], self.number(block)
        while number != NOWHERE:
            address, number = self._via[number]
            said.append(f"{address:#x} in {self.place(address)}")
        return said

    def place(self, address: int) -> str:
        inside = next((each for each in self._maps if each.start <= address < each.end), None)
        return f"{inside.flags} {inside.path or 'anonymous'}" if inside is not None else "a register, or the kernel"

    def _read(self, address: int, size: int) -> bytes:
        return os.pread(self._memory, size, address)

    # whose words count

    def _malloc_spans(self) -> Iterator[Span]:
        """What of memory is malloc's: of that only blocks count."""
        for each in self._maps:
            if each.path == "[heap]":
                yield Span(each.start, each.end)
            elif each.start % HEAP == 0 and not each.path and each.flags.startswith("rw"):
                arena, before, size = struct.unpack("3Q", self._read(each.start, 3 * WORD))
                if 0 < arena - each.start < ITS_HEADER and not before and 0 < size <= HEAP and not size % PAGE:
                    yield Span(each.start, each.start + HEAP)
        elsewhere = self.starts[(self._heads & numpy.uint64(NOT_MAIN)) != 0] // numpy.uint64(HEAP)
        for number in numpy.unique(elsewhere).tolist():
            yield Span(number * HEAP, (number + 1) * HEAP)
        mapped = (self._heads & numpy.uint64(MMAPPED)) != 0
        for start, end in zip(self.starts[mapped].tolist(), self.ends[mapped].tolist()):
            yield Span(start - 2 * WORD, end)

    def _below_stacks(self) -> Iterator[Span]:
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            words = (task / "syscall").read_text().split()
            # a thread that has just ended has none
            stack = int(words[-2], 16) if len(words) > 1 else 0
            for each in self._maps:
                if each.start <= stack < each.end:
                    yield Span(each.start, stack - RED_ZONE)

    def _libc(self) -> Iterator[Span]:
        """Its variables."""
        before: Optional[Mapping] = None
        for each in self._maps:
            name = Path(each.path).name
            after = before is not None and not each.path and each.start == before.end
            if each.flags.startswith("rw") and (after or re.match(r"libc[.-]", name)):
                yield Span(each.start, each.end)
                before = None if after else each
            else:
                before = None

    def _pages(self, each: Mapping) -> Iterator[Span]:
        """Runs of those that may have an address of a block."""
        if each.path.startswith(("[vvar", "[vdso", "[vsyscall")) or each == self._own or self._is_older(each):
            return
        if each.flags.endswith("s") and not each.path.startswith(("/dev/dri", "/dev/nvidia")):
            # page tables do not tell what another process has written there
            yield Span(each.start, each.end)
            return
        with open(f"/proc/{self.pid}/pagemap", "rb", 0) as file:
            said = os.pread(file.fileno(), (each.end - each.start) // PAGE * 8, each.start // PAGE * 8)
        entries = numpy.frombuffer(said, dtype="u8")
        there = (entries & numpy.uint64(PRESENT | SWAPPED)) != 0
        if each.path.startswith("/"):
            there &= (entries & numpy.uint64(OF_A_FILE)) == 0
        edges = numpy.flatnonzero(numpy.diff(numpy.concatenate(([False], there, [False])).astype("i1")))
        for first, last in zip(edges[::2].tolist(), edges[1::2].tolist()):
            yield Span(each.start + first * PAGE, each.start + last * PAGE)

    def _is_older(self, each: Mapping) -> bool:
        """Whether it is of a file that was written before, and through this mapping cannot be."""
        if "w" in each.flags or not each.flags.endswith("s") or not each.path.startswith("/"):
            return False
        try:
            return os.stat(each.path).st_mtime < began(self.pid)
        except OSError:
            return False

    def _find_ways(self) -> None:
        malloc, below, libc = Spans(self._malloc_spans()), Spans(self._below_stacks()), Spans(self._libc())
        at, values = [], []
        for each in self._maps:
            for span in self._pages(each):
                for first in range(span.start, span.end, PIECE):
                    # a word may go on in the next piece
                    size = min(span.end, first + PIECE + WORD - 1) - first
                    for some in self._words(first, size):
                        at.append(some[0])
                        values.append(some[1])
        places, words = numpy.concatenate(at), numpy.concatenate(values)
        targets = self._blocks_at(words)
        sources = self._blocks_at(places)
        inside = sources != NOWHERE
        inside[inside] = places[inside] + numpy.uint64(WORD) <= self.ends[sources[inside]]
        sources = numpy.where(inside, sources, NOWHERE)
        counts = inside | ~(malloc.have(places) | below.have(places))
        # a header of a chunk, in whose place the block in front has its last word
        heads = words + numpy.uint64(WORD) == self.ends[targets]
        counts &= ~(heads & libc.have(places))
        counts &= sources != targets
        self._spread(places[counts], sources[counts], targets[counts])

    def _spread(self, places: numpy.ndarray, sources: numpy.ndarray, targets: numpy.ndarray) -> None:
        via = self._via
        todo: list[int] = []
        # apart from memory
        apart = [*register_words(self.pid), *kernel_words(self.pid)]
        for value, number in zip(apart, self._blocks_at(numpy.array(apart, dtype="u8")).tolist()):
            if number != NOWHERE and number not in via:
                via[number] = (value, NOWHERE)
                todo.append(number)
        order = numpy.argsort(sources, kind="stable")
        sources, all_places, all_targets = sources[order], places[order].tolist(), targets[order].tolist()
        firsts = numpy.searchsorted(sources, numpy.arange(NOWHERE, len(self.starts) + 1)).tolist()
        todo.append(NOWHERE)
        while todo:
            source = todo.pop()
            for place in range(firsts[source + 1], firsts[source + 2]):
                if all_targets[place] not in via:
                    via[all_targets[place]] = (all_places[place], source)
                    todo.append(all_targets[place])

    def _words(self, address: int, size: int) -> Iterator[tuple[numpy.ndarray, numpy.ndarray]]:
        """(where they lie, the words): those that lead to a block."""
        try:
            data = self._read(address, size)
        except OSError:
            # pages of a device, and of a file that became shorter
            return
        low, length = self.starts[0], self.ends.max() - self.starts[0]
        for shift in range(min(WORD, len(data) - WORD + 1)):
            words = numpy.frombuffer(data, dtype="u8", count=(len(data) - shift) // WORD, offset=shift)
            likely = numpy.flatnonzero(words - low <= length)
            likely = likely[self._blocks_at(words[likely]) != NOWHERE]
            yield likely.astype("u8") * numpy.uint64(WORD) + numpy.uint64(address + shift), words[likely]

    def _blocks_at(self, addresses: numpy.ndarray) -> numpy.ndarray:
        numbers = numpy.searchsorted(self.starts, addresses, side="right") - 1
        return numpy.where((numbers >= 0) & (addresses <= self.ends[numbers]), numbers, NOWHERE)


class Spans:
    """Of memory; some may overlap."""

    def __init__(self, spans: Iterator[Span]) -> None:
        self._spans = [each for each in spans if each.start < each.end]

    def have(self, addresses: numpy.ndarray) -> numpy.ndarray:
        found = numpy.zeros(len(addresses), dtype=bool)
        order = numpy.argsort(addresses)
        ordered = addresses[order]
        for each in self._spans:
            low, high = numpy.searchsorted(ordered, numpy.array([each.start, each.end], dtype="u8")).tolist()
            found[order[low:high]] = True
        return found


def began(pid: int) -> float:
    """When a process did, or up to two seconds before."""
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    booted = int(re.findall(r"^btime (\d+)", Path("/proc/stat").read_text(), re.M)[0])
    return booted - 1 + ticks // os.sysconf("SC_CLK_TCK")


def its_mapping(pid: int) -> Mapping:
    def find() -> Optional[Mapping]:
        return next((each for each in mappings(pid) if each.path.startswith("/memfd:ledger")), None)

    await_that(find)
    return find()


def drop_from_now_on(pid: int, every: int) -> None:
    """Of so many calls of free() the last does nothing."""
    with open(f"/proc/{pid}/mem", "r+b", 0) as memory:
        os.pwrite(memory.fileno(), struct.pack("Q", every), its_mapping(pid).start)


def count_of_dropped(pid: int) -> int:
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        return struct.unpack("Q", os.pread(memory.fileno(), WORD, its_mapping(pid).start + 2 * WORD))[0]


def kernel_words(pid: int) -> Iterator[int]:
    for each in Path(f"/proc/{pid}/fdinfo").iterdir():
        yield from (int(word, 16) for word in re.findall(r"^tfd:.* data: *([0-9a-f]+)", each.read_text(), re.M))
    yield from (int(word, 16) for word in re.findall(r"^signal: \d+/([0-9a-f]+)", timers(pid), re.M))


def timers(pid: int) -> str:
    return Path(f"/proc/{pid}/timers").read_text()


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def register_words(pid: int) -> Iterator[int]:
    """At each byte of all registers, vector registers among them."""
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    ptrace.restype = ctypes.c_long
    for task in Path(f"/proc/{pid}/task").iterdir():
        thread = int(task.name)
        assert ptrace(PTRACE_SEIZE, thread, None, None) == 0, os.strerror(ctypes.get_errno())
        try:
            ptrace(PTRACE_INTERRUPT, thread, None, None)
            os.waitpid(thread, WALL)
            for kind in REGISTER_SETS:
                buffer = ctypes.create_string_buffer(1 << 14)
                vector = _Vector(ctypes.addressof(buffer), len(buffer))
                if ptrace(PTRACE_GETREGSET, thread, kind, ctypes.addressof(vector)) == 0:
                    data = buffer.raw[: vector.length]
                    yield from {struct.unpack_from("Q", data, at)[0] for at in range(len(data) - WORD + 1)}
        finally:
            ptrace(PTRACE_DETACH, thread, None, None)
