"""heap version: what runs here, what was found, and how."""

from __future__ import annotations

import sys
from typing import Annotated, Iterator, Mapping, Optional, Sequence

from .. import engine
from ..base import optional_libraries
from ..base.about import __version__
from ..base.errors import ArenascopeError, UsageError
from ..base.heap_model import REPLACED, Allocator, Statement
from ..glibc.find.main_arena import Located
from ..glibc.find.other_allocators import find_allocators
from ..glibc.process_layout import KINDS, NO_TRAIL, Candidate, CandidateTrail, Layout, LayoutCheck
from ..glibc.release_table import NEVER, text
from ..glibc.unknown_release.derived_layout import prove
from ..present.json_documents.record import Address, Document, Record, Size, StatementRecord, statement_record
from ..present.json_documents.shared_records import (
    ALLOCATORS,
    SHARE,
    GlibcShareRecord,
    OtherAllocator,
    other_allocators,
    share_record,
)
from ..present.shared_text.lines_and_tables import Style, count
from ..present.shared_text.missing_symbols import missing_line, without_debug_information
from ..present.shared_text.problem_sentences import Wording, sentence, worded
from ..session.problems import problems_of, unknown_release
from ..session.resident import share_of
from ..session.session import Session
from .arenas import allocators_lines
from .framework.command import Answer, Context, argument, command

SHOWN = 20
"""The most candidates shown of a kind: a scan may find hundreds for mp_."""
TITLES = {
    "main_arena": "main_arena",
    "mp_": "mp_",
    "layout": "layout of malloc_state and heap_info",
    "thread_arena": "each thread's arena",
    "thread_caches": "each thread's cache",
}


class LayoutCheckRecord(StatementRecord, first=True):
    """A check; holds_in tells in how many of the arenas it holds."""

    check: str
    """What it checks, and in how many arenas it does not hold."""
    held: bool
    """Whether it holds."""


class Checks(Record):
    """Checks of the layout."""

    held: Size
    """How many hold."""
    tried: Size
    """How many there are."""
    list: Sequence[LayoutCheckRecord]
    """Each."""


class LibcRecord(Record):
    """A libc of the process."""

    libc: int
    """Its number, for --libc."""
    path: Optional[str]
    """Its file."""
    version: Optional[str]
    """Its release."""
    main_arena: Address
    """Its main_arena."""
    used: bool
    """Whether its malloc was called."""
    chosen: bool
    """Whether it is the one that was examined."""


class CandidateRecord(Record):
    """A candidate."""

    name: str
    """An address, a release, a distance from the thread pointer; once in its list."""
    taken: bool
    """Whether it is the one that was taken."""
    for_: Sequence[str]
    """What spoke for it."""
    against: Sequence[str]
    """What spoke against it."""
    for_records: Sequence[StatementRecord]
    """The same, with ids."""
    against_records: Sequence[StatementRecord]
    """The same, with ids."""


Found = Annotated[Sequence[CandidateRecord], "Empty where nothing did"]


class Candidates(Record):
    """With --full: the candidates, the chosen one first."""

    main_arena: Found
    mp_: Found
    layout: Found
    thread_arena: Found
    thread_caches: Found


class EngineRecord(Record):
    """The compiled engine, which reads every block."""

    interface: Optional[int]
    """The release of its interface; null: it cannot be used."""
    path: Optional[str]
    """Its file; null: it cannot be used."""
    problem: Optional[str]
    """Why it cannot be used, and what to do; null: it can."""


class VersionDocument(Document, command="version"):
    """The answer of version."""

    arenascope: str
    """Its version."""
    debugger: Optional[str]
    """The debugger, or that there is none."""
    python: str
    """Its version."""
    libraries: Mapping[str, Annotated[str, "Which and where"]]
    """Optional libraries, and where they are."""
    engine: EngineRecord
    layout: Optional[str]
    """What is known of glibc's structures; null: no glibc."""
    checks: Checks
    libcs: Sequence[LibcRecord]
    """Every glibc in the process."""
    allocators: Annotated[Sequence[OtherAllocator], ALLOCATORS]
    share: Annotated[Optional[GlibcShareRecord], SHARE]
    without_debug_information: Optional[Sequence[str]]
    """Files of modules that have none here, or that of another build; null: nobody asked."""
    candidates: Candidates = None  # type: ignore[assignment]  # left out: there only with --full


def candidates_lines(style: Style, trail: Optional[CandidateTrail]) -> Iterator[str]:
    if trail is None:
        return
    for kind in KINDS:
        met = trail.of(kind)
        yield ""
        if not met:
            yield style.bold(TITLES[kind]) + ": there was no candidate"
            continue
        taken = "" if met[0].chosen else ", none was taken"
        yield style.bold(TITLES[kind]) + f": {count(len(met), 'candidate')}{taken}"
        for each in met[:SHOWN]:
            yield f"  {each.name}{' (taken)' if each.chosen else ''}"
            yield from (f"    + {evidence(said)}" for said in each.speaks_for)
            yield from (f"    - {evidence(said)}" for said in each.against)
        if len(met) > SHOWN:
            yield f"  {len(met) - SHOWN:,} more left out; --json lists them"


def _candidate(candidate: Candidate) -> CandidateRecord:
    speaks_for, against = (
        [statement_record(said, evidence(said)) for said in given]
        for given in (candidate.speaks_for, candidate.against)
    )
    return CandidateRecord(
        name=candidate.name,
        taken=candidate.chosen,
        for_=[said.text for said in speaks_for],
        against=[said.text for said in against],
        for_records=speaks_for,
        against_records=against,
    )


_PYTHON = sys.version.split()[0]
HOW = {"symbols": "by symbol", "scan": "by what their TLS blocks hold", "": "for none of the threads"}


@command(
    "this tool",
    "version",
    arguments=(
        argument(
            "--full", action="store_true", help="also show every candidate layout, and the evidence for and against it"
        ),
    ),
)
def version_command(context: Context) -> Answer:
    """Print versions, how glibc and its layout were found, and which libraries are in use.

    With --full each candidate for main_arena, mp_, the layout and the threads' words is listed, the one that was taken
    above the others, with what spoke for it (+) and against it (-): why another was not taken, or none.
    """
    problem: Optional[str] = None
    trail = CandidateTrail() if context.options.full else None
    # this may import the libraries: do it before a process is held
    libraries = {name: optional_libraries.where(name) for name in optional_libraries.NAMES}
    loaded = engine.describe()
    try:
        context.session.trail = trail or NO_TRAIL
        context.session.find()
    except UsageError:
        raise
    except ArenascopeError as error:
        problem = str(error)
    door = list(context.door.describe())
    checks = _checks(context.session) if problem is None else []
    share = share_record(share_of(context.session)) if problem is None else None
    types = context.target.types if problem is None else None
    without = types.without() if types is not None else None
    if types is not None:
        context.session.asks_names = True
    found = VersionDocument(
        arenascope=__version__,
        debugger=door[0] if door else None,
        python=_PYTHON,
        libraries=libraries,
        engine=EngineRecord.of(loaded),
        layout=_layout(context) if problem is None else None,
        checks=Checks(
            held=sum(check.held for check in checks), tried=len(checks), list=[_check(check) for check in checks]
        ),
        libcs=_libcs(context.session) if problem is None else [],
        allocators=other_allocators(_allocators(context, problem)),
        share=share,
        without_debug_information=without,
    )
    if trail is not None:
        found = VersionDocument.of(found, candidates=_candidates(context, trail, problem))
    problems = [Statement("no-glibc", text=problem)] if problem else problems_of(context.session)
    engine_line = f"engine: {loaded.problem or f'interface {loaded.interface} ({loaded.path})'}"
    said = _lines(context, problem, checks, trail, libraries=[*libraries.values(), engine_line])
    return Answer(found, said, problems, told=[REPLACED])


def _candidates(context: Context, trail: CandidateTrail, problem: Optional[str]) -> Candidates:
    """The candidates. Threads come last, once something was found."""
    if problem is None:
        context.session.find_threads()
    return Candidates(**{kind: [_candidate(each) for each in trail.of(kind)] for kind in KINDS})


def _allocators(context: Context, problem: Optional[str]) -> Sequence[Allocator]:
    """Other allocators; known even without a glibc."""
    if problem is None:
        return context.session.located.allocators
    try:
        return find_allocators(context.target, context.target.regions())
    except ArenascopeError:
        return ()


def _checks(session: Session) -> list[LayoutCheck]:
    """How the layout was found, and which checks of it hold in every release."""
    layout, params = session.layout, session.params
    base = params.get("sbrk_base") if params else None
    known = prove(session.memory, layout, session.headers, session.heaps, bases={base} if base is not None else set())
    return [*layout.checks, *known]


def _libcs(session: Session) -> list[LibcRecord]:
    return [
        LibcRecord.of(copy.libc, copy, libc=number, path=copy.libc.path or None, chosen=number == session.libc)
        for number, copy in enumerate(session.located.copies)
    ]


def _check(check: LayoutCheck) -> LayoutCheckRecord:
    figures = {**check.what.figures, "arenas": check.of, "holds_in": check.times}
    said = statement_record(check.what._replace(figures=figures), evidence(check.what))
    return LayoutCheckRecord.of(said, check=check_words(check), held=check.held)


def _layout(context: Context) -> str:
    layout = context.session.layout
    return f"{_release(layout)}, {_machine(layout)}"


def _machine(layout: Layout) -> str:
    return f"{8 * layout.word}-bit, aligned to {layout.align}"


def _release(layout: Layout) -> str:
    if layout.newer is None:
        return f"glibc {text(layout.release)}"
    newer = f"newer release {text(layout.newer)}" if layout.newer != NEVER else "a release of its own"
    return f"glibc {text(layout.release)} ({newer})"


def _mp(located: Located) -> str:
    """The offset of mp_. A new release may have a member before the first known one, which only a symbol reveals."""
    if located.params is None:
        return "mp_ not found"
    layout = located.layout
    first = min(layout.params.offsets, key=lambda name: layout.params.offsets[name])
    start = "mp_" if layout.newer is None or located.located_by == "symbols" else f"mp_.{first}"
    return f"{start} {located.params:#x}"


def _lines(
    context: Context,
    problem: Optional[str],
    checks: Sequence[LayoutCheck],
    trail: Optional[CandidateTrail],
    libraries: Sequence[str],
) -> Iterator[str]:
    yield f"arenascope {__version__}"
    yield from context.door.describe()
    yield f"Python {_PYTHON}"
    yield from libraries
    if problem is not None:
        for each in _allocators(context, problem):
            yield f"{each.name} ({each.how}); {each.instead}"
        yield from candidates_lines(context.style, trail)
        return
    located = context.session.located
    libc = located.libc
    yield from map(sentence, unknown_release(context.session))
    yield f"{f'glibc {libc.version}' if libc.version else 'libc'}: {libc.path or 'no file known'}"
    if libc.build_id:
        yield f"build-id {libc.build_id}"
    how = "by symbol" if located.located_by == "symbols" else "by scan"
    yield f"main_arena {located.main_arena:#x}, found {how}; {_mp(located)}"
    for number, copy in enumerate(located.copies if len(located.copies) > 1 else ()):
        state = ", this one" if number == context.session.libc else ""
        state += "" if copy.used else ", its malloc was never called"
        yield f"libc {number}: {copy.file}, main_arena {copy.main_arena:#x}{state}"
    session = context.session
    yield from allocators_lines(context.style, session.located.allocators, share_of(session))
    if context.session.started:
        yield f"threads' arenas and caches found {HOW[context.session.threads_found.how]}"
    types = context.target.types
    without = without_debug_information(context.target, types) if types is not None else None
    if without:
        yield missing_line(without)
    held = sum(check.held for check in checks)
    called = f"layout of {_layout(context)}" if libc.version else f"that layout, {_machine(session.layout)}"
    yield f"{called}: {held} of {len(checks)} checks hold"
    for check in checks:
        words = check_words(check)
        yield f"  {words}" if check.held else context.style.warn(f"  not held: {words}")
    yield from candidates_lines(context.style, trail)


BINS_LEAD_BACK = "{bins} of {of} bins lead back to themselves"


def _state_as_in(said: Statement) -> str:
    return f"malloc_state as in {said.names['as_in']}" if "as_in" in said.names else "no known malloc_state"


WORDS: Wording = {
    # main_arena
    "symbol-leads-here": "the symbol main_arena leads here",
    "same-build-id": "the file of its symbol has the build-id of the one in memory",
    "another-build-id": "it is of build-id {build_id:.12}…, the libc in memory of {in_memory:.12}…",
    "scan-leads-here": lambda said: f"a scan of {said.names['path'] or 'nameless data'} leads here",
    "bins-lead-back-here": BINS_LEAD_BACK,
    "bins-lead-elsewhere": "{bins} of {of} bins do not lead back",
    "no-bins-behind": "no bins follow it: none of the known places leads back",
    "its-ring-closes": "the ring of arenas closes, {arenas} in all",
    "no-ring-closes": "no ring of arenas through it closes",
    "overlaps-whole-ring": "it overlaps an arena whose ring closes",
    "members-of-broken-ring": "its members speak for an arena whose ring is broken",
    "as-linked": "all is 0 but `next`, which leads back: as the linker left it",
    "its-file": "it is in {file}",
    "has-bytes": "it has {bytes:,} bytes from the kernel",
    "has-nothing-yet": "it has nothing yet",
    "malloc-leads-to-it": "malloc leads to it",
    "grows-by-brk": "it grows by brk, as the program's own libc does",
    "does-not-grow-by-brk": "unlike the program's own libc it does not grow by brk",
    "of-another-libc": "it is libc {libc}: --libc {libc} shows it",
    "another-in-libc-data": "another was found in libc's own data",
    # mp_
    "by-symbol-distance": "by the symbol mp_, as far as that is from main_arena's",
    "counters-proven": "the counters of mmapped blocks and sbrk_base stand in their order",
    "counters-not-proven": "nothing there proves the counters of mmapped blocks and sbrk_base, or more than one place "
    "does",
    "mp-unreadable": "it cannot be read",
    "sbrk-base-is-main-top-end": "sbrk_base + system_mem is the end of main_arena's top",
    "has-default": "{parameter} has its default",
    "default-or-more": "{parameter} is its default or more",
    "mmaps-over-maximum": "n_mmaps is {n_mmaps} of at most {max_n_mmaps}",
    "mmapped-mem-over-maximum": "mmapped_mem exceeds max_mmapped_mem",
    "no-dyn-threshold-impossible": "no_dyn_threshold is {no_dyn_threshold}",
    "sbrk-base-not-top-end": "sbrk_base + system_mem is not the end of top",
    "sbrk-base-without-heap": "sbrk_base is set, but the main arena holds nothing",
    "tcache-bins-impossible": "tcache_bins is {tcache_bins}",
    "tcache-limits-impossible": "tcache_count is {tcache_count}, tcache_max_bytes {tcache_max_bytes}",
    "limits-impossible": "arena_test is {arena_test}, n_mmaps_max {n_mmaps_max}",
    "thp-mode-impossible": "thp_mode is {thp_mode} without a page size",
    "too-few-points": "{points} points of at least {wanted}",
    "less-speaks-for-it": "less speaks for it",
    # the layout
    "places-as-the-row": "it places malloc_state and heap_info as the row does",
    "kept-by-most-arenas": "by it, what must hold in every release holds in most arenas",
    "kept-by-too-few-arenas": "by it, what must hold in every release holds in too few arenas",
    "another-is-nearer": "it fits as well; another is nearer to what the image says",
    "another-is-newer": "it fits as well; another is newer, or has mp_ as it stands here",
    "bins-at": "bins at main_arena+{offset}",
    "bins-elsewhere": "its bins are at main_arena+{offset}, not at +{seen_at}",
    "heap-info-before-arenas": "heap_info of {bytes} bytes before every thread arena",
    "heap-info-of-another-size": "thread arenas do not follow a heap_info of {bytes} bytes",
    "attached-threads": "an attached_threads stands in front of system_mem",
    "no-attached-threads": "no attached_threads stands in front of system_mem",
    "tops-not-aligned": "top chunks are not aligned to {alignment}",
    "counters-in-order": "attached_threads, system_mem and max_system_mem in their order",
    "tops-aligned": "every top chunk is aligned",
    "state-as-in": _state_as_in,
    "proven-by-arenas": "the arenas prove malloc_state and heap_info",
    "another-malloc-state": "its malloc_state is another",
    "caches-of-other-sizes": "thread caches of these sizes are not its own",
    "links-protected": "links are protected",
    "links-not-protected": "links are not protected",
    "cached-with-key": "what is in thread caches bears a key",
    "cached-without-key": "what is in thread caches bears no key",
    "mp-as-in-release": "mp_ is as in that release",
    "all-agrees": "all that the image shows agrees with it",
    # each thread's words
    "leads-to-it": "for {threads} of {of} threads it leads to what it should",
    "nothing-tells-it": "for {threads} of {of} threads nothing shows it",
    "symbols-place-it": "libc's symbols have it {bytes} bytes from thread_arena",
    "arenas-there": "{threads} of {of} threads have an arena's address there",
    "fewer-arenas-there": "fewer threads have one there, or it is further from the thread pointer",
    "no-cache-beside": "no more than one thread has one there, and no cache beside it",
    "fewer-caches-there": "fewer threads show it, or it is further from thread_arena",
    "same-constant-everywhere": "all threads have the address of the same place among libc's constants there",
    "not-zeros": "it is not zeros",
    "zeros-unknown": "whether it is zeros is not known",
    "caches-there": "{threads} of {of} threads that were asked have a cache's address there",
    "caches-with-blocks": "{threads} of these hold blocks of its sizes",
    # what the layout was checked for
    "debug-information-gives-state": "debug information gives malloc_state and heap_info",
    "debug-information-agrees": "debug information agrees on {on}",
    "placed-by-relations": lambda said: f"{_state_as_in(said)}: members placed by what holds in every release",
    "never-called": "main_arena as the linker left it: malloc was never called",
    "ring-closes": "the ring of arenas closes",
    "bins-lead-back": "all 127 bins lead back to themselves",
    "no-heap-holds-nothing": "an arena without a heap holds nothing",
    "top-ends-at-page": "top is a chunk that ends at a page's edge",
    "heap-info-names-arena": "heap_info in front of a thread's arena names it",
    "top-ends-with-heap": "top ends where its heap does",
    "system-mem-sums-heaps": "system_mem is the sum of the heaps",
    "system-mem-sums-regions": "system_mem is the sum of the regions that brk and mmap gave",
    "max-system-mem-in-pages": "max_system_mem is system_mem or pages more",
    "flags-not-contiguous": "flags say that a thread's arena is not contiguous",
    "sbrk-base-is-top-end": "sbrk_base + system_mem is the end of top",
}
"""Words by id. The reason why members could not be placed is text already."""


def evidence(said: Statement) -> str:
    return said.text or worded(said, WORDS)


def check_words(check: LayoutCheck) -> str:
    words = evidence(check.what)
    return words if check.held else f"{words}: in {check.times} of {check.of}"
