"""Words for what walkers find wrong in memory: a sentence for each id."""

from __future__ import annotations

from typing import Callable, Mapping, NamedTuple, Union

from ...base.errors import MemoryReadError
from ...base.model import WHAT, Breach, Statement

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
