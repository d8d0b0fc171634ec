"""Words for problems that a reader must know before trusting a figure: a sentence for each id."""

from __future__ import annotations

from typing import Callable, Mapping, Optional, Sequence, Union

from ...base.hold_limits import allows_more
from ...base.model import HOLD_OVER, LEFT_OUT, NOT_AS_COUNTED, OTHER_FILES, REPLACED, WHAT, Statement
from .findings import finding_sentence
from .text import Style, count

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
    seconds, foretold = (float(said.figures.get(f"{each}milliseconds") or 0) / 1000 for each in ("", "foretold_"))
    if LEFT_OUT in said.names:
        return (
            f"this answer is without {said.names[LEFT_OUT]}: to copy the process takes longer than the {seconds:g} s "
            f"for which it may be held ({allows_more(seconds, foretold)})"
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
    heap = f"whose heap holds {Style().size(int(size))}" if size else "which has no heap here"
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
"""Sentences by id. Those for findings in memory are in findings.py; what a core lacks is text already."""


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
