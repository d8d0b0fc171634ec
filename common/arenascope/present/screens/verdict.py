"""Sentences for the verdict and the causes of `heap report`, by id."""

from __future__ import annotations

import shutil
from typing import Callable, Iterator, Mapping, Optional, Sequence, TextIO

from ...analysis.causes import matters
from ...analysis.growth import is_outside_malloc
from ...analysis.resident_parts import ANONYMOUS, RESIDENT, SPACE
from ...base.class_names import type_words
from ...base.heap_model import Allocator, Statement, whole
from ..shared_text.lines_and_tables import MARK, count, safe_lines, say, with_verb

Figures = Mapping[str, int]
"""A statement's figures: counts and sizes are whole numbers."""
Names = Mapping[str, str]
Pair = tuple[str, str]
"""A sentence, and its evidence."""
NAMES = {
    RESIDENT: "RSS",
    ANONYMOUS: "Anonymous memory in this core",
    SPACE: "Anonymous address space",
}
JUDGEMENTS = {
    "unread": "No judgement: part of the heap could not be read.",
    "mostly-not-this-malloc": "Most of it did not come from this malloc",
    "mostly-mapped-files": "Most of it is mapped files",
    "mostly-shared-memory": "Most of it is shared memory",
    "mostly-not-malloc": "More than half of it lies outside malloc",
    "freed": "What is free is no leak: the program freed it, malloc keeps it.",
    "freed-thresholds-grew": "What is free is no leak: the program freed it, malloc keeps it.",
    "live-data": "It is in use",
    "live-and-freed": "Memory in use and freed memory both matter here.",
}
ELSEWHERE = ("no-heap", "mostly-not-this-malloc", "mostly-mapped-files", "mostly-shared-memory", "mostly-not-malloc")
"""Judgements that say that most memory is not malloc's."""
STAYS = ("returnable_bytes", "thread_tops_bytes", "scraps_bytes", "tcache_bytes")
"""Kinds of free memory; the verdict names the largest."""
ONLY_FREEING = "it would return only once those blocks are freed and malloc_trim is called, or the program restarts"
"""Said of stranded memory."""
ONE_LOOK = "It is in use; this look does not show whether it is needed, lost or growing"


def places(number: int) -> str:
    return "1 place" if number == 1 else f"{number:,} places"


def verdict(said: Statement, *, compared: bool, has_waste: bool) -> str:
    """The verdict for an image that tells which pages are in memory. `compared`: there was an earlier moment to compare
    with; `has_waste`: the report says of what is held that it is not needed."""
    serves = said.names["serves_malloc"]
    first = f"{serves} serves malloc here, and arenascope reads glibc's malloc alone. " if serves else ""
    text = _of_glibc(said, compared=compared, has_waste=has_waste)
    return f"{first}{text}{'.' if serves and said.id == 'no-heap' else ''}"


def _of_glibc(said: Statement, *, compared: bool, has_waste: bool) -> str:
    figure = whole(said.figures)
    name = NAMES[said.names["measure"]]
    if not figure["started"]:
        return f"{name} {say(figure['known_bytes'])}: {_not_started(said)}"
    arenas = f"{figure['arenas']} arenas" if figure["arenas"] != 1 else "1 arena"
    known = figure["known_bytes"]
    ours = f"{_at_least(figure, 'live')} in use, {_at_least(figure, 'free')} free in {arenas}"
    others = f"{say(figure['not_malloc_bytes'])} outside malloc"
    both = [ours, others] if _matters(figure, "not_malloc_bytes") else [ours]
    if said.id in ELSEWHERE:
        both.reverse()  # what matters comes first
    text = f"{name} {say(known)}: {', '.join(both)}"
    if figure["unread_bytes"]:
        text += f", {say(figure['unread_bytes'])} in arenas that could not be read whole"
    if said.id != "live-data":
        most = _most(said) if said.id not in (*ELSEWHERE, "unread") else ""
        judgement = _judgement(said).rstrip(".")
        return f"{text}. {judgement}{f'; {most}' if most else ''}."
    proven = figure.get("lost_bytes") is not None
    in_use = JUDGEMENTS[said.id] if compared else ONE_LOOK
    if proven:
        in_use = _proof(figure, compared=compared, has_waste=has_waste)
    return f"{text}. {in_use}; {_to_give_back(said)}."


def _at_least(figure: Figures, name: str) -> str:
    """The size, or a lower bound if not all of it could be read."""
    bound = figure.get(f"{name}_at_least_bytes")
    return f"at least {say(bound)}" if bound else say(figure.get(f"{name}_bytes"))


def _to_give_back(said: Statement) -> str:
    """What malloc_trim, or trim --apply --tops, would return."""
    figure = whole(said.figures)
    size = figure["returnable_bytes"] + figure["thread_tops_bytes"]
    little = f"malloc has little to give back: {say(size)}" if size else "malloc has nothing to give back"
    return f"{little}; {_stranded(said)}" if _matters(figure, "scraps_bytes") else little


def _proof(figure: Figures, *, compared: bool, has_waste: bool) -> str:
    """What following pointers proved about memory in use."""
    lost, cycles, perhaps = figure["lost_bytes"], figure["cycle_bytes"], figure["perhaps_lost_bytes"]
    unknown, possible = figure["unknown_bytes"], figure["possible_bytes"]
    said = []
    if _matters(figure, "lost_bytes"):
        leak = "A leak" if 2 * lost >= figure["live_bytes"] else "In part a leak"
        said.append(f"{leak}: nothing leads to {say(lost)} in {count(figure['lost_blocks'], 'block')} any more")
    if _matters(figure, "cycle_bytes"):
        garbage = "Garbage" if 2 * cycles >= figure["live_bytes"] else "In part garbage"
        only = f"nothing but cycles of its objects leads to {say(cycles)} any more"
        said.append(f"{garbage} that Python's collector has not freed: {only}")
    if _matters(figure, "perhaps_lost_bytes"):
        leak = "Perhaps a leak" if 2 * perhaps >= figure["live_bytes"] else "In part perhaps a leak"
        said.append(f"{leak}: nothing but unused room of containers leads to {say(perhaps)}")
    if said:
        return ". ".join(said)
    if _matters(figure, "unknown_bytes"):
        return f"It is in use; it is not known whether {say(unknown)} of it is lost, as no plain pointer leads there"
    if _matters(figure, "possible_bytes"):
        return f"It is in use; {say(possible)} of it is possibly lost: only pointers to insides of blocks lead there"
    not_held, hardly = lost + cycles + perhaps + unknown + possible, lost + cycles + perhaps + possible
    held = f"It is in use, and all of it{f' but {say(not_held)}' if not_held else ''} is held"
    if has_waste:
        return f"{held}: {'hardly anything' if hardly else 'nothing'} is lost, but not all of it is needed"
    held = f"{held}: {'hardly a leak' if hardly else 'no leak'}"
    return held if compared else f"{held}, though it may be more than is needed, or grow"


def space_verdict(said: Statement) -> str:
    """The verdict for an image that does not tell which pages are in memory."""
    figure = whole(said.figures)
    return (
        f"{say(figure['system_bytes'])} of address space in {count(figure['arenas'], 'arena')}: "
        f"{say(figure['used_bytes'])} in use; malloc_trim would release {say(figure['release_bytes'])}, and "
        f"{say(figure['tops_bytes'])} lies in tops that it never touches. This image does not say how much of "
        "it was resident."
    )


def _not_started(said: Statement) -> str:
    may = said.names["may_serve_malloc"]
    why = f"{may} may serve malloc here" if may else "malloc has not been called"
    text = "glibc's malloc has no heap" + ("" if said.names["serves_malloc"] else f": {why}")
    return text if said.id == "no-heap" else f"{text}. {_judgement(said)}"


def _matters(figure: Figures, name: str) -> bool:
    return matters(figure[name], figure["known_bytes"])


def strander(figure: Figures, names: Names) -> str:
    """The blocks that strand free memory; "" if their type is not known."""
    if "type" not in names:
        return ""
    guess = "" if names["certain"] == "yes" else ", judging by their contents"
    return (
        f"{count(figure['type_blocks'], 'block')} of {type_words(names['type'])}{guess} ({say(figure['type_bytes'])})"
    )


def _most(said: Statement) -> str:
    """The kind that most free memory is of; "" if even that is too little to matter."""
    figure = whole(said.figures)
    most = max(STAYS, key=lambda name: figure[name])
    if not _matters(figure, most):
        return ""
    size = say(figure[most])
    if most == "returnable_bytes":
        return _trim(said, size)
    if most == "thread_tops_bytes":
        where = f"{figure['thread_tops']} thread-arena {'top' if figure['thread_tops'] == 1 else 'tops'}"
        return f"{size} sits in {where} that malloc_trim never touches"
    if most == "tcache_bytes":
        return f"{size} is in thread caches"
    return _stranded(said)


def _stranded(said: Statement) -> str:
    figure = whole(said.figures)
    whose = strander(figure, said.names)
    most = f", most by {whose}" if whose else ""
    return f"{say(figure['scraps_bytes'])} is stranded in pages shared with blocks in use{most}: {ONLY_FREEING}"


def _trim(said: Statement, size: str) -> str:
    """In the past tense for a core: its process has changed or ended."""
    resident = said.names["measure"] == RESIDENT
    return f"malloc_trim returns {size} now" if resident else f"malloc_trim would have returned {size}"


def _trimming(said: Statement) -> str:
    """What trimming would return, if most memory is not malloc's."""
    figure = whole(said.figures)
    returned, tops = (figure.get(name, 0) for name in ("returnable_bytes", "thread_tops_bytes"))
    if not returned + tops:
        return "trimming cannot help"
    trims = _trim(said, say(returned) if returned else "nothing")
    return f"{trims}; {say(tops)} lies in tops of thread arenas (trim --tops)" if tops else trims


def _judgement(said: Statement) -> str:
    kind, figure = said.id, whole(said.figures)
    text = JUDGEMENTS[kind]
    if kind.startswith("mostly-"):
        return f"{text}: {_trimming(said)}."
    if kind == "freed-thresholds-grew":
        # a large free piece may be one large block, or small ones freed side by side
        perhaps = "perhaps " if figure["large_free_bytes"] > figure["tops_at_default_bytes"] else ""
        grown = say(figure["mmap_threshold_bytes"])
        return f"{text.rstrip('.')} {perhaps}because a freed block of {grown} raised mmap_threshold"
    return text


def _where(figure: Figures) -> str:
    more = f", the largest {say(figure['largest_top_bytes'])}" if figure["large_tops"] > 1 else ""
    return f"{say(figure['tops_bytes'])} in tops{more}"


def _thresholds_grew(figure: Figures, names: Names) -> Pair:
    grown, trim = figure["mmap_threshold_bytes"], figure["trim_threshold_bytes"]
    return (
        f"a freed block of {say(grown)} raised mmap_threshold to {say(grown)} and trim_threshold to {say(trim)}: "
        "requests below mmap_threshold come from arenas, and free() does not trim a top smaller than trim_threshold",
        f"mp_.mmap_threshold {grown:,} (default {figure['mmap_threshold_default_bytes']:,}), "
        f"mp_.trim_threshold {trim:,}; {_where(figure)}{_left_by_large(figure)}",
    )


def _left_by_large(figure: Figures) -> str:
    """Free pieces that large blocks may have left; "" if there are too few."""
    size = figure["large_free_bytes"]
    least = say(figure["mmap_threshold_default_bytes"])
    return f", {say(size)} in free pieces of {least} and more: large blocks, or small ones side by side" if size else ""


def _top_below(figure: Figures, names: Names) -> Pair:
    trim = figure["trim_threshold_bytes"]
    return (
        f"free() gives a top back only once it reaches trim_threshold, {say(trim)}",
        f"mp_.trim_threshold {trim:,}; {_where(figure)}",
    )


def _outlived(figure: Figures, names: Names) -> Pair:
    limit = f", at most {figure['limit']} arenas" if figure["limit"] else ""
    return (
        f"{figure['orphans']} of {figure['arenas']} arenas outlived their threads: arenas are never freed, only "
        "handed to new threads",
        f"they have {say(figure['resident_bytes'])} resident, {say(figure['free_bytes'])} of it free; "
        f"{count(figure['threads'], 'thread')} now{limit}",
    )


def _shared(figure: Figures, names: Names) -> Pair:
    evidence = f"{say(figure['bytes'])} free in pages with something in use"
    whose = strander(figure, names)
    if whose:
        beside = say(figure["type_beside_bytes"])
        evidence += f", {'all' if beside == say(figure['bytes']) else beside} of it beside {whose}"
    beside = f", most beside blocks of {names['type']}" if whose else ""
    return f"blocks in use share pages with free ones (stranded{beside}): a page is returned only as a whole", evidence


def _others(figure: Figures, names: Names) -> Pair:
    have = "has" if figure["allocators"] == 1 else "have"
    whose = f" ({names['allocators']} {have} a heap in this process)" if names["allocators"] else ""
    what = "anonymous or shared" if figure["shared_bytes"] else "anonymous"
    evidence = f"{say(figure['bytes'])} {what}"
    if figure["told_bytes"]:
        evidence += f", {say(figure['told_bytes'])} of it in mappings of {names['told']}"
    elif figure["allocators"] == 1:
        evidence += f"; the mappings do not show how much of it is {names['allocators']}'s"
    elif figure["allocators"]:
        evidence += "; the mappings do not show how much each of them holds"
    if "largest" in names:
        evidence += f"; the largest mapping {say(figure['largest_bytes'])} at {names['largest']}"
    return f"memory that this malloc did not hand out{whose}", evidence


def lost_blocks(figure: Figures, names: Names) -> str:
    """The type that most lost memory is of; "" if it is not known."""
    if "type" not in names:
        return ""
    part = "all" if figure["type_bytes"] == figure["bytes"] else say(figure["type_bytes"])
    below, further = figure["indirect_blocks"], ""
    if below:
        only = "it leads" if figure["type_blocks"] == 1 else "they lead"
        further = f" with {count(below, 'block')} that only {only} to"
    return f"{part} of it {count(figure['type_blocks'], 'block')} of {type_words(names['type'])}{further}"


def _lost(figure: Figures, names: Names) -> Pair:
    which = lost_blocks(figure, names)
    return (
        f"a leak: nothing leads to {say(figure['bytes'])} any more, so nothing can free it",
        f"{count(figure['blocks'], 'block')}" + (f", {which}" if which else ""),
    )


def owner_called(name: str, kind: str) -> str:
    """The name, with "the variable" before it: a bare name may read like any other word."""
    return f"the variable {name}" if kind == "global" and name.startswith(MARK) else name


def _held(figure: Figures, names: Names) -> Pair:
    size, whole = figure["bytes"], figure["live_bytes"]
    owner, alone = owner_called(names["owner"], names["kind"]), figure["alone_bytes"]
    others = "nothing else leads there" if say(alone) == say(size) else f"nothing else leads to {say(alone)} of it"
    if not alone:
        others = "others lead to all of it as well"
    return (
        f"{with_verb(owner, 'hold')} {say(size)} that is in use: it stays until the program frees it",
        f"{100 * size / whole:.0f} % of {say(whole)} in blocks; {others}",
    )


def _held_together(figure: Figures, names: Names) -> Pair:
    size, whole = figure["bytes"], figure["live_bytes"]
    all_of_them = "both are" if figure["owners"] == 2 else f"all {figure['owners']} are"
    return (
        f"{names['owners']} together lead to {say(size)} that is in use: it stays until {all_of_them} done with it",
        f"{100 * size / whole:.0f} % of {say(whole)} in blocks; each leads there, and nothing else does",
    )


def _shares_pages(figure: Figures, names: Names) -> Pair:
    size, up, whole = figure["bytes"], figure["holds_up_bytes"], figure["returns_bytes"]
    return (
        f"{with_verb(names['owners'], 'lead')} to only {say(size)}, but shares pages with what others hold: while it "
        f"stays, {say(up - size)} of theirs stays, too",
        f"if the others that hold most are freed, {say(whole - up)} leaves memory; if it is freed, too, {say(whole)}",
    )


def _held_by_others(figure: Figures, names: Names) -> Pair:
    size, whole = figure["bytes"], figure["live_bytes"]
    return (
        f"other owners hold {say(size)} that is in use: it stays until the program frees it",
        f"{100 * size / whole:.0f} % of {say(whole)} in blocks; see owners",
    )


CAUSES: Mapping[str, Callable[[Figures, Names], Pair]] = {
    "thresholds-grew": _thresholds_grew,
    "top-below-threshold": _top_below,
    "free-between-live": lambda figure, names: (
        "free blocks lie between blocks in use: glibc by itself gives back only the end of a heap",
        f"{say(figure['bytes'])} of whole pages in free blocks, in {places(figure['places'])}",
    ),
    "arenas-outlived-threads": _outlived,
    "pages-shared-with-live": _shared,
    "thread-caches": lambda figure, names: (
        "threads keep freed blocks for themselves (tcache) until they end",
        f"{say(figure['bytes'])} in the caches of {figure['threads']} threads",
    ),
    "huge-pages": lambda figure, names: (
        "transparent huge pages back the heap: one block in use can keep 2 MiB, and khugepaged may fill again what "
        "was returned",
        f"AnonHugePages {say(figure['bytes'])} of malloc's mappings",
    ),
    "not-this-malloc": _others,
    "lost-blocks": _lost,
    "held-by-owner": _held,
    "held-together": _held_together,
    "shares-pages": _shares_pages,
    "held-by-others": _held_by_others,
}


def cause(said: Statement) -> Pair:
    return CAUSES[said.id](whole(said.figures), said.names)


ENTER, LEAVE = "\033[?1049h\033[?25l", "\033[?25h\033[?1049l"
TO_THE_TOP, REST_OF_LINE, REST_OF_SCREEN = "\033[H", "\033[K", "\033[J"


class OtherScreen:
    """The terminal's other screen. When it is left, the last lines drawn stay on the terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._frame: list[str] = []
        stream.write(ENTER)

    def draw(self, lines: Sequence[str], width: int) -> None:
        height = shutil.get_terminal_size().lines
        self._frame = [piece for line in lines for piece in safe_lines(line, width)]
        shown = self._frame[: max(1, height - 1)]
        text = "".join(f"{line}{REST_OF_LINE}\n" for line in shown)
        self._stream.write(TO_THE_TOP + text + REST_OF_SCREEN)
        self._stream.flush()

    def close(self) -> None:
        self._stream.write(LEAVE + "".join(f"{line}\n" for line in self._frame))
        self._stream.flush()


def outside_malloc_lines(allocators: Sequence[Allocator], changes: Mapping[str, Optional[int]]) -> Iterator[str]:
    """Names the allocators to ask if what grew is outside malloc. `changes`: growth of each part of resident memory."""
    for each in allocators if is_outside_malloc(changes) else ():
        if not each.shadowed_by:
            where = f"outside glibc's malloc, where {each.name} has a heap of its own"
            yield f"most of what grew is {where}: {each.instead}"
