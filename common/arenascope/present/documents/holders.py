"""Who holds memory, where a document has no typed record yet."""

from __future__ import annotations

from .keys import Schema, keys_of, record
from .owner_records import Owner, Root


def one_owner(meaning: str, /, **more: Schema) -> Schema:
    """A root: a variable, a thread's stack, a mapping."""
    return record(meaning, **keys_of(Root), **more)


def held_by(meaning: str) -> Schema:
    return record(f"{meaning}: as in owners; null without --owners, and where it is not known", True, **keys_of(Owner))
