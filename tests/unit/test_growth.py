"""Whether a process grows, by two snapshots: by how much, and over how long."""

from __future__ import annotations

from typing import Any, Optional

import pytest

from arenascope.analysis.compare_snapshots import compare
from arenascope.analysis.growth import growth, what_they_show
from arenascope.present.screens.report_lines import growth_sentence

KIB, RSS = 1 << 10, 10 << 20


def snapshot(taken: Optional[float], live: int, rss: Optional[int]) -> dict[str, Any]:
    parts = [{"part": "live", "bytes": live}, {"part": "scraps", "bytes": 0}]
    return {"taken": taken, "report": {"measure": "resident", "rss_bytes": rss, "parts": parts}}


@pytest.mark.parametrize(
    ("change", "elsewhere", "seconds", "expected"),
    [
        (0, 0, 3, "held-still"),
        (4 * KIB, 0, 3, "held-still"),
        (100 * KIB, 0, 3, "grew-too-little"),
        (100 * KIB, 0, 0.1, "grew-too-little"),
        # 100 KiB an hour, and 1.2 MiB
        (100 * KIB, 0, 3600, "held-still"),
        (100 * KIB, 0, 300, "grew-too-little"),
        (200 * KIB, 0, 3, "live-grew"),
        (-100 * KIB, 0, 3, "held-still"),
        (-200 * KIB, 0, 3, "fell"),
        # a look itself reads pages of libraries
        (0, 100 * KIB, 3, "held-still"),
        (0, 200 * KIB, 3, "elsewhere-grew"),
    ],
)
def test_what_grew(change: int, elsewhere: int, seconds: float, expected: str) -> None:
    said = growth(snapshot(100, 5 << 20, RSS), snapshot(100 + seconds, (5 << 20) + change, RSS + change + elsewhere))
    assert said.id == expected
    assert said.figures["live_change_bytes"] == change


@pytest.mark.parametrize("more", [0, 1 << 20])
def test_cores_do_not_tell_how_far_apart_they_are(more: int) -> None:
    """Nor a debugger's core what is resident."""
    said = growth(snapshot(None, 5 << 20, None), snapshot(None, (5 << 20) + more, None))
    assert said.figures["live_change_bytes"] == more
    assert said.figures["seconds"] is None
    assert growth_sentence(said)
    assert what_they_show(said) is None


def test_nothing_is_derived_from_arenas_that_were_not_read() -> None:
    """Half of them were at the second moment: what is in use and free did not fall by what the others have."""
    moments: list[dict[str, Any]] = []
    for parts in ({"live": 30, "returnable": 5, "scraps": 2, "files": 3}, {"live": 1, "unread": 36, "files": 3}):
        rows = [{"part": part, "bytes": size << 20} for part, size in parts.items()]
        moments.append({"report": {"rss_bytes": 40 << 20, "parts": rows, "measure": "resident"}})
    changes = {each.name: each.change for each in compare(*moments).parts}
    assert changes["live"] is changes["returnable"] is changes["scraps"] is None
    assert changes["unread"] == 36 << 20
    assert "files" not in changes
