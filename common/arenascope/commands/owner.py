"""heap owner: the way from its main holder to a block."""

from __future__ import annotations

from typing import Annotated, Optional, Sequence

from ..blocks.graph.asked_address import asked_for
from ..blocks.graph.holders import Holders, Paths, find_owner
from ..blocks.graph.pointer_facts import RefDetails
from ..blocks.python_objects import python_way
from ..present.json_documents.record import Document
from ..present.json_documents.shared_records import OwnerRecord
from ..present.screens.owner_lines import whose
from ..present.screens.pointer_lines import GoalPlace, GoalRecord, PointerRecord, RefsScreen, nowhere, owner_lines
from ..present.shared_text.lines_and_tables import unmarked
from ..session.problems import problems_of
from .framework.arguments import RULES
from .framework.command import WITH_VALUES, Answer, Context, always, argument, command
from .framework.live_copy import looked


class OwnerDocument(Document, command="owner"):
    """The answer of owner."""

    block: Optional[GoalRecord]
    held_by: Optional[OwnerRecord]
    """Of a live block its main holder: as in owners; null: it is none, or that is not known."""
    tied_with: Optional[OwnerRecord]
    """Another owner, who leads there equally well; null: there is none."""
    path: Optional[
        Sequence[Annotated[PointerRecord, "A pointer, to the block of the next row or to what was asked for"]]
    ]
    """The path to it, the root's pointer first; null: nothing leads to it."""
    expression: Optional[str]
    """The same as the program would write it, by its debug information, a step that repeats written once with its
    number; null: that does not lead there from the same variable. Elements by their numbers; by their keys with
    --with-values. Of Python the way to the object that has the block."""


@command(
    "who holds it",
    "owner 0x55d2c0709e50",
    arguments=(
        argument("address", help="an address, or an expression"),
        WITH_VALUES,
        RULES,
    ),
    copies=always,
    whole=always,
)
def owner_command(context: Context) -> Answer:
    """Tell who holds a block: the path to it from a variable, a stack or a register.

    The path begins at the block's main holder, as in owners. Where debug information tells the types on the path, it is
    written as the program would: srv->sessions->buckets[7]->log; in Python from a module or a function that runs:
    app.cache[].body. A pointer to a block's inside is marked "perhaps": such a word may be old, or chance. An address
    in no block stands for its mapping. A live process is copied, and runs on meanwhile.
    """
    place = context.target.evaluate(context.options.address)
    look = looked(context)
    goal, refs = asked_for(look.search, place)
    problems = [*look.problems, *problems_of(look.session)]
    if goal is None:
        said, words = nowhere(place)
        nothing = OwnerDocument(block=None, held_by=None, tied_with=None, path=None, expression=None)
        return Answer(nothing, [words], [said, *problems])
    path = find_owner(look.search, goal, refs)
    holders = Holders(look.search, look.lost)
    holder, tied = holders.of(goal.span.start), holders.tied_with(goal.span.start)
    paths = Paths(look.search, context.user_data)
    shown = RefsScreen(RefDetails(look.search, path or (), goal), paths)
    way = paths.way(path[0], goal.number) if goal.number is not None and path else None
    python = python_way(look.search, place)
    found = OwnerDocument(
        block=shown.goal(goal),
        held_by=OwnerRecord.of(holder) if holder is not None else None,
        tied_with=OwnerRecord.of(tied) if tied is not None else None,
        path=[shown.pointer(*each) for each in shown.steps(path, goal)] if path else None,
        expression=way.in_documents if way is not None else python,
    )
    local = whose(look.search, holder) if holder is not None and holder.is_local else ""
    text = owner_lines(
        context.style,
        shown,
        GoalPlace(goal, place),
        path,
        refs=refs,
        other=whose(look.search, tied) if tied is not None else "",
        expression=way.on_screen if way is not None else python,
        local=unmarked(local),
    )
    return Answer(found, text, problems)
