"""Which of the program's structs blocks may be, of which nothing is known but their size: a guess, never a name.

A struct that the program's own file declares counts where malloc gives just such a block for it, and where what a
sample of the blocks holds does not contradict it. Pointers that lead where they should put one before another. Of more
than a few that fit alike none is told: that would say nothing.
"""

from __future__ import annotations

from typing import Iterable, Mapping, Optional, Protocol, Sequence

from ...engine import TracedBlocks
from ...session.session import Session
from ...sources.type_source import TypeSource
from ..graph.blocks import LiveBlocks
from .named_blocks import NamedBlocks
from .type_table import TypeTable

MOST = 3
ROWS = 8
"""So many are looked at."""
MOST_OF_A_SIZE = 5000
"""Of more structs for one chunk too many would fit, and to look at each takes long."""
PROBED, SAMPLED = 4096, 16
"""So many blocks are looked through for those of a size; so many of these are looked into."""
FEWEST = 4
"""Of so many in a sample one has to agree: blocks of one size may be of several types."""
WORSE = 8
"""What so many times fewer pointers prove is left out."""
HIDDEN = ("_", "std::", "__gnu_cxx::")
SYSTEMS = """
addrinfo cmsghdr dirent dirent64 div_t epoll_event flock fd_set group hostent ifreq imaxdiv_t in6_addr in_addr
inotify_event iovec ip_mreq ipv6_mreq itimerspec itimerval lconv ldiv_t linger lldiv_t max_align_t mmsghdr msghdr
option passwd pollfd regex_t regmatch_t rlimit rusage sched_param sigaction sigevent siginfo_t signalfd_siginfo
sigset_t sigval sockaddr sockaddr_in sockaddr_in6 sockaddr_storage sockaddr_un spwd stack_t stat stat64 statfs
statvfs sysinfo termios timespec timeval timezone tm tms ucontext_t ucred utsname winsize
"""
"""Structs of the system's headers, which a program declares with its own."""


class StructsBySize:
    """Those of the program, by the chunk that malloc gives for one."""

    def __init__(self, session: Session, source: TypeSource) -> None:
        self.types = TypeTable(source)
        self._systems = {*SYSTEMS.split()}
        self._by_chunk: dict[int, list[int]] = {}
        for each in source.structs(of_program=True):
            self._by_chunk.setdefault(session.layout.chunk_for(each.size), []).append(each.type)

    def likely(self, chunk: int) -> Sequence[int]:
        """Without those of libraries, and of what tells its class by a vtable."""
        structs = self._by_chunk.get(chunk, ())
        return [each for each in structs if self._is_likely(each)] if len(structs) <= MOST_OF_A_SIZE else ()

    def _is_likely(self, type: int) -> bool:
        facts = self.types.facts(type)
        is_own = not facts.name.startswith(HIDDEN) and facts.name not in self._systems and "lambda" not in facts.name
        has_members = facts.form == "struct" and bool(facts.fields) and not facts.polymorphic
        return is_own and has_members and facts.language != "rust"


class Unnamed(Protocol):
    """Blocks that have nothing in common but their size, if all have one."""

    @property
    def blocks(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    @property
    def samples(self) -> Sequence[int]: ...


def fitting_structs(
    session: Session, rows: Iterable[Unnamed], among: Optional[Sequence[int]] = None
) -> Mapping[int, Sequence[str]]:
    """By a row's first sample the structs that its blocks may be, the likeliest first; without a row of which nothing
    can be said. `among`: the numbers of blocks that may be more of them; None: all. Only of the largest rows, and where
    debug information has named blocks."""
    results, source = session.block_results, session.target.types
    named = results.named
    traced = named.traced if named is not None else None
    if named is None or traced is None or source is None:
        return {}
    largest = sorted(rows, key=lambda row: -row.bytes)[:ROWS]
    sizes = {row.bytes // row.blocks: row for row in largest if _is_of_one_size(row, named.blocks)}
    if not sizes:
        return {}
    if results.structs is None:
        results.structs = StructsBySize(session, source)
    structs = results.structs
    likely = {size: structs.likely(size) for size in sizes}
    samples = _samples(named, {size: row.samples for size, row in sizes.items() if likely[size]}, among)
    return {
        sizes[size].samples[0]: _names(traced, structs.types, likely[size], starts) for size, starts in samples.items()
    }


def _is_of_one_size(row: Unnamed, blocks: LiveBlocks) -> bool:
    """Of a row of several the average is that of the first ones by chance at most."""
    found = [blocks.find(each) for each in row.samples]
    return row.bytes % row.blocks == 0 and {blocks.sizes[each] for each in found} == {row.bytes // row.blocks}


def _samples(
    named: NamedBlocks, sizes: Mapping[int, Sequence[int]], among: Optional[Sequence[int]]
) -> Mapping[int, Sequence[int]]:
    """Blocks of each size from one end of memory to the other."""
    blocks = named.blocks
    numbers = range(len(blocks)) if among is None else among
    found = {size: dict.fromkeys(starts) for size, starts in sizes.items()}
    for number in numbers[:: max(1, len(numbers) // PROBED)] if sizes else ():
        if blocks.sizes[number] in found and named.name_of(number) is None:
            found[blocks.sizes[number]][blocks.starts[number]] = None
    return {size: [*starts][:: max(1, len(starts) // SAMPLED)] for size, starts in found.items()}


def _names(traced: TracedBlocks, types: TypeTable, structs: Sequence[int], samples: Sequence[int]) -> Sequence[str]:
    """Of structs that blocks may be which begin there: those that do not contradict them."""
    proofs: dict[str, int] = {}
    for each, (agreeing, proven) in zip(structs, traced.fitting(structs, samples)):
        # in the others words contradict the type: too many
        if agreeing and FEWEST * agreeing >= len(samples):
            name = types.text(each)
            proofs[name] = max(proven, proofs.get(name, 0))
    best = max(proofs.values(), default=0)
    least = best / WORSE if 2 * best >= len(samples) else 0
    names = sorted((each for each in proofs if proofs[each] >= least), key=lambda name: (-proofs[name], name))
    if len(names) > MOST:
        names = [each for each in names if proofs[each] > proofs[names[MOST]]]
    return names
