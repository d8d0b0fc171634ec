"""The option --where of several commands: only blocks with objects for which a condition on members holds."""

from __future__ import annotations

from typing import Optional, Sequence

from ...blocks.declared.matching_objects import Asked, MatchingObjects, asked_condition
from ...present.json_documents.record import Record, Size
from ...present.shared_text.lines_and_tables import count
from .arguments import argument
from .command import Context

WHERE = argument(
    "--where",
    metavar="CONDITION",
    help="only blocks with objects for which this holds: 'closed == 1 and fd < 0', 'Session: state == DONE'",
)


class WhereRecord(Record):
    """For which objects the condition of --where holds."""

    condition: str
    """As it was typed."""
    types: Sequence[str]
    """The types that have its members."""
    objects: Size
    """How many objects of these there are."""
    matching_objects: Size
    """For how many it holds."""
    guessed_objects: Size
    """Those of them in blocks that only a guess names."""
    unknown_objects: Size
    """Of how many a member cannot be read: they are none of those for which it holds."""


def asked_where(context: Context, type: Optional[str] = None) -> Optional[Asked]:
    """The condition, to be parsed before anything is looked at; None: there is none. `type`: one that is named beside
    it."""
    text = context.options.where
    return asked_condition(text, type) if text is not None else None


def where_key(found: Optional[MatchingObjects]) -> dict[str, object]:
    """A document's key, which is there only with --where."""
    if found is None:
        return {}
    guessed, unknown = found.guessed, found.unknown
    return {
        "where": WhereRecord.of(
            found, matching_objects=found.matching, guessed_objects=guessed, unknown_objects=unknown
        )
    }


def where_line(found: MatchingObjects) -> str:
    """For how many objects it holds."""
    of = f" of {found.types[0]}" if len(found.types) == 1 else f" of {count(len(found.types), 'type')}"
    said = f"{found.condition} holds for {found.matching:,} of {count(found.objects, 'object')}{of}"
    if found.guessed:
        said += f", {found.guessed:,} of them in blocks named by a guess"
    return f"{said}; {found.unknown:,} more cannot be read" if found.unknown else said
