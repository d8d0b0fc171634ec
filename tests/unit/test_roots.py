"""Which mappings are whose variables, and what of a stack is nobody's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Sequence

import pytest

from arenascope.graph import threads
from arenascope.graph.roots import _candidates
from arenascope.target import Region, ThreadInfo

PAGE = 0x1000


def region(number: int, flags: str, path: str = "") -> Region:
    start = 0x555500000000 + number * PAGE
    return Region(start, start + PAGE, "r" in flags, "w" in flags, "x" in flags, path=path)


@pytest.mark.parametrize(
    ("protected", "kind"),
    [
        (("rw", "/usr/sbin/mariadbd"), "global"),
        # the end of .data, protected by the program
        (("r", "/usr/sbin/mariadbd"), "global"),
        # somebody else's file that lies there
        (("r", "/usr/share/words"), "mapping"),
        (("", ""), "mapping"),
    ],
)
def test_bss_is_a_programs_variables(protected: tuple[str, str], kind: str) -> None:
    path = "/usr/sbin/mariadbd"
    regions = [region(0, "rx", path), region(1, "rw", path), region(2, *protected), region(3, "rw")]
    assert dict(_candidates(regions))[regions[3]] == kind


OUT, ALL = False, True


@pytest.mark.parametrize(
    ("below", "counts"),
    [
        ([region(1, "")], OUT),
        # another thread's stack, whose guard may lie above nothing
        ([region(0, "rw"), region(1, "")], OUT),
        ([region(-1, "rx", "/lib/x.so"), region(0, "rw"), region(1, "")], OUT),
        # what the kernel joined with a stack, or a stack in what the program mapped
        ([], ALL),
        ([region(0, "")], ALL),
        ([region(1, "r")], ALL),
        # a stack in .bss, also one with a guard
        ([region(1, "rw", "/bin/x")], ALL),
        ([region(-1, "rw", "/bin/x"), region(0, "rw"), region(1, "")], ALL),
    ],
)
def test_below_a_stack_pointer(monkeypatch: pytest.MonkeyPatch, below: Sequence[Region], counts: bool) -> None:
    """Where libc does not tell of stacks: before 2.34, in static programs."""
    monkeypatch.setattr(threads, "used_stacks", lambda *_: None)
    here = region(2, "rw")._replace(end=region(2, "rw").start + 16 * PAGE)
    session: Any = SimpleNamespace(
        target=SimpleNamespace(machine="x86_64", pid=1, page_size=PAGE),
        regions=[*below, here],
        memory=SimpleNamespace(pointer_size=8, byte_order="little"),
        located=SimpleNamespace(libc=None),
    )
    thread = ThreadInfo(2, stack_pointer=here.start + 9 * PAGE, thread_pointer=here.end - PAGE)
    dead = [each for each in threads.Stacks(session, [thread], {}).marks() if each.kind is None]
    assert bool(dead) == (not counts)
    assert all((each.start, each.end) == (here.start, here.start + 9 * PAGE - 128) for each in dead)
