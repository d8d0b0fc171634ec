"""The words on the screens: `heap help words`, and docs/glossary.md. One table for both."""

from __future__ import annotations

import textwrap
from typing import Iterator, Mapping, NamedTuple, Optional, Sequence

from .shared_text.text import HELP_WIDTH

TOPIC = "words"
"""What is typed after `help` for all of them."""
INDENT = " " * 4


class Word(NamedTuple):
    """A word and how else it is written, on a screen or elsewhere; each of the names leads to it, and each key."""

    names: tuple[str, ...]
    meaning: str
    keys: Mapping[str, Sequence[str]]
    """What documents call it, by name."""

    @property
    def title(self) -> str:
        first, *others = self.names
        return f"{first} ({', '.join(others)})" if others else first

    @property
    def explained(self) -> str:
        """With its keys."""
        in_json = (f' In JSON "{name}" is {listed(keys)}.' for name, keys in self.keys.items())
        return self.meaning + "".join(in_json)


MEANINGS: Mapping[tuple[str, ...], str] = {
    ("access",): "What may be done with a mapping: r to read, w to write, x to execute; then p for private or s for "
    "shared.",
    ("accessible",): "Of a thread arena's heap, the part from its start that can be read and written. The rest of the "
    "heap is reserved address space.",
    ("address space", "addresses", "virtual memory", "VSZ"): "Addresses that the process may use, whether or not there "
    "is memory behind them. Only what is resident costs memory.",
    (
        "allocator",
    ): "The library that serves malloc in a process. Of others than glibc's arenascope tells the name, and does not "
    "walk their heaps.",
    ("arena", "arenas"): "One of malloc's pools of memory, with a lock, heaps and lists of free chunks of its own. A "
    "process starts with the main arena; each new thread gets a further one until the arena limit is reached, "
    "then threads share.",
    ("arena limit",): "How many arenas there may be: eight for each processor in a 64-bit process, two in a 32-bit "
    "one (since glibc 2.44 one, and at least eight or two in all), or what MALLOC_ARENA_MAX says. `heap params` "
    "shows it.",
    (
        "as near",
    ): "Of what an owner holds: the part that another owner leads to in as few steps, so that either may be its main "
    "holder.",
    (
        "attached",
        "threads",
    ): "A thread is attached to the arena that it allocates from. An arena to which none is attached "
    "outlived its threads: the next new thread takes it over.",
    ("average",): "Bytes divided by number: of a type's blocks, of a bin's chunks. Of a member's values their mean.",
    ("bin", "bins"): "A list of an arena's free chunks of about one size. The main kinds are the unsorted bin, small "
    "bins and large bins. 'bins' in a table sums them up, without fastbins, thread caches and top.",
    ("block", "blocks"): "What one call of malloc returned: the part of a chunk that the program may write to. Its "
    "bytes are counted with the chunk's header.",
    ("body", "node"): "Of a type: the block in which a string, a vector or the like keeps its contents; a node is one "
    "of the blocks that make up a list, a tree or a hash table.",
    ("bookkeeping",): "What malloc keeps for itself in the heaps: headers of heaps and arenas, and fenceposts. "
    "Headlines count it as in use; `heap chunks` and `heap map` also say how much it is.",
    (
        "break",
        "brk",
        "addresses by brk",
        "program break",
    ): "The end of the memory that the main arena grows into. malloc moves "
    "it up for more memory, and back down to return the end of the main arena's top to the kernel.",
    ("bss", ".bss", ".data"): "Where the variables of a program or library lie: .data those with a first value, .bss "
    "the others.",
    (
        "by",
    ): "What returns memory: madvise or brk, which malloc_trim calls, or --tops; in `heap pins` free() of the block, "
    "or a trim after it.",
    (
        "bytes",
        "size",
        "all of them",
    ): "How much memory it is; of blocks and chunks with the chunks' headers. In `heap owners --by type` all of "
    "them, average and largest count what only each block leads to as well.",
    ("cached",): "Freed, but in a thread's cache or in a fastbin: its header still looks in use. A trim returns what "
    "fastbins hold, never what thread caches do.",
    ("calls",): "How many calls of madvise malloc_trim would make: one for each free chunk that covers whole pages.",
    ("cell", "a cell"): "In `heap map`, one character: so many bytes of a heap.",
    (
        "certain",
        "guess",
        "a guess",
        "sure",
    ): "A type is certain where debug information declares it, or the block itself "
    "proves it: a vtable, an object's header. A pointer is sure where it leads to a block's start, or where something "
    "shows why it leads inside. A guess, marked "
    "by ?, is what its contents, its neighbours or its holder suggest.",
    (
        "change",
        "before",
        "after",
        "now",
        "since",
        "time",
    ): "The difference between a figure before and after, or between the first moment and now. Since: from which "
    "moment on it changed; time: when it was looked at.",
    ("chunk", "chunks", "chunk size"): "malloc's unit: a block with its header in front. A chunk's size counts the "
    "header, so that on 64-bit it is at least 8 bytes more than the program asked for, rounded up to a multiple "
    "of 16.",
    ("container", "containers"): "What keeps many objects of a kind: a map, a list, a hash table, a queue, an array. "
    "`heap containers` names each by the path from a variable to it.",
    ("core",): "A file with the memory of a process at one moment. gcore's do not tell which pages were resident, the "
    "kernel's do.",
    ("cuts", "splits", "split"): "In how many places blocks in use lie between two stretches of free memory and are "
    "smaller than these together: they are what cuts free memory into pieces.",
    ("damage", "damaged", "breach"): "Bytes of a heap that are not what malloc leaves there: something has "
    "overwritten a header. `heap check` says what is wrong, a breach for each of malloc's rules that is not kept.",
    ("default", "value"): "Of a parameter: what glibc has by itself, and what holds in this process.",
    ("door",): "Where a command was typed: in GDB, in LLDB or in the shell. All three give the same answers.",
    (
        "elements",
        "per element",
    ): "How many objects a container has in it, or all the containers of a row together. Per "
    "element: what these hold, divided by that.",
    (
        "example",
        "one of them",
        "largest",
        "the largest is",
    ): "The address of one block of the row, for `heap chunk` or `heap owner`. Where the largest is shown, it is "
    "that one.",
    ("fastbin", "fast", "fastbins"): "A list of small free chunks (up to 128 bytes) that wait to be used again as "
    "they are. They are not merged with free neighbours until malloc_trim, or a free() that leaves a large free "
    "chunk, merges them all.",
    ("fencepost",): "A few bytes at the end of what was once a top, which stop malloc from reading further.",
    ("figures",): "In `top`: whether a row was read in full, or tells the least that there is.",
    ("foreign",): "Memory that somebody other than malloc took by sbrk, in the middle of the main arena.",
    ("free",): "The program has called free(), and malloc keeps the memory for the next request. It can still be "
    "resident.",
    ("free in RSS",): "What is free in malloc and resident: what a process could do without. `top` counts the whole "
    "pages of free memory that are in memory, and what is stranded.",
    (
        "from",
        "to",
    ): "Where a range begins, and the address behind its end. Of a bin: the smallest and the largest size of a chunk "
    "that belongs there.",
    ("heap", "heaps", "sub-heap", "sub-heaps"): "A stretch of addresses from which an arena cuts its chunks. The main "
    "arena's is the one in front of the break; a thread arena has one or more of at most 64 MiB (1 MiB on 32-bit).",
    (
        "held",
        "holds",
        "held by",
        "main holder",
        "alone",
    ): "Of a block in use: something in the program still leads to it, so "
    "that it is not lost. One of the variables, threads or mappings that lead to it is its main holder. What that "
    "holds alone nobody else leads to.",
    ("holds back",): "Of all blocks of a type: what more would return to the system if every one of them were freed, "
    "and malloc_trim called after that. It is their own pages, and those that they share with free pieces.",
    (
        "how",
        "over time",
    ): "Whether a figure grew steadily, at once or unevenly, or held still; and its course from the first moment to "
    "the last, from its least to its most.",
    ("huge page", "huge pages", "THP"): "A page of 2 MiB instead of 4 KiB. A single block in use keeps the whole of "
    "it resident.",
    ("in use", "used", "live", "live blocks"): "In the program's hands: allocated and not freed. Whether the program "
    "still needs it, malloc cannot know. `heap chunks` and `heap map` count chunks; headlines count malloc's "
    "bookkeeping as well.",
    ("incomplete",): "Something could not be read, or is damaged: figures are of what was read, and what is not known "
    "is ?.",
    ("kernel's", "the kernel's", "vdso", "vvar", "vsyscall"): "Small mappings that the kernel gives each process: the "
    "clock, and the way into system calls.",
    (
        "kind",
        "of",
    ): "Of a list of free chunks: fastbin, thread cache, small, large or unsorted bin, and of which arena or thread "
    "it is.",
    ("large bin", "large"): "A bin for chunks from 1,024 bytes on (64-bit), each for a range of sizes, sorted by size.",
    ("list",): "Where malloc keeps free chunks: a bin, a fastbin or a thread cache.",
    (
        "load",
        "longest chain",
    ): "Of a hash table: elements for each bucket on average, and elements in the fullest bucket, "
    "which are searched one by one.",
    ("lost", "leak", "leaked", "perhaps lost", "possibly lost"): "Of a block in use: nothing leads to it any "
    "more, so that nobody can free it. Possibly: only pointers to its inside do, which may be old. Perhaps: only "
    "stale words do.",
    (
        "madvise",
        "addresses by madvise",
    ): "The call by which malloc_trim returns whole pages in the middle of a heap: their "
    "addresses stay, the memory behind them goes.",
    ("main arena", "main", "main_arena"): "Arena 0, the one that every process starts with. It is the only one that "
    "grows by the break, and the only one whose top malloc_trim cuts.",
    ("mapping",): "A range of addresses that the kernel gave the process at one go: a file, a stack, a heap, or "
    "memory for whoever asked by mmap. /proc/PID/maps lists them.",
    (
        "member",
        "values",
        "least",
        "greatest",
        "most frequent",
    ): "Of the blocks of a type: a member that all of them have, how many different values it has, the least and the "
    "greatest, and the one that most blocks have.",
    ("mmap_threshold",): "A request of this size or more gets a mapping of its own (128 KiB at first). Freeing such a "
    "block raises it, up to 32 MiB, unless a threshold was set.",
    ("mmapped", "served by mmap"): "Said of a block with a mapping of its own, outside all arenas, because it was "
    "large. free() returns it at once.",
    ("module",): "The program or library that a type comes from.",
    (
        "mostly under",
        "spreads at",
    ): "Of what an owner holds: the last block on the path from the owner that still leads "
    "to most of it. Below that block it divides into many parts; `heap refs` says what leads to that block.",
    ("occupancy",): "In `heap map`: a heap from its start to its end, a character for each cell.",
    ("other anonymous memory",): "Memory with no file behind it that neither malloc nor a stack holds: another "
    "allocator, a language runtime, the program's own calls of mmap, variables that begin as zeros (.bss).",
    ("outside malloc",): "All that is resident and does not belong to malloc: program and libraries, stacks, shared "
    "memory, and other anonymous memory.",
    ("page", "pages", "whole pages"): "The unit in which the kernel gives and takes memory, usually 4 KiB. It is "
    "returned only as a whole.",
    ("parameter", "params", "asked for"): "A setting of malloc's (mallopt(3)), 'asked for' by an environment variable "
    "such as MALLOC_ARENA_MAX or by GLIBC_TUNABLES.",
    (
        "part",
        "part of resident memory",
    ): "What memory is, as `heap report` divides it: in use, free, stranded and so on. The parts add up to the whole "
    "below them.",
    (
        "per hour",
        "per minute",
        "an hour",
        "a minute",
    ): "A change between two moments, scaled to an hour or a minute. Two moments less than a minute apart are too "
    "close for that.",
    ("pid",): "A process's number, as `ps` shows it.",
    ("pin", "pins", "pinned", "what it keeps"): "A block in use that keeps free memory beside it from being returned, "
    "because memory is returned only in whole pages, or only from the end of a heap.",
    ("place", "places", "piece", "pieces"): "Free chunks side by side are one piece. Each in which there are whole "
    "pages is a place: malloc_trim gives it back by one call.",
    ("plain pointer", "no plain pointer"): "A word that is a block's address as it is. Programs also pack or shift "
    "addresses: `heap leaks` looks for these where no plain pointer leads to a block.",
    ("points to",): "Where in a block a pointer leads: its start, or so many bytes inside.",
    (
        "process",
        "command",
        "name",
        "user",
    ): "A program that runs: its number and name, its command line, and whose it is.",
    ("reached",): "Of a block: pointers lead to it from a root, from block to block.",
    ("redacted",): "Of a core: it holds malloc's own words alone, and none of the program's data (`heap save "
    "--redact`).",
    ("resident", "RSS", "in memory"): "In physical memory at this moment, as `ps` counts it in RSS. What was never "
    "written, or was returned, is not.",
    (
        "retained",
    ): "Of a block, or of all blocks of a type: its bytes with those of all blocks that only it leads to, such "
    "as the bodies of its strings. They can be freed together with it, or are lost together with it. Rows of several "
    "types overlap.",
    ("root", "roots"): "What a program reaches its blocks from: variables, threads' stacks and registers, mappings "
    "that are not malloc's, what the kernel keeps for it.",
    ("RSS falls",): "By how much resident memory would fall: what is returned, less what was not resident anyway.",
    (
        "share",
        "share of RSS",
    ): "A part of the whole, as a percentage or a bar: of the bytes of all blocks, or of resident memory.",
    (
        "shared with",
    ): "Who else leads to a block, besides its main holder: clearing one of them alone does not free it.",
    ("small bin", "small"): "A bin for chunks of exactly one size, below 1,024 bytes (64-bit).",
    ("snapshot",): "A file with the figures of one moment, for `heap diff`. It holds none of the program's data.",
    (
        "stale",
        "stale word",
    ): "A word that leads to a block but is probably no pointer in use: the contents of a buffer, what "
    "a container left behind its end. It holds a block only where nothing else leads to it.",
    ("state",): "What a chunk is: used, tcache (in a thread's cache), fast (in a fastbin), free (in a bin), or top.",
    ("stood still", "stands still"): "Of a process: how long it was stopped, so that it could be read at one "
    "moment. Then it ran on. Each command stops it again; with --no-stop none does.",
    ("stranded",): "Free, but in a page that also holds something in use, so that the page stays. It can be used "
    "again, and is returned only once its neighbours are freed.",
    ("swap", "in swap"): "What the kernel has written to disk to have its page for others. It is not resident, and "
    "comes back when it is used or read.",
    ("symbol", "first word"): "The name of what an address points to: a function, variable or C++ class.",
    ("system",): "What an arena has taken from the kernel and not returned, in use or free, resident or not.",
    ("tcache", "thread cache", "cache at"): "A few freed blocks of each size that a thread keeps for itself, to have "
    "them again without a lock. They are put back into their arenas when the thread ends.",
    ("thread arena", "thread-arena"): "Any arena but the main one. malloc_trim never touches its top.",
    ("threshold", "thresholds"): "mmap_threshold and trim_threshold: from which size on a block gets a mapping of its "
    "own, and a top is returned.",
    ("tid",): "A thread's number in the kernel, as `ps -T` shows it.",
    (
        "top",
        "top stays",
        "resident top",
    ): "The free end of an arena, from which new blocks are cut where no list has one "
    "that fits. Top stays: what of it malloc_trim leaves; resident top: the resident part of that.",
    ("top_pad",): "How much more than needed malloc takes from the kernel at a time, and leaves in a top (128 KiB).",
    ("tops", "--tops"): "The tops of thread arenas. malloc_trim leaves them alone; `heap trim --apply --tops` returns "
    "them.",
    ("trim", "malloc_trim", "trim gives"): "A call of malloc_trim(0): malloc returns every whole free page of its "
    "bins, and the end of the main arena's top.",
    ("trim_threshold",): "free() returns a top to the kernel by itself only once it is at least this large (128 KiB "
    "at first; it grows with mmap_threshold).",
    (
        "type",
    ): "What a block is: what the program or debug information calls it, or a guess by its contents. Where nothing "
    "tells, blocks of a size are one type.",
    ("uninstall", "undo"): "Delete the checkout, or uninstall it with what installed it; then delete "
    "the line with arena.py in ~/.gdbinit and ~/.lldbinit.",
    ("unsorted bin", "unsorted"): "A bin of chunks freed lately, of any size, not yet sorted into small and large "
    "bins.",
    (
        "whose",
        "who",
        "where",
        "what",
        "count",
    ): "Whose a row is: a variable, thread or mapping that leads to blocks; of addresses a file or an arena. Where, "
    "what and count say in which place the pointer lies, what the blocks are, and how many.",
    (
        "would return",
        "goes back",
        "return",
        "returned",
        "released",
        "give back",
    ): "Goes from the process to the kernel. If it was "
    "resident, RSS falls by as much. Of an owner: once all that it alone leads to is freed, and malloc_trim(0) called; "
    "that is more than it holds where free memory lies on the same pages, and less where blocks of others do.",
}
IN_JSON: Mapping[str, tuple[str, ...]] = {
    "in use": ("live", "live_bytes", "used_bytes"),
    "stranded": ("scraps", "scraps_bytes"),
    "trim gives": ("returnable", "returnable_bytes"),
    "tops": ("thread_tops", "thread_tops_bytes"),
    "would return": ("returns_bytes", "releases_bytes", "release_bytes"),
    "alone": ("owners[].retained_bytes",),
    "shared with": ("leading",),
    "possibly lost": ("possible_bytes",),
    "no plain pointer": ("unknown_bytes",),
    "asked for": ("requested",),
    "stood still": ("held_seconds",),
}
"""Of words on the screens, keys of documents that are called something else, and what stands for a part there."""
WORDS = tuple(
    Word(names, meaning, {name: IN_JSON[name] for name in names if name in IN_JSON})
    for names, meaning in MEANINGS.items()
)


def listed(keys: Sequence[str]) -> str:
    return ", ".join(f"`{each}`" for each in keys)


def word_of_key(key: str) -> Optional[str]:
    """What the screens call it, where that is another word."""
    return next((word for word, keys in IN_JSON.items() if key in keys), None)


def find_word(name: str) -> Optional[Word]:
    """By any of its names, in capitals or not."""
    wanted = " ".join(name.lower().split())
    called = ((word, [*word.names, *(key for keys in word.keys.values() for key in keys)]) for word in WORDS)
    return next((word for word, names in called if wanted in (each.lower() for each in names)), None)


def entry(word: Word, prefix: str) -> Iterator[str]:
    yield word.title
    meaning = word.explained.replace("`heap ", f"`{prefix} ")
    yield from textwrap.wrap(
        meaning, HELP_WIDTH, initial_indent=INDENT, subsequent_indent=INDENT, break_on_hyphens=False
    )


def words_text(words: Sequence[Word], prefix: str) -> str:
    """As a screen shows them, where commands are typed after this prefix."""
    return "\n".join(line for word in words for line in entry(word, prefix)) + "\n"
