"""Every JSON Schema of docs/schema/, by its name; and their pieces (draft 2020-12), of a typed record
(record.py) by its annotations, and of other things."""

from __future__ import annotations

import json
from typing import Annotated, Any, Sequence, Union, get_args, get_origin, get_type_hints

from ..glossary import word_of_key

# whose documents these are
from . import (  # noqa: F401
    arena_records,
    chunk_records,
    container_records,
    glibc_records,
    mapping_records,
    owner_records,
    process_records,
    report_records,
    trim_records,
    type_records,
)
from . import moment_records as moments
from .record import ENVELOPE, Document, Envelope, Failed, InList, Record, key_of
from .snapshot_keys import OF_A_CONTAINER, OF_A_TYPE, OF_AN_OWNER, SECTIONS, SIZES

Schema = dict[str, Any]
OPTIONAL = "optional"
PLAIN: dict[object, str] = {int: "integer", float: "number", str: "string", bool: "boolean"}


def _plain(kind: str, meaning: str, null: bool, **more: Any) -> Schema:
    return {"description": meaning, "type": [kind, "null"] if null else kind, **more}


def one_of(meaning: str, *values: Any) -> Schema:
    words = [f"{each}: {word_of_key(each)}" for each in values if word_of_key(each)]
    # parts of memory; a process is `live`, too
    said = f"{meaning} (on screens {'; '.join(words)})" if len(words) > 1 else meaning
    return {"description": said, "enum": list(values)}


def optional(schema: Schema) -> Schema:
    """A key that is there only where an option asks for it."""
    return {**schema, OPTIONAL: True}


def record(meaning: str, null: bool = False, /, **keys: Schema) -> Schema:
    """An object with exactly these keys."""
    properties = {
        key: {name: value for name, value in schema.items() if name != OPTIONAL} for key, schema in keys.items()
    }
    for key, schema in properties.items():
        word = word_of_key(key)
        if word is not None:
            schema["description"] += f" (on screens: {word})"
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


DIALECT = "https://json-schema.org/draft/2020-12/schema"
COMMANDS = {kind.of_command: kind for kind in sorted(Document.__subclasses__(), key=lambda kind: kind.of_command)}
DOCUMENTS = {name: keys_of(kind) for name, kind in COMMANDS.items()}
"""Each command's own keys."""
FAILED = "failed"
SNAPSHOT = "snapshot-file"


def schemas() -> dict[str, Schema]:
    by_name = {name: _command(name, keys) for name, keys in DOCUMENTS.items()}
    by_name[FAILED] = _titled(
        "What --json prints of what could not be read, and a line of --jsonl",
        record(
            "What stands in its document's place",
            **{**keys_of(Failed), "command": one_of("What was asked", *DOCUMENTS)},
        ),
    )
    by_name[SNAPSHOT] = _titled("The file that snapshot writes", _snapshot())
    return by_name


def as_text(schema: Schema) -> str:
    """As its file has it, and as --schema prints it."""
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def _titled(title: str, schema: Schema) -> Schema:
    return {"$schema": DIALECT, "title": title, **schema}


def _command(name: str, keys: dict[str, Any]) -> Schema:
    return _titled(
        f"What {name} --json prints",
        record(
            "One document",
            **keys_of(InList),
            **{**keys_of(Envelope), "command": one_of("The command", name)},
            **keys,
        ),
    )


def _snapshot() -> Schema:
    """Keys of commands' own documents, as far as they are kept."""

    def part(name: str, keys: Sequence[str]) -> Schema:
        return record(f"Of {name}", **{key: DOCUMENTS[name][key] for key in keys})

    def rows_of(name: str, keys: Sequence[str], **more: Schema) -> Schema:
        """Of its rows some keys."""
        asked = DOCUMENTS[name][name]
        known = asked["items"]["properties"]
        return {**asked, "items": record("A row", **{key: known[key] for key in keys}, **more)}

    held_by = optional(DOCUMENTS["types"]["types"]["items"]["properties"]["held_by"])
    types = record("Of types", types=rows_of("types", OF_A_TYPE, held_by=held_by), totals=DOCUMENTS["types"]["totals"])
    containers = record("Of containers", containers=rows_of("containers", OF_A_CONTAINER))
    live = DOCUMENTS["owners"]["live_bytes"]
    owners = record("Of owners", owners=rows_of("owners", OF_AN_OWNER), live_bytes=live)
    kept = {name: part(name, keys) for name, keys in SECTIONS.items()}
    sizes = {name: optional(part(name, keys)) for name, keys in SIZES.items()}
    return record(
        "Figures of one moment, without a byte of what the blocks hold",
        **keys_of(moments.SnapshotFile),
        **kept,
        **sizes,
        types=optional(types),
        containers=optional(containers),
        owners=optional(owners),
        problems=keys_of(Envelope)["problems"],
    )
