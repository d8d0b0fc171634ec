"""Files that lie: what is not there is said in one line, or left out and said to be; never more work than bytes."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator

import pytest
from forked import Run, run_all
from looks import needs
from marks import in_full
from partial import figures
from schemas import problem_ids
from shell_door import arenascope, ask, look, typed
from subjects import Subject

from arenascope.analysis.compare_snapshots import compare
from arenascope.base.errors import UsageError
from arenascope.base.progress_bar import unseen
from arenascope.present.json_documents.snapshot_file import NAME, read
from arenascope.sources.core import compressed
from arenascope.sources.core.core_image import CoreImage
from arenascope.sources.core.holes import DenseResidency
from arenascope.sources.core.save_image import note_bytes
from arenascope.sources.elf.address_names import _names
from arenascope.sources.elf.elf_file import AT_PAGESZ, NT_AUXV, PT_LOAD, PT_NOTE, ElfFile, Note, parse_notes
from arenascope.sources.elf.environment_variables import from_stack

pytestmark = pytest.mark.xdist_group("hostile files")

EHDR, PHDR = 64, 56


@pytest.fixture(scope="module")
def core() -> Iterator[Path]:
    with Subject("fastbins") as subject:
        yield subject.kernel_core()


@pytest.fixture
def copy(core: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(core, tmp_path / "copy"))


def patch(path: Path, offset: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(data)


def refused(path: Path) -> str:
    status, said, complained = look(path, "arenas")
    assert (status, said, complained.count("\n")) == (2, "", 1), complained
    return complained


# headers


@pytest.mark.parametrize("size", [0, 1, 55, 57, 65535])
def test_program_headers_of_another_size(copy: Path, size: int) -> None:
    patch(copy, 54, struct.pack("<H", size))
    assert f"of {size} bytes" in refused(copy)
    # and none of them at all
    patch(copy, 56, bytes(2))
    assert str(copy) in refused(copy)


@pytest.mark.parametrize("size", [0, 1, 63, 65535])
def test_section_headers_of_another_size(size: int, tmp_path: Path) -> None:
    """Of a debug file: it is as if there were none."""
    from arenascope.base.errors import TargetError
    from arenascope.sources.elf.elf_file import ElfFile

    path = Path(shutil.copy(os.path.realpath(sys.executable), tmp_path / "program"))
    patch(path, 58, struct.pack("<H", size))
    with ElfFile(str(path)) as file, pytest.raises(TargetError, match=str(path)):
        file.build_id()


def test_a_page_of_any_size(core: Path, copy: Path) -> None:
    with CoreImage(str(core)) as image:
        value = struct.pack("<2Q", AT_PAGESZ, 4096)
        at = image.held.read(0, image.size).find(value) + 8
        assert image.notes.auxv[AT_PAGESZ] == 4096
        assert NT_AUXV
    whole = ask(copy, "arenas")
    for size in (0, 1, 4095, 1 << 30, (1 << 64) - 1):
        patch(copy, at, struct.pack("<Q", size))
        assert figures(ask(copy, "arenas")) == figures(whole)


def test_notes_that_are_a_hole(copy: Path) -> None:
    """A terabyte of them, as the file system has it."""
    with CoreImage(str(copy)) as image:
        index = next(index for index, each in enumerate(image.elf.segments) if each.type == PT_NOTE)
        threads = len(image.threads())
    end = copy.stat().st_size
    os.truncate(copy, 1 << 40)
    at = EHDR + index * PHDR
    patch(copy, at + 32, struct.pack("<Q", 1 << 40))
    with CoreImage(str(copy)) as image:
        assert len(image.threads()) == threads
    # nothing but the hole
    patch(copy, at + 8, struct.pack("<Q", end))
    with CoreImage(str(copy)) as image:
        assert image.threads() == []


def test_a_note_of_an_owner_that_is_no_text() -> None:
    """`save` of a core writes it as it is."""
    notes = [Note("CORE", 1, b"a"), Note("\udca5\u202e", 7, b"data")]
    assert [*parse_notes(note_bytes(notes, "<"), "<")] == notes


def test_mappings_that_share_their_bytes(core: Path, tmp_path: Path) -> None:
    """10,000 headers, one piece of the file: no more memory than there are bytes."""
    data = bytearray(core.read_bytes())
    with CoreImage(str(core)) as image:
        headers = [data[EHDR + index * PHDR : EHDR + (index + 1) * PHDR] for index in range(len(image.elf.segments))]
        largest = max((each for each in image.elf.segments if each.type == PT_LOAD), key=lambda each: each.file_size)
    where, size = len(data), largest.file_size
    headers += [
        struct.pack("<2I6Q", PT_LOAD, 6, largest.offset, (1 << 47) + number * 2 * size, 0, size, size, 4096)
        for number in range(10000)
    ]
    struct.pack_into("<Q", data, 32, where)
    struct.pack_into("<H", data, 56, len(headers))
    path = tmp_path / "core"
    path.write_bytes(data + b"".join(headers))
    with CoreImage(str(path)) as image:
        assert sum(each.size for each in image.regions() if each.present) <= path.stat().st_size
        said = {each.id: each.figures for each in image.shortage()}
        assert said["core-bytes-claimed-twice"] == {"mappings": 10000}
    found, whole = (ask(each, "arenas") for each in (path, core))
    assert not found["complete"]
    assert found["totals"]["bins"] == whole["totals"]["bins"]


def appended(core: Path, path: Path, headers: list[bytes], size: int) -> Path:
    """The core with further program headers, its end moved up to `size`: what was not written is a hole."""
    data = bytearray(core.read_bytes())
    with CoreImage(str(core)) as image:
        count = len(image.elf.segments)
    table = bytes(data[EHDR : EHDR + count * PHDR]) + b"".join(headers)
    struct.pack_into("<Q", data, 32, size)
    struct.pack_into("<H", data, 56, count + len(headers))
    path.write_bytes(data)
    os.truncate(path, size)
    with open(path, "ab") as file:
        file.write(table)
    return path


def load(address: int, offset: int, size: int) -> bytes:
    return struct.pack("<2I6Q", PT_LOAD, 6, offset, address, 0, size, size, 4096)


def test_a_hole_is_not_read(core: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By content, too, which is how a core is looked at that the kernel did not write."""
    start, size = 1 << 46, 4 << 30
    whole = ask(core, "mmapped")
    path = appended(core, tmp_path / "core", [load(start, 1 << 30, size)], (1 << 30) + size)
    read = 0
    pread = os.pread

    def counted(file: int, count: int, offset: int) -> bytes:
        nonlocal read
        read += count
        return pread(file, count, offset)

    monkeypatch.setattr(os, "pread", counted)
    with CoreImage(str(path)) as image:
        assert DenseResidency(image).resident_ranges(start, start + size) == []
    assert read <= core.stat().st_size
    assert ask(path, "mmapped")["blocks"] == whole["blocks"]


@pytest.mark.parametrize("name", ["map", "check", "types", *in_full("chunks", "report", "pins", "trim", "mmapped")])
def test_mappings_that_lie_over_others(core: Path, name: str, tmp_path: Path) -> None:
    """Half of each writable mapping is another's, too, whose bytes are none."""
    with CoreImage(str(core)) as image:
        loads = [each for each in image.segments if each.flags & 2 and each.memory_size >= 8192]
        end = image.size
    headers = [
        load(each.address + each.memory_size // 8192 * 4096, (end | 4095) + 1, each.memory_size) for each in loads
    ]
    path = appended(core, tmp_path / "core", headers, (end | 4095) + 1 + max(each.memory_size for each in loads))
    document = ask(path, name, status=(0, 1, 2))
    assert "error" in document or "core-mappings-overlap" in problem_ids(document)


def before_gaps(core: Path) -> list[int]:
    """Where the headers of those mappings lie after which there is room for 1 GiB and more."""
    with CoreImage(str(core)) as image:
        index = {each.address: number for number, each in enumerate(image.elf.segments) if each.type == PT_LOAD}
        pairs = zip(image.segments, image.segments[1:])
        return [EHDR + index[each.address] * PHDR for each, after in pairs if after.address - each.address > 1 << 30]


@pytest.mark.parametrize(
    "words",
    ["owners --json", "report", *in_full("leaks --json", "owner {} --json", "refs {}", "types")],
)
def test_a_mapping_of_a_size_that_no_file_has(core: Path, copy: Path, words: str) -> None:
    """Its header claims all addresses up to the next one's, and as many bytes of the file."""
    headers = before_gaps(core)
    with CoreImage(str(core)) as image:
        stack = next(each.start for each in image.regions() if each.path == "[stack]")
    name, *more = words.format(hex(stack)).split()

    def act() -> None:
        assert typed([name, str(copy), *more]).status in (0, 1, 2)

    for header in headers:
        before = copy.read_bytes()[header : header + PHDR]
        patch(copy, header + 32, struct.pack("<2Q", 1 << 46, 1 << 46))
        (ended,) = run_all(lambda index: Run(words, act), 1)
        assert not ended.wrong, ended.wrong
        patch(copy, header, before)
    assert len(headers) > 1


# wrappers


@pytest.mark.parametrize("packer", ["gzip", "zstd", *in_full("xz", "bzip2", "lz4")])
def test_what_unpacks_to_more_than_any_core(
    core: Path, packer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs(packer)
    monkeypatch.setattr(compressed, "ALWAYS", 8 << 20)
    monkeypatch.setattr(compressed, "MAX_TIMES", 2)
    path = tmp_path / "core.packed"
    with open(path, "wb") as packed, subprocess.Popen([packer, "-c"], stdin=subprocess.PIPE, stdout=packed) as process:
        process.stdin.write(core.read_bytes())
        for _ in range(100):
            process.stdin.write(bytes(1 << 20))
        process.stdin.close()
    with CoreImage(str(path), unseen) as image:
        assert image.size <= 16 << 20
        (said,) = image.shortage()
        assert said.id == "core-unpacked-in-part"
        assert re.search(r"\b8 MiB\b.*\b2 times", said.text)


def test_a_window_larger_than_the_file_warrants(tmp_path: Path) -> None:
    needs("zstd")
    path = tmp_path / "core.zst"
    with open(path, "wb") as packed:
        subprocess.run(["zstd", "--ultra", "--long=31", "-c"], input=bytes(1 << 20), stdout=packed, check=True)
    if path.stat().st_size < 16 or path.read_bytes()[4] & 0x20:
        pytest.skip("this zstd wrote the size of the content, and no window")
    assert "zstd -d" in refused(path)


# snapshots


@pytest.mark.parametrize("words", [["diff", "{}", "{}"], ["diff", "/dev/zero", "{}"]])
def test_a_snapshot_that_never_ends(words: list[str], tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    done = arenascope(*(word.format(fifo) for word in words), status=2)
    assert done.stderr.count("\n") == 1


ROW = {"kind": "small", "min_bytes": 32, "max_bytes": 32, "bytes": 64}
WRONG: dict[str, Any] = {
    "taken": "now",
    "taken nan": float("nan"),
    "taken inf": 1e400,
    "taken before all dates": -1,
    "taken after all dates": 1 << 63,
    "report": [],
    "report.parts": {},
    "arenas": 7,
    "arenas.arenas": [3],
    "bins.bins": [[ROW]],
    "bins.bins.bytes": [{**ROW, "bytes": "x"}],
    "bins.bins.true": [{**ROW, "bytes": True}],
    "bins.bins.large": [{**ROW, "bytes": 1 << 70}],
    "bins.bins.kind": [{**ROW, "kind": None}],
    "bins.bins.lacks": [{"kind": "small"}],
    "bins.bins.null": [None],
    "problems": ["x", 3],
}


@pytest.mark.parametrize("where", WRONG)
def test_a_snapshot_of_another_shape(where: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    first, _, key = where.partition(" ")[0].partition(".")
    value = {key.partition(".")[0]: WRONG[where]} if key else WRONG[where]
    path.write_text(json.dumps({NAME: 1, first: value}))
    with pytest.raises(UsageError, match=f"is damaged: {first}"):
        read(str(path))


@pytest.mark.parametrize(
    "data",
    [
        b'{"arenascope_snapshot":1,"report":' + b"[" * 200_000,
        64 * gzip.compress(bytes(1 << 20)),
        b"\x1f\x8b\x08",
        gzip.compress(b'{"arenascope_snapshot":1}')[:-9],
        gzip.compress(b"x" * 99)[:20] + b"\xff" * 40,
        b"\xff\xfe{",
        b'{"arenascope_snapshot":true}'.replace(b"true", b"9" * 5000),
    ],
    ids=["nested", "bomb", "gzip header", "gzip cut", "gzip damaged", "not utf-8", "a number of 5,000 digits"],
)
def test_what_is_no_snapshot(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(data)
    with pytest.raises(UsageError) as caught:
        read(str(path))
    assert len(str(caught.value)) < 400


def test_a_size_without_its_end(tmp_path: Path) -> None:
    """`heap diff` names sizes by both ends; a snapshot may lack one."""
    rows = [{"min_bytes": 32, "used_bytes": 64}, {"min_bytes": 48, "max_bytes": 48, "used_bytes": 48}]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({NAME: 1, "chunks": {"sizes": rows}}))
    before = {"chunks": {"sizes": [{"min_bytes": 32, "max_bytes": 32, "used_bytes": 64}]}}
    assert {change.name: change.after for change in compare(before, read(str(path))).sizes} == {
        "32": 64,
        "32-32": 0,
        "48-48": 48,
    }


def test_an_auxiliary_vector_that_ends_within_a_pair(core: Path) -> None:
    """By a note whose length lies; the pairs that are whole are found on the stack as ever."""
    with CoreImage(str(core)) as image:
        auxv, data = image.auxv, image.notes.auxv_bytes
        size = 2 * image.pointer_size
        told = from_stack(image.read, auxv, data, image.pointer_size, image.elf.mark)
        assert told
        cut = data[: len(data) // size * size - size // 2]
        assert from_stack(image.read, auxv, cut, image.pointer_size, image.elf.mark) == told


def test_names_far_beyond_the_file(tmp_path: Path) -> None:
    """The section of a symbol table's strings begins where no file can."""
    path = Path(shutil.copy(os.path.realpath(sys.executable), tmp_path / "program"))
    with ElfFile(str(path)) as file:
        tables = [section for section in file.sections if section.type in (2, 11)]
        link, start = tables[0].link, file._shoff
        assert list(_names(file))
    patch(path, start + 64 * link + 24, b"\xff" * 8)
    with ElfFile(str(path)) as file:
        assert list(_names(file)) == []
