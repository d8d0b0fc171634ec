"""heap refs: who points to a block."""

from __future__ import annotations

from typing import Optional, Sequence

from ..blocks.graph.asked_address import asked_for
from ..blocks.graph.holders import Paths
from ..blocks.graph.pointer_facts import RefDetails
from ..present.json_documents.record import Document
from ..present.screens.pointer_lines import GoalPlace, GoalRecord, PointerRecord, RefsScreen, nowhere, pointers
from ..session.problems import problems_of
from .framework.arguments import RULES
from .framework.command import LIMIT, WITH_VALUES, Answer, Context, always, argument, command
from .framework.live_copy import looked


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
    text = pointers(context.style, shown, GoalPlace(goal, place), refs, limit=context.options.limit)
    return Answer(found, text, problems)
