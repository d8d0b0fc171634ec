"""heap leaks: live blocks that nothing leads to."""

from __future__ import annotations

from typing import Annotated, Iterator, Optional, Sequence

from ..analysis.compare_snapshots import NAMELESS
from ..analysis.held_sums import LeakRow
from ..base.class_names import type_words
from ..base.heap_model import LOST_REASONS, STALE
from ..blocks.graph.blocks import LiveBlocks
from ..blocks.graph.leak_rows import rows_of, with_guesses
from ..blocks.graph.pointer_facts import StaleRow, stale_rows
from ..blocks.graph.pointers_to import ALIKE
from ..blocks.graph.unreached import Leaks, find_leaks
from ..engine import ENCODINGS
from ..present.json_documents.record import Address, Document, Record, Size
from ..present.json_documents.shared_records import MAY_BE, STRENGTHS
from ..present.screens.pointer_lines import STALE_WORDS
from ..present.screens.type_lines import GUESS, may_be
from ..present.shared_text.lines_and_tables import Column, Style, column_table, count, cut, left_out, next_lines
from ..session.problems import problems_of
from .framework.arguments import RULES
from .framework.command import LIMIT, Answer, Context, always, argument, command, of_heap
from .framework.live_copy import looked

LOST = 1
"""The exit status if something certainly is lost."""


class BlockSum(Record):
    """A number of blocks."""

    blocks: Size
    """How many."""
    bytes: Size
    """Their bytes."""


class Leak(Record):
    """All lost blocks of one type that are lost in one way."""

    type: str
    """What they are."""
    certain: bool
    """Whether that is certain."""
    alike: Optional[Size]
    """They are called so as they hold what so many blocks hold that surely are of the type: a guess; null: that is not
    why."""
    reason: Annotated[Optional[str], ("enum", LOST_REASONS)]
    """cycle: they lead to each other, and count their owners; null: only pointers to insides lead to them."""
    cycle: Sequence[str]
    """Of blocks that lead to each other: the members that lead from one to the next, until it is round; else empty."""
    may_be: Annotated[Sequence[str], MAY_BE]
    blocks: Size
    """How many nothing leads to; a cycle counts as one."""
    bytes: Size
    """Their bytes."""
    indirect_blocks: Size
    """How many blocks only these lead to; of a cycle the others as well."""
    indirect_bytes: Size
    """Their bytes."""
    all_bytes: Size
    """Of both."""
    resident_bytes: Optional[Size]
    """What of that is in memory; null: not known."""
    strength: Annotated[str, ("enum", STRENGTHS)]
    """possible: only pointers to insides lead to it, or words in unused room of containers, or epoll may, which this
    image lacks."""
    samples: Sequence[Address]
    """What malloc returned for some of them."""


class EncodedPointerBlocks(BlockSum, first=True):
    """Blocks that only pointers of one encoding lead to."""

    encoding: Annotated[str, ("enum", (*ENCODINGS, "inside"))]
    """How; inside: at one offset in all blocks of a size."""


class StaleWordsRecord(BlockSum, first=True):
    """Blocks that only similar stale words lead to."""

    name: Optional[str]
    """The words: a member or an array of blocks of a type, what these blocks are, or a variable; null: not known."""
    why: Annotated[str, ("enum", STALE)]
    """Why they are stale."""
    samples: Sequence[Address]
    """What malloc returned for some to which they lead."""


class LeaksDocument(Document, command="leaks"):
    """The answer of leaks."""

    leaks: Sequence[Leak]
    """What is lost, by what it is."""
    perhaps: Sequence[Leak]
    """What only words in room that containers do not use lead to, as debug information tells; part of what is stale."""
    reached: BlockSum
    """What roots lead to."""
    unknown: BlockSum
    """What nothing leads to in an image that lacks some of what might."""
    stale: BlockSum
    """What only stale words lead to: owner says which; part of what is reached."""
    stale_words: Sequence[StaleWordsRecord]
    """Which words these are, those that hold most first."""
    saved: Sequence[EncodedPointerBlocks]
    """What only encoded pointers lead to, or pointers to insides; part of what is reached."""


@command(
    "who holds it",
    "leaks --possible",
    arguments=(
        argument("--possible", action="store_true", help="also list what is possibly lost"),
        LIMIT,
        RULES,
    ),
    copies=always,
    whole=always,
)
def leaks_command(context: Context) -> Answer:
    """Find live blocks that no pointer leads to: they are lost for good. Lists them by type.

    Every pointer is followed from variables, stacks, registers, other mappings, and what epoll and timers keep. A block
    that none leads to is lost, unless an encoded pointer (tagged, shifted, unaligned, relative) is found. Blocks that
    only lost blocks lead to are added to these, and a cycle counts as one: its members are named. A lost
    block of unknown type gets the type of blocks that hold the same and are not lost: a guess. A block is possibly
    lost if only pointers to its inside lead to it. Stale words (contents of stdio buffers, vector registers, numbers by
    the program's types) count as pointers here; blocks that only they lead to are perhaps lost, and have lines of their
    own, which name the members and arrays. Free places of Rust's hash tables hold nothing.
    Where this image lacks something that may hold pointers such blocks are not called lost but unknown. In the shell
    the exit status is 1 if something is lost. A live process is copied, and runs on meanwhile.
    """
    look = looked(context)
    leaks = find_leaks(look.search, look.lost)
    blocks = look.search.blocks
    strength = "possible" if leaks.unwatched else "definite"
    lost = [] if leaks.unknown else rows_of(look.search, leaks.definite, strength)
    lost = with_guesses(look.search, leaks.definite, lost)
    possible = rows_of(look.search, leaks.possible, "possible", for_sure=False)
    possible = with_guesses(look.search, leaks.possible, possible)
    unused = rows_of(look.search, leaks.unused, "possible") if leaks.unused is not None else []
    stale = stale_rows(look.search) if leaks.stale.blocks else []
    unknown = leaks.definite.blocks() if leaks.unknown else ()
    found = LeaksDocument(
        leaks=[Leak.of(each) for each in (*lost, *possible)],
        perhaps=[Leak.of(each) for each in unused],
        reached=BlockSum.of(leaks.reached),
        unknown=some(blocks, unknown),
        stale=BlockSum.of(leaks.stale),
        stale_words=[StaleWordsRecord.of(each) for each in stale],
        saved=[
            EncodedPointerBlocks.of(some(blocks, each), encoding=encoding) for encoding, each in leaks.saved.items()
        ],
    )
    doubts = leaks.doubts if leaks.definite else ()
    problems = [*look.problems, *doubts, *(each for each in problems_of(look.session) if each not in doubts)]
    text = lines(context, blocks, leaks, [*lost, *unused, *(possible if context.options.possible else ())], stale)
    return Answer(found, of_heap(look.session, text), problems, status=LOST if lost and not leaks.unwatched else 0)


FEW = 5
"""How many stale words are named."""


def some(blocks: LiveBlocks, numbers: Sequence[int]) -> BlockSum:
    return BlockSum(blocks=len(numbers), bytes=blocks.bytes_of(numbers))


def lines(
    context: Context, blocks: LiveBlocks, leaks: Leaks, rows: Sequence[LeakRow], stale: Sequence[StaleRow]
) -> Iterator[str]:
    """`stale`: stale words that are the only way to some blocks."""
    style, limit = context.style, context.options.limit
    lost, perhaps = leaks.definite.blocks(), leaks.possible.blocks()

    def size(numbers: Sequence[int]) -> str:
        return style.size(blocks.bytes_of(numbers))

    if leaks.unwatched and lost:
        yield style.bold(
            f"{size(lost)} possibly lost in {count(len(lost), 'block')} that no pointer leads to, unless epoll has one"
        )
    elif leaks.doubts and lost:
        yield style.bold(f"whether {size(lost)} in {count(len(lost), 'block')} is lost is not known")
    elif lost:
        yield style.bold(f"{size(lost)} lost in {count(len(lost), 'block')} that no pointer leads to")
    else:
        yield style.bold(f"nothing is lost: {count(len(blocks), 'block')}, {style.size(blocks.bytes)} in use")
    reached = leaks.reached
    part = (
        "all of it"
        if reached.blocks == len(blocks) and not lost
        else f"{count(reached.blocks, 'block')} with {style.size(reached.bytes)}, of {style.size(blocks.bytes)} in all"
    )
    yield f"reached: {part}"
    if perhaps:
        yield f"possibly lost: {size(perhaps)} in {count(len(perhaps), 'block')}; pointers lead only to their insides"
    if leaks.stale.blocks:
        said = f"{style.size(leaks.stale.bytes)} in {count(leaks.stale.blocks, 'block')}"
        yield f"perhaps lost: {said} that only stale words (probably no pointers) lead to{':' * bool(stale)}"
        few, left = cut(stale, FEW if limit > 0 else None)
        for each in few:
            held = f"{style.size(each.bytes)} in {count(each.blocks, 'block')}"
            yield f"  {type_words(each.name or NAMELESS)} ({STALE_WORDS[each.why]}): {held}, as {each.samples[0]:#x}"
        yield from left_out(style, left, "such word")
    for encoding, numbers in leaks.saved.items():
        alone = "reached by pointers to one offset inside, like most blocks of their size"
        said = alone if encoding == ALIKE else f"held by {encoding} pointers alone"
        yield f"{said}: {size(numbers)} in {count(len(numbers), 'block')}"
    yield ""
    shown, more = cut(rows, limit)
    if shown:
        columns = (
            Column("what", _what, name=True),
            Column("blocks", lambda row: f"{row.blocks:,}"),
            Column("bytes", lambda row: style.size(row.bytes)),
            Column("retained", lambda row: row.indirect_blocks and _retained(style, row), optional=True),
            Column("why", lambda row: row.reason == "cycle" and "a cycle", left=True, optional=True),
            # an empty column would take the room of the examples
            Column("certainty", lambda row: row.strength != "definite" and "possibly lost", left=True, optional=True),
            Column("one of them", lambda row: f"{row.samples[0]:#x}", left=True),
        )
        yield from column_table(style, columns, shown, expendable=("one of them",))
        yield from left_out(style, more, "row")
        yield from (may_be(each.type, each.may_be) for each in shown if each.may_be)
        yield from (_cycle(style, each) for each in shown if each.reason == "cycle")
        yield ""
    typed = [style.typed(f"chunk {rows[0].samples[0]:#x}")] if rows else []
    typed += [style.typed("leaks --possible")] if perhaps and not context.options.possible else []
    yield from next_lines(style, *typed, style.typed("types"))


def _what(row: LeakRow) -> str:
    if row.alike is not None:
        return f"{type_words(row.type)} (like {row.alike:,} blocks that are not lost)"
    return type_words(row.type) + ("" if row.certain else GUESS)


def _cycle(style: Style, row: LeakRow) -> str:
    """ "2,800 cycles of Node (parent → children[] → …) that nothing else leads to: 85.9 MiB"."""
    way = " → ".join([*row.cycle, "…"])
    return (
        f"{count(row.blocks, 'cycle')} of {type_words(row.type)} ({way}) that nothing else leads to: "
        f"{style.size(row.all_bytes)}"
    )


def _retained(style: Style, row: LeakRow) -> str:
    return f"{style.size(row.all_bytes)} in {row.all_blocks:,}"
