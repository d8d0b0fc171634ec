"""Pieces of JSON Schema (draft 2020-12): of a typed record (record.py), by its annotations, and of other things."""

from __future__ import annotations

from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from .record import ENVELOPE, Document, Record, key_of

Schema = dict[str, Any]
OPTIONAL = "optional"
PLAIN: dict[object, str] = {int: "integer", float: "number", str: "string", bool: "boolean"}


def _plain(kind: str, meaning: str, null: bool, **more: Any) -> Schema:
    return {"description": meaning, "type": [kind, "null"] if null else kind, **more}


def one_of(meaning: str, *values: Any) -> Schema:
    return {"description": meaning, "enum": list(values)}


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


def keys_of(kind: type[Record]) -> dict[str, Schema]:
    """By the fields' annotations; of a Document its own keys."""
    hints = get_type_hints(kind, include_extras=True)
    own = [name for name in kind._fields if not (name == ENVELOPE and issubclass(kind, Document))]
    schemas = {name: schema_of(hints[name]) for name in own}
    return {key_of(name): optional(each) if hasattr(kind, name) else each for name, each in schemas.items()}


def schema_of(hint: object, meaning: str = "") -> Schema:
    """Of a field's annotation. `meaning`: of what it stands in, which says more."""
    null, more = False, {}
    while get_origin(hint) in (Annotated, Union):
        first, *others = get_args(hint)
        null |= type(None) in others
        hint = first
        for each in others:
            if isinstance(each, str):
                meaning = meaning or each
            elif isinstance(each, tuple):
                more[each[0]] = each[1]
    if isinstance(hint, type) and issubclass(hint, Record):
        return record(meaning or (hint.__doc__ or "").rstrip("."), null, **keys_of(hint))
    if "enum" in more:
        return one_of(meaning, *more["enum"], *([None] if null else []))
    inner = [schema_of(each) for each in get_args(hint)]
    origin = get_origin(hint)
    if origin is tuple:
        return _plain("array", meaning, null, prefixItems=inner, items=False, minItems=len(inner))
    if origin is not None and len(inner) == 1:
        return _plain("array", meaning, null, items=inner[0])
    if origin is not None:
        # an object whose keys are data
        return _plain("object", meaning, False, additionalProperties=inner[1])
    return _plain(PLAIN[hint], meaning, null, **more)
