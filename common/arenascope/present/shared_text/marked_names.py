"""Marks names from the program in text: `left` holds most. Pages set marked names as code."""

from __future__ import annotations

from typing import Mapping

from ...analysis.report_holders import is_unnamed

MARK = "`"


def marked(name: str) -> str:
    return f"{MARK}{name.replace(MARK, chr(39))}{MARK}"


def unmarked(words: str) -> str:
    """The text without marks, for documents and other programs."""
    return words.replace(MARK, "")


def with_verb(called: str, verb: str) -> str:
    """An owner with a verb: "`cache` holds", "unnamed variables of git hold"."""
    return f"{called} {verb if is_unnamed(called) else verb + 's'}"


def unmarked_names(names: Mapping[str, str]) -> dict[str, str]:
    return {key: unmarked(value) if key in ("owner", "owners") else value for key, value in names.items()}
