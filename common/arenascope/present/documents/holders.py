"""Who holds memory, in every document that names an owner (present/screens/owners.py writes it)."""

from __future__ import annotations

from .keys import Schema, integer, one_of, record, text

ROOT_KINDS = ("global", "tls", "stack", "register", "kernel", "mapping")
OWNER_KINDS = (*ROOT_KINDS, "shared", "unreached")


def owner(meaning: str, null: bool = False, /, **more: Schema) -> Schema:
    """Any, also several together, and nobody. A key of `more` may be one of an owner's own, where it means more."""
    kind = one_of("What owns it; shared: several together, unreached: nothing", *OWNER_KINDS)
    return record(meaning, null, **{"kind": kind, **_NAMED, **more})


def one_owner(meaning: str, /, **more: Schema) -> Schema:
    """A root: a variable, a thread's stack, a mapping."""
    return record(meaning, kind=one_of("What it is", *ROOT_KINDS), **_NAMED, **more)


def held_by(meaning: str, /, **more: Schema) -> Schema:
    return owner(f"{meaning}: as in owners; null without --owners, and where it is not known", True, **more)


_NAMED = {
    "name": text("The variable, or what is mapped; null: not known", null=True),
    "tid": integer("The thread whose it is", null=True),
}
