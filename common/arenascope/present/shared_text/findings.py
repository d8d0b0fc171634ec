"""Words for what walkers find wrong in memory: a sentence for each id."""

from __future__ import annotations

from typing import Mapping

from ...base.errors import MemoryReadError
from ...base.model import WHAT, Statement

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
