"""XML in colour, with pygments where it is installed."""

from __future__ import annotations

from typing import Mapping, Sequence

from ...base import optional_libraries
from ..shared_text.text import Painted, Part

COLOURS: Mapping[str, str] = {"Token.Name.Tag": "94", "Token.Name.Attribute": "36", "Token.Literal.String": "33"}


def highlighted(xml: str) -> Sequence[str]:
    """Its lines; plain where pygments is missing."""
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
