"""The envelope that every JSON document shares."""

from __future__ import annotations

import json
from typing import Iterator, Mapping, Optional, Sequence

from ..glibc.locate import Located
from ..target import Target
from .spool import Spool

SCHEMA = 1


def envelope(command: str, door: str, target: Optional[Target], located: Optional[Located], problems: Sequence[str],
             keys: Mapping[str, object]) -> Iterator[str]:  # fmt: skip
    """One document in parts, its keys in the order of the contract. A Spool is a list of what its lines say."""
    document: dict[str, object] = {
        "schema": SCHEMA,
        "command": command,
        "door": door,
        "complete": not problems,
        "problems": list(problems),
        "target": target
        and {
            "kind": target.kind,
            "pid": target.pid,
            "pointer_bytes": target.pointer_size,
            "page_bytes": target.page_size,
        },
        "glibc": located
        and {
            "version": located.version,
            "located_by": located.located_by,
            "main_arena": address(located.main_arena),
        },
    }
    document.update(keys)
    mark = "{"
    for key, value in document.items():
        yield f"{mark}{json.dumps(key)}: "
        if isinstance(value, Spool):
            yield "["
            yield from (f", {line}" if index else line for index, line in enumerate(value))
            yield "]"
        else:
            yield json.dumps(value, ensure_ascii=False)
        mark = ", "
    yield "}\n"


def address(value: Optional[int]) -> Optional[str]:
    return None if value is None else f"{value:#x}"
