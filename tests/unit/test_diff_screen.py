"""What `heap diff` says in words of two moments: the change first, and why there is no rate where there is none."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Callable, Optional

import pytest
from fake_door import run_text
from heap_mixtures import everything

from arenascope.analysis.diff import compare

MIB = 1 << 20
PARTS = {"live": 30 * MIB, "returnable": 5 * MIB, "scraps": 2 * MIB, "files": 3 * MIB}


@pytest.fixture
def say(tmp_path: Path) -> Callable[..., str]:
    """The screen of two moments of a process: so many seconds apart, with these changes of its parts."""
    target = everything("2.36-64").target()
    run_text(target, "snapshot", str(tmp_path / "made"))
    made = json.loads((tmp_path / "made").read_text())

    def moment(name: str, taken: Optional[float], parts: dict[str, int], pid: int) -> str:
        rows = [{"part": part, "bytes": size, "label": part} for part, size in parts.items()]
        report = {**made["report"], "rss_bytes": sum(parts.values()), "parts": rows, "measure": "resident"}
        document: dict[str, Any] = {**made, "taken": taken, "report": report, "problems": []}
        document["target"] = {"kind": "live", "pid": pid}
        (tmp_path / name).write_text(json.dumps(document))
        return str(tmp_path / name)

    def compared(seconds: Optional[float], pid: int = 7, **changes: int) -> str:
        after = {part: size + changes.get(part, 0) for part, size in PARTS.items()}
        first = moment("first", 1000.0, PARTS, 7)
        second = moment("second", None if seconds is None else 1000.0 + seconds, after, pid)
        return run_text(target, "diff", first, second)

    return compared


def figures(text: str) -> list[str]:
    return re.findall(r"[-+]?[\d.]+ (?:min|[KM]iB)", text)


def test_the_change_comes_first_and_a_few_pages_do_not(say: Callable[..., str]) -> None:
    text = say(600, live=4 * MIB, returnable=-MIB, files=4096)
    assert figures(text.splitlines()[0]) == ["10.0 min", "3.0 MiB", "43.0 MiB", "+4.0 MiB", "-1.0 MiB"]
    assert "per hour" in text
    assert "+24.0 MiB" in text
    fell = say(600, live=-4 * MIB).splitlines()[0]
    assert figures(fell) == ["10.0 min", "4.0 MiB", "36.0 MiB", "-4.0 MiB"]
    assert figures(say(600, files=4096).splitlines()[0])[1:] == ["4.0 KiB", "40.0 MiB", "+4.0 KiB"]


def test_nothing_changed(say: Callable[..., str]) -> None:
    assert figures(say(600)) == ["10.0 min", "40.0 MiB"]


@pytest.mark.parametrize(
    ("seconds", "pid", "why"),
    [
        (59.0, 7, "no rates per hour: 59.0 s are too short for one; take them a minute apart or more"),
        (600.0, 8, "no rates per hour: these are two processes"),
        (None, 7, "no rates per hour: one of the two does not say when it was taken (a core never does)"),
    ],
)
def test_why_there_is_no_rate(say: Callable[..., str], seconds: Optional[float], pid: int, why: str) -> None:
    text = say(seconds, pid=pid, live=4 * MIB)
    assert text.splitlines()[-1] == why
    assert text.count("per hour") == 1
    assert "no rates" not in say(60.0, live=4 * MIB)


def test_nothing_is_derived_from_arenas_that_were_not_read() -> None:
    """Half of them were at the second moment: what is in use and free did not fall by what the others have."""
    first = [{"part": part, "bytes": size} for part, size in PARTS.items()]
    second = [
        {"part": part, "bytes": size} for part, size in {"live": MIB, "unread": 36 * MIB, "files": 3 * MIB}.items()
    ]
    moments = [{"report": {"rss_bytes": 40 * MIB, "parts": rows, "measure": "resident"}} for rows in (first, second)]
    changes = {each.name: each.change for each in compare(*moments).parts}
    assert changes["live"] is changes["returnable"] is changes["scraps"] is None
    assert changes["unread"] == 36 * MIB
    assert "files" not in changes
