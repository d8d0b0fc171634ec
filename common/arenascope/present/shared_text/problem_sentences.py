"""Words for what walkers find wrong in memory: a sentence for each id."""

from __future__ import annotations

from typing import Callable, Mapping, NamedTuple, Optional, Sequence, Union

from ...base.errors import MemoryReadError
from ...base.heap_model import (
    HOLD_OVER,
    LEFT_OUT,
    NOT_AS_COUNTED,
    OTHER_FILES,
    REPLACED,
    WHAT,
    Breach,
    Statement,
    allows_more,
)
from .lines_and_tables import count, say

LISTS = {
    "bin": ("bin {bin}", "chunk", "chunk of size"),
    "fast": ("fastbin {bin}", "chunk", "chunk of size"),
    "tcache": ("thread cache bin {bin}", "block", "block of chunk size"),
}
"""For each kind of list: its name, what its links lead to, and what that and its size are called."""
RING = "the ring of arenas leads to something else: "
NO_HEAP_INFO = "no heap_info in front of it"
OF_ANOTHER = "its heap_info belongs to another arena"
WORDS: Mapping[str, str] = {
    "bins-unreadable": "bins: {unread}",
    "bin-ends": "bin {bin}: its two ends disagree ({first}, {last})",
    "bin-end": "bin {bin}: ends at {end}, but its bk says {bk}",
    "bin-link-unreadable": "bin {bin}: a link in {holder} leads to unreadable memory",
    "bin-link-misaligned": "bin {bin}: a link in {holder} is not a chunk's address",
    "bin-size": "bin {bin}: a chunk of size {size}, which does not belong here",
    "bin-bk": "bin {bin}: bk is {bk}, expected {expected}",
    "bin-flags": "bin {bin}: a free chunk with {flags} (size word {size_word})",
    "lists-not-reached": "stopped: the free lists of {unread} of {arenas} arenas were not read to their end",
    "fastbins-unreadable": "fastbins: {unread}",
    "link-misaligned": "{list}: a link is not a {kind}'s address",
    "link-unreadable": "{list}: a link leads to unreadable memory",
    "link-outside": "{list}: a chunk that lies in no heap of this arena",
    "list-circle": "{list}: the list runs in a circle",
    "size-of-another-list": "{list}: a {sized} {size}, expected {expected}",
    "tcache-form": "a thread cache of a form that this arenascope does not know",
    "cache-unreadable": "a thread cache: {unread}",
    "tcache-count": "thread cache bin {bin}: its count says {counted}, its list has {chunks}",
    "cached-in-no-heap": "a thread cache leads to a chunk that lies in no heap",
    "cached-beyond-arena": "what thread caches keep of it ({bytes} bytes) is more than is left of it",
    "free-beyond-system-mem": "what is free in it sums to {free_bytes} bytes, system_mem says {system_bytes}",
    "sbrk-base": "sbrk_base is {base}, but top ends {system_bytes} bytes above {start}",
    "top-beyond-mapped": "top ends at {end}, beyond what is mapped: it is being trimmed, or its size is damaged",
    "regions-missing": "the main arena's regions that were found sum to {bytes} of {system_bytes}: "
    "brk was refused, and glibc keeps no list of what it mapped instead",
    "ring-unreadable": "the ring of arenas breaks off: {unread}",
    "ring-no-heap-info": RING + NO_HEAP_INFO,
    "ring-heap-info-of-another": RING + OF_ANOTHER,
    "ring-not-closed": "the ring of arenas does not close",
    "no-heap-info": NO_HEAP_INFO,
    "heap-info-of-another": OF_ANOTHER,
    "top-zero": "top: it is 0, although the arena holds memory",
    "top-unreadable": "top: it leads to unreadable memory",
    "top-misaligned": "top: it is not a chunk's address",
    "top-flags": "top: its size word {size_word} has the flags of something else",
    "top-size": "top: its size {bytes:#x} is not possible in an arena of {system_bytes:#x}",
    "top-off-page": "top: it ends at {end}, not at a page's edge",
    "heaps-circle": "the chain of heaps runs in a circle",
    "heaps-unreadable": "the chain of heaps leads to unreadable memory",
    "heap-owner": "heap_info belongs to arena {owner}, expected {expected}",
    "heap-size": "heap_info has size {bytes:#x} of {mprotect_bytes:#x} accessible",
    "heap-prev": "heap_info.prev is {prev}, which is no heap",
    "top-end-of-heap": "top ends at {end}, its heap at {heap_end}",
    "heaps-sum": "its heaps sum to {bytes} bytes, system_mem says {system_bytes}",
    "chunk-flags": "a chunk with size word {size_word}",
    "chunk-too-long": "a chunk of {bytes:#x} bytes reaches beyond {limit}, its heap's last",
    "chunk-unreadable": "no chunk can be here: it cannot be read",
    "no-chunk": "no chunk can be here: size word {size_word}",
    "mp-in-parts": "mp_ of a glibc newer than {newest} is known in parts, not: {missing}",
    "list-unknown": "malloc_state+{offset} leads to {leads_to} inside a heap: a list of a kind that this arenascope "
    "does not know",
}


def finding_words(what: Statement) -> str:
    """A finding in words, without its place."""
    return _words(what.id, what)


def finding_sentence(said: Statement) -> str:
    """The sentence for a finding's statement."""
    arena, address = said.figures.get("arena"), said.names.get("address")
    whose = f"arena {arena}: " if arena is not None else ""
    where = f" at {address}" if address is not None else ""
    return f"{whose}{_words(said.names[WHAT], said)}{where}"


def _words(what: str, said: Statement) -> str:
    more = {}
    if "from" in said.names:
        more["unread"] = MemoryReadError(int(said.names["from"], 16), int(said.figures["bytes"] or 0)).message
    if "list" in said.names:
        name, more["kind"], more["sized"] = LISTS[said.names["list"]]
        more["list"] = name.format(**said.figures)
    return WORDS[what].format(**{**said.figures, **said.names, **more})


class BreachWords(NamedTuple):
    """The words for one breach."""

    expected: str
    """"" if there is nothing to name."""
    found: str

    @property
    def sentence(self) -> str:
        return f"expected {self.expected}, found {self.found}" if self.expected else self.found


NEXT_OF_LIST = "a link to the next chunk of the list"
SIZE_WORD = "size word {size_word}"
GO_ON = SIZE_WORD + "; the next sound header is at {headers_go_on}"
OVERLAPS = "a size of {bytes:#x}, beyond it"
STOPPED_BY = {
    "unreadable": ", which is unreadable",
    "misaligned": ", which is no chunk's address",
    "outside": ", which lies in no heap of this arena",
    "not-returned": ", whose {other_link} is {back}",
}
"""Why a bin's link was not followed."""


def _bin_link(said: Statement) -> tuple[str, str]:
    names = said.names
    link, leads_to = names["link"], names["leads_to"]
    expected = names.get("expected", f"a chunk of bin {said.figures['bin']}")
    why = STOPPED_BY[names["stopped_by"]] if "stopped_by" in names else ""
    return f"{link} {expected}", f"{link} {leads_to}{why.format(other_link='bk' if link == 'fd' else 'fd', **names)}"


def _in_two_lists(said: Statement) -> tuple[str, str]:
    return "one list for each chunk", f"{_list(said, 'other_')}, and {_list(said, '')}"


def _list(said: Statement, prefix: str) -> str:
    figures, kind = said.figures, said.names[f"{prefix}list"]
    if kind == "bin":
        return "a bin"
    if kind == "fast":
        return f"fastbin {figures[f'{prefix}bin']} of arena {figures[f'{prefix}arena']}"
    return f"the cache of thread {figures[f'{prefix}tid']}, bin {figures[f'{prefix}bin']}"


BREACHES: Mapping[str, Union[tuple[str, str], Callable[[Statement], tuple[str, str]]]] = {
    "mutex": ("0, 1 or 2", "{value:#x}"),
    "flags-of-main-arena": ("no unknown flag", "{flags:#x}"),
    "flags-of-thread-arena": ("NONCONTIGUOUS and nothing unknown", "{flags:#x}"),
    "system-mem-over-maximum": ("system_mem of at most {max_system_bytes:#x}, its maximum", "{system_bytes:#x}"),
    "mmapped-count": ("{counted_blocks} blocks of {counted_bytes} bytes, as mp_ counts", "{blocks} of {bytes} bytes"),
    "binmap": ("bit {bin} set: bin {bin} is not empty", "{map:#x}"),
    "bin-order": ("a size of at most {bytes_before:#x} next in bin {bin}", "{bytes:#x}"),
    "skip-links-not-zero": (
        "no fd_nextsize, no bk_nextsize: not the first of its size",
        "{fd_nextsize}, {bk_nextsize}",
    ),
    "skip-link": ("{link} {expected}", "{leads_to}"),
    "size-of-another-bin": ("a size of {min_bytes:#x} to {max_bytes:#x} in bin {bin}", "{bytes:#x}"),
    "bin-link": _bin_link,
    "prev-inuse-of-first": ("PREV_INUSE set, as no chunk lies in front", SIZE_WORD),
    "prev-inuse-of-fast": ("PREV_INUSE set: the fast chunk {front} in front is in no bin", SIZE_WORD),
    "prev-inuse-of-cached": ("PREV_INUSE set: the cached chunk {front} in front is in no bin", SIZE_WORD),
    "prev-inuse-of-used": ("PREV_INUSE set: the chunk {front} in front is in no bin", SIZE_WORD),
    "prev-inuse-of-binned": ("PREV_INUSE clear: the chunk {front} in front is in a bin", SIZE_WORD),
    "prev-size": ("prev_size {bytes:#x}, the size of the free chunk {front} in front", "{prev_size:#x}"),
    "adjacent-free": ("one chunk with the free chunk {front} in front", "both are in bins"),
    "beside-top": ("no binned chunk beside top", "a binned chunk of {bytes:#x}, then top"),
    "non-main-arena-in-bin": ("a binned chunk without NON_MAIN_ARENA", SIZE_WORD),
    "non-main-arena-set": ("NON_MAIN_ARENA clear in a chunk of arena {arena}", SIZE_WORD),
    "non-main-arena-clear": ("NON_MAIN_ARENA set in a chunk of arena {arena}", SIZE_WORD),
    "non-main-arena-in-main": ("no NON_MAIN_ARENA in a chunk of the main arena", GO_ON),
    "is-mmapped": ("no IS_MMAPPED in an arena's chunk", GO_ON),
    "size-min": ("a size of {min_bytes:#x} or more", GO_ON),
    "size-bounds": ("a size of at most {max_bytes:#x}, where its heap ends", GO_ON),
    "size-alignment": ("a size that {alignment} divides", GO_ON),
    "size-leads-to-no-chunk": ("a size that leads to another chunk", GO_ON),
    "size-too-long": (
        "a size of {bytes:#x}: the next sound header is at {headers_go_on}",
        SIZE_WORD + ", and no chunk where that ends",
    ),
    "overlaps-binned": ("an end at or before the binned chunk {inside}", OVERLAPS),
    "overlaps-fast": ("an end at or before the fast chunk {inside}", OVERLAPS),
    "overlaps-cached": ("an end at or before the tcache chunk {inside}", OVERLAPS),
    "in-two-lists": _in_two_lists,
    "tcache-key": ("key {expected}, as free() left it", "{key}"),
}
"""What is expected and what is there, by id."""
EXPECTED: Mapping[str, str] = {
    "tcache-count": "a count of {chunks}",
    "list-circle": "each chunk once",
    "size-of-another-list": "size {expected}",
    "no-heap-info": "{arena_behind}",
    "heap-info-of-another": "{arena_behind}",
    "heap-owner": "ar_ptr {expected}",
    "heap-size": "size <= mprotect_size <= {max_bytes:#x}",
    "top-end-of-heap": "an end at {heap_end}",
    "top-beyond-mapped": "top ends where the break is",
    "heaps-sum": "system_mem {bytes:#x}",
    "free-beyond-system-mem": "system_mem of {free_bytes:#x} at least",
    "sbrk-base": "sbrk_base + system_mem where top ends",
}
"""What was expected in place of what a walker found, by id."""


def breach_words(breach: Breach) -> BreachWords:
    said = breach.what
    if said.id in WORDS:
        there = finding_words(said)
        if breach.rule.endswith("-link") and "leads_to" in said.names:
            return BreachWords(NEXT_OF_LIST, f"{there} ({said.names['leads_to']})")
        return BreachWords(EXPECTED.get(said.id, "").format(**said.figures, **said.names), there)
    words = BREACHES[said.id]
    if isinstance(words, tuple):
        expected, there = (each.format(**said.figures, **said.names) for each in words)
    else:
        expected, there = words(said)
    return BreachWords(expected, there)


Wording = Mapping[str, Union[str, Callable[[Statement], str]]]
"""Words for the statements of each id."""
PER_ARENA = "arena {arena}: "


def _stopped(said: Statement) -> str:
    figures = said.figures
    if LEFT_OUT in said.names:
        return f"stopped: this answer is without {said.names[LEFT_OUT]}, or not with all of them"
    done = [count(None if figures[many] is None else int(figures[many] or 0), many[:-1]) for many in figures]
    return f"stopped after {', '.join(done)}"


def _hold_over(said: Statement) -> str:
    seconds = float(said.figures["milliseconds"] or 0) / 1000
    if LEFT_OUT in said.names:
        return (
            f"this answer is without {said.names[LEFT_OUT]}: to copy the process takes longer than the {seconds:g} s "
            f"for which it may be held ({allows_more(seconds)})"
        )
    return (
        f"the process was let go after {seconds:g} s, the limit: what was not read by then is missing "
        f"({allows_more(seconds)}; a copy made by save has no limit)"
    )


def _block_count(said: Statement) -> str:
    figures = {name: int(value or 0) for name, value in said.figures.items()}
    return (
        f"{count(figures['found_blocks'], 'block')} of {figures['found_bytes']} bytes recognised, "
        f"mp_ counts {figures['blocks']} of {figures['bytes']}"
    )


def _in_stack(said: Statement) -> str:
    named = f" ({said.names['name']})" if said.names["name"] else ""
    return f"{said.names['address']} lies in no chunk: it is in the stack of thread {said.figures['tid']}{named}"


def _in_file(said: Statement) -> str:
    address, name, path = (said.names[key] for key in ("address", "name", "path"))
    return f"{address} lies in no chunk: it is {name}, in {path or 'the nameless part of that file'}"


def _in_mapping(said: Statement) -> str:
    address, start, end, path = (said.names[key] for key in ("address", "start", "end", "path"))
    return f"{address} lies in no chunk: it is in the mapping {start} to {end}{' ' + path if path else ''}"


def _replaced(said: Statement) -> str:
    size = said.figures["glibc_bytes"]
    heap = f"whose heap holds {say(int(size))}" if size else "which has no heap here"
    heap = "which has only what bypasses that" if size is None else heap
    allocators, ask = said.names["allocators"], said.names["ask"]
    return f"{allocators} serves malloc in this process, and arenascope reads glibc's malloc alone, {heap}; ask {ask}"


HELP = {
    "gdb": "start GDB again with -iex 'set sysroot DIR' -iex 'set debug-file-directory DIR/usr/lib/debug', where DIR "
    "has the files that the process runs on",
    "lldb core": "start LLDB again with -O 'platform select --sysroot DIR remote-linux', where DIR has the files that "
    "the process ran on",
    "lldb live": "before attaching, 'target create' the program, then 'target modules search-paths add / DIR/', where "
    "DIR has the files that the process runs on",
    "shell core": "--sysroot DIR reads them below DIR, a copy of that host's files",
    "shell live": "root can read files that were deleted or replaced",
}
"""Help by door, and by kind of target if that makes a difference."""


def _other_files(said: Statement) -> str:
    door, kind = said.names["door"], said.names["kind"]
    helps: Optional[str]
    if "absent" in said.names:
        helps = f"looked for {said.names['absent']}: not there"
    elif "unlike" in said.names:
        helps = f"{said.names['unlike']} is of another build"
    else:
        helps = HELP.get(f"{door} {kind}") or HELP.get(door)
    told = f"no file with the build-id in memory was found for {said.names['named']}: names and types from there are "
    return f"{told}left out; {helps}" if helps else f"{told}left out"


IN_NONE = "{address} lies in no chunk: "
IN_ARENA = "{address} lies in arena {arena}: "
SENTENCES: Wording = {
    "stopped": _stopped,
    "rows-left-out": "`{key}` has {rows:,} rows, and the first {shown:,} are here",
    HOLD_OVER: _hold_over,
    "types-take-too-long": "types and owners are not in this snapshot: they would take about {seconds:.0f} s, and "
    "{at_most:g} are allowed (snapshot FILE --take-at-most {enough:.0f}s has them)",
    "types-not-in-all": "{lacking:,} of {snapshots:,} snapshots do not tell types: of those moments none is known",
    "memory-lost": "{bytes} bytes of what was in memory could not be read, and are holes in the file",
    "roots-missing": "{mappings} mappings of {bytes} bytes are not in this image: pointers there are not known",
    "registers-unknown": "the registers of {threads} threads are not known: what only they hold looks lost",
    "perhaps-cached-all": "not every list of cached chunks was found: what is in them looks lost",
    "heap-damaged": "the heap is damaged: which blocks there are is not certain",
    "image-cut": "not all of the process's memory is in this image: whether pointers are there is not known",
    "epoll-unknown": "what epoll keeps for this program is not in this image: pointers may be there",
    "not-searched": "{bytes} bytes of memory could not be read: what points from there is not known",
    "rule-unread": "{file}:{line}: {why}",
    "rule-contradicted": "{file}:{line}: {rule}: not so of {blocks:,} blocks, where it was left out",
    "mp-not-found": "mp_ was not found: thresholds and blocks served by mmap are not known",
    "caches-not-found": "not every thread's cache was found: what they hold is counted as blocks in use",
    "cached-chunks-unowned": "the arena of some cached chunks is not known: their heap's start is not in this image",
    "thread-arenas-not-found": "not every thread's arena was found",
    "threads-run-on": "{threads} threads of this process run on: the debugger holds {held} of them, as it does where "
    "the main thread has exited. The shell holds them all: arenascope report {pid}",
    "stacks-empty": "the stacks of {empty} of {threads} threads are empty in this core. gcore leaves them so where "
    "guard pages lie in the same mapping (glibc 2.42 and later); take it by kill -ABRT PID",
    "heap-absent": PER_ARENA + "its heap at {address} is not in this image, or not all of it",
    REPLACED: _replaced,
    "release-unknown": "this image does not tell glibc's version: read with the layout of {layout_of}",
    "environment-unknown": "the environment that the process was started with is not in this image",
    "brk-not-found": "__curbrk was not found: whether the main arena's top would be trimmed is not known",
    "brk-not-found-for-pins": "__curbrk was not found: what the block below the main arena's top keeps is not known",
    NOT_AS_COUNTED: _block_count,
    "blocks-uncounted": "mp_ was not found, so the number of blocks to expect is not known",
    "parts-differ": PER_ARENA + "its parts sum to {parts_bytes} bytes, system_mem says {system_bytes}",
    "top-differs": PER_ARENA + "top is {top_bytes} bytes by its size word, {to_end_bytes} to its end",
    "listed-not-met": PER_ARENA + "{chunks} chunks in thread caches or fastbins are not where one starts",
    "headers-unread": PER_ARENA + "{bytes} bytes from {address} on hold no headers that could be followed",
    "bins-unread": PER_ARENA + "{chunks} free chunks may be in the bins that were not read to the end",
    "bin-cut": PER_ARENA + "{kind} bin {bin}: {chunks} chunks could be reached, there may be more",
    "perhaps-cached": "it may lie in a thread's cache that was not found",
    "in-heap-header": IN_ARENA + "the header of heap {heap} (heap_info, perhaps malloc_state), no chunk",
    "in-fencepost": IN_ARENA + "a fencepost, the end of what was once top: no chunk",
    "in-foreign-sbrk": IN_ARENA + "memory that somebody else took by sbrk, in the middle of the main arena",
    "in-damage": IN_ARENA + "a part of heap {heap} that could not be read as chunks",
    "behind-heap-end": IN_NONE + "it is past the end of heap {heap} of arena {arena}, given up yet accessible",
    "not-mapped": IN_NONE + "nothing is mapped there",
    "mappings-unknown": IN_NONE + "what is mapped is not known",
    OTHER_FILES: _other_files,
    "in-stack": _in_stack,
    "in-file": _in_file,
    "in-break": IN_NONE + "it is in the break's mapping, where no arena of this libc has it",
    "in-mapping": _in_mapping,
}
"""Sentences by id. What a core lacks is text already."""


def sentence(said: Statement) -> str:
    if said.text:
        return said.text
    if WHAT in said.names:
        return finding_sentence(said)
    return worded(said, SENTENCES)


def worded(said: Statement, table: Wording) -> str:
    words = table[said.id]
    return words.format(**said.figures, **said.names) if isinstance(words, str) else words(said)


def sentences(said: Sequence[Statement]) -> list[str]:
    return [sentence(each) for each in said]


def first_sentences(said: Sequence[Statement], limit: int = 8) -> list[str]:
    """The first sentences, as many as a screen has room for."""
    if len(said) <= limit:
        return sentences(said)
    return [*sentences(said[:limit]), f"and {len(said) - limit} more problems (--json lists them all)"]
