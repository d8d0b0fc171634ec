"""Every JSON Schema of docs/schema/, by its name."""

from __future__ import annotations

from typing import Any, Sequence

# whose documents these are
from . import (  # noqa: F401
    arena_records,
    chunk_records,
    container_records,
    glibc_records,
    mapping_records,
    owner_records,
    report_records,
    trim_records,
    type_records,
)
from . import moment_records as moments
from .record import Document, Envelope, Failed, InList
from .schema_pieces import Schema, keys_of, one_of, optional, record
from .snapshot_keys import OF_A_CONTAINER, OF_A_TYPE, OF_AN_OWNER, SECTIONS, SIZES

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
