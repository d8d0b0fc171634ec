"""The text of `heap report`: the answer first, then the parts, why, and what to do."""

from __future__ import annotations

import textwrap
from typing import Collection, Iterator, Mapping, NamedTuple, Optional, Sequence

from ...analysis.advice import LOOKS, OF_LEAKS, Advice
from ...analysis.causes import Facts
from ...analysis.compare_snapshots import CONTAINER, NAMELESS
from ...analysis.growth import BLOCKS_OF_A_SIZE, Grown, worth_naming
from ...analysis.held_sums import FIRST, HeldSums, is_unnamed
from ...analysis.pinning_blocks import TypeRow, main_class
from ...analysis.resident_parts import ANONYMOUS, LIVE, OF_ARENAS, PARTS, RESIDENT, SPACE, ResidentPicture
from ...base.class_names import type_words
from ...base.heap_model import Statement, whole
from ...blocks.declared.container_rows import ContainerRow
from ...blocks.declared.waste_rows import WasteRow
from ..shared_text.lines_and_tables import (
    BAR,
    GAP,
    Style,
    bar,
    count,
    held_size,
    next_lines,
    number,
    say,
    share,
    signed,
    table,
    with_verb,
)
from . import finding_lines
from .advice_sentences import NOTHING_TO_SET, AdviceText, owners_tell
from .finding_lines import ReportFinding
from .owner_lines import HeldMost
from .type_lines import GUESS, name_of
from .verdict import ELSEWHERE, Pair

LONG_ENOUGH = 60
"""Below this, an hourly rate means nothing."""
MINUTE, HOUR = 60, 3600
ALIKE = 1.1
"""A time up to so much longer than asked for is not mentioned."""
SHORT = 2 * HOUR
"""Below this, rates are given by the minute."""
WHAT = {
    "live": "what the program holds",
    "free": "what malloc keeps free",
    "elsewhere": "memory outside malloc",
}
TITLES = {
    "part": "part of resident memory",
    "arena": "arena, by what it took",
    "used": "arena, by what the program holds",
    "bin": "list of free chunks",
    "size": "size of block, in use",
    "type": "type of block, in use",
    CONTAINER: "container, by its elements",
    "owner": "owner of blocks in use",
}
"""Titles of tables of changed figures."""


def amount_cell(style: Style, by: str, value: Optional[int]) -> str:
    return number(value) if by == CONTAINER else style.size(value)


def change_cell(style: Style, by: str, change: Optional[int]) -> str:
    return f"{change:+,}" if by == CONTAINER and change is not None else signed(style, change)


def rate_cell(style: Style, by: str, per_hour: Optional[float], unit: int = HOUR) -> str:
    """`unit`: seconds that the rate is for."""
    rate = None if per_hour is None else round(per_hour * unit / HOUR)
    if by == CONTAINER:
        return "" if rate is None else f"{rate:+,}"
    return signed(style, rate)


def unit_of_rates(seconds: float) -> int:
    """The unit of rates for figures seen over so many seconds, so that a screen uses one."""
    return MINUTE if seconds < SHORT else HOUR


def in_a_unit(unit: int) -> str:
    return "a minute" if unit == MINUTE else "an hour"


def rate_words(style: Style, per_hour: float, seconds: float) -> str:
    """ "+12.0 MiB a minute", for a change seen over so many seconds."""
    unit = unit_of_rates(seconds)
    return f"{rate_cell(style, 'rss', per_hour, unit)} {in_a_unit(unit)}"


def growth_headlines(style: Style, grown: Optional[Sequence[Grown]]) -> list[str]:
    """ "+12.0 MiB a minute: Conn in `table` (+5,900 blocks in 3.0 min)" for each type worth naming; empty if no type
    grew, or it is not known."""
    return [_headline(style, each) for each in worth_naming(grown or ())]


def _headline(style: Style, grown: Grown) -> str:
    over, per_minute = interval_words(grown.seconds), grown.per_minute_bytes
    change = f"{signed(style, grown.bytes)} in {over}"
    if per_minute is not None:
        change = rate_words(style, per_minute * HOUR / MINUTE, grown.seconds)
    headline = f"{change}: {_grown_type(grown)}{_grown_in(grown)}"
    if grown.blocks is None:
        return headline
    return f"{headline} ({grown.blocks:+,} blocks{'' if per_minute is None else f' in {over}'})"


def _grown_type(grown: Grown) -> str:
    if grown.kind == BLOCKS_OF_A_SIZE and grown.type[:1].isdigit():
        return f"blocks of {grown.type}"
    return type_words(grown.type) + ("" if grown.certain else GUESS)


def _grown_in(grown: Grown) -> str:
    if grown.owner is None:
        return ""
    if grown.owner_kind == "unreached":
        return ", which nothing leads to"
    is_variable = grown.owner_kind == "global" and grown.owner != NAMELESS and not is_unnamed(grown.owner)
    return f" in `{grown.owner}`" if is_variable else f" in {grown.owner}"


def growth_sentence(said: Statement) -> str:
    style = Style()
    figures, seconds = whole(said.figures), said.figures.get("seconds")
    if said.id == "another-process":
        return "That snapshot is of another process: it cannot show whether this one grows."
    if said.id == "snapshot-is-later":
        return "That snapshot was taken after this: it cannot show growth since then."
    if said.id == "growth-unknown":
        return "Growth is not known: what is in use is not known at one of the two moments."
    when = "Since the snapshot" if seconds is None else f"In {interval_words(seconds)}"
    if "container" in said.names:
        # the program's container comes before malloc's figures
        when = f"{said.names['container']}: {figures['container_change_elements']:+,} elements. {when}"
    if said.id == "fell":
        rss = figures.get("rss_change_bytes")
        shrank = figures["live_change_bytes"] if rss is None else rss
        return f"{when} it shrank: {'in use' if rss is None else 'RSS'} {signed(style, shrank)}."
    if said.id == "grew-too-little":
        return (
            f"{when} {WHAT['live']} grew by {style.size(figures['live_change_bytes'])}, too little to tell a leak from "
            f"what comes and goes ({_listed(style, figures)}). Compare moments that are further apart."
        )
    if said.id == "held-still":
        little = any((figures.get(f"{name}_change_bytes") or 0) > 0 for name in ("rss", *WHAT))
        return f"{when} it {'hardly grew' if little else 'did not grow'}: {_listed(style, figures)}."
    kind = said.id.partition("-")[0]
    change = figures[f"{kind}_change_bytes"]
    rate = f", {rate_words(style, change * HOUR / seconds, seconds)}" if seconds else ""
    return f"{when} {WHAT[kind]} grew: {signed(style, change)}{rate} ({_listed(style, figures)})."


def further_apart(again: Optional[float], said: Optional[Statement]) -> Iterator[str]:
    """A note that the looks were further apart than asked for."""
    seconds = said.figures.get("seconds") if said is not None else None
    if again and seconds and seconds >= max(ALIKE * again, again + 1):
        yield f"the two looks are {interval_words(seconds)} apart, not {again:g} s, as each takes its time"


def _listed(style: Style, figures: Mapping[str, int]) -> str:
    names = {"rss": "RSS", "live": "in use", "free": "free", "elsewhere": "outside malloc"}
    known = [(words, figures.get(f"{name}_change_bytes")) for name, words in names.items()]
    return ", ".join(f"{words} {signed(style, change)}" for words, change in known if change is not None)


def interval_words(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / MINUTE:.1f} min" if seconds < SHORT else f"{seconds / HOUR:.1f} h"


LABELS = {
    "live": "in use, with malloc's bookkeeping",
    "mmapped": "in use, in blocks with a mapping of their own",
    "tcache": "free, kept in thread caches",
    "returnable": "free, malloc_trim returns it",
    "thread_tops": "free, tops of thread arenas: malloc_trim leaves them",
    "main_top": "free, what malloc_trim leaves of the main arena's top",
    "scraps": "free, stranded: shares its pages with blocks in use",
    "unread": "arenas that could not be read whole",
    "stacks": "stacks of threads",
    "files": "program, libraries and mapped files",
    "shared": "shared memory",
    "other": "other anonymous memory, outside malloc",
    "kernel": "the kernel's own pages (vdso)",
}


def _is_partial(picture: ResidentPicture, name: str) -> bool:
    return not picture.whole and name in OF_ARENAS


def label_of(picture: ResidentPicture, name: str) -> str:
    return LABELS[name] + (", as far as it could be read" if _is_partial(picture, name) else "")


def size_of(style: Style, picture: ResidentPicture, name: str) -> str:
    """The size of a part; a lower bound if something was unreadable."""
    size = picture.parts.get(name, 0)
    if not _is_partial(picture, name):
        return style.size(size)
    return f"≥ {style.size(size)}" if size else style.size(None)


WIDTH = 100
"""Lines are not longer: longer ones are hard to read."""
MEASURES = {RESIDENT: "RSS", ANONYMOUS: "anonymous memory", SPACE: "anonymous address space"}
TYPES = 5
"""How many types in use are shown."""
STRANDERS = 3
"""How many types that strand free memory are shown."""
NO_SUM = "each figure is of that step alone: together they may bring less, or more"
WITHIN, WITHIN_ALL = "of which ", "of both: "
"""Prefix of a row that is part of the row above, or of the two above."""
WIDE_BAR = 24
"""Cells of a full bar if there is room."""
BESIDE_FINDINGS = (*LOOKS, "clear-owner")
"""Advice that says no more than what was found to be too much."""
NO_HELP = ("arena-limit-no-help", "leave-arena-max")
"""Advice that says what not to do."""
SMALL = 200
"""A part below 1/200 gets a row of its own only with --full."""


BESIDE_NONE = "little"
CORE_CANNOT_TELL = "a core does not say which pages of files were in memory: the parts are of anonymous memory alone"
APART = "are huge pages of hugetlbfs (glibc.malloc.hugetlb=2 asks for them), which the kernel keeps out of its own RSS"
IN_A_CALL = "an arena is locked: some thread was inside malloc at this moment. Another moment may read whole: ask again"
NO_RESIDENCY = "this image does not say which pages were in memory: figures are of address space, and not all of it was"
NOT_HERE = "{0} need the mappings, which are not known here: `{0}` alone shows what is known"
"""For --types and --owners."""
NO_BLOCKS = "--{} has nothing to show: glibc's malloc has no blocks here"
"""For --types and --owners."""


NO_ENGINE = "the blocks in use were not looked at, as that needs the compiled engine: {}"
NOT_LOOKED = (
    "the blocks in use are many, and were not looked at: {} also says what is lost, who holds the rest, and what of it "
    "is not needed; it takes about {} and {} of memory"
)


class Conclusions(NamedTuple):
    """The report's conclusions, each with its words."""

    judgement: Statement
    verdict: str
    causes: Sequence[tuple[Statement, Pair]] = ()
    advice: Sequence[tuple[Advice, AdviceText]] = ()
    notes: Sequence[str] = ()
    growth: Optional[Statement] = None
    """Only if there is an earlier moment to compare with."""
    types_grown: Optional[Sequence[Grown]] = None
    """Types that grew; only if both moments have types."""
    facts: Optional[Facts] = None
    """The facts that the conclusions were drawn from."""
    waste: Optional[Sequence[WasteRow]] = None
    """What of the blocks is not needed; None: nobody looked."""
    found: Optional[Sequence[ReportFinding]] = None
    """That, what is lost, and what free memory blocks pin, the largest first."""
    containers: Sequence[ContainerRow] = ()
    """Those that hold most."""
    live: int = 0
    """Bytes of all blocks, for that."""
    retained: Mapping[int, int] = {}
    """Bytes of all blocks of a type with all that only they lead to, by the type's index; empty: nobody looked."""
    held_by: Mapping[int, HeldMost] = {}
    """Who holds most of a type's blocks."""

    @property
    def held(self) -> Optional[HeldSums]:
        """The owners of live blocks, if pointers were followed."""
        return self.facts.held if self.facts is not None else None


def worth_saying(concluded: Conclusions) -> Sequence[ReportFinding]:
    """The findings that the screen begins with."""
    return finding_lines.worth_saying(concluded.found or (), concluded.live)


def notes(picture: ResidentPicture, in_a_call: bool) -> Iterator[str]:
    """Notes that a reader of the parts needs. `in_a_call`: a thread was inside malloc."""
    if picture.measure == SPACE:
        yield NO_RESIDENCY
    elif picture.rss is None:
        yield CORE_CANNOT_TELL
    elif picture.apart:
        yield f"{say(picture.apart)} of it {APART}"
    if in_a_call:
        yield IN_A_CALL


def lines(
    style: Style,
    picture: Optional[ResidentPicture],
    concluded: Conclusions,
    *,
    full: bool,
    named: bool,
    asked: Collection[str] = (),
) -> Iterator[str]:
    """`named`: --types could name the blocks. `asked`: "types" and "owners" if asked for; these are then shown however
    small their share is."""
    width = min(style.width or WIDTH, WIDTH)
    told = worth_saying(concluded)
    for finding in told:
        yield from map(style.bold, textwrap.wrap(finding_lines.sentence(style, finding, concluded.live), width))
        for step in finding_lines.lines(style, finding):
            yield from _item(step, width)
    largest = [] if told else [*_largest_container(style, concluded)] or [*_main_class(style, concluded)]
    for said in largest:
        yield from map(style.bold, textwrap.wrap(said, width))
        yield from _item(ONLY_THE_PROGRAM, width)
    if told or largest:
        yield ""
    for line in textwrap.wrap(concluded.verdict, width, break_long_words=False, break_on_hyphens=False):
        yield style.bold(line)
    if concluded.growth:
        for sentence in (*growth_headlines(style, concluded.types_grown), growth_sentence(concluded.growth)):
            yield from map(style.bold, textwrap.wrap(sentence, width))
    for note in concluded.notes:
        yield from textwrap.wrap(f"note: {note}", width)
    if picture is not None:
        yield ""
        yield from _parts(style, picture, concluded.facts, full, every_type="types" in asked)
    held = concluded.held
    if held is not None and ("owners" in asked or facts_matter(concluded, held.live)):
        yield ""
        yield style.bold("whose it is")
        for said in (*held_lines(style, held), *([] if largest else _largest_container(style, concluded))):
            yield from _item(said, width)
    if concluded.causes:
        yield ""
        yield style.bold("why it stays")
        for _, pair in concluded.causes:
            yield from _item(cause_line(pair) if full else pair[0], width)
    todo = [(each, words) for each, words in concluded.advice if each.id not in NO_HELP]
    if told:
        todo = [each for each in todo if each[0].id not in BESIDE_FINDINGS]
    if todo:
        yield ""
        several = sum(1 for each, _ in todo if each.effect) > 1
        yield style.bold("what to do") + (f" ({NO_SUM})" if several else "")
        for number, (each, words) in enumerate(todo, 1):
            yield from _item(advice_line(style, each, words, evidence=full), width, f"{number}.")
            yield from _details(words, width, full)
    beside = [(each, words) for each, words in concluded.advice if each.id in NO_HELP]
    if beside:
        yield ""
        yield style.bold("what helps little or not at all")
        for each, words in beside:
            yield from _item(advice_line(style, each, words, evidence=full), width)
            if words.ways != NOTHING_TO_SET:
                yield from _details(words, width, full)
    yield ""
    more = [] if full else [f"{style.typed('report --full')} (all parts, costs, other ways)"]
    facts = concluded.facts
    in_use = concluded.judgement.id == "live-data"
    tells_owners = any(owners_tell(style) in words.ways for _, words in todo)
    if named and not tells_owners and held is None and (in_use or concluded.judgement.id == "live-and-freed"):
        more.insert(0, f"{style.typed('report --owners')} (whether it is a leak, whose it is)")
    if named and facts and not facts.seen and (facts.matters(facts.part("scraps")) or in_use):
        # `types` tells what is in use; for what is stranded, the report must follow blocks itself
        more.insert(0, f"{style.typed('types' if in_use else 'report --types')} (what the blocks are)")
    if named and in_use and concluded.waste is None:
        more.append(f"{style.typed('waste')} (what of it is not needed)")
    if concluded.containers:
        more.append(f"{style.typed('containers')} (what holds most, by the program's own names)")
    if held is not None:
        more.append(style.typed("owners"))
        more += [] if any(each.id in OF_LEAKS for each, _ in todo) else _next_leaks(style, held)
    # trim and pins say nothing about memory in use or outside malloc
    names: tuple[str, ...] = ("arenas",) if in_use else ("trim", "pins", "arenas")
    if concluded.judgement.id in ELSEWHERE:
        started = concluded.facts is None or concluded.facts.started
        names = ("mappings", "arenas") if started else ("mappings",)
    yield from next_lines(style, *more, *map(style.typed, names))


def _next_leaks(style: Style, held: HeldSums) -> Iterator[str]:
    """A hint at `leaks` if so little is lost that no advice names it."""
    if held.lost:
        yield f"{style.typed('leaks')} ({style.size(held.lost)} that nothing leads to)"
    elif held.possible:
        yield f"{style.typed('leaks --possible')} ({style.size(held.possible)} that is possibly lost)"
    elif held.unknown:
        yield style.typed("leaks")


def facts_matter(concluded: Conclusions, size: int) -> bool:
    return concluded.facts is not None and concluded.facts.matters(size)


def held_lines(style: Style, held: HeldSums) -> Iterator[str]:
    """How much memory in use can still be reached, how much cannot, and who holds most."""
    size = style.size
    part = "all" if held.reached == held.live else size(held.reached)
    reach = "pointers lead to" if held.perhaps or held.cycles else "the program can still reach"
    yield f"{reach} {part} of {size(held.live)} in blocks (resident or not)"
    if held.cycles:
        yield f"{size(held.cycles)} of it is garbage: nothing but cycles of Python's objects leads to it"
    if held.perhaps:
        yield f"{size(held.perhaps)} of it is perhaps lost: nothing but unused room of containers leads to it"
    if held.lost:
        yield f"{size(held.lost)} in {count(held.lost_blocks, 'block')} is lost: no pointer leads to it"
    if held.possible:
        yield f"{size(held.possible)} is possibly lost: only pointers to the blocks' insides lead to it"
    if held.unknown:
        why = "this image lacks what may" if held.doubted else f"{style.typed('leaks')} looks for encoded ones"
        yield f"no plain pointer leads to {size(held.unknown)}: {why}"
    yield from holds_most(style, held)
    for joint in held.jointly:
        if worth_telling(held, joint.bytes):
            yield f"{joint.called} lead to {size(joint.bytes)} together: each of them does, and nothing else"
    yield from pages_line(style, held)


LARGE = 5
"""A container or a class is told that holds such a part of the live bytes."""
ONLY_THE_PROGRAM = (
    "only the program knows whether all of it is needed: see whether what is no longer needed is taken out, and freed"
)


def _largest_container(style: Style, concluded: Conclusions) -> Iterator[str]:
    for each in concluded.containers[:1]:
        if each.held_bytes * LARGE >= concluded.live:
            elements, part = count(each.elements.number, "element"), share(each.held_bytes, concluded.live)
            size = f"{style.size(each.held_bytes)}, {part}{'' if each.certain else GUESS}"
            if each.containers > 1:
                number = f"{each.containers:,} containers with {elements} in all"
                yield f"the containers at {each.path} hold the most: {number}, {size} of the live bytes"
            else:
                yield f"{each.path} is the largest container, with {elements}: {size} of the live bytes"


def _main_class(style: Style, concluded: Conclusions) -> Iterator[str]:
    """The class whose objects keep such a part, where no container is known to."""
    seen = concluded.facts.seen if concluded.facts is not None else None
    row = main_class(seen.rows, concluded.retained) if seen is not None else None
    if row is not None and concluded.retained.get(row.index, 0) * LARGE >= concluded.live:
        kept, holder = concluded.retained[row.index], concluded.held_by.get(row.index)
        objects = f"{row.blocks:,} objects of type {type_words(row.kind.name)}"
        size = f"{style.size(kept)}, {share(kept, concluded.live)} of the live bytes"
        yield f"{objects} keep {size}{f', and are held by {holder.words}' if holder is not None else ''}"


def holds_most(style: Style, held: HeldSums, number: int = FIRST) -> Iterator[str]:
    """The owner that holds most, then the next, `number` in all; nothing if each holds too little."""
    keepers = [each for each in held.first[:number] if worth_telling(held, each.bytes)]
    if keepers:
        first, *rest = [held_size(style, each.bytes, each.alone) for each in keepers]
        then = ", ".join(f"{each.called} {much}" for each, much in zip(keepers[1:], rest))
        yield f"{with_verb(keepers[0].called, 'hold')} most, {first}{f'; then {then}' if then else ''}"


def worth_telling(held: HeldSums, size: int) -> bool:
    return SMALL * size >= held.live


def pages_line(style: Style, held: HeldSums) -> Iterator[str]:
    """What leaves memory if several owners' blocks are freed, if that is more than the sum of each alone."""
    turns, size = [each for each in held.in_turn if worth_telling(held, each.bytes)], style.size
    if turns and worth_telling(held, turns[-1].returns - sum(each.alone for each in turns)):
        first, *then = turns
        more = "".join(f", then {each.called} ({size(each.bytes)}) {size(each.returns)} in all" for each in then)
        brings = f"freeing what {with_verb(first.called, 'lead')} to brings {size(first.returns)}"
        yield f"those that hold most share pages: {brings}{more}"


def _parts(
    style: Style, picture: ResidentPicture, facts: Optional[Facts], full: bool, *, every_type: bool
) -> Iterator[str]:
    whole, sizes = picture.known, {"live": 0, **picture.parts}
    # without a heap of malloc's, what is in use belongs to another allocator and is not known
    shown = [name for name in PARTS if name in sizes and (name not in LIVE or facts is None or facts.started)]
    small = [] if full else [name for name in shown if SMALL * sizes[name] < whole and name not in LIVE[:1]]
    rows: list[list[str]] = []
    drawn: dict[int, int] = {}
    last_live = max((name for name in shown if name in LIVE and name not in small), key=shown.index, default="")
    for name in shown:
        if name not in small:
            size = size_of(style, picture, name)
            share = _share(sizes[name], whole) if name in picture.parts else ""
            drawn[len(rows)] = sizes[name]
            rows.append([LABELS[name], size, share, ""])
        if facts and name == last_live:
            several = sum(each in LIVE and each not in small for each in shown) > 1
            rows += _type_rows(style, facts, whole, every=every_type, within=WITHIN_ALL if several else WITHIN)
        if facts and facts.seen and name == "scraps":
            rows += _strander_rows(style, facts, every_type)
    if small:
        drawn[len(rows)] = rest = sum(sizes[name] for name in small)
        rows.append([f"{count(len(small), 'smaller part')} (--full)", style.size(rest), _share(rest, whole), ""])
    name = MEASURES[picture.measure]
    what = "size" if picture.measure == SPACE else "resident"
    total = [name, style.size(whole), "", ""]
    cells = _room_for_bars(style, [*rows, total])
    if cells:
        for at, part in drawn.items():
            rows[at][-1] = bar(style, part, whole, cells)
    yield from table(
        style,
        ("part", what, "share", ""),
        rows,
        left=(0, 3),
        names=(0,),
        footer=total,
        optional=("",),
        expendable=("", "share"),
    )
    if picture.swapped:
        yield f"in swap besides: {style.size(picture.swapped)}"
    for owner in picture.others[:3]:
        if 20 * owner.bytes >= whole:
            whose = owner.maker or "outside malloc"
            yield f"{whose}: {style.size(owner.bytes)} at {owner.region.start:#x} ({owner.name or 'anonymous'})"


def _room_for_bars(style: Style, rows: Sequence[Sequence[str]]) -> int:
    """How many cells a full bar may have; 0: none, as names must not be cut for bars."""
    if not style.width:
        return WIDE_BAR
    room = style.width - sum(max(map(len, column)) + GAP for column in [*zip(*rows)][:-1])
    return min(room, WIDE_BAR) if room >= BAR else 0


def _strander_rows(style: Style, facts: Facts, every: bool) -> Iterator[list[str]]:
    """Types of blocks that strand free memory, or a note that no single type does."""
    for group in facts.stranders[:STRANDERS]:
        yield [f"{WITHIN}on pages with {_blocks_of(group.row)}", style.size(group.beside), "", ""]
    if every and not facts.stranders and facts.matters(facts.part("scraps")):
        yield [f"{WITHIN}on pages with blocks of one type alone", BESIDE_NONE, "", ""]


def _type_rows(style: Style, facts: Facts, whole: int, *, every: bool, within: str) -> Iterator[list[str]]:
    """The largest types of live blocks, if large enough to matter, or `every` one was asked for."""
    for row in facts.seen.rows[:TYPES] if facts.seen else ():
        size = row.bytes if row.resident is None else row.resident
        if every or facts.matters(size):
            yield [f"{within}{_blocks_of(row)}", style.size(size), _share(size, whole), ""]


def _blocks_of(row: TypeRow) -> str:
    return f"{count(row.blocks, 'block')} of {name_of(row.kind)}"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else ""


def _item(text: str, width: int, mark: str = "-") -> Iterator[str]:
    yield from textwrap.wrap(
        text,
        width,
        initial_indent=f"  {mark} ",
        subsequent_indent=" " * (len(mark) + 3),
        break_long_words=False,
        break_on_hyphens=False,
    )


def cause_line(pair: Pair) -> str:
    return f"{pair[0]} [{pair[1]}]"


def advice_line(style: Style, advice: Advice, words: AdviceText, *, evidence: bool = True) -> str:
    effect = f": {effect_of(advice, words)}{style.size(advice.effect)}" if advice.effect else ""
    return f"{words.action}{effect}" + (f" [{words.evidence}]" if evidence else "")


def effect_of(advice: Advice, words: AdviceText) -> str:
    """Words before the figure of an effect."""
    return f"{'by itself ' if words.by_itself else ''}{'at most ' if advice.bound else ''}"


def _details(words: AdviceText, width: int, full: bool) -> Iterator[str]:
    for how in words.how if full or words.all_apply else words.how[:1]:
        yield from _item(how, width, "  →")
    if full and words.cost:
        yield from _item(f"costs: {words.cost}", width, "   ")
    if full and words.not_when:
        yield from _item(words.not_when, width, "   ")
