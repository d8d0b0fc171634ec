"""The words in which it is said what a block is."""

from __future__ import annotations

from typing import NamedTuple, Optional

KINDS = (
    "declared",
    "c++",
    "control",
    "python",
    "gobject",
    "string",
    "vector",
    "node",
    "holder",
    "text",
    "zeros",
    "pointers",
    "size",
)
"""What a kind can be of, the stronger first: nothing is named by a weaker one where a stronger one is certain."""
ROOT_KINDS = ("global", "tls", "stack", "register", "kernel", "runtime", "mapping")
"""What a root can be of: the first that leads to a block names its owner."""
CONTAINER_FORMS = ("container", "hash-table", "array", "list", "tree", "chained-hash-table")
"""What containers are, by declared types: the first two are libraries', of the others their form tells."""
MEMBER_FORMS = ("integer", "boolean", "enum", "character", "float", "text", "pointer", "elements")
"""What of a member's values is told; of a container how many elements it has."""
STALE = (
    "stdio-buffer",
    "text",
    "beyond-end",
    "loader-table",
    "popped-stack",
    "vector-register",
    "family-link",
    "not-a-pointer",
    "low-number",
)
"""Why a word that leads to a block is no pointer that holds it: see blocks/graph/stale_words.py."""

BY_SIZE = "its size"
"""How a block is known of which nothing else is."""
POINTED = "what points to it"
"""How a block is known that is named after its holder alone: one row for all that have the name."""


class Kind(NamedTuple):
    """What some blocks are."""

    name: str
    """"Session", "std::map node", "text", "48 bytes"."""
    kind: str
    """One of KINDS."""
    module: Optional[str] = None
    """The file that it is of."""
    certain: bool = True
    """False for a guess."""
    how: str = ""
    """By what it was known, for people."""
    owner: Optional[str] = None
    """Whose it is, where another block or a variable told: "Session+40"."""
