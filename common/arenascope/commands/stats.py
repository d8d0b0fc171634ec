"""heap stats: malloc_stats' text."""

from __future__ import annotations

from ..base.errors import RefusedError
from ..present.formats.malloc_stats import malloc_stats
from ..present.json_documents.glibc_records import Stats
from ..present.shared_text.problems import sentence
from ..session.before_hold import read_lists
from ..session.problems import inexact, problems_of
from .framework.command import Answer, Context, command


@command(
    "as glibc prints it",
    "Print the text of malloc_stats(), byte for byte, without calling it.",
    "stats",
    "Where not all of it can be read nothing is printed, as the text has no word for what is not known.",
    reads=read_lists,
)
def stats_command(context: Context) -> Answer:
    session = context.session
    gap = inexact(session)
    if gap is not None and not context.options.json:
        raise RefusedError(
            "text-incomplete",
            f"malloc_stats' text cannot be written: {sentence(gap)}",
            "`arenas` shows what can be read",
        )
    text = malloc_stats(session.arenas, session.params) if gap is None else None
    return Answer(Stats(text=text), (text or "").rstrip("\n").split("\n"), problems_of(session), exact=True)
