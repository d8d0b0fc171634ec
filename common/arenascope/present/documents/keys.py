"""The words in which documents are described; each makes a piece of JSON Schema (draft 2020-12)."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]
OPTIONAL = "optional"


def _plain(kind: str, meaning: str, null: bool, **more: Any) -> Schema:
    return {"description": meaning, "type": [kind, "null"] if null else kind, **more}


def integer(meaning: str, null: bool = False) -> Schema:
    return _plain("integer", meaning, null)


def size(meaning: str, null: bool = False) -> Schema:
    """Bytes, or a count: never negative."""
    return _plain("integer", meaning, null, minimum=0)


def number(meaning: str, null: bool = False) -> Schema:
    return _plain("number", meaning, null)


def text(meaning: str, null: bool = False) -> Schema:
    return _plain("string", meaning, null)


def address(meaning: str, null: bool = False) -> Schema:
    return _plain("string", meaning, null, pattern="^0x[0-9a-f]+$")


def identity(meaning: str) -> Schema:
    return _plain("string", meaning, False, pattern="^[a-z0-9]+(-[a-z0-9]+)*$")


def truth(meaning: str, null: bool = False) -> Schema:
    return _plain("boolean", meaning, null)


def one_of(meaning: str, *values: Any) -> Schema:
    return {"description": meaning, "enum": list(values)}


def rows(meaning: str, item: Schema, null: bool = False) -> Schema:
    return _plain("array", meaning, null, items=item)


def tuple_of(meaning: str, *items: Schema, null: bool = False) -> Schema:
    return _plain("array", meaning, null, prefixItems=list(items), items=False, minItems=len(items))


def named(meaning: str, value: Schema) -> Schema:
    """An object whose keys are data."""
    return _plain("object", meaning, False, additionalProperties=value)


def optional(schema: Schema) -> Schema:
    """A key that is there only where an option asks for it."""
    return {**schema, OPTIONAL: True}


def record(meaning: str, null: bool = False, /, **keys: Schema) -> Schema:
    """An object with exactly these keys."""
    properties = {
        key: {name: value for name, value in schema.items() if name != OPTIONAL} for key, schema in keys.items()
    }
    required = [key for key, schema in keys.items() if OPTIONAL not in schema]
    return _plain("object", meaning, null, properties=properties, required=required, additionalProperties=False)


def tally(meaning: str) -> Schema:
    return record(
        meaning,
        chunks=size("How many; null where it is not known", null=True),
        bytes=size("Their bytes; null where that is not known", null=True),
    )


def statement(meaning: str, null: bool = False, /, **others: Schema) -> Schema:
    return record(
        meaning,
        null,
        **others,
        id=identity("What it says; stays the same from release to release"),
        figures=named("What shows it, as numbers; null: not known", number("A figure", null=True)),
        names=named("What else shows it and is no number: addresses, names", text("A name")),
        text=text("The same in words, which may change from release to release"),
    )
