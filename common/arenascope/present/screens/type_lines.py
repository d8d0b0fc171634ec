"""What screens call types of blocks, and say of them."""

from __future__ import annotations

from typing import Sequence

from ...base.argv import Matches
from ...base.class_names import named, type_words
from ...base.heap_model import Kind, Statement
from ..shared_text.lines_and_tables import Style, count
from ..shared_text.missing_symbols import without_types_text

GUESS = " ?"
"""Marks a name that is a guess."""
NOTES = {
    "pymalloc-apart": "Python's objects of up to 512 bytes are no blocks: pymalloc has them beside malloc",
    "no-python-values": "no values of members are known: these are told of C, C++ and Rust types, not of Python's",
}
NOT_REACHED = "python-not-reached"
NO_VALUES = (
    "no values of members are known: debug information does not give these blocks a certain type, or they are empty"
)
A_GUESS = f"{GUESS.strip()} a guess, by what is in the blocks, or points to them"


def may_be(name: str, structs: Sequence[str]) -> str:
    """A guess at the type of blocks of which only the size is known."""
    return f"{name} may be: {', '.join(map(type_words, structs))} (a guess, by their size and contents)"


def note_text(said: Statement) -> str:
    if said.id == "no-values":
        several = int(said.figures["types"] or 0) > 1
        return f"values are told of one type: {said.names['types']}" if several else NO_VALUES
    if said.id == "may-be-more":
        blocks, names = count(int(said.figures["blocks"] or 0), "block"), said.names
        return f"{blocks} of {names['type']} may be more of them (a guess): chunk {names['chunk']} shows one"
    if said.id == NOT_REACHED:
        return not_reached_text(said)
    return NOTES.get(said.id) or without_types_text(said)


def not_reached_text(said: Statement) -> str:
    missing, whole = (Style().size(int(said.figures[name] or 0)) for name in ("bytes", "pool_bytes"))
    return (
        f"no way led to {missing} of the {whole} that pymalloc has handed out: only modules in C lead there, or "
        "nothing does any more"
    )


def is_called(kind: Kind, matches: Matches) -> bool:
    """Whether the type's name on screens or in documents matches."""
    return matches(name_of(kind)) or matches(kind.name)


def name_of(kind: Kind) -> str:
    return _whole_name(kind, short_name(kind))


def name_in_documents(kind: Kind) -> str:
    """The type's name as rows in documents have it."""
    return _whole_name(kind, named(kind.name).name if kind.kind == "declared" else kind.name)


def _whole_name(kind: Kind, name: str) -> str:
    owner = f" of {kind.owner}" if kind.owner and kind.kind != "holder" else ""
    return name + owner + ("" if kind.certain else GUESS)


def short_name(kind: Kind) -> str:
    """The name as people write it; documents have it as debug information spells it."""
    return type_words(kind.name)
