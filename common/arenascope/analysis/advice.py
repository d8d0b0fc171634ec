"""What to do, each with what it would have changed here, what it costs, how to set it and when not to."""

from __future__ import annotations

from typing import Iterator, NamedTuple, Optional

from .causes import Facts, Say, places
from .params import MMAP_THRESHOLD, TRIM_THRESHOLD
from .resident import ArenaResident
from .verdict import duration, trim_seconds

FOLKLORE = 2
"""The value that everybody copies."""
ABOVE = "nothing to set: the advice above goes to the cause"


class Advice(NamedTuple):
    """`effect` is what it would have changed in this process: an upper bound where `bound` is set; None: unknown."""

    action: str
    effect: Optional[int]
    evidence: str
    how: tuple[str, ...]
    cost: str = ""
    not_when: str = ""
    bound: bool = False


def find_advice(facts: Facts, say: Say) -> list[Advice]:
    """What helps first, the largest effect before the smaller; then what would not."""
    helps = [*_trim(facts, say), *_tops(facts, say), *_thresholds(facts, say), *_periodic(facts, say),
             *_arena_max(facts, say), *_caches(facts, say), *_allocator(facts, say)]  # fmt: skip
    helps.sort(key=lambda advice: -(advice.effect or 0))
    return [*helps, *_nothing(facts, say, bool(helps)), *_folklore(facts, say)]


def setting(facts: Facts, variable: str, tunable: str, mallopt: str, value: int) -> tuple[str, ...]:
    """How a parameter is set, for this glibc."""
    lines = [f"{variable}={value} in the environment, from the next start on",
             f"systemd: Environment={variable}={value}; Kubernetes: env: [{{name: {variable}, value: \"{value}\"}}]"]
    if facts.tunables:
        lines.append(f"or GLIBC_TUNABLES=glibc.malloc.{tunable}={value} (glibc {facts.release} reads it)")
    else:
        lines.append(f"not GLIBC_TUNABLES: glibc {facts.release} does not read malloc's tunables (2.26 does)")
    lines.append(f"or mallopt({mallopt}, {value}) before the first allocation")
    return tuple(lines)


def java(facts: Facts, how: str) -> tuple[str, ...]:
    """What a JVM offers, where this is one."""
    return (f"{how} (JDK 17.0.9, 21 and later)",) if any(each.name == "JVM" for each in facts.allocators) else ()


def _trim(facts: Facts, say: Say) -> Iterator[Advice]:
    size = facts.part("returnable")
    if facts.matters(size):
        seconds = duration(trim_seconds(size, facts.calls))
        yield Advice(
            "call malloc_trim(0) once", size,
            " and ".join(_where(facts, say)),
            (*java(facts, "jcmd PID System.trim_native_heap"),
             "heap trim --apply (GDB or LLDB on the live process)", "malloc_trim(0) in the program"),
            f"about {seconds}, one arena locked at a time; pages used again fault in again",
            "not when the program soon needs as much again: compare two `heap snapshot`s around it",
        )  # fmt: skip


def _where(facts: Facts, say: Say) -> Iterator[str]:
    """What malloc_trim returns, by where it lies."""
    end = facts.part("returnable") - facts.between
    if facts.between:
        yield f"{say(facts.between)} of whole pages are free, in {places(facts.calls)}"
    if end:
        yield f"{say(end)} at the end of the main arena's top"


def _tops(facts: Facts, say: Say) -> Iterator[Advice]:
    size = sum(_top_beyond(each, facts.page) for each in facts.picture.arenas if each.arena)
    if facts.matters(size):
        yield Advice(
            "release the tops of thread arenas", size,
            f"{say(facts.part('thread_tops'))} in tops, which malloc_trim never touches in any glibc",
            ("heap trim --apply --tops (GDB or LLDB on the live process)",),
            "one madvise an arena; pages used again fault in again",
        )  # fmt: skip


def _top_beyond(arena: ArenaResident, kept: int) -> int:
    return max(0, arena.top + arena.top_end - kept)


def _thresholds(facts: Facts, say: Say) -> Iterator[Advice]:
    if facts.params is None:
        return
    pad = facts.params.values["top_pad"]
    large = [each for each in facts.picture.arenas if each.top + each.top_end >= TRIM_THRESHOLD]
    tops = sum(_top_beyond(each, pad + facts.page) for each in large)
    size = tops + facts.between if facts.grown else tops
    trim = facts.params.values["trim_threshold"]
    if not facts.matters(size) or (trim <= TRIM_THRESHOLD and not facts.grown):
        return
    if facts.grown:
        why = (f"mmap_threshold grew to {say(facts.grown)} by itself (default {say(MMAP_THRESHOLD)}), trim_threshold "
               f"to {say(trim)}")  # fmt: skip
    else:
        why = f"trim_threshold was set to {say(trim)}"
    yield Advice(
        "pin the thresholds: trim_threshold at 128 KiB, which also stops mmap_threshold from growing", size, why,
        setting(facts, "MALLOC_TRIM_THRESHOLD_", "trim_threshold", "M_TRIM_THRESHOLD", TRIM_THRESHOLD),
        "blocks of 128 KiB and more then get a mapping of their own: a system call and page faults for each",
        "not where such blocks come and go thousands of times a second",
        bound=True,
    )  # fmt: skip


def _periodic(facts: Facts, say: Say) -> Iterator[Advice]:
    size = facts.between
    if facts.matters(size) and 4 * size >= facts.rss:
        yield Advice(
            "call malloc_trim(0) regularly, say every 30 s, if free memory piles up again", None,
            f"what lies free between live blocks ({say(size)} now) only malloc_trim returns, once it is there",
            (*java(facts, "-XX:TrimNativeHeapInterval=30000"), "a timer or an idle moment in the program"),
            f"each call about {duration(trim_seconds(size, facts.calls))} at today's size, less if it comes often",
            "not when `heap diff` shows that it is used again at once",
        )  # fmt: skip


def _spare(arena: ArenaResident) -> int:
    """What another thread could have used. Scraps come with live blocks, wherever those lie."""
    return arena.returnable + arena.top + arena.tcache


def arena_max_bound(facts: Facts, arenas: int) -> int:
    """What fewer arenas could have saved at most: all that is free beside main_arena and the fullest others."""
    threads = sorted((_spare(each) for each in facts.picture.arenas if each.arena), reverse=True)
    return sum(threads[max(0, arenas - 1) :])


def _arena_max(facts: Facts, say: Say) -> Iterator[Advice]:
    bound = arena_max_bound(facts, FOLKLORE)
    if len(facts.usages) <= FOLKLORE or not facts.matters(bound) or 2 * bound < facts.picture.free or facts.grown:
        return
    yield Advice(
        f"limit the number of arenas (MALLOC_ARENA_MAX={FOLKLORE}, or 4)", bound,
        f"{say(bound)} of {say(facts.picture.free)} free lie outside main_arena and the fullest other arena",
        setting(facts, "MALLOC_ARENA_MAX", "arena_max", "M_ARENA_MAX", FOLKLORE),
        "threads wait for each other's locks in malloc; the peak of the sum stays, only the sum of peaks goes",
        "not where many threads allocate all the time",
        bound=True,
    )  # fmt: skip


def _caches(facts: Facts, say: Say) -> Iterator[Advice]:
    size = facts.part("tcache")
    if facts.matters(size):
        yield Advice("make thread caches smaller", size, f"{say(size)} in them",
                     (f"GLIBC_TUNABLES=glibc.malloc.tcache_count=2 (glibc {facts.release})",),
                     "malloc and free take the arena's lock more often", bound=True)  # fmt: skip


def _allocator(facts: Facts, say: Say) -> Iterator[Advice]:
    size = facts.part("scraps")
    if 4 * size >= facts.rss and facts.matters(size):
        yield Advice("try an allocator that keeps sizes apart (jemalloc, tcmalloc, mimalloc)", None,
                     f"{say(size)} is free in pages that live blocks share: nothing that glibc offers returns it",
                     ("LD_PRELOAD=libjemalloc.so.2, measured under the real load", "first: heap pins"),
                     "another program to know; more memory for small heaps")  # fmt: skip


def _nothing(facts: Facts, say: Say, helped: bool) -> Iterator[Advice]:
    live = facts.picture.live
    if 10 * live >= 7 * (live + facts.picture.free) and 2 * live >= facts.rss and facts.matters(live):
        alone = facts.part("mmapped") > facts.part("live")
        action = "nothing more to tune: the rest is live data" if helped else "nothing to tune: this is live data"
        yield Advice(action, 0,
                     f"{say(live)} of {say(facts.rss)} is in blocks that the program holds",
                     ("heap mmapped: which blocks" if alone else "heap chunks --summary: which sizes",
                      "heap snapshot now and later, then heap diff: which grow",
                      "a heap profiler (heaptrack, memray, bpf memleak): who allocated them"))  # fmt: skip
    elif 2 * facts.part("other") > facts.rss:
        yield Advice("ask whoever made these mappings", 0,
                     f"{say(facts.part('other'))} did not come from this malloc",
                     tuple(f"{each.name}: {each.instead}" for each in facts.allocators) or ("heap report --json "
                      "lists the largest mappings",))  # fmt: skip


def _folklore(facts: Facts, say: Say) -> Iterator[Advice]:
    """MALLOC_ARENA_MAX=2, held against this process's own figures."""
    free = facts.picture.free
    limit = facts.params.get("arena_max") if facts.params else None
    if limit and 2 * facts.between > free and facts.matters(free):
        yield Advice(f"the limit of {limit} {'arena' if limit == 1 else 'arenas'} that was set does not help here", 0,
                     f"{say(facts.between)} of {say(free)} free lies between live blocks: it does so in one arena as "
                     "in many", (ABOVE,))  # fmt: skip
    if len(facts.usages) <= FOLKLORE or not facts.matters(free):
        return
    bound = arena_max_bound(facts, FOLKLORE)
    if 2 * bound >= free and not facts.grown:
        return
    why = f"{say(free - bound)} of {say(free)} free would still be there: it lies inside "
    why += "main_arena and the fullest other arena, or in pages that live blocks share"
    if 2 * bound >= free:
        why = (f"at most {say(bound)} of {say(free)} would go, and the threads would share a lock: "
               "the thresholds are the cause")  # fmt: skip
    yield Advice(f"do not set MALLOC_ARENA_MAX={FOLKLORE}", 0, why, (ABOVE,))
