"""heap stats: malloc_stats' text."""

from __future__ import annotations

from ..render.malloc_stats import malloc_stats
from . import Answer, Context, command
from .gather import problems_of


@command("Print the text of malloc_stats(), byte for byte, without calling it.", "stats")
def stats_command(context: Context) -> Answer:
    session = context.session
    text = malloc_stats(session.arenas, session.params)
    return Answer({"text": text}, text.rstrip("\n").split("\n"), problems_of(session))
