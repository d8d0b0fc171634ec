"""The envelope that every JSON document shares."""

from __future__ import annotations

import json
from typing import Mapping, Optional, Sequence

from ..glibc.locate import Located
from ..target import Target

SCHEMA = 1


def envelope(command: str, door: str, target: Optional[Target], located: Optional[Located], problems: Sequence[str],
             keys: Mapping[str, object]) -> str:  # fmt: skip
    """One document, its keys in the order of the contract."""
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
    return json.dumps(document, ensure_ascii=False)


def address(value: Optional[int]) -> Optional[str]:
    return None if value is None else f"{value:#x}"
