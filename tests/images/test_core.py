"""Cores that the kernel and gcore wrote, against what the process and /proc said while it lived."""

from __future__ import annotations

import errno
import json
import os
import re
import struct
from pathlib import Path

import pytest
from marks import in_full
from shell_door import arenascope
from subjects import Subject

from arenascope.base.errors import MemoryReadError, TargetError
from arenascope.sources.core.core_image import CoreImage, build_regions
from arenascope.sources.elf.elf_file import PF_R, PF_W, PT_LOAD, FileMapping, Segment

ROOT = Path(__file__).resolve().parents[2]
PAGE = os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(params=["kernel", "gdb"])
def core(request, dumped):
    path = dumped.gdb if request.param == "gdb" else dumped.kernel
    with CoreImage(str(path)) as image:
        yield image


def test_identity(core, dumped):
    assert core.pid == dumped.pid
    assert core.notes.name == "subject"
    # gcore knows the arguments only of what it started itself
    expected = ["--not=environment", "x=y"] if core.made_by == "kernel" else []
    assert core.notes.arguments.split()[1:] == expected
    assert (core.pointer_size, core.byte_order, core.page_size) == (8, "little", PAGE)
    assert core.truncated is None
    assert core.made_by == ("kernel" if core.path == str(dumped.kernel) else "gcore")


def test_memory_is_what_the_process_had(core, dumped):
    address = dumped.facts["block"] - 16
    assert core.read(address, len(dumped.block)) == dumped.block
    assert core.read(address + 5, 0) == b""
    assert core.read(dumped.facts["touched"] + 100, 1) == b"x"


def test_auxv_and_environment(core, dumped):
    words = struct.unpack(f"{len(dumped.auxv) // 8}Q", dumped.auxv)
    truth = dict(zip(words[0::2], words[1::2]))
    del truth[0]
    assert core.auxv == truth
    assert core.environment() == {
        "LANG": "C",
        "GLIBC_TUNABLES": "glibc.malloc.arena_max=3:glibc.malloc.tcache_count=5",
        "EMPTY": "",
    }


def test_threads(core, dumped):
    threads = {thread.tid: thread for thread in core.threads()}
    assert list(threads) == sorted(threads)
    facts = dumped.facts
    assert set(threads) == {dumped.pid, facts["tid_first"], facts["tid_second"]}
    assert threads[dumped.pid].thread_pointer == facts["tp_main"]
    for name in ("first", "second"):
        thread = threads[facts[f"tid_{name}"]]
        assert thread.thread_pointer == facts[f"tp_{name}"]
        assert 0 < facts[f"sp_{name}"] - thread.stack_pointer < 4096
    assert core.notes.register_sets[0].tid in threads


def test_the_kernel_names_the_main_thread(core, dumped):
    names = {thread.tid: thread.name for thread in core.threads()}
    # gcore writes the program's name where the kernel writes the thread's
    assert names.pop(dumped.pid) == ("subject" if core.made_by == "kernel" else None)
    assert set(names.values()) <= {None}


def test_regions_are_the_mappings(core, dumped):
    regions = {region.start: region for region in core.regions()}
    assert list(regions) == sorted(regions)
    for start, end, permissions, path in dumped.maps:
        if start >= 1 << 63 or path.startswith("[vvar"):
            continue
        if core.made_by == "gcore" and start not in regions:
            # it leaves out what cannot be read, where it is not a file's, and what MADV_DONTDUMP marks
            assert permissions == "---p" or start == dumped.facts["partly"] + 16 * PAGE
            assert not path
            continue
        region = regions[start]
        assert region.end == end
        if path.startswith("/") or path in ("[stack]", "[vdso]"):
            assert region.path == path.replace(" (deleted)", "")
        if region.present and permissions != "---p":  # gcore claims that it may be read
            assert ("r" if region.readable else "-") == permissions[0]
            assert ("w" if region.writable else "-") == permissions[1]
            assert core.read(start, end - start)
    libc = [region for region in core.regions() if region.path.endswith("libc.so.6")]
    assert libc[0].offset == 0
    assert libc[1].offset == libc[0].size
    assert regions[dumped.facts["shared"]].shared


def test_what_was_left_out_is_not_zero(dumped):
    with CoreImage(str(dumped.kernel)) as core:
        for address in (0, 8, dumped.facts["untouched"], dumped.facts["partly"] + 20 * PAGE, 1 << 64, -8):
            with pytest.raises(MemoryReadError):
                core.read(address, 8)
        text = next(region for region in core.regions() if region.executable and region.path.endswith("libc.so.6"))
        assert not text.present
        with pytest.raises(MemoryReadError) as caught:
            core.read(text.start, 16)
        assert (caught.value.address, caught.value.size) == (text.start, 16)
        # a file's first page is dumped for its build-id, the mapping as a whole is not there
        first = next(region for region in core.regions() if region.path.endswith("libc.so.6"))
        assert core.read(first.start, 4) == b"\x7fELF"
        assert not first.present
        with pytest.raises(MemoryReadError):
            core.read(first.start + PAGE - 4, 8)
        with pytest.raises(MemoryReadError):
            core.read(dumped.facts["block"], -1)


def test_reads_cross_from_one_segment_into_the_next(dumped):
    with CoreImage(str(dumped.kernel)) as core:
        pairs = [
            (a, b) for a, b in zip(core.regions(), core.regions()[1:]) if a.end == b.start and a.present and b.present
        ]
        assert pairs
        for first, second in pairs:
            joined = core.read(first.end - 6, 12)
            assert joined == core.read(first.end - 6, 6) + core.read(second.start, 6)


def test_truncated(dumped, tmp_path):
    with CoreImage(str(dumped.kernel)) as whole:
        segment = max(whole.segments, key=lambda s: s.file_size)
        cut = segment.offset + segment.file_size // 2 // PAGE * PAGE
        expected = max(s.offset + s.file_size for s in whole.elf.segments)
    path = tmp_path / "cut"
    with open(dumped.kernel, "rb") as file:
        path.write_bytes(file.read(cut))
    with CoreImage(str(path)) as core:
        assert core.truncated.actual == cut
        assert core.truncated.expected == expected
        middle = segment.address + cut - segment.offset
        assert (middle, segment.address + segment.file_size) in core.truncated.missing
        assert len(core.read(middle - 8, 8)) == 8
        for address in (middle, middle - 4):
            with pytest.raises(MemoryReadError):
                core.read(address, 8)
        region = next(region for region in core.regions() if region.start == segment.address)
        assert not region.present
        assert len(core.threads()) == 3


def test_cut_before_any_memory(dumped, tmp_path):
    with CoreImage(str(dumped.kernel)) as whole:
        first = min(s.offset for s in whole.segments if s.file_size)
    data = dumped.kernel.read_bytes()
    path = tmp_path / "cut"
    path.write_bytes(data[:first])
    with CoreImage(str(path)) as cut:
        assert len(cut.threads()) == 3
        (said,) = cut.shortage()
        assert (said.id, said.figures["bytes"], said.figures["expected_bytes"]) == ("core-cut", first, len(data))
        assert f"{first:,} bytes of {len(data):,}" in said.text
        assert not any(region.present for region in cut.regions())
    path.write_bytes(data[:100])
    with pytest.raises(TargetError, match="cut short"):
        CoreImage(str(path))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"hello world, no core", "not an ELF file"),
        (b"\x28\xb5\x2f\xfd....", r"zstd.*zstd -d"),
        (b"\x04\x22\x4d\x18....", r"lz4.*lz4 -d"),
        (b"\x1f\x8b\x08....", r"gzip.*gzip -dc"),
        (b"\xfd7zXZ\0....", r"xz.*xz -dc"),
        (b"MDMP....", "minidump"),
        (b"\x7fELF\x07\x07" + bytes(60), "damaged ELF header"),
    ],
)
def test_what_is_no_core_says_what_it_is(tmp_path, content, words):
    path = tmp_path / "core"
    path.write_bytes(content)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(TargetError) as caught:
        CoreImage(str(path))
    assert re.search(words, str(caught.value))
    assert len(os.listdir("/proc/self/fd")) == before


def test_other_files(program, tmp_path):
    with pytest.raises(TargetError, match=re.escape(str(program))):
        CoreImage(str(program))
    with pytest.raises(TargetError, match=os.strerror(errno.ENOENT)):
        CoreImage(str(tmp_path / "absent"))
    with pytest.raises(TargetError, match=re.escape(str(tmp_path))):
        CoreImage(str(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TargetError, match="/pipe "):
        CoreImage(str(tmp_path / "pipe"))


def test_what_nobody_may_read_is_told_from_what_was_left_out():
    """GDB 18 and later write a header without bytes for PROT_NONE, as if it could be read; of a process that has a
    guard page or a heap that may grow, pointers in there are no question."""
    rows = {
        "protected": Segment(PT_LOAD, PF_R, 0, 0x10000, 0, memory_size=PAGE, align=1),
        "written to": Segment(PT_LOAD, PF_R | PF_W, 0, 0x20000, 0, memory_size=PAGE, align=1),
        "of a file": Segment(PT_LOAD, PF_R, 0, 0x30000, 0, memory_size=PAGE, align=1),
        "dumped": Segment(PT_LOAD, PF_R, 0, 0x40000, PAGE, memory_size=PAGE, align=1),
    }
    files = [FileMapping(0x30000, 0x30000 + PAGE, 0, "/usr/lib/libc.so.6")]
    ends = [each.address + each.file_size for each in rows.values()]
    for by_gcore, expected in ((True, {"protected"}), (False, set())):
        regions = build_regions(list(rows.values()), ends, files, {}, by_gcore=by_gcore)
        assert {name for name, region in zip(rows, regions) if not region.readable} == expected


AS_LARGE = """
import sys
from pathlib import Path
from arenascope.cli.main import main
from arenascope.sources.core import open_core
open_core.LARGE = int(sys.argv[1])
status = main(sys.argv[2:])
rows = Path("/proc/self/status").read_text().splitlines()
print(next(row.split()[1] for row in rows if row.startswith("VmHWM")), file=sys.stderr)
sys.exit(status)
"""


@pytest.mark.parametrize("words", ["check", *in_full("map", "pins --no-declared")], ids=lambda words: words.split()[0])
def test_a_large_core_takes_no_memory_of_ours(large_core, words):
    """The kernel's own figure: what is mapped counts with every page that a list leads to. (Whoever follows types keeps
    the last 64 MiB that were read.)"""
    seen = []
    for large in (0, 1 << 62):
        done = arenascope(large, *words.split(), "--json", large_core, code=AS_LARGE, timeout=300)
        seen.append((json.loads(done.stdout), int(done.stderr.split()[-1]) << 10))
    (read, resident), (mapped, most) = seen
    assert read == mapped
    if words == "check":  # the others have the engine read
        assert most - resident > 40 << 20
    assert resident < 80 << 20


@pytest.fixture(scope="module")
def large_core(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    with Subject("big", "80") as subject:
        arenascope("save", subject.pid, folder / "core")
    return folder / "core"
