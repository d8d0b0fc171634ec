"""heap owner: the way from its main holder to a block."""

from __future__ import annotations

from itertools import chain
from typing import Annotated, Iterator, Optional, Sequence

from ..blocks.graph.asked_address import Goal, asked_for
from ..blocks.graph.holders import Holders, Paths, find_owner
from ..blocks.graph.pointer_facts import RefDetails
from ..blocks.graph.roots import BLOCK, Ref
from ..blocks.python_objects import python_way
from ..present.json_documents.record import Document
from ..present.json_documents.shared_records import OwnerRecord
from ..present.screens.owner_lines import whose
from ..present.screens.pointer_lines import NOTHING, GoalRecord, PointerRecord, RefsScreen, if_lost, nowhere
from ..present.shared_text.lines_and_tables import count, next_lines, unmarked, with_verb
from ..session.problems import problems_of
from .framework.arguments import RULES
from .framework.command import WITH_VALUES, Answer, Context, always, argument, command
from .framework.live_copy import looked

ONLY_STALE = "nothing else leads to it: it may be lost"
DEEPER = "  "
ALIKE = 3
"""How many similar nodes of a list are shown."""


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
    expression = way.on_screen if way is not None else python
    local = whose(look.search, holder) if holder is not None and holder.is_local else ""
    if path:
        held_by = f"held by {unmarked(local) or shown.who(path[0])}"
        way_to = [expression] if expression is not None else []
        end = [f"{with_verb(whose(look.search, tied), 'lead')} there as well, by as few steps"] if tied else []
        text = [*way_to, "", *_trail(shown, path, goal), *end]
    else:
        held_by = "nothing holds it"
        text = ["", f"{count(len(refs), 'pointer')} to it, in nothing that a root leads to" if refs else NOTHING]
    style = context.style
    further = [] if path else if_lost(style, goal)
    further += [style.typed(f"refs {place:#x}")] if refs else []
    first = style.bold(f"{shown.goal_line(style, goal, place)}: {held_by}")
    next_ones = next_lines(style, *further, style.typed(f"chunk {place:#x}"))
    return Answer(found, chain([first], text, [""], next_ones), problems)


def _trail(shown: RefsScreen, path: Sequence[Ref], goal: Goal) -> Iterator[str]:
    """The way from the root down, one pointer a line. Similar nodes of a list are shown a few times only."""
    depth, before, alike = 0, "", 0
    for ref, to in shown.steps(path, goal):
        past = ref.value - to.span.start
        sure = shown.sure(ref, to)
        what = f"{shown.likeness(ref)} {past} {sure}"
        alike = alike + 1 if what == before and ref.kind == BLOCK else 0
        before = what
        if alike > ALIKE:
            continue
        said = f"{DEEPER * depth}{shown.who(ref)}{f', to +{past:,}' if past else ''}"
        yield f"{said}{f'  ({sure})' if sure else ''}" if alike < ALIKE else f"{DEEPER * depth}…"
        depth += 1
    yield f"{DEEPER * depth}{'mapping' if goal.state == 'mapping' else 'block'} {goal.span.start:#x}"
    if any(shown.told.stale(each) is not None for each in path):
        yield ONLY_STALE
