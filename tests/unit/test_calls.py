"""The house's rule that what a place in a call or a tuple would mean has a name, as far as the source text shows it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [path for folder in ("common", "gdb", "lldb") for path in sorted((ROOT / folder).rglob("*.py"))]
MOST_VALUES = 4
MOST_MEMBERS = 2
PACKS = ("pack", "pack_into", "itemgetter", "join")
"""Whose values are all alike, or told apart by the first of them."""
CALLS = ("call", "one_of")
"""C functions, which have no names for them; a text and what it may be."""
OFTEN = {
    "follow": ("step", "_add_ends"),
    "free_chunk_places": ("_after",),
    "linked_nodes": ("_back",),
    "lost_locals": ("claim",),
    "name_all_blocks": ("classify_many",),
    "all_recognisers": ("classify_many", "other", "_after_front", "_of_table"),
    "containers": ("Body", "_as_string"),
    "inner_objects": ("Claimed", "claim", "open", "pointer"),
    "many_objects": ("_object", "_pointers", "body", "follow", "open"),
    "many_objects_with_numpy": ("body", "follow", "open"),
    "object_words": ("follow", "open", "_follow_object", "claim", "Claimed", "pointer", "into"),
    "ruled_words": ("follow", "_claims"),
    "tracer": ("Claimed", "follow"),
}
"""By file: what is called for each chunk, block or word. A name costs a tenth of such a call."""
TUPLES = {
    "node": "memory.py: a free chunk's links, read a million times",
    "_nodes": "glibc/check/bins.py: the same links",
    "key": "model.py: two findings are told apart by it, nothing is taken out of it",
    "records": "sources/live: rows that cross a pipe; their reader makes records of them",
    "register_sets": "sources/live: the same",
    "_batches": "sources/live/pagemap.py: columns of what the kernel found, each unpacked where it is asked for",
    "_weight": "glibc/find/several_glibcs.py: compared, and never taken apart but where it is shown",
}
"""Functions that return longer tuples, and why."""


def crowded(tree: ast.AST, but: Sequence[str] = ()) -> Iterator[ast.Call]:
    """Calls with more values than a reader can tell apart by their places."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and len(node.args) > MOST_VALUES:
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name not in (*PACKS, *CALLS, *but):
                yield node


def nameless(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """Functions that return tuples of more members than a pair has, alone or as rows."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.FunctionDef)
            and node.returns is not None
            and any(map(_is_long, ast.walk(node.returns)))
        ):
            yield node


def _is_long(node: ast.AST) -> bool:
    if not isinstance(node, ast.Subscript) or getattr(node.value, "id", "") != "tuple":
        return False
    members = node.slice.elts if isinstance(node.slice, ast.Tuple) else []
    return len(members) > MOST_MEMBERS


def test_both_are_seen() -> None:
    """A tuple of any length is a list of one thing."""
    assert len(list(crowded(ast.parse("f(1, 2, 3, 4, 5); g(1, 2, 3, 4, z=5); h(1, 2, 3, 4, 5)"), ["h"]))) == 1
    assert not list(crowded(ast.parse("struct.pack('7B', 1, 2, 3, 4, 5, 6, 7)")))
    long = "def f() -> list[tuple[int, int, str]]: ...\n"
    assert [each.name for each in nameless(ast.parse(long))] == ["f"]
    assert not list(nameless(ast.parse("def f() -> tuple[int, ...]: ...\ndef g() -> tuple[int, str]: ...\n")))


def test_no_call_has_too_many_places() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{call.lineno}: {len(call.args)} values by their places"
        for path in SOURCES
        for call in crowded(ast.parse(path.read_text()), OFTEN.get(path.stem, ()))
    ]
    assert not found


def test_no_function_returns_a_long_tuple() -> None:
    found = [(path, each) for path in SOURCES for each in nameless(ast.parse(path.read_text()))]
    assert not [
        f"{path.relative_to(ROOT)}:{each.lineno}: {each.name}" for path, each in found if each.name not in TUPLES
    ]
    # an exception that nobody needs any more goes
    assert {each.name for _, each in found} == set(TUPLES)
