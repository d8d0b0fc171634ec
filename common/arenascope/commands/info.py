"""heap info: malloc_info's XML."""

from __future__ import annotations

from ..render.highlight import highlight
from ..render.malloc_info import malloc_info
from . import Answer, Context, command
from .gather import problems_of


@command(
    "Print the XML of malloc_info(0), byte for byte, without calling it.",
    "info",
    "glibc's own oddities are kept: sizes of binned chunks carry a flag bit each. `arenas` tells the true sizes.",
)
def info_command(context: Context) -> Answer:
    session = context.session
    xml = malloc_info(session.arenas, session.params, session.layout)
    text = highlight(xml, "xml") if context.style.colour else xml
    return Answer({"xml": xml}, text.rstrip("\n").split("\n"), problems_of(session))
