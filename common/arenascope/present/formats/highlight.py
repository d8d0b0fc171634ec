"""XML and JSON in colour, with pygments where it is installed."""

from __future__ import annotations

from ...base import optional_libraries


def highlight(text: str, language: str) -> str:
    """The text with ANSI colours; unchanged where pygments is missing."""
    pygments = optional_libraries.load("pygments")
    if pygments is None:
        return text
    from pygments.formatters import TerminalFormatter
    from pygments.lexers import get_lexer_by_name

    coloured: str = pygments.highlight(text, get_lexer_by_name(language), TerminalFormatter())
    return coloured
