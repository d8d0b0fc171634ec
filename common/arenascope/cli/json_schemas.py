"""The JSON Schema (draft 2020-12) of each document, made from the fields of its typed record (record.py): their
annotations, and the docstrings under them.

All of them together are docs/schema/arenascope.json: each record is one of its `$defs`, and so is each document.
"""

from __future__ import annotations

import ast
import json
import pkgutil
from functools import cache
from typing import Annotated, Any, Iterator, Mapping, Optional, Sequence, Union, get_args, get_origin, get_type_hints

from ..commands.containers import ContainerRecord
from ..commands.framework.find_command import all_commands
from ..commands.snapshot import OF_A_CONTAINER, OF_A_TYPE, OF_AN_OWNER, SECTIONS, SIZES
from ..commands.types import TypeRecord
from ..present.glossary import word_of_key
from ..present.json_documents.record import ENVELOPE, Document, Envelope, Failed, InList, Record, key_of
from ..present.json_documents.snapshot_file import SnapshotFile
from ..present.screens.owner_lines import OwnerRow
from . import top  # noqa: F401 - its document is one of COMMANDS

Schema = dict[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"
TITLE = "The documents that arenascope prints with --json, and the file that snapshot writes"
DEFS, REF = "$defs", "$ref"
FAILED = "failed"
SNAPSHOT = "snapshot-file"
OPTIONAL = "optional"
PLAIN: dict[object, str] = {int: "integer", float: "number", str: "string", bool: "boolean"}
all_commands()
COMMANDS = {kind.of_command: kind for kind in sorted(Document.__subclasses__(), key=lambda kind: kind.of_command)}
WIDTH = 120


def _plain(kind: str, meaning: str, null: bool, **more: Any) -> Schema:
    described = {"description": meaning} if meaning else {}
    return {**described, "type": [kind, "null"] if null else kind, **more}


def one_of(meaning: str, *values: Any) -> Schema:
    words = [f"{each}: {word_of_key(each)}" for each in values if word_of_key(each)]
    # parts of memory; a process is `live`, too
    said = f"{meaning} (on screens {'; '.join(words)})" if len(words) > 1 else meaning
    return {"description": said, "enum": list(values)}


def optional(schema: Schema) -> Schema:
    """Marks a key that is there only if an option asks for it."""
    return {**schema, OPTIONAL: True}


def record(meaning: str, /, **keys: Schema) -> Schema:
    """An object with exactly these keys."""
    return {"description": meaning, "type": "object", "additionalProperties": False, **_contents(keys)}


def _contents(keys: Mapping[str, Schema]) -> Schema:
    properties = {
        key: {name: value for name, value in schema.items() if name != OPTIONAL} for key, schema in keys.items()
    }
    for key, schema in properties.items():
        word = word_of_key(key)
        if word is not None and "description" in schema:
            schema["description"] += f" (on screens: {word})"
    required = [key for key, schema in keys.items() if OPTIONAL not in schema]
    return {"required": required, "properties": properties}


def _to(name: str) -> Schema:
    return {REF: f"#/{DEFS}/{name}"}


def _key_of(kind: type[Record], key: str) -> Schema:
    """The schema of one key of a record."""
    return {REF: f"#/{DEFS}/{kind.__name__}/properties/{key}"}


@cache
def _meanings(module: str) -> Mapping[tuple[str, str], str]:
    """What each field of the records of a module means, by record and field: the docstrings under them."""
    package, _, name = module.rpartition(".")
    source = pkgutil.get_data(package, f"{name}.py") or b""
    records = [each for each in ast.parse(source).body if isinstance(each, ast.ClassDef)]
    return {
        (kind.name, field.target.id): " ".join(below.value.value.split()).rstrip(".")
        for kind in records
        for field, below in zip(kind.body, kind.body[1:])
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str)
    }


class Definitions:
    """Makes the schema of each record once; others refer to it."""

    def __init__(self) -> None:
        self.kinds: dict[str, type[Record]] = {}
        self.made: dict[str, Schema] = {}

    def keys_of(self, kind: type[Record]) -> dict[str, Schema]:
        """A schema for each field of the record; the envelope of a Document is left out."""
        hints = get_type_hints(kind, include_extras=True)
        own = [name for name in kind._fields if not (name == ENVELOPE and issubclass(kind, Document))]
        said = _meanings(kind.__module__)
        schemas = {
            name: self._inherited(kind, name) or self.schema_of(hints[name], said.get((kind.__name__, name), ""))
            for name in own
        }
        return {key_of(name): optional(each) if hasattr(kind, name) else each for name, each in schemas.items()}

    def _inherited(self, kind: type[Record], name: str) -> Optional[Schema]:
        """Fields inherited from another record."""
        if name in kind.__annotations__:
            return None
        base = next(each for each in kind.__mro__[1:] if name in each.__annotations__)
        assert issubclass(base, Record)
        self._reference(base, "", null=False)
        return _key_of(base, name)

    def schema_of(self, hint: object, meaning: str = "") -> Schema:
        """The schema of a field's annotation. `meaning`: the docstring, or the text of an outer annotation."""
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
            return self._reference(hint, meaning, null)
        if "enum" in more:
            return one_of(meaning, *more["enum"], *([None] if null else []))
        inner = [self.schema_of(each) for each in get_args(hint)]
        origin = get_origin(hint)
        if origin is tuple:
            return _plain("array", meaning, null, prefixItems=inner, items=False, minItems=len(inner))
        if origin is not None and len(inner) == 1:
            return _plain("array", meaning, null, items=inner[0])
        if origin is not None:
            # an object with arbitrary keys
            return _plain("object", meaning, False, additionalProperties=inner[1])
        return _plain(PLAIN[hint], meaning, null, **more)

    def _reference(self, kind: type[Record], meaning: str, null: bool) -> Schema:
        name, described = kind.__name__, (kind.__doc__ or "").rstrip(".")
        if name not in self.kinds:
            self.kinds[name] = kind
            self.made[name] = record(described, **self.keys_of(kind))
        assert self.kinds[name] is kind, f"two records are called {name}"
        reference = {"anyOf": [_to(name), {"type": "null"}]} if null else _to(name)
        return {"description": meaning, **reference} if meaning else reference


def whole_schema() -> Schema:
    """The schema of all documents: docs/schema/arenascope.json."""
    definitions = Definitions()
    keys = {name: definitions.keys_of(kind) for name, kind in COMMANDS.items()}
    documents = {name: _command(name, own) for name, own in keys.items()}
    before = {**definitions.keys_of(InList), **definitions.keys_of(Envelope)}
    definitions.made[ENVELOPE] = {"description": "What every document has", "type": "object", **_contents(before)}
    failed = {**definitions.keys_of(Failed), "command": one_of("What was asked", *COMMANDS)}
    documents[FAILED] = record("What --json prints of what could not be read, and a line of --jsonl", **failed)
    documents[SNAPSHOT] = _snapshot(definitions, keys)
    records = dict(sorted(definitions.made.items()))
    return {"$schema": DIALECT, "title": TITLE, "anyOf": [*map(_to, documents)], DEFS: {**documents, **records}}


def schemas() -> dict[str, Schema]:
    """The schema of each document by its name, with the `$defs` that it refers to, so that it needs no other file."""
    known: Mapping[str, Schema] = whole_schema()[DEFS]
    names = [*COMMANDS, FAILED, SNAPSHOT]
    return {name: {"$schema": DIALECT, **known[name], DEFS: _needed(known, known[name])} for name in names}


def _needed(known: Mapping[str, Schema], schema: Schema) -> dict[str, Schema]:
    found: set[str] = set()
    pending = [schema]
    while pending:
        new = {*_references(pending.pop())} - found
        found |= new
        pending += [known[name] for name in new]
    return {name: known[name] for name in sorted(found)}


def _references(schema: object) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get(REF), str):
            yield schema[REF].split("/")[2]
        for each in schema.values():
            yield from _references(each)
    elif isinstance(schema, list):
        for each in schema:
            yield from _references(each)


def as_text(schema: Schema) -> str:
    """The schema as docs/schema/arenascope.json and --schema show it: what fits on a line stands on one."""
    return _laid_out(schema, "", "") + "\n"


def _laid_out(value: Any, label: str, indent: str) -> str:
    """Lays out JSON after the key that it belongs to."""
    line = indent + label + json.dumps(value, ensure_ascii=False)
    if len(line) < WIDTH or not isinstance(value, (dict, list)):
        return line
    inner = indent + " "
    if isinstance(value, dict):
        parts = [_laid_out(each, f"{json.dumps(key)}: ", inner) for key, each in value.items()]
        short = [key == "items" or not isinstance(each, dict) for key, each in value.items()]
    else:
        parts = [_laid_out(each, "", inner) for each in value]
        short = [True] * len(parts)
    begin, end = "{}" if isinstance(value, dict) else "[]"
    return f"{indent}{label}{begin}\n" + ",\n".join(_filled(parts, short)) + f"\n{indent}{end}"


def _filled(parts: Sequence[str], short: Sequence[bool]) -> Iterator[str]:
    """Joins short parts into lines, as many on each as fit."""
    line, may_grow = "", False
    for part, is_short in zip(parts, short):
        joined = f"{line}, {part.lstrip()}"
        if line and may_grow and is_short and "\n" not in joined and len(joined) < WIDTH:
            line = joined
            continue
        if line:
            yield line
        line, may_grow = part, is_short
    yield line


def _command(name: str, own: dict[str, Schema]) -> Schema:
    schema = {"type": "object", "unevaluatedProperties": False, "allOf": [_to(ENVELOPE)]}
    return {"description": f"What {name} --json prints", **schema, **_contents({"command": {"enum": [name]}, **own})}


def _snapshot(definitions: Definitions, keys: Mapping[str, dict[str, Schema]]) -> Schema:
    """The schema of a snapshot file, from the keys of commands' documents that it keeps."""

    def part(name: str, kept: Sequence[str]) -> Schema:
        return record(f"Of {name}", **{key: keys[name][key] for key in kept})

    def rows_of(name: str, row: type[Record], kept: Sequence[str], **more: Schema) -> Schema:
        """The schema of a command's rows, with some of their keys."""
        return {**keys[name][name], "items": record("A row", **{key: _key_of(row, key) for key in kept}, **more)}

    held_by = optional(_key_of(TypeRecord, "held_by"))
    types = rows_of("types", TypeRecord, OF_A_TYPE, held_by=held_by)
    containers = rows_of("containers", ContainerRecord, OF_A_CONTAINER)
    owners = rows_of("owners", OwnerRow, OF_AN_OWNER)
    sizes = {name: optional(part(name, kept)) for name, kept in SIZES.items()}
    return record(
        "The file that snapshot writes: figures of one moment, without a byte of what the blocks hold",
        **definitions.keys_of(SnapshotFile),
        **{name: part(name, kept) for name, kept in SECTIONS.items()},
        **sizes,
        types=optional(record("Of types", types=types, totals=keys["types"]["totals"])),
        containers=optional(record("Of containers", containers=containers)),
        owners=optional(record("Of owners", owners=owners, live_bytes=keys["owners"]["live_bytes"])),
        problems=definitions.keys_of(Envelope)["problems"],
    )
