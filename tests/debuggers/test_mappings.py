"""heap mappings: against /proc/PID/smaps, what the program says of its blocks, and the parts of heap report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from doors import DOORS, NEWEST, Core, Image, Live
from looks import opened
from marks import full_after
from shell_door import SHELL
from subjects import Subject

MALLOC = ("live", "mmapped", "tcache", "returnable", "thread_tops", "main_top", "scraps", "unread")
COMMANDS = ("mappings --json", "report --json")
SUBJECTS = (("hoard", "3", "3"), ("mmapped",), ("mystery", "foreign", "40"), ("many_heaps", "4", "spread"), ("locked",))


def look(image: Image, door: str = "shell") -> list[dict[str, Any]]:
    chosen = SHELL if door == "shell" else DOORS[door]
    return [outcome.json() for outcome in chosen.run(image, COMMANDS)]


def check_parts(mappings: dict[str, Any], report: dict[str, Any]) -> None:
    """The parts of a report, with malloc's taken together."""
    parts = {each["part"]: each["bytes"] for each in mappings["totals"]["parts"]}
    reported = {each["part"]: each["bytes"] for each in report["parts"]}
    assert parts.pop("malloc") == sum(reported.get(name, 0) for name in MALLOC)
    assert parts == {name: reported.get(name, 0) for name in parts}


@pytest.mark.parametrize("words", full_after(3, SUBJECTS), ids=" ".join)
def test_each_mapping_of_the_kernels_and_whose_it_is(words: tuple[str, ...]) -> None:
    with Subject(*words, guard_regions=False) as subject:
        mappings, report = look(Live(subject.pid, subject.program))
        assert mappings["complete"] is True
        rows = mappings["mappings"]
        found = {(int(each["address"], 16), int(each["end"], 16)): each for each in rows}
        assert {place: each["resident_bytes"] for place, each in found.items()} == subject.smaps()
        lines = Path(f"/proc/{subject.pid}/maps").read_text().splitlines()
        assert [each["access"] for each in rows] == [line.split()[1] for line in lines]
        assert mappings["totals"]["resident_bytes"] == report["rss_bytes"]
        assert mappings["totals"]["bytes"] == sum(end - start for start, end in found)
        check_parts(mappings, report)
        for user in subject.live_blocks:
            (row,) = [each for (start, end), each in found.items() if start <= user < end]
            assert row["part"] == "malloc"
            assert row["arenas"] or row["mmapped_blocks"]
        for line, row in zip(lines, rows):
            path = line.split(maxsplit=5)[5] if len(line.split()) > 5 else ""
            assert path == (row["name"] or "") or str(row["name"]).startswith(".bss of ")
            assert (row["part"] == "files") is path.startswith("/")
            assert (row["part"] == "kernel") is path.startswith(("[vdso]", "[vvar", "[vsyscall]"))
        threads = {int(each.name) for each in Path(f"/proc/{subject.pid}/task").iterdir()}
        assert {each["tid"] for each in rows} - {None} == threads
        info = subject.truth["mallinfo"]
        assert sum(each["mmapped_blocks"] for each in rows) == info["hblks"]


def test_what_lies_beside_mallocs() -> None:
    """40 MiB that malloc knows nothing of are the largest part of the largest mapping."""
    with Subject("mystery", "foreign", "40") as subject:
        mappings, _ = look(Live(subject.pid, subject.program))
        largest = max(mappings["mappings"], key=lambda each: each["resident_bytes"])
        outside = largest["resident_bytes"] - (largest["malloc_bytes"] or 0)
        assert outside >= 40 << 20


def test_address_space_for_a_heap_to_grow_into() -> None:
    with Subject("hoard", "3", "3") as subject:
        rows = look(Live(subject.pid, subject.program))[0]["mappings"]
        followed = [(one, other) for one, other in zip(rows, rows[1:]) if other["reserve"]]
        assert followed
        for one, other in followed:
            assert one["end"] == other["address"]
            assert one["arenas"] == other["arenas"] != [0]
            assert (other["access"], other["resident_bytes"]) == ("---p", 0)
            # 64 MiB in all, glibc's HEAP_MAX_SIZE
            assert int(other["end"], 16) % (64 << 20) == 0


@pytest.mark.parametrize("kind", ["kernel", "gcore"])
def test_of_a_core(kind: str) -> None:
    """Which pages of files were in memory a core does not tell; gdb's does not tell it of any page."""
    with Subject("hoard", "3", "3") as subject:
        smaps = subject.smaps()
        path = subject.kernel_core() if kind == "kernel" else subject.gcore()
        mappings, report = look(Core(path, subject.program))
    rows = {int(each["address"], 16): each for each in mappings["mappings"]}
    assert {each["part"] for each in rows.values()} >= {"malloc", "stacks", "files", "other"}
    assert mappings["totals"]["resident_bytes"] is None
    if kind == "gcore":
        assert all(each["resident_bytes"] is each["malloc_bytes"] is None for each in rows.values())
        return
    parts = {each["part"]: each["bytes"] for each in mappings["totals"]["parts"]}
    reported = {each["part"]: each["bytes"] for each in report["parts"]}
    assert parts["files"] is None
    assert parts["malloc"] == sum(reported.get(name, 0) for name in MALLOC)
    for (start, _), resident in smaps.items():
        if rows.get(start, {}).get("part") == "malloc":
            assert rows[start]["resident_bytes"] == resident


@pytest.mark.parametrize("door", full_after(1, NEWEST[:2]))
def test_debuggers_say_the_same(door: str) -> None:
    opened(DOORS[door])
    with Subject("mmapped") as subject:
        core = Core(subject.kernel_core(), subject.program)
        ours, shells = look(core, door)[0], look(core)[0]
        assert ours["mappings"] == shells["mappings"]
        assert ours["totals"] == shells["totals"]
