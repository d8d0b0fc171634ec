"""Modules by ld.so's own list, against what the kernel says is mapped where."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from arenascope.sources.core.core_image import CoreImage, build_regions
from arenascope.sources.elf.elf_file import parse_auxv
from arenascope.sources.elf.modules import loaded_regions, named_regions
from arenascope.sources.memory import Memory

PAGE = os.sysconf("SC_PAGE_SIZE")


def maps_of(pid):
    """(start, end, writable, path), by a parser that is not the one under test, without the holes between segments."""
    rows = [line.split(None, 5) for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    for row in rows:
        low, high = (int(word, 16) for word in row[0].split("-"))
        if row[1][:3] != "---":
            yield low, high, row[1][1] == "w", row[5] if len(row) > 5 else ""


def files_of(regions):
    return {(region.start, region.end): os.path.realpath(region.path) for region in regions if region.is_file}


def test_loaded_regions_are_the_kernels(subject):
    auxv = parse_auxv(Path(f"/proc/{subject.pid}/auxv").read_bytes(), 8, "<")
    found = loaded_regions(Memory(subject.memory, 8, "little"), auxv, PAGE)
    assert list(found) == sorted(found, key=lambda region: region.start)
    files = {}
    for region in found:
        if region.is_file:
            files.setdefault(os.path.realpath(region.path), []).append(region)
    mapped = [row for row in maps_of(subject.pid) if os.path.isfile(row[3])]
    assert set(files) == {path for *_, path in mapped}
    for path, regions in files.items():
        rows = [row for row in mapped if row[3] == path]
        # the kernel splits where ld.so has made part of a segment read-only
        assert (regions[0].start, regions[-1].end) == (rows[0][0], rows[-1][1])
        for low, high, writable, _ in rows:
            held = [region for region in regions if region.start <= low and high <= region.end]
            assert len(held) == 1
            assert held[0].writable or not writable


def test_nothing_where_nothing_tells(subject):
    memory = Memory(subject.memory, 8, "little")
    assert list(loaded_regions(memory, {}, PAGE)) == []
    assert list(loaded_regions(memory, {3: subject.facts["block"]}, PAGE)) == []


@pytest.mark.parametrize("kind", ["kernel", "gdb"])
def test_a_core_that_names_no_files(kind, dumped):
    """NT_FILE is held back, as QEMU writes none: data then still has its file's name."""
    with CoreImage(str(getattr(dumped, kind))) as core:
        bare = build_regions(core.segments, core._ends, [], core.auxv)
        assert not [region for region in bare if region.is_file]
        found = named_regions(Memory(core.read, 8, "little"), core.auxv, bare)
        told = files_of(core.regions())
    named = files_of(found)
    assert named.items() <= told.items()
    data = {
        path
        for (start, end), path in named.items()
        if any((low, high, mode[1]) == (start, end, "w") for low, high, mode, _ in dumped.maps)
    }
    # gcore leaves out the text that a load address is the start of
    if kind == "kernel":
        assert {os.path.basename(path) for path in data} >= {"libc.so.6", "subject"}
