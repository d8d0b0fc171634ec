"""What tests of `heap trim --apply` share."""

from __future__ import annotations

from typing import Any

import pytest
from doors import Gdb, Live, Outcome
from subjects import Subject

PAGE = 4096
OWN_PAGES = 16 * PAGE
"""What the process itself takes meanwhile: stack for the function called, data written for the first time."""
APPLY = "heap trim --apply -y --json"
FREE = ("_int_free", "_int_free_chunk")
"""The first is inlined since glibc 2.43."""
CONSOLIDATE = ("malloc_consolidate", "mtrim")
"""The first has gone with the fastbins, in 2.43."""
ANOTHER_WAY = "let the process run for a moment, then try again"


def drive(gdb: Gdb, subject: Subject, *commands: str, symbols: bool = True) -> list[Outcome]:
    return gdb.do(Live(subject.pid, subject.program), commands, symbols)


def applied(outcome: Outcome) -> dict[str, Any]:
    found = outcome.json()["applied"]
    assert list(found) == ["rss_before", "rss_after", "predicted_bytes", "released_bytes", "seconds", "calls"]
    assert found["rss_before"] - found["rss_after"] == pytest.approx(found["released_bytes"], abs=OWN_PAGES)
    assert found["predicted_bytes"] - OWN_PAGES <= found["released_bytes"] <= found["predicted_bytes"]
    return found


def lives_on(subject: Subject) -> None:
    assert subject.send("check") == "intact"
    assert subject.send("tick") == "ticked"
    assert subject.send("check") == "intact"
    assert subject.quit() == 0


def stop_at(*places: str) -> str:
    """A command for GDB: a breakpoint at the first of these functions that this libc has."""
    return f"""python
for place in {places!r}:
    try:
        gdb.decode_line(place)
    except gdb.error:
        continue
    gdb.execute("break " + place)
    break
end"""


def stands_at(places: tuple[str, ...], stack: str) -> bool:
    return any(f" {place} (" in stack for place in places)


def tell(subject: Subject, line: str) -> str:
    """A command for GDB that writes to the subject's standard input."""
    return f"python open('/proc/{subject.pid}/fd/0', 'w').write('{line}\\n')"
