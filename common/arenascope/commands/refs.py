"""heap refs: who points to a block."""

from __future__ import annotations

from typing import Iterator, Optional, Sequence

from ..blocks.graph.asked_address import Goal, asked_for
from ..blocks.graph.holders import Paths
from ..blocks.graph.pointer_facts import RefDetails
from ..blocks.graph.roots import Ref
from ..present.json_documents.record import Document
from ..present.screens.pointer_lines import NOTHING, GoalRecord, PointerRecord, RefsScreen, if_lost, nowhere
from ..present.shared_text.lines_and_tables import count, next_lines, table
from ..session.problems import problems_of
from .framework.arguments import RULES
from .framework.command import LIMIT, WITH_VALUES, Answer, Context, always, argument, command
from .framework.live_copy import looked

HEADERS = ("who", "where", "points to", "sure")


class RefsDocument(Document, command="refs"):
    """The answer of refs."""

    block: Optional[GoalRecord]
    refs: Sequence[PointerRecord]
    """Every pointer to it: those of roots first."""


@command(
    "who holds it",
    "refs 0x55d2c0709e50",
    arguments=(
        argument("address", help="an address, or an expression"),
        LIMIT,
        WITH_VALUES,
        RULES,
    ),
    copies=always,
    whole=always,
)
def refs_command(context: Context) -> Answer:
    """Tell who points to a block: variables, stacks, registers, other blocks.

    Shows every pointer to any byte of the block that contains the address, and its place: in a variable (its symbol),
    on a stack (the thread and the frame's function), in a register, in another block (the offset). An address in no
    block stands for its mapping. A word that points to a block's start is certainly a pointer, one to its inside may be
    old, or chance. A live process is copied, and runs on meanwhile.
    """
    place = context.target.evaluate(context.options.address)
    look = looked(context)
    goal, refs = asked_for(look.search, place)
    problems = [*look.problems, *problems_of(look.session)]
    if goal is None:
        said, words = nowhere(place)
        return Answer(RefsDocument(block=None, refs=[]), [words], [said, *problems])
    shown = RefsScreen(RefDetails(look.search, refs, goal), Paths(look.search, context.user_data))
    found = RefsDocument(block=shown.goal(goal), refs=[shown.pointer(each, goal) for each in refs])
    return Answer(found, _lines(context, shown, goal, refs, place), problems)


def _lines(context: Context, shown: RefsScreen, goal: Goal, refs: Sequence[Ref], place: int) -> Iterator[str]:
    style = context.style
    yield style.bold(f"{shown.goal_line(style, goal, place)}: {count(len(refs), 'pointer')} to it")
    yield ""
    if refs:
        rows = [shown.cells(each, goal) for each in refs]
        left, limit = (0, 1, 3), context.options.limit
        yield from table(
            style, HEADERS, rows, left=left, names=(0,), expendable=("where",), limit=limit, what="pointer"
        )
    else:
        yield NOTHING
    yield ""
    further = [style.typed(f"owner {place:#x}")] if refs else if_lost(style, goal)
    yield from next_lines(style, *further, style.typed(f"chunk {place:#x}"))
