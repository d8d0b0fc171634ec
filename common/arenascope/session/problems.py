"""Collects what a reader must know before trusting a figure: what was not found, does not agree or was not read."""

from __future__ import annotations

from bisect import bisect_right
from typing import Iterator, Optional

from ..analysis.arena_usage import total
from ..base.heap_model import (
    NOT_AS_COUNTED,
    REPLACED,
    ArenaHeader,
    Statement,
    Tally,
)
from ..glibc import mmapped_chunks, release_table
from .session import Session


def replaced(session: Session) -> Optional[Statement]:
    """Reports that malloc does not lead to glibc's heap: how much that heap holds, and which tool to use instead."""
    others = [each for each in session.located.allocators if each.replaces_malloc]
    if not others:
        return None
    names = " and ".join(f"{each.name} ({each.how})" for each in others)
    ask = "; ".join(f"{each.name}: {each.instead}" for each in others)
    return Statement(REPLACED, {"glibc_bytes": _heap_bytes(session)}, {"allocators": names, "ask": ask})


def _heap_bytes(session: Session) -> Optional[int]:
    """Returns what glibc's malloc has from the system, free or in use."""
    if not session.started:
        return 0
    mapped = session.params.values.get("mmapped_mem") if session.params else None
    return total([mapped, *(header.system_mem for header in session.headers)], session.all_arenas)


def mmapped_tally(session: Session) -> Optional[Tally]:
    params = session.params
    return Tally(params.values["n_mmaps"], params.values["mmapped_mem"]) if params else None


def mmapped_mismatch(session: Session) -> Optional[Statement]:
    """Reports that the blocks found are not those that glibc counts."""
    blocks = session.mmapped if session.started else []
    expected = mmapped_tally(session)
    if expected is None:
        return Statement("blocks-uncounted")
    if mmapped_chunks.agree(session.layout, blocks, expected):
        return None
    tally = mmapped_chunks.counts(blocks)
    return Statement(
        NOT_AS_COUNTED,
        {"found_blocks": tally.chunks, "found_bytes": tally.bytes, "blocks": expected.chunks, "bytes": expected.bytes},
    )


STACK_WORDS = 32
"""The innermost frames of a waiting thread hold return addresses."""


RUN_ON = "threads-run-on"


def problems_of(session: Session) -> list[Statement]:
    """Returns the problems that a reader must know before trusting a figure, in the order in which they were met."""
    image = session.target.image
    problems = [*image.shortage(), *([image.cut] if image.cut is not None else [])]
    problems += [finding.statement for finding in session.findings]
    problems += _absent(session)
    strange = session.other_files() if session.asks_names else None
    problems += [strange] if strange is not None else []
    problems += session.rules.doubts
    past = replaced(session)
    if past:
        problems.append(past)
    if session.params is None:
        problems.append(Statement("mp-not-found"))
    # what no figure depends on raises no doubt
    thread_words = session.thread_words if session.has_read("threads_found") else ()
    threads = session.target_threads if thread_words else ()
    running = sum(each.runs for each in threads)
    if running:
        figures = {"threads": running, "held": len(threads) - running}
        problems.append(Statement(RUN_ON, figures, {"pid": str(session.target.pid)}))
    if session.has_read("thread_caches") and not session.caches_known:
        problems.append(Statement("caches-not-found"))
    if session.has_read("cached_by_arena") and None in session.cached_by_arena.values():
        problems.append(Statement("cached-chunks-unowned"))
    if session.started and any(each.arena is None for each in thread_words):
        problems += [Statement("thread-arenas-not-found"), *_without_stacks(session)]
    return [*problems, *miscounted(session)]


def depends_on_mp(session: Session, *members: str) -> None:
    """Records that a figure needs these members of mp_, or all: only then is it a problem that some of a new release's
    were not found."""
    layout = session.located.layout
    lacking = layout.mp_in_parts
    needed = not members or any(each not in layout.params for each in members)
    if lacking is not None and needed and lacking not in session.findings:
        session.findings.append(lacking)


def miscounted(session: Session) -> list[Statement]:
    """Reports a wrong count of mmapped blocks, if they were searched: one too many or too few is in the wrong row, or
    in none."""
    if not session.has_read("mmapped") or session.params is None:
        return []
    problem = mmapped_mismatch(session)
    return [problem] if problem is not None else []


def _without_stacks(session: Session) -> Iterator[Statement]:
    """Explains threads without arenas by a core that has only zeros for their stacks."""
    if session.target.kind != "core":
        return
    size = STACK_WORDS * session.target.pointer_size
    lost = [each.thread for each in session.thread_words if each.arena is None and each.thread.stack_pointer]
    empty = [
        thread for thread in lost if not (session.memory.try_read(thread.stack_pointer or 0, size) or b"?").strip(b"\0")
    ]
    if empty:
        yield Statement("stacks-empty", {"threads": len(session.thread_words), "empty": len(empty)})


def _absent(session: Session) -> Iterator[Statement]:
    """Reports heaps that a core holds only in part: it was cut, or the program withheld pages (MADV_DONTDUMP)."""
    if session.target.kind != "core" or not session.regions:
        return
    present = [region for region in session.regions if region.present]
    starts = [region.start for region in present]
    heaps = session.heaps if session.has_read("heaps") else {}
    for heap in [heap for parts in heaps.values() for heap in parts]:
        there, index = heap.address, bisect_right(starts, heap.address) - 1
        while 0 <= index < len(present) and present[index].start <= there < heap.end and present[index].end > there:
            there, index = present[index].end, index + 1
        if there < heap.end:
            yield Statement("heap-absent", {"arena": heap.arena}, {"address": f"{heap.address:#x}"})


def parts_differ(header: ArenaHeader, parts_bytes: int) -> Statement:
    return Statement(
        "parts-differ", {"arena": header.index, "parts_bytes": parts_bytes, "system_bytes": header.system_mem}
    )


def top_differs(header: ArenaHeader, to_end_bytes: int) -> Statement:
    return Statement(
        "top-differs", {"arena": header.index, "top_bytes": header.top_bytes, "to_end_bytes": to_end_bytes}
    )


def listed_not_met(header: ArenaHeader, chunks: int) -> Statement:
    return Statement("listed-not-met", {"arena": header.index, "chunks": chunks})


def inexact(session: Session) -> Optional[Statement]:
    """Explains why a text of glibc's own cannot be written as glibc would; None if nothing in it is missing."""
    sound = session.all_arenas and all(arena.complete for arena in session.arenas) and session.params is not None
    return None if sound else problems_of(session)[0]


def unknown_release(session: Session) -> list[Statement]:
    """Reports an unknown release, for what differs between releases. It is no problem for figures: memory tells the
    layout."""
    if session.located.version is not None:
        return []
    layout = session.layout
    alike = release_table.alike(layout.release)
    names = {
        "taken_for": release_table.text(layout.release),
        "layout_of": alike if layout.newer is None else f"a release newer than {alike}",
    }
    return [Statement("release-unknown", names=names)]
