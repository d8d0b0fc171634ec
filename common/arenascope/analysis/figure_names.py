"""What each figure of a snapshot is called.

These names are keys, though they read well: by them `diff`, `trend` and `watch` know that figures of two moments are of
the same thing, they stand in documents, and `metrics` has some of them as labels, which dashboards ask for by what they
say. So none may change from one release to the next, and screens show them as they are, or put words of their own in
their place.
"""

from __future__ import annotations

from typing import Any, Mapping

from ..base.model import Allocator

Document = Mapping[str, Any]
"""What JSON says of a moment, or a row of that: whoever reads a file has checked its form."""
NAMELESS = "a variable"
CONTAINER = "container"
"""The kind of figure that counts elements, no bytes."""
IN_PASSING = ("stack", "register")
"""Kinds of owners that hold what is being worked on: what they have comes and goes with every request."""


def allocators_of(document: Document) -> list[Allocator]:
    """Of a snapshot; older ones do not tell."""
    rows = (document.get("arenas") or {}).get("allocators") or ()
    return [
        Allocator(row["name"], row["how"], row["replaces_malloc"], row["instead"], shadowed_by=row["shadowed_by"])
        for row in rows
    ]


def arena_name(row: Document) -> str:
    """An arena's address stays for the process's life; its number moves with each new arena."""
    return "main" if row.get("main") else str(row["address"])


def bin_name(row: Document) -> str:
    """The same in all arenas: a list that grows does so wherever threads go."""
    if row["kind"] == "unsorted":
        return "unsorted"
    least, largest = row["min_bytes"], row.get("max_bytes")
    return f"{row['kind']} {least}" + (f"-{largest}" if largest and largest != least else "")


def size_name(row: Document) -> str:
    largest = row.get("max_bytes")
    return f"{row['min_bytes']}-{largest}" if largest is not None else str(row["min_bytes"])


def owner_name(row: Document) -> str:
    """What one holds by stale words is another's; older snapshots do not tell."""
    return f"{_owner_name(row)} (stale words)" if row.get("stale") else _owner_name(row)


def _owner_name(row: Document) -> str:
    """Threads come and go: what all of them hold in one way has one name."""
    kind, name = str(row.get("kind")), row.get("name")
    if kind in IN_PASSING:
        return str(name) if kind == "stack" and name else f"{kind}s of threads"
    if kind == "tls":
        return f"{name or 'variables'} of threads"
    if kind in ("shared", "unreached"):
        # older snapshots have rows of what several hold
        return f"several together: {name or 'others'}" if kind == "shared" else "nobody"
    if kind == "runtime":
        return f"heap of {name}"
    return f"mapping {name}" if kind == "mapping" else name or NAMELESS
