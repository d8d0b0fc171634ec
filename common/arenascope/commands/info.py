"""heap info: malloc_info's XML."""

from __future__ import annotations

from typing import Mapping, Sequence

from ..base import optional_libraries
from ..base.errors import RefusedError
from ..present.formats.malloc_info import malloc_info
from ..present.json_documents.glibc_records import InfoDocument
from ..present.shared_text.findings import sentence
from ..present.shared_text.text import Painted, Part
from ..session.before_hold import read_lists
from ..session.problems import inexact, problems_of, unknown_release
from .framework.command import Answer, Context, command

COLOURS: Mapping[str, str] = {"Token.Name.Tag": "94", "Token.Name.Attribute": "36", "Token.Literal.String": "33"}


def highlighted(xml: str) -> Sequence[str]:
    """The XML's lines, highlighted if pygments is installed."""
    if optional_libraries.load("pygments") is None:
        return xml.split("\n")
    from pygments.lexers import get_lexer_by_name

    lines: list[list[Part]] = [[]]
    for token, text in get_lexer_by_name("xml", stripnl=False, ensurenl=False).get_tokens(xml):
        for number, piece in enumerate(text.split("\n")):
            if number:
                lines.append([])
            lines[-1].append(Part(piece, COLOURS.get(str(token), "")))
    return [Painted(*parts) for parts in lines]


@command(
    "as glibc prints it",
    "Print the XML of malloc_info(0), byte for byte, without calling it.",
    "info",
    "glibc's own oddities are kept: sizes of binned chunks carry a flag bit each. `arenas` tells the true sizes. "
    "Where not all of it can be read nothing is printed, as the XML has no word for what is not known.",
    reads=read_lists,
)
def info_command(context: Context) -> Answer:
    session = context.session
    xml = None
    if may_be_written(context, "malloc_info's XML"):
        xml = malloc_info(session.arenas, session.params, session.layout)
    text = (xml or "").rstrip("\n")
    lines = highlighted(text) if text and context.style.colour else text.split("\n")
    problems = problems_of(session) + unknown_release(session)
    return Answer(InfoDocument(xml=xml), lines, problems, exact=True)


def may_be_written(context: Context, what: str) -> bool:
    """Whether glibc's own text can be written. If not, and the document has no field to say so, RefusedError."""
    gap = inexact(context.session)
    if gap is not None and not context.options.json:
        why = f"{what} cannot be written: {sentence(gap)}"
        raise RefusedError("text-incomplete", why, "`arenas` shows what can be read")
    return gap is None
