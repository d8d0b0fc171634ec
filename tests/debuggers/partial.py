"""What an image that lacks something may answer: figures of the whole image, or null; and it says what is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

from looks import Outcome
from schemas import valid

from arenascope.cli.shell import AS_USUAL, QuietDoor, door_for
from arenascope.commands.framework.command import Context, document_of
from arenascope.commands.framework.find_command import find_command

LOOKS = ("arenas", "arenas --quick", "heaps", "bins", "threads", "trim --ranges", "mmapped", "info", "stats", "params")
IDENTITY = {
    "arenas": ("address",),
    "heaps": ("address",),
    "bins": ("arena", "tid", "kind", "index"),
    "threads": ("tid",),
    "blocks": ("address",),
    "params": ("name",),
    "reasons": ("id",),
}
"""What makes a row of a list the same row in another document."""
ASIDE = (
    "complete",
    "problems",
    "problem_records",
    "target",
    "glibc",
    "door",
    "held_seconds",
    "match",
    "requested",
    "note",
    "note_record",
)
"""What may differ: it is no figure, or says itself that something is not known."""


def beside_each_other(image: Path, looks: Sequence[str]) -> list[dict[str, Any]]:
    """The documents of commands each of which looks at a copy of a live process; in one session, so that all of them
    look at the first one's copy, and have what it has read. Each of them must end with status 0."""
    context, found = None, []
    for each in looks:
        name, *words = each.split()
        command = find_command(name)
        options = command.parser("arenascope").parse_args([*words, "--json"])
        if context is None:
            context = first = Context(door_for(QuietDoor, command, str(image), how=AS_USUAL, options=options), options)
        else:
            context = first.beside(options)
        try:
            reply = command.function(context)
            document = document_of(command, context, reply)
        except BaseException:
            first.door.drop()
            raise
        assert reply.status == 0, each
        found.append(valid(json.loads(json.dumps(document.to_dict()))))
    return found


def figures(document: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in ASIDE}


def wrong(found: Any, whole: Any, where: str = "") -> Iterator[str]:
    """Every figure that is neither the whole image's nor null."""
    if found is None:
        return
    if isinstance(found, dict) and isinstance(whole, dict):
        for key in found:
            if key not in ASIDE:
                yield from wrong(found[key], whole[key], f"{where}.{key}")
    elif isinstance(found, list) and any(isinstance(row, dict) for row in found):
        rows_of = where.rpartition(".")[2]
        assert rows_of in IDENTITY, f"IDENTITY of partial.py lacks what makes a row of {rows_of!r} the same elsewhere"
        names = IDENTITY[rows_of]
        rows = {tuple(row[name] for name in names): row for row in whole}
        for row in found:
            key = tuple(row[name] for name in names)
            if key in rows:
                yield from wrong(row, rows[key], f"{where}{list(key)}")
            elif not unknown(row):
                yield f"{where}{list(key)} is no row of the whole image"
    elif isinstance(found, list) and not found and any(isinstance(row, dict) for row in whole):
        return  # rows may be missing: that something is, the problems tell
    elif found != whole or type(found) is not type(whole):
        yield f"{where}: {found!r:.100}, not {whole!r:.100}"


def unknown(row: Mapping[str, Any]) -> bool:
    """Whether it is a statement with a figure that is not known: where the whole image knows it, there may be none."""
    return None in row.get("figures", {}).values()


def judged(outcome: Outcome, whole: Mapping[str, Any]) -> dict[str, Any]:
    """The document of a command, of which each figure is the whole image's or null."""
    document = outcome.json()
    found = list(wrong(figures(document), figures(whole)))
    assert not found, f"{outcome.command}: {found} {document['problems']}"
    return document
