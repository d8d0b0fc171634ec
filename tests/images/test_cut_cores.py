"""Cores that were cut, or lack a mapping: every figure is the whole core's or null, and what is missing is named."""

from __future__ import annotations

import os
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator

import pytest
from marks import full_after, in_full
from partial import check_image, documents, look
from subjects import Subject

from arenascope.sources.core.core_image import CoreImage
from arenascope.sources.elf.elf_file import PT_LOAD, PT_NOTE

pytestmark = pytest.mark.xdist_group("cut cores by us")

PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Dump:
    """A whole core, what it answers, and where in it things lie."""

    path: Path
    whole: dict[str, dict[str, Any]]
    segments: dict[str, tuple[int, int, int]]
    """Name: number of the program header, offset and size in the file."""
    gcore: bool

    @property
    def size(self) -> int:
        return self.path.stat().st_size


def dump(path: Path, subject_info: str) -> Dump:
    whole = documents(path)
    assert whole["info"]["xml"] == subject_info  # that it is whole is not for us to say
    with CoreImage(str(path)) as core:
        heaps = whole["heaps"]["heaps"]
        at = {
            "main heap": int(heaps[0]["address"], 16),
            "thread heap": next((int(row["address"], 16) for row in heaps if row["arena"] == 1), None),
            "libc's data": int(whole["arenas"]["glibc"]["main_arena"], 16),
            "stack": next(r.start for r in core.regions() if r.path == "[stack]"),
            "thread stack": core.threads()[-1].stack_pointer,
        }
        blocks = whole["mmapped"]["blocks"]
        if blocks:
            at["mmapped block"] = int(max(blocks, key=lambda row: row["bytes"])["address"], 16)
        segments = {}
        for index, segment in enumerate(core.elf.segments):
            if segment.type == PT_NOTE:
                segments["notes"] = index, segment.offset, segment.file_size
            for name, address in at.items():
                if segment.type == PT_LOAD and address and 0 <= address - segment.address < segment.file_size:
                    segments[name] = index, segment.offset, segment.file_size
        return Dump(path, whole, segments, core.made_by == "gcore")


FIXTURES = ("bins", "bins.static", "mmapped")


@pytest.fixture(scope="module", params=full_after(1, FIXTURES))
def kernel(request: pytest.FixtureRequest) -> Iterator[Dump]:
    with Subject(request.param) as subject:
        yield dump(subject.kernel_core(), subject.info_xml)


@pytest.fixture(scope="module")
def gcore() -> Iterator[Dump]:
    """GDB writes its notes last: without its end a core has neither threads nor names of files."""
    with Subject("bins") as subject:
        path = subject.folder / "sparse"
        subprocess.run(["cp", "--sparse=always", str(subject.gcore()), str(path)], check=True)
        yield dump(path, subject.info_xml)


def copy(core: Path, path: Path) -> None:
    """With the holes as they are: cp makes more of them, which then tell nothing of what was resident."""
    command = f"tar -C {core.parent} -Scf - {core.name} | tar -C {path.parent} -xf -"
    subprocess.run(command, shell=True, check=True)
    (path.parent / core.name).rename(path)


# what is cut, and after which part of it
CUTS = {
    "the last byte": ("", -1),
    "the last page": ("", -PAGE),
    "half of all": ("", 0.5),
    "a tenth of all": ("", 0.1),
    "in the stack": ("stack", 0.5),
    "in a thread's stack": ("thread stack", 0.3),
    "in libc's data": ("libc's data", 0.5),
    "after libc's data": ("libc's data", 1.0),
    "in a thread's heap": ("thread heap", 0.6),
    "after a thread's arena": ("thread heap", PAGE),
    "in the main heap": ("main heap", 0.7),
    "after the main heap": ("main heap", 1.0),
    "in the notes": ("notes", 0.5),
    "after the headers": ("", 4 * PAGE),
}
OF_GCORE = ("the last byte", "in the notes", "in a thread's heap", "after the headers")
"""Wherever gcore's file is cut, it loses its notes, which lie at the end."""


def check_cut(dump: Dump, cut: str, path: Path) -> None:
    name, part = CUTS[cut]
    _, start, size = dump.segments[name] if name else (0, 0, dump.size)
    after = int(part * size) if isinstance(part, float) else part
    at = start + after if after >= 0 else size + after
    copy(dump.path, path)
    os.truncate(path, at)
    errors = check_image(path, dump.whole)
    assert all("truncated" in error for error in errors), errors
    status, said, _ = look(path, "arenas", "--json")
    # of gcore's file the last part is section headers, which nobody needs
    if status == 0 and not (cut == "the last byte" and dump.gcore):
        assert f" {at:,} bytes of " in said


@pytest.mark.parametrize("cut", full_after(5, CUTS))
def test_a_kernel_core_that_was_cut(kernel: Dump, cut: str, tmp_path: Path) -> None:
    check_cut(kernel, cut, tmp_path / "core")


@pytest.mark.parametrize("cut", full_after(2, OF_GCORE))
def test_a_gcore_that_was_cut(gcore: Dump, cut: str, tmp_path: Path) -> None:
    check_cut(gcore, cut, tmp_path / "core")


@pytest.mark.parametrize("part", [0.4, *in_full(0.0, 0.8)])
@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        ("bins", "main heap"),
        ("bins", "libc's data"),
        pytest.param("bins", "thread heap", marks=pytest.mark.full),
        pytest.param("bins", "thread stack", marks=pytest.mark.full),
        pytest.param("bins.static", "main heap", marks=pytest.mark.full),
        pytest.param("mmapped", "mmapped block", marks=pytest.mark.full),
    ],
    indirect=["kernel"],
)
def test_a_mapping_that_was_left_out(kernel: Dump, name: str, part: float, tmp_path: Path) -> None:
    """As MADV_DONTDUMP does it: the program header is there, its bytes, or the later ones, are not."""
    index, _, size = kernel.segments[name]
    path = tmp_path / "core"
    copy(kernel.path, path)
    with open(path, "r+b") as file:
        (table,) = struct.unpack("<Q", os.pread(file.fileno(), 8, 32))  # e_phoff; p_filesz is 32 bytes into an entry
        os.pwrite(file.fileno(), struct.pack("<Q", int(part * size) // PAGE * PAGE), table + 56 * index + 32)
    errors = check_image(path, kernel.whole)
    # of a static program nothing but its data tells that there is a glibc in it
    said = ("no arena was found", "does not hold", "no glibc was found")
    assert all(any(words in error for words in said) for error in errors), errors


def test_whole_cores_say_nothing(kernel: Dump, gcore: Dump) -> None:
    for each in (kernel, gcore):
        for name, document in each.whole.items():
            if name != "params":  # a fixture that runs itself again may have no environment to show
                assert document["problems"] == [], name
