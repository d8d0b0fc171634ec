"""Residency of cores, against what smaps said before the dump."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from subjects import Subject

from arenascope.base.heap_model import Range
from arenascope.session import trims
from arenascope.session.session import Session
from arenascope.sources.core.core_image import CoreImage
from arenascope.sources.core.holes import core_residency
from arenascope.sources.shell_target import ShellTarget
from arenascope.sources.target import PageUse

PAGE = os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def kernel_core(dumped):
    with CoreImage(str(dumped.kernel)) as core:
        yield core


def test_kernel_core_is_exact(kernel_core, dumped):
    residency = core_residency(kernel_core)
    assert residency.exact
    checked = 0
    for region in kernel_core.regions():
        sizes = dumped.smaps.get(region.start)
        found = residency.count(region.start, region.end)
        if region.is_file or region.path in ("[vdso]", "[vsyscall]") or region.shared:
            assert found is None
        elif found is not None:
            assert found.resident == sizes["Rss"], hex(region.start)
            checked += 1
    assert checked > 10
    facts = dumped.facts
    for name, pages, resident in (
        ("untouched", 64, 0),
        ("touched", 64, 32),
        ("looked_at", 64, 0),
        ("zeroed", 16, 16),
        ("cleared", 32, 24),
    ):
        assert residency.count(facts[name], facts[name] + pages * PAGE) == PageUse(resident * PAGE), name
    touched = facts["touched"]
    assert residency.resident_ranges(touched, touched + 64 * PAGE) == [
        (touched + page * PAGE, touched + (page + 1) * PAGE) for page in range(0, 64, 2)
    ]
    assert residency.count(touched + 2 * PAGE + 5, touched + 2 * PAGE + 6) == PageUse(PAGE)
    assert residency.count(touched + 3 * PAGE, touched + 5 * PAGE) == PageUse(PAGE)
    assert residency.count(8 * PAGE, 9 * PAGE) == PageUse(0)


def test_dontdump_is_unknown(kernel_core, dumped):
    """Resident, and not in the core: that must not become 0."""
    residency = core_residency(kernel_core)
    partly = dumped.facts["partly"]
    assert residency.count(partly, partly + 16 * PAGE) == PageUse(16 * PAGE)
    assert residency.count(partly, partly + 48 * PAGE) is None
    assert residency.resident_ranges(partly, partly + 48 * PAGE) is None


def extents(path: Path) -> list[tuple[int, int]]:
    """Where the file system has data of it."""
    found, at = [], 0
    with open(path, "rb") as file:
        while True:
            try:
                start = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:
                return found
            at = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            found.append((start, at))


@pytest.mark.parametrize("how", ["cat", "cp --sparse=never", "cp", "cp --sparse=always", "gcore"])
def test_lost_holes_leave_a_lower_bound(dumped, tmp_path, how):
    path = tmp_path / "copy"
    if how == "gcore":
        path = dumped.gdb
    elif how == "cat":
        path.write_bytes(dumped.kernel.read_bytes())
    else:
        subprocess.run([*how.split(), str(dumped.kernel), str(path)], check=True)
    # from coreutils 9.6 or so on cp goes by the file system's word, and then none is lost
    lost = how != "cp" or extents(path) != extents(dumped.kernel)
    with CoreImage(str(path)) as core:
        residency = core_residency(core)
        assert residency.exact is not lost
        if not lost:
            return
        facts = dumped.facts
        for name, pages, resident in (("touched", 64, 32), ("zeroed", 16, 0), ("cleared", 32, 24)):
            assert residency.count(facts[name], facts[name] + pages * PAGE) == PageUse(resident * PAGE), name
        cleared = facts["cleared"]
        assert residency.resident_ranges(cleared, cleared + 32 * PAGE) == [
            (cleared, cleared + 8 * PAGE),
            (cleared + 16 * PAGE, cleared + 32 * PAGE),
        ]
        for start, sizes in dumped.smaps.items():
            found = residency.count(start, start + sizes["Size"])
            region = next((r for r in core.regions() if r.start == start), None)
            if found is not None and region and not region.path:
                assert found.resident <= sizes["Rss"]


def test_tar_keeps_the_holes(dumped, tmp_path):
    path = tmp_path / "core"
    subprocess.run(f"tar -C {dumped.kernel.parent} -Scf - core | tar -C {tmp_path} -xf -", shell=True, check=True)
    with CoreImage(str(path)) as core:
        residency = core_residency(core)
        assert residency.exact
        zeroed = dumped.facts["zeroed"]
        assert residency.count(zeroed, zeroed + 16 * PAGE) == PageUse(16 * PAGE)


def test_cut_core_is_unknown_where_it_is_cut(dumped, tmp_path):
    path = tmp_path / "core"
    subprocess.run(["cp", str(dumped.kernel), str(path)], check=True)
    cleared = dumped.facts["cleared"]
    with CoreImage(str(path)) as core:
        segment = next(s for s in core.segments if s.address == cleared)
    os.truncate(path, segment.offset + 4 * PAGE)
    with CoreImage(str(path)) as core:
        residency = core_residency(core)
        assert residency.count(cleared, cleared + 4 * PAGE) == PageUse(4 * PAGE)
        assert residency.count(cleared, cleared + 5 * PAGE) is None


def test_without_anonymous_memory_nothing_is_known(without_anonymous):
    touched = without_anonymous.facts["touched"]
    with CoreImage(str(without_anonymous.kernel_core())) as core:
        assert core_residency(core).count(touched, touched + 64 * PAGE) is None


def test_a_cut_after_a_page_of_zeros(dumped, tmp_path):
    """It may be the byte with which the kernel ends a file: whether that page was resident is not known."""
    path = tmp_path / "core"
    subprocess.run(f"tar -C {dumped.kernel.parent} -Scf - core | tar -C {tmp_path} -xf -", shell=True, check=True)
    zeroed = dumped.facts["zeroed"]
    with CoreImage(str(path)) as core:
        segment = core.segment_at(zeroed)
    os.truncate(path, segment.offset + zeroed - segment.address + 4 * PAGE)
    with CoreImage(str(path)) as core:
        residency = core_residency(core)
        assert residency.count(zeroed, zeroed + 3 * PAGE) == PageUse(3 * PAGE)
        assert residency.count(zeroed, zeroed + 4 * PAGE) is None


@pytest.mark.parametrize("many", [1, 1 << 60])
def test_of_many_ranges_as_of_each(many, monkeypatch):
    """Against the page tables; the ranges lie in heaps, and some in none."""
    monkeypatch.setattr(trims, "MANY", many)
    with Subject("random") as subject:
        present, own = subject.present(), subject.curbrk() + 64 * PAGE
        core = subject.kernel_core()
        with CoreImage(str(core)) as image:
            session = Session(ShellTarget(image))
            chunks = [
                chunk for arena in session.arenas for each in arena.bins for chunk in zip(each.addresses, each.sizes)
            ]
            ranges = [Range(start + 40, size - 40) for start, size in chunks if size > 2 * PAGE]
            assert len(ranges) > 20
            truth = sum(present.within(each.address // PAGE * PAGE, -(-each.end // PAGE) * PAGE) for each in ranges)
            assert 0 < truth < sum(each.bytes for each in ranges) + 2 * PAGE * len(ranges)
            assert trims.resident_bytes(session, [*ranges, Range(own, PAGE)]) == truth
