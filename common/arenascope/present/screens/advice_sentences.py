"""The sentences of `heap report`'s advice: what to do, why, how, what it costs and when not to."""

from __future__ import annotations

from typing import Callable, Iterator, Mapping, NamedTuple, Optional, Sequence

from ...analysis.advice import Advice
from ...analysis.causes import Facts, lost_of
from ...analysis.held_sums import MainHolder, PageSharer
from ...analysis.trim_prediction import trim_seconds
from ...base.class_names import type_words
from ...base.heap_model import whole
from ..shared_text.lines_and_tables import Style, count, duration, say, with_verb
from ..shared_text.missing_symbols import symbols_command
from .type_lines import name_of
from .verdict import ONLY_FREEING, Figures, Names, lost_blocks, owner_called, places, strander


class Way(NamedTuple):
    """A way to do something, as the user can take it here."""

    text: str
    command: Optional[str] = None
    """What of it can be pasted; None: it is prose."""


Ways = Sequence[Way]


def _typed(style: Style, words: str, more: str = "") -> Way:
    """One of our commands, with a remark."""
    return _with_remark(style.typed(words), style.typed(words), more)


def _applied(style: Style, words: str, more: str = "") -> Way:
    """One of our commands that changes the process, and needs what that takes."""
    if style.lacks:
        return Way(f"{words} would be refused: {style.lacks}")
    return _with_remark(style.typed_to_apply(words), style.applied(words), more)


def _with_remark(text: str, command: str, more: str) -> Way:
    """Only one pair of brackets, after all that is to be pasted."""
    if more:
        text = f"{text[:-1]}; {more})" if text.endswith(")") else f"{text} ({more})"
    return Way(text, command)


def _pasted(words: str, after: str = "", before: str = "") -> Way:
    """A setting or another program's command, with text around it."""
    return Way(f"{before}{words}{after}", words)


def _later(style: Style) -> Way:
    """A second look that tells whether memory grows, of a process or of a core."""
    if style.running:
        return _typed(style, "report --again 30", "whether it grows")
    when = "then, on a later core," if style.core else "let it run, then"
    later = style._replace(subject=style.subject and "LATER").typed("report --since before.json")
    return _typed(style, "snapshot before.json", f"whether it grows: {when} {later}")


def _traced(style: Style) -> Way:
    """strace, which shows who asks the kernel for memory. It cannot attach while a debugger does, nor to a core."""
    first = "" if style.running else "in the process, " if style.core else "once it is let go, "
    command = f"strace -f -k -e trace=mmap,mremap -p {style.subject if style.running else 'PID'}"
    return _pasted(command, f" ({first}while it grows: the stack of whoever asks for more)")


def _by_type(style: Style) -> Way:
    """Snapshots with types. In the shell `watch` names what grew from the second look on."""
    if style.running:
        more = "which type grows; each look copies the process, and is kept there"
        return _typed(style, "watch --interval 30 --types --save moments", more)
    return _typed(style, "snapshot types.json --types", f"and later {style.typed('diff types.json')}: which grew")


POOLS = (
    Way("a pool of their own: a slab, std::pmr, an array that reserve() makes at once"),
    Way("made all at once, or by a thread that makes nothing else: its arena has nothing between them"),
)
"""Ways to keep blocks apart from others."""
POOL_COST = "code to change, and a pool that keeps what its largest moment needed"


class AdviceText(NamedTuple):
    """Advice as people read it. Cost and not_when are "" if there is nothing to say."""

    action: str
    evidence: str
    ways: Ways
    cost: str = ""
    not_when: str = ""
    by_itself: bool = False
    """More returns if other owners' memory is freed too."""
    all_apply: bool = False
    """All ways are shown, as each serves another purpose."""

    @property
    def how(self) -> list[str]:
        """The ways as people read them."""
        return [way.text for way in self.ways]


def _clear(figure: Figures, names: Names, facts: Facts, style: Style) -> AdviceText:
    keeper = next(each for each in facts.clearable if each.called == names["owner"])
    size, back = say(figure["bytes"]), keeper.returns
    more = ""
    if back is not None:
        more = _once_freed(back)
        if back < keeper.alone and say(back) != size:
            more += f"; {_stays(keeper, facts)}"
        elif back > keeper.alone and say(back) != size:
            more += ", because its blocks also keep free memory beside them"
    kind = keeper.owner.kind
    what = f"what {owner_called(keeper.called, kind)} leads"
    if kind == "stack":
        what = f"what local variables ({keeper.called}) lead"
    return _spared(
        f"{what} to, or limit its size",
        f"nothing else leads to {size} in {count(figure['blocks'], 'block')}{more}",
        (_typed(style, "owners", "who holds what"), _typed(style, "types --owners", "what these blocks are")),
    )


def _stays(keeper: MainHolder, facts: Facts) -> str:
    """Why only part of an owner's memory would return, and which other owner's blocks must be freed for more."""
    away = keeper.alone - (keeper.resident if keeper.resident is not None else keeper.alone)
    why = f"{say(away)} is not in memory, and the rest" if say(away) != say(0) else "the rest"
    return f"{why} shares its pages with what others hold{_beside(keeper.beside, facts)}"


def _beside(beside: Optional[PageSharer], facts: Facts) -> str:
    """What leaves memory if both owners' blocks are freed; "" if that is little more."""
    if beside is None or not facts.matters(beside.more):
        return ""
    return f"; freed together with that of {beside.called}, {say(beside.returns)} leaves in all"


def _clear_all(figure: Figures, names: Names, facts: Facts, style: Style) -> AdviceText:
    """Advice to free what several owners lead to: it can be freed only once none of them needs it."""
    number, size = figure["owners"], say(figure["bytes"])
    joint = next((each for each in facts.clearable_jointly if each.called == names["owners"]), None)
    back = ""
    if joint is not None and joint.returns is not None:
        back = _once_freed(joint.returns) + _beside(joint.beside, facts)
    every = "both" if number == 2 else f"all {number}"
    return _spared(
        f"what {names['owners']} lead to (clear {every}: as long as one of them leads there, all of it stays)",
        f"together they lead to {size}, and nothing else does{back}",
        (
            _typed(style, "owners", "who holds what, and what would return"),
            _typed(style, "types --owners", "what it is"),
        ),
    )


def _spared(what: str, why: str, ways: Ways) -> AdviceText:
    """Advice to free memory in use: only the program knows whether it is still needed."""
    return AdviceText(
        f"if the program can spare it, free {what}",
        why,
        ways,
        "a change of code; what is needed after all must be made again",
        not_when="not where all of it is used again at once",
        by_itself=True,
    )


def _once_freed(size: int) -> str:
    return f": once freed, and malloc_trim(0) called, {say(size)} leaves memory"


def _keep_apart(figure: Figures, names: Names, facts: Facts, style: Style) -> AdviceText:
    """Advice on an owner that holds little, but on pages that other owners' blocks share."""
    size, up, in_all = figure["bytes"], figure["holds_up_bytes"], figure["returns_bytes"]
    return AdviceText(
        f"free what {with_verb(names['owners'], 'lead')} to together with what the others hold, or allocate its blocks "
        f"apart from theirs: freed alone it returns nothing; freed together with theirs, {say(up)} more returns, "
        f"{say(in_all)} in all (kept apart, all of that but its own {say(size)})",
        f"only {say(size)}, but on the pages of what others hold",
        (*POOLS, _typed(style, "owners", "who holds what")),
        POOL_COST,
        not_when="not while the rest of what lies on those pages stays",
    )


def _install_symbols(figure: Figures, names: Names, facts: Facts, style: Style) -> AdviceText:
    said = next(each for each in facts.nameable if each.names["owner"] == names["owner"])
    return AdviceText(
        f"install the debug symbols of {names['module']}: they name the variables that hold {say(figure['bytes'])}",
        f"{names['file']} is stripped",
        (
            Way(symbols_command(said, style), said.names["command"]),
            _typed(style, "owners", "then: which variable holds what"),
        ),
        all_apply=True,
    )


NOTHING_TO_SET = (Way("nothing to set: fewer arenas would not fix this"),)


LARGE_BLOCKS = "which sizes are in use: if no block is ever 128 KiB or larger, this returns only the tops"


def words(advice: Advice, facts: Facts, style: Style) -> AdviceText:
    return ADVICE[advice.id](whole(advice.figures), advice.names, facts, style)


def _setting(facts: Facts, variable: str, tunable: str, mallopt: str, value: int) -> Ways:
    """Ways to set a parameter of this glibc."""
    ways = [
        _pasted(f"{variable}={value}", " in the environment, from the next start on"),
        Way(f'systemd: Environment={variable}={value}; Kubernetes: env: [{{name: {variable}, value: "{value}"}}]'),
    ]
    if facts.tunables:
        reads = f" (glibc {facts.release} reads it)"
        ways.append(_pasted(f"GLIBC_TUNABLES=glibc.malloc.{tunable}={value}", reads, before="or "))
    else:
        ways.append(Way(f"not GLIBC_TUNABLES: glibc {facts.release} does not read malloc's tunables (2.26 does)"))
    ways.append(_pasted(f"mallopt({mallopt}, {value})", " before the first allocation", before="or "))
    return ways


def _java(facts: Facts, how: str) -> Ways:
    """A way that the JVM offers; none if the process is no JVM."""
    return (
        (_pasted(how, " (JDK 17.0.9, 21 and later)"),) if any(each.name == "JVM" for each in facts.allocators) else ()
    )


def _trim(figure: Figures, names: Names, facts: Facts, style: Style) -> AdviceText:
    seconds = trim_seconds(figure["between_bytes"] + figure["end_bytes"], facts.calls)
    return AdviceText(
        "call malloc_trim(0) once",
        " and ".join(_where(figure)),
        (
            *_java(facts, "jcmd PID System.trim_native_heap"),
            _applied(style, "trim --apply"),
            Way("malloc_trim(0) in the program"),
        ),
        f"about {duration(seconds)}, one arena locked at a time; pages used again fault in again",
        not_when="not when the program soon needs as much again: take a snapshot before, and a diff later",
    )


def _where(figure: Figures) -> Iterator[str]:
    """What malloc_trim returns: between blocks, and at the end of the main arena's top."""
    if figure["between_bytes"]:
        yield f"{say(figure['between_bytes'])} of whole pages are free, in {places(figure['places'])}"
    if figure["end_bytes"]:
        yield f"{say(figure['end_bytes'])} at the end of the main arena's top"


def _both(figure: Figures) -> str:
    """What the command returns in all, as it also trims; "" if that is no more."""
    both = figure["with_trim_bytes"]
    return f"which trims as well: {say(both)} in all" if both else ""


def _thresholds(figure: Figures, names: Names, facts: Facts, style: Style) -> AdviceText:
    trim = say(figure["trim_threshold_bytes"])
    why = f"trim_threshold was set to {trim}"
    if figure["grew"]:
        why = (
            f"mmap_threshold grew to {say(figure['mmap_threshold_bytes'])} by itself "
            f"(default {say(figure['mmap_threshold_default_bytes'])}), trim_threshold to {trim}; "
            + ", ".join(_above_default(figure))
        )
    perhaps = figure["large_free_bytes"] > figure["tops_bytes"]
    return AdviceText(
        ("if the program frees blocks of 128 KiB and more, " if perhaps else "")
        + "fix the thresholds: set trim_threshold to 128 KiB, which also stops mmap_threshold from growing",
        why,
        (
            *_setting(
                facts, "MALLOC_TRIM_THRESHOLD_", "trim_threshold", "M_TRIM_THRESHOLD", value=figure["set_to_bytes"]
            ),
            *([_typed(style, "chunks --summary", LARGE_BLOCKS)] if figure["large_free_bytes"] else ()),
        ),
        "blocks of 128 KiB and more then get a mapping of their own: a system call and page faults for each",
        not_when="not where such blocks come and go thousands of times a second",
    )


def _above_default(figure: Figures) -> Iterator[str]:
    """What is free but would not be with the default thresholds: in tops, and in large pieces."""
    if figure["tops_bytes"]:
        yield f"{say(figure['tops_bytes'])} of what is free lies in tops"
    if figure["large_free_bytes"]:
        size = say(figure["large_free_bytes"])
        yield f"{size} in pieces that blocks above the default can have left, or smaller ones freed side by side"


def _periodic(figure: Figures, names: Names, facts: Facts, style: Style) -> AdviceText:
    seconds = trim_seconds(figure["between_bytes"], facts.calls)
    return AdviceText(
        "call malloc_trim(0) regularly, say every 30 s, if free memory piles up again",
        f"only malloc_trim returns whole pages between blocks in use ({say(figure['between_bytes'])} now)",
        (*_java(facts, "-XX:TrimNativeHeapInterval=30000"), Way("a timer or an idle moment in the program")),
        f"each call takes about {duration(seconds)} at today's size, less if it is called often",
        not_when="not when a diff of two snapshots shows that it is used again at once",
    )


def _arena_max(figure: Figures, names: Names, facts: Facts, style: Style) -> AdviceText:
    value = figure["set_to"]
    return AdviceText(
        f"limit the number of arenas (MALLOC_ARENA_MAX={value}, or 4)",
        f"{say(figure['outside_bytes'])} of {say(figure['free_bytes'])} free lie outside main_arena and the fullest "
        "other arena",
        _setting(facts, "MALLOC_ARENA_MAX", "arena_max", "M_ARENA_MAX", value=value),
        "threads wait for each other's locks in malloc; it only helps if threads need their peaks at different times",
        not_when="not where many threads allocate all the time",
    )


def _apart(figure: Figures, names: Names, facts: Facts, style: Style) -> AdviceText:
    whose, name = strander(figure, names), type_words(names["type"])
    return AdviceText(
        f"allocate the blocks of {name} apart from short-lived blocks",
        f"{whose} lie among free pieces: freeing all of them would return {say(figure['other_bytes'])} besides their "
        f"own memory; {say(figure['scraps_bytes'])} is stranded in all",
        (
            *POOLS,
            _typed(style, "types --by holds-back", "what else keeps memory"),
        ),
        POOL_COST,
        not_when="not where the freed pieces between them are used again at once: compare two snapshots",
    )


def _most_of(facts: Facts) -> str:
    """The type that most live bytes are of; "" if it is less than a quarter."""
    rows = facts.seen.rows[:1] if facts.seen else ()
    much = [row for row in rows if 4 * row.bytes >= facts.picture.live]
    return "".join(
        f"; the largest part: {count(row.blocks, 'block')} of {name_of(row.kind)}, {say(row.bytes)}" for row in much
    )


def owners_tell(style: Style) -> Way:
    return _typed(style, "report --owners", "whether it is lost, and who holds it")


PROFILER = Way("a heap profiler (heaptrack, memray, bpf memleak): who allocated them")


def _what_is_in_use(figure: Figures, facts: Facts) -> str:
    evidence = (
        f"{say(figure['live_bytes'])} of {say(figure['known_bytes'])} is in blocks that the program has not freed"
    )
    if figure["left_bytes"]:
        whose = "an arena whose threads have" if figure["left_arenas"] == 1 else "arenas whose threads have"
        which = whose if figure["left_arenas"] == 1 else f"{figure['left_arenas']} {whose}"
        evidence += f", {say(figure['left_bytes'])} of it in {which} ended"
    return evidence + _most_of(facts)


def _which_blocks(figure: Figures, facts: Facts, style: Style) -> Way:
    if facts.held is not None:
        return _typed(style, "owners", "who holds them")
    alone = figure["mmapped_bytes"] > figure["in_arenas_bytes"]
    return _typed(style, "mmapped", "which blocks") if alone else _typed(style, "types", "what they are")


def _again(figure: Figures, names: Names, facts: Facts, style: Style) -> AdviceText:
    found = facts.held is not None or facts.redacted
    first = (
        "look a second time, to see whether it grows" if found else "see whether it is lost, and then whether it grows"
    )
    return AdviceText(
        f"{first}: no setting changes what is in use",
        _what_is_in_use(figure, facts),
        (*(() if found else (owners_tell(style),)), _later(style), _which_blocks(figure, facts, style), PROFILER),
    )


def _nothing(figure: Figures, names: Names, facts: Facts, style: Style) -> AdviceText:
    return AdviceText(
        "no setting helps: it is in use, and grew by little or nothing meanwhile",
        _what_is_in_use(figure, facts),
        (
            # a single leak does not grow either
            *([owners_tell(style)] if facts.held is None and not facts.redacted else ()),
            _which_blocks(figure, facts, style),
            PROFILER,
        ),
    )


def _leak(figure: Figures, names: Names, facts: Facts, style: Style) -> AdviceText:
    which = lost_blocks(figure, lost_of(facts.held).names) if facts.held else ""
    back = ""
    if facts.held and facts.held.returns is not None:
        goes = say(facts.held.returns) if facts.held.returns else "nothing"
        back = f"; once they are freed, and malloc_trim(0) called, {goes} leaves memory by that alone"
    what = "leak" if facts.matters(figure["bytes"] or 0) else "small leak"
    return AdviceText(
        f"fix the {what}: nothing leads to {say(figure['bytes'])} in {count(figure['blocks'], 'block')} any more"
        + (f", {which}" if which else ""),
        f"of {say(figure['live_bytes'])} in blocks, resident or not; pointers were followed from variables, stacks "
        f"and registers{back}",
        (_typed(style, "leaks", "what they are, and what only they lead to"), PROFILER),
    )


def _ask(figure: Figures, names: Names, facts: Facts, style: Style) -> AdviceText:
    instead = tuple(Way(f"{each.name}: {each.instead}") for each in facts.allocators)
    asked = " and ".join(dict.fromkeys(each.name for each in facts.allocators))
    return AdviceText(
        f"ask {asked} about its memory" if asked else "find out who mapped it",
        f"{say(figure['bytes'])} did not come from glibc's malloc",
        instead
        or (
            _typed(style, "mappings", "each of them, the largest first"),
            *(
                _typed(style, f"refs {each.region.start:#x}", "what points to the largest")
                for each in facts.picture.others[:1]
            ),
            _traced(style),
        ),
        all_apply=True,
    )


def _no_help(figure: Figures, names: Names, facts: Facts, style: Style) -> AdviceText:
    limit = figure["limit"]
    return AdviceText(
        f"the limit of {limit} {'arena' if limit == 1 else 'arenas'} that was set does not help here",
        f"{say(figure['between_bytes'])} of {say(figure['free_bytes'])} free lies between blocks in use: it "
        "would do so with fewer arenas, too",
        NOTHING_TO_SET,
    )


def _leave(figure: Figures, names: Names, facts: Facts, style: Style) -> AdviceText:
    bound, free = figure["outside_bytes"], figure["free_bytes"]
    kept = " in tops that the grown trim_threshold would keep in fewer arenas, too," if facts.grown else ""
    why = (
        f"{say(free - bound)} of {say(free)} free would still be there: it lies inside main_arena and the fullest "
        f"other arena,{kept} or in pages that blocks in use share"
    )
    if 2 * bound >= free:
        why = (
            f"at most {say(bound)} of {say(free)} would go, and the threads would share a lock: "
            "the thresholds are the cause"
        )
    setting, stranded = f"MALLOC_ARENA_MAX={figure['not_set_to']}", figure["stranded_outside_bytes"]
    if 2 * bound < free <= 2 * (bound + stranded):
        why += f"; {say(stranded)} of that in other arenas: that shrinks only if threads need most at different times"
        return AdviceText(f"{setting} may not help", why, (Way("try it under the same load: one look cannot show it"),))
    return AdviceText(f"{setting} would not help", why, NOTHING_TO_SET)


ADVICE: Mapping[str, Callable[[Figures, Names, Facts, Style], AdviceText]] = {
    "clear-owner": lambda figure, names, facts, style: (
        _clear_all(figure, names, facts, style) if "owners" in names else _clear(figure, names, facts, style)
    ),
    "install-symbols": _install_symbols,
    "keep-owner-apart": _keep_apart,
    "trim-once": _trim,
    "release-tops": lambda figure, names, facts, style: AdviceText(
        "release the tops of thread arenas",
        f"{say(figure['tops_bytes'])} in tops, which malloc_trim never touches in any glibc",
        (_applied(style, "trim --apply --tops", _both(figure)),),
        "one madvise an arena; pages used again fault in again",
    ),
    "pin-thresholds": _thresholds,
    "trim-regularly": _periodic,
    "limit-arenas": _arena_max,
    "shrink-thread-caches": lambda figure, names, facts, style: AdviceText(
        "make thread caches smaller",
        f"{say(figure['bytes'])} in them",
        (_pasted("GLIBC_TUNABLES=glibc.malloc.tcache_count=2", f" (glibc {facts.release})"),),
        "malloc and free take the arena's lock more often",
    ),
    "keep-type-apart": _apart,
    "other-allocator": lambda figure, names, facts, style: AdviceText(
        "if long-lived and short-lived blocks differ in size, try an allocator that keeps sizes apart (jemalloc, "
        "tcmalloc, mimalloc)",
        f"{say(figure['bytes'])} is stranded, free in pages that blocks in use share: {ONLY_FREEING}",
        (
            _typed(
                style,
                "chunks --summary",
                "which sizes are in use, and which free: a free chunk may be several freed blocks that have merged. "
                "Where all were of one size, no allocator does better",
            ),
            _pasted("LD_PRELOAD=libjemalloc.so.2", ", measured under the real load"),
        ),
        "another program to know; more memory for small heaps",
        all_apply=True,
    ),
    "mend-leak": _leak,
    "look-into-possible-leak": lambda figure, names, facts, style: AdviceText(
        f"see whether {say(figure['bytes'])} is lost: only pointers to the insides of its blocks lead there",
        f"possibly lost, of {say(figure['live_bytes'])} in blocks: such a pointer may be a number that looks like one",
        (_typed(style, "leaks --possible", "which blocks they are"),),
    ),
    "search-for-leak": lambda figure, names, facts, style: AdviceText(
        f"find out whether {say(figure['bytes'])} is lost: no plain pointer leads there",
        f"of {say(figure['live_bytes'])} in blocks; encoded pointers were not looked for here",
        (_typed(style, "leaks", "looks for encoded pointers, too"),),
    ),
    "look-again": _again,
    "find-what-grew": lambda figure, names, facts, style: AdviceText(
        "find who allocates what grew: no setting changes what is in use",
        _what_is_in_use(figure, facts),
        (
            *(() if facts.tells_types_that_grow else (_by_type(style),)),
            _typed(style, "owners", "who holds most"),
            PROFILER,
        ),
        all_apply=True,
    ),
    "nothing-more-to-tune": lambda figure, names, facts, style: _nothing(figure, names, facts, style)._replace(
        action="no other setting helps: the rest is in use, and grew by little or nothing meanwhile"
    ),
    "nothing-to-tune": _nothing,
    "ask-who-mapped": _ask,
    "arena-limit-no-help": _no_help,
    "leave-arena-max": _leave,
}
