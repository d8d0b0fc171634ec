"""The envelope that every JSON document shares."""

from __future__ import annotations

import json
from itertools import chain
from typing import TYPE_CHECKING, Iterable, Iterator, Optional, Sequence

from ...base.model import Statement
from ...base.printable import one_line
from ..json_documents.record import SCHEMA, Document, Envelope, Failed, Glibc, TargetRecord, plain, statement_record
from ..shared_text.findings import sentence
from .spool import Spool

if TYPE_CHECKING:
    from ...glibc.find.main_arena import Located
    from ...sources.target import Target


def envelope(
    command: str,
    door: str,
    target: Optional[Target],
    located: Optional[Located],
    problems: Sequence[Statement],
    held_seconds: Optional[float] = None,
    rules: Sequence[str] = (),
) -> Envelope:
    texts = [sentence(each) for each in problems]
    return Envelope(
        schema=SCHEMA,
        command=command,
        door=door,
        complete=not problems,
        problems=texts,
        problem_records=[statement_record(each, text) for each, text in zip(problems, texts)],
        target=TargetRecord(
            kind=target.kind, pid=target.pid, pointer_bytes=target.pointer_size, page_bytes=target.page_size
        )
        if target is not None
        else None,
        glibc=Glibc(version=located.version, located_by=located.located_by, main_arena=hexadecimal(located.main_arena))
        if located is not None
        else None,
        held_seconds=held_seconds,
        rules=list(rules),
    )


def written(document: Document) -> Iterator[str]:
    """A document in parts, its keys in the documented order. A Spool becomes the list of its lines."""
    mark = "{"
    for key, value in chain(document.envelope.items(), document.items()):
        yield f"{mark}{json.dumps(key)}: "
        if isinstance(value, Spool):
            yield "["
            yield from (f", {line}" if index else line for index, line in enumerate(value))
            yield "]"
        else:
            yield json.dumps(value, ensure_ascii=False, default=plain)
        mark = ", "
    yield "}\n"


def failure(command: str, id: str, error: str) -> Failed:
    """The document of a command that failed. `id`: see ArenascopeError."""
    return Failed(
        schema=SCHEMA,
        command=command,
        complete=False,
        problems=[error],
        problem_records=[statement_record(Statement(id), error)],
        error=error,
    )


def failed(name: str, words: Iterable[str], id: str, error: str) -> str:
    """What a failed command prints if --json or --jsonl was given; "" otherwise."""
    if not any(word.startswith("--j") and "--json".startswith(word) for word in words):
        return ""

    text = json.dumps(failure(name, id, one_line(error)).to_dict(), ensure_ascii=False)
    return f"{text}\n"


def hexadecimal(value: int) -> str:
    return f"{value:#x}"


def address(value: Optional[int]) -> Optional[str]:
    return None if value is None else hexadecimal(value)
