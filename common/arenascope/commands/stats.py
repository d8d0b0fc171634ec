"""heap stats: malloc_stats' text."""

from __future__ import annotations

from ..present.formats.malloc_stats import malloc_stats
from ..present.json_documents.glibc_records import StatsDocument
from ..session.before_hold import read_lists
from ..session.problems import problems_of
from .framework.command import Answer, Context, command
from .info import may_be_written


@command(
    "as glibc prints it",
    "Print the text of malloc_stats(), byte for byte, without calling it.",
    "stats",
    "Where not all of it can be read nothing is printed, as the text has no word for what is not known.",
    reads=read_lists,
)
def stats_command(context: Context) -> Answer:
    session = context.session
    text = malloc_stats(session.arenas, session.params) if may_be_written(context, "malloc_stats' text") else None
    return Answer(StatsDocument(text=text), (text or "").rstrip("\n").split("\n"), problems_of(session), exact=True)
