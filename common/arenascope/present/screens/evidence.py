"""Sentences on what speaks for and against each candidate, and which checks of glibc's structures were made."""

from __future__ import annotations

from ...base.model import Statement
from ...glibc.process_layout import LayoutCheck
from ..shared_text.findings import Wording, worded

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
